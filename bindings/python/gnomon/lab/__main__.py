"""Outputs of the lab from a shell: `python -m gnomon.lab latex report > table.tex`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import export_model, leaderboard, load, to_tensorboard


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit status: 2 after an error, which is one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m gnomon.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, places, text in (
            ("csv", ["DIR"], "prints the main table of results as CSV"),
            ("latex", ["DIR"], "prints the main table of results as LaTeX"),
            ("figures", ["DIR", "OUT"], "writes the charts of the report as SVG and PDF"),
            ("tensorboard", ["DIR", "OUT"], "writes the curves as event files"),
            ("export", ["MODEL", "OUT"], "writes a trained model as transformers reads it"),
            ("leaderboard", ["ROOT", "OUT"], "writes all results below a folder as one HTML page")):
        command = commands.add_parser(name, help=text, description=text)
        for place in places:
            command.add_argument(place)
        if name == "export":
            command.add_argument("--positions", type=int, help="longest context in tokens")
    given = parser.parse_args(words)
    try:
        if given.command == "csv":
            print(load(given.DIR).to_csv(), end="")
        elif given.command == "latex":
            print(load(given.DIR).to_latex(), end="")
        elif given.command == "figures":
            load(given.DIR).figures(given.OUT)
        elif given.command == "tensorboard":
            to_tensorboard(given.DIR, given.OUT)
        elif given.command == "export":
            export_model(given.MODEL, given.OUT, positions=given.positions)
        else:
            leaderboard(given.ROOT, given.OUT)
    except (ValueError, OSError, ImportError) as error:
        print(f"gnomon: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
