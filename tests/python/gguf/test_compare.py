"""The GGUF reader against llama.cpp: a file of each architecture, and special ones."""

from __future__ import annotations

import pathlib
from typing import Any

import architectures
import cases
import compare
import expected
import gguf
import llama_cpp
import numpy as np
import pytest
import tiny_gguf


@pytest.fixture(scope="module")
def results(pool: compare.Pool) -> list[Any]:
    """Futures of the single cases, which several processes run."""
    return [pool.submit(case) for case in cases.single()]


@pytest.mark.parametrize(
    ("number", "case"), list(enumerate(cases.single())),
    ids=[f"{one.architecture} {one.name}".strip() for one in cases.single()])
def test_case(number: int, case: cases.Case, results: list[Any]) -> None:
    assert not expected.deviation(case, results[number].result())


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
    case = cases.Case("llama")
    path, other = tmp_path / "model.gguf", tmp_path / "other.gguf"
    tensors = case.write(path)
    runs = cases.record(path, case)
    assert compare.compare(path, runs, tensors).outcome == "agree"
    keys = architectures.keys("llama") | {"rope.freq_base": 10001.0}
    tiny_gguf.save(other, "llama", keys, tensors)
    assert compare.compare(other, runs, tensors).outcome == "differ"


def test_logits_of_steps_are_those_of_a_batch(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.gguf"
    cases.Case("gemma3", keys={"attention.sliding_window": 4}).write(path)
    tokens = [5, 9, 3, 77, 12, 5, 40, 8]
    whole, steps = llama_cpp.logits(path, tokens), llama_cpp.logits(path, tokens, step=True)
    assert whole.shape == (len(tokens), tiny_gguf.VOCABULARY)
    np.testing.assert_allclose(steps, whole, 0, 1e-4)
