"""The lab of the build folder."""

from __future__ import annotations

import os
import pathlib

import pytest
from tiny_runs import ROOT


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """The path of gnomon-lab. The working folder is a temporary one."""
    program = pathlib.Path(os.environ.get("GNOMON_LAB",
                                          ROOT / "build/release/apps/lab/gnomon-lab"))
    assert program.exists(), f"{program}: build the target gnomon-lab first"
    monkeypatch.setenv("GNOMON_LAB", str(program))
    monkeypatch.chdir(tmp_path)
    return program
