"""The Python examples of the pages run. A page is one program: its blocks share their names."""

from __future__ import annotations

import importlib.util
import pathlib
import re
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Pages whose examples another test runs, or that need something that no test has.
NOT_RUN = {
    "docs/python/jax.md": "tests/python/jax/test_page.py",
    "docs/python/lab.md": "trains models for minutes",
    "docs/lab/models.md": "reads a model that the lab has trained",
    "docs/lab/outputs.md": "reads results and a model of the lab",
}


def blocks(page: pathlib.Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def pages() -> list[str]:
    every = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(page.relative_to(ROOT)) for page in every if blocks(page)]


def runs_here(page: str) -> bool:
    """Whether the packages of the page are installed: all of them in `make test-python`."""
    imports = re.findall(r"^(?:import|from) (\w+)", "\n".join(blocks(ROOT / page)), re.MULTILINE)
    return all(importlib.util.find_spec(package) for package in imports)


def test_pages_that_are_not_run_exist() -> None:
    assert set(NOT_RUN) <= set(pages())


@pytest.mark.parametrize("page", [page for page in pages()
                                  if page not in NOT_RUN and runs_here(page)])
def test_examples_run(page: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # examples write files
    names: dict[str, Any] = {}
    for block in blocks(ROOT / page):
        exec(compile(block, page, "exec"), names)
