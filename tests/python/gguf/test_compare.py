"""The GGUF reader against llama.cpp: tools/gguf/compare.py, with the expected outcomes."""

from __future__ import annotations

import os
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import gguf
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "tools/gguf"))

import architectures
import cases
import compare
import expected
import llama_cpp
import tiny


@pytest.fixture(scope="module")
def pool() -> Iterator[compare.Pool]:
    with compare.Pool(jobs=os.cpu_count() or 1) as pool:
        yield pool


@pytest.fixture(scope="module")
def results(pool: compare.Pool) -> list[Any]:
    """Futures of the single cases, which several processes run."""
    return [pool.submit(case) for case in cases.single()]


def deviation(case: cases.Case, result: Any) -> str:
    """Returns how a result differs from the expected outcome, or ''."""
    outcome, text = expected.outcome(case)
    if result.outcome == outcome and re.match(text, result.detail):
        return ""
    return f"{compare.row(case, result)} (expected: {outcome} {text})"


@pytest.mark.parametrize(
    ("number", "case"), enumerate(cases.single()),
    ids=[f"{one.architecture} {one.name}".strip() for one in cases.single()])
def test_case(number: int, case: cases.Case, results: list[Any]) -> None:
    assert not deviation(case, results[number].result())


@pytest.mark.parametrize("architecture", architectures.KEYS)
def test_changes_of_keys(architecture: str, pool: compare.Pool) -> None:
    """A case that llama.cpp does not run is no deviation here: many changes have no meaning."""
    chosen = [case for case in cases.sweep() if case.architecture == architecture]
    found = [deviation(case, result) for case, result in zip(chosen, pool.map(chosen))
             if result.outcome != "not run"]
    assert not list(filter(None, found))


def test_every_architecture_has_a_case_or_a_reason() -> None:
    assert not set(architectures.KEYS) & set(architectures.IMPOSSIBLE)
    known = set(architectures.KEYS) | set(architectures.IMPOSSIBLE)
    assert set(gguf.MODEL_ARCH_NAMES.values()) <= known


def test_a_crash_of_llama_cpp_ends_no_other_case(pool: compare.Pool) -> None:
    crash = cases.Case("paddleocr", "no sections", {"rope.dimension_sections": None})
    result = pool.run(crash)
    assert result.outcome == "not run" and "GGML_ASSERT" in result.detail
    assert pool.run(cases.Case("llama")).outcome == "agree"


def test_a_wrong_rotation_differs(tmp_path: pathlib.Path) -> None:
    """The comparison sees another base: a file that Gnomon reads with other keys."""
    import graph

    case = cases.Case("llama")
    path, other = tmp_path / "model.gguf", tmp_path / "other.gguf"
    tensors = case.write(path, tiny)
    runs = cases.record(path, case, llama_cpp, graph)
    assert compare.compare(path, runs, tensors).outcome == "agree"
    tiny.save(other, "llama", architectures.keys("llama") | {"rope.freq_base": 10001.0}, tensors)
    assert compare.compare(other, runs, tensors).outcome == "differ"


def test_logits_of_steps_are_those_of_a_batch(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.gguf"
    cases.Case("gemma3", keys={"attention.sliding_window": 4}).write(path, tiny)
    tokens = [5, 9, 3, 77, 12, 5, 40, 8]
    whole, steps = llama_cpp.logits(path, tokens), llama_cpp.logits(path, tokens, step=True)
    assert whole.shape == (len(tokens), tiny.VOCABULARY)
    np.testing.assert_allclose(steps, whole, 0, 1e-4)
