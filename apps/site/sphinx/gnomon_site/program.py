"""Asks the program: the list of encodings, their cards and verdicts, and the help of commands."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cached_property
from pathlib import Path


class Program:
    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.path, *arguments], capture_output=True, text=True, encoding="utf-8"
        )
        if done.returncode != 0:
            line = " ".join(["gnomon", *arguments])
            raise ValueError(f"`{line}` exits with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    @cached_property
    def version(self) -> str:
        return self.run("--version").split()[-1]

    @cached_property
    def encodings(self) -> list[dict]:
        """The list, with the card of each encoding."""
        listed = json.loads(self.run("list", "--json"))["encodings"]
        return [
            entry | json.loads(self.run("explain", entry["name"], "--json")) for entry in listed
        ]

    @cached_property
    def checks(self) -> dict[str, dict]:
        """What `gnomon check --json` says of each encoding, by name."""
        names = [entry["name"] for entry in self.encodings]
        measured = json.loads(self.run("check", *names, "--json"))
        shape = {key: value for key, value in measured.items() if isinstance(value, int)}
        return {
            name: one | {"shape": shape}
            for name, one in zip(names, measured["encodings"], strict=True)
        }

    @cached_property
    def commands(self) -> dict[str, str]:
        """The commands, each with its line in `gnomon --help`."""
        lines = re.findall(r"^  ([a-z]+)  +(\S.*)$", self.run("--help"), re.MULTILINE)
        return {name: line for name, line in lines if name != "gnomon"}
