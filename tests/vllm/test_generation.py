"""Greedy generation by vLLM with and without the plug-in, which its entry point loads."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import models
import pytest

FOLDER = pathlib.Path(__file__).parent
PARTS = "rotary,attention"
REPLACED = {"GnomonAttentionImpl", "GnomonRotaryEmbedding", "GnomonLlama3RotaryEmbedding"}


def generated(folder: pathlib.Path, dtype: str, parts: str | None,
              compiled: bool = False) -> dict[str, Any]:
    """parts None: vLLM without plug-ins."""
    out = folder / f"{dtype}-{parts}-{compiled}.json"
    environment = {**os.environ, "COMPILED": str(int(compiled)), "GNOMON_VLLM": parts or "",
                   "VLLM_PLUGINS": "gnomon" if parts is not None else "none"}
    done = subprocess.run([sys.executable, FOLDER / "generate.py", folder, dtype, out],
                          env=environment, capture_output=True, text=True, timeout=900,
                          check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def difference(one: dict[str, Any], other: dict[str, Any], steps: Any) -> float:
    """The greatest difference of logarithms of probabilities that both list."""
    return max(abs(a[token] - b[token]) for i, (a, b) in enumerate(
        zip(one["logprobs"], other["logprobs"], strict=True)) if i in steps
        for token in a if token in b)


@pytest.mark.parametrize("name", models.MODELS)
def test_float32(name: str, tmp_path: pathlib.Path) -> None:
    folder = models.write(name, tmp_path / "model")
    plain, ours = generated(folder, "float32", None), generated(folder, "float32", PARTS)
    assert not REPLACED & set(plain["classes"])
    assert {"GnomonAttentionImpl"} < REPLACED & set(ours["classes"])
    assert ours["tokens"] == plain["tokens"]
    assert difference(plain, ours, range(len(plain["logprobs"]))) <= 1e-3


def test_each_part(tmp_path: pathlib.Path) -> None:
    folder = models.write("Llama", tmp_path / "model")
    runs = {part: generated(folder, "float32", part) for part in ("", "rotary", "attention")}
    assert [sorted(REPLACED & set(run["classes"])) for run in runs.values()] == [
        [], ["GnomonRotaryEmbedding"], ["GnomonAttentionImpl"]]
    assert runs["rotary"]["tokens"] == runs["attention"]["tokens"] == runs[""]["tokens"]


def test_bfloat16(tmp_path: pathlib.Path) -> None:
    """The first token of each answer: later ones follow from it."""
    folder = models.write("Llama", tmp_path / "model")
    plain, ours = generated(folder, "bfloat16", None), generated(folder, "bfloat16", PARTS)
    steps = range(0, len(plain["logprobs"]), 24)
    assert {"GnomonAttentionImpl"} < REPLACED & set(ours["classes"])
    assert difference(plain, ours, steps) <= 0.1


def test_a_compiled_model(tmp_path: pathlib.Path) -> None:
    """vLLM's default: the rotation is an operator of the graph."""
    folder = models.write("Llama", tmp_path / "model")
    plain = generated(folder, "float32", None)
    ours = generated(folder, "float32", PARTS, compiled=True)
    assert {"GnomonAttentionImpl"} < REPLACED & set(ours["classes"])
    assert ours["tokens"] == plain["tokens"]
