"""The Python examples of pages that require PyTorch, JAX, transformers, Ray or the lab run as they
stand. The lab trains small models for a few steps, whatever the page asks for."""

from __future__ import annotations

import pathlib
import sys

import pytest
from pages import PAGES, ROOT, requires_numpy_only, run

# Starts the lab with small settings, unless the call continues an earlier one.
SMALL_LAB = """#!{python}
import os, sys
words = sys.argv[1:]
if words[0] == "lab" and not {{"--run", "--merge"}} & set(words):
    for option in {{"--minutes", "--steps", "--seeds"}} & set(words):
        del words[words.index(option):words.index(option) + 2]
    words[1:1] = ("--steps 4 --seeds 1 --layers 1 --width 16 --heads 4 --batch 4 --no-cost "
                  "--train-length 16 --eval-lengths 32,64 --jobs 1").split()
os.execv({lab!r}, [{lab!r}, *words])
"""
REPORT = """
import gnomon.lab
gnomon.lab.run("novel.txt", encodings=["rotary", "alibi"], out="{}", progress=False)
"""
# What a page finds in its folder: the results of an earlier session.
EARLIER = {"docs/lab/models.md": ["report"], "docs/lab/outputs.md": ["report", "sessions/one"]}


@pytest.fixture
def folder(real_lab: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    lab = tmp_path / "small-lab"
    lab.write_text(SMALL_LAB.format(python=sys.executable, lab=real_lab))
    lab.chmod(0o755)
    monkeypatch.setenv("GNOMON_LAB", str(lab))
    (tmp_path / "checkout").symlink_to(ROOT)
    monkeypatch.setenv("RAY_worker_niceness", "0")
    (tmp_path / "novel.txt").write_text("Call me Ishmael. Some years ago, never mind.\n" * 400)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if not requires_numpy_only(page)])
def test_examples_run(page: str, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name in EARLIER.get(page, ()):
        pathlib.Path(name).parent.mkdir(exist_ok=True)
        exec(REPORT.format(name))
    run(page, folder)
