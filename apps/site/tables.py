"""Writes the learned tables that chapters 3 and 4 of the book show.

    python3 apps/site/tables.py vit > docs/book/data/vit-positions.json
    gnomon lab NOVELS --encodings learned --train-length 64 --eval-lengths 64 --layers 2 \\
        --width 64 --heads 2 --batch 32 --steps 6000 --learning-rate 0.003 --seeds 1 --no-cost \\
        --out report
    python3 apps/site/tables.py text report > docs/book/data/learned-table.json

NOVELS: the files of the six novels that `gnomon lab` reads by default. The program is that of the
variable GNOMON_PROGRAM, or `gnomon`. Values are rounded to 3 decimals, those of the text model's
table before training to 4, so that each has an error of at most a hundredth of the deviation.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys


def rounded(rows, decimals):
    """The values of [rows, columns], row by row."""
    return [round(value, decimals) + 0.0 for row in rows for value in row]


def vit():
    """The position table of the small ViT in the program."""
    program = os.environ.get("GNOMON_PROGRAM", "gnomon")
    text = subprocess.run([program, "plot", "table", "vit", "--json"], check=True,
                          capture_output=True, text=True).stdout
    figure = json.loads(text)
    values = figure["spec"]["data"]["values"][0]["data"]
    columns = 64
    if len(values) != columns * columns:
        raise ValueError(f"the table of the ViT must have 64 x 64 values, got {len(values)}")
    rows = [values[i:i + columns] for i in range(0, len(values), columns)]
    return {"trained": "to restore hidden patches of drawn shapes (tools/vit/positions.cc)",
            "command": "gnomon plot table vit --json", "rows": 64, "columns": columns,
            "grid": [8, 8], "values": rounded(rows, 3)}


def text(folder):
    """The table of a text model of the lab, before and after training."""
    results = json.loads((pathlib.Path(folder) / "results.json").read_text(encoding="utf-8"))
    if len(results["runs"]) != 1:
        raise ValueError(f"the report must have one run, got {len(results['runs'])}")
    run = results["runs"][0]
    if run["encoding"] != "learned":
        raise ValueError(f"the run must be of the encoding learned, got {run['encoding']}")
    settings, picture = results["settings"], run["picture"]
    for name in ("table", "initial_table"):
        if picture[name]["row_step"] != 1 or picture[name]["column_step"] != 1:
            raise ValueError(f"{name} must be whole: use at most 64 positions and channels")
    trained, initial = picture["table"]["values"], picture["initial_table"]["values"]
    return {"trained": "to predict the next byte of six novels (gnomon lab)",
            "encoding": "learned", "steps": settings["steps"], "layers": settings["layers"],
            "heads": settings["heads"], "bits": round(run["lengths"][0]["tail_bits"], 3),
            "rows": len(trained), "columns": len(trained[0]),
            "initial": rounded(initial, 4), "values": rounded(trained, 3)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table", choices=("vit", "text"))
    parser.add_argument("report", nargs="?", help="text: the output folder of the lab")
    options = parser.parse_args()
    if (options.table == "text") != (options.report is not None):
        parser.error("REPORT is required for text, and not allowed for vit")
    try:
        table = vit() if options.table == "vit" else text(options.report)
    except KeyError as error:
        parser.error(f"results.json has no key {error}")
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        parser.error(str(error))
    json.dump(table, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
