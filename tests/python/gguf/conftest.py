"""The modules of tools/gguf, and processes that run llama.cpp."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "tools/gguf"))

import compare


@pytest.fixture(scope="session")
def pool() -> Iterator[compare.Pool]:
    with compare.Pool(jobs=os.cpu_count() or 1) as pool:
        yield pool
