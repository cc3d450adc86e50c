"""The module gnomon._cuda of the emulator, which the build of the tests makes."""

from __future__ import annotations

import functools
import importlib.util
import pathlib
from typing import Any

PATH = (pathlib.Path(__file__).parents[3]
        / "build/release/tests/cuda/gnomon_cuda_emulated.abi3.so")


@functools.lru_cache(maxsize=1)
def module() -> Any:
    spec = importlib.util.spec_from_file_location("gnomon_cuda_emulated", PATH)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
