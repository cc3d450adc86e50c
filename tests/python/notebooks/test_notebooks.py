"""Executes the notebooks of docs/notebooks. Their assertions check the claims of their text."""

from __future__ import annotations

import pathlib

import nbformat
import pytest
import test_gallery
from render_notebooks import STORED, execute

import gnomon.lab

FOLDER = pathlib.Path(__file__).parents[3] / "docs" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")
TINY = "encodings = ['none', 'learned', 'rotary', 'alibi']\nsteps, seeds = 3, 1\n" \
       "size = dict(layers=1, width=32, heads=2)"


def printed(notebook: nbformat.NotebookNode) -> str:
    return "".join(output.get("text", "") for cell in notebook.cells
                   for output in cell.get("outputs", []) if output.output_type == "stream")


def test_there_are_seven() -> None:
    assert NAMES == ["attention", "bias", "lab", "learned", "own-encoding", "rotary", "sinusoid"]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("lab", "own-encoding")])
def test_claims_hold(name: str) -> None:
    notebook = execute(name, {})
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert 10 <= len(notebook.cells) <= 35
    assert sum("assert" in cell.source for cell in code) >= len(code) / 2
    pictures = [output for cell in code for output in cell.outputs
                if "application/vnd.vegalite.v5+json" in output.get("data", {})]
    assert pictures
    test_gallery.check(name, notebook)


def test_stored_results_of_the_lab() -> None:
    """The page of the gallery has no run of the lab, which would depend on the machine."""
    test_gallery.check("lab", execute("lab", STORED))


def test_lab() -> None:
    """A run of seconds where the lab is installed; elsewhere the stored results, which it says."""
    notebook = execute("lab", {"parameters": TINY})
    try:
        gnomon.lab.find()
    except FileNotFoundError:
        assert "not of a run on this machine" in printed(notebook)
    else:
        assert "not of a run on this machine" not in printed(notebook)


def test_own_encoding(real_lab: str) -> None:
    notebook = execute("own-encoding", {})
    assert "This cell requires" not in printed(notebook)  # datasets is in tools/python/all.txt


def test_lab_without_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOMON_LAB", "/nonexistent/gnomon-lab")
    notebook = execute("lab", {})
    assert "not of a run on this machine" in printed(notebook)
    assert "GNOMON_LAB must be the path of a program" in printed(notebook)
