"""The examples of docs/python/jax.md run."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import jax
import numpy as np

import gnomon.jax

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "python" / "jax.md"


def test_examples_run() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["table_grad"].shape == (32, 8) and abs(names["table_grad"]).max() > 0
    cache, q = names["cache"][:, :18], names["q"][:1, :1]
    want = gnomon.jax.attention(q, cache, cache, names["rope"])  # the last of 18 positions
    np.testing.assert_allclose(names["out"], want, atol=1e-5)
    assert jax.numpy.isfinite(names["q_grad"]).all()
