"""The table of the tutorials' statements: each has a verdict and something that shows it."""

from __future__ import annotations

import re

from browsing import ROOT


def rows(text: str) -> list[list[str]]:
    found = []
    for line in text.split("\n"):
        if line.startswith("|") and not re.match(r"\|[\s|:-]+$", line):
            found.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return [row for row in found if row[0] != "statement"]


def empty_cells(text: str) -> list[str]:
    return [row[0] for row in rows(text) if len(row) != 4 or not all(row)]


def test_statements():
    text = (ROOT / "docs/book/statements.md").read_text(encoding="utf-8")
    assert len(rows(text)) > 100
    assert empty_cells(text) == []


def test_an_empty_cell_is_found():
    assert empty_cells("| 1 | a | true | |\n| 2 | a | true | x |\n|---|---|\n") == ["1"]
