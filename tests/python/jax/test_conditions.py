"""Every function of gnomon.jax by condition: the right result, or a sentence with the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_oracles import random

import gnomon
import gnomon.jax

ROPE = gnomon.Rotary(rotary_dim=4, pairing="halves")
LEARNED = gnomon.Learned(rows=3, width=8)
T5 = gnomon.T5Bias(heads=2, direction="causal", buckets=4, max_distance=9)


def heads(seed: int = 0) -> np.ndarray:
    return random(1, 3, 2, 4, seed=seed).astype(np.float32)


# Each array argument: the call, the shape, whether integers are right.
ARGUMENTS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], bool]] = {
    "rotate x": (lambda x: gnomon.jax.rotate(x, ROPE), (1, 3, 2, 4), False),
    "rotate positions": (lambda x: gnomon.jax.rotate(heads(), ROPE, x), (3,), True),
    "attention q": (lambda x: gnomon.jax.attention(x, heads(1), heads(2), ROPE), (1, 3, 2, 4),
                    False),
    "attention k": (lambda x: gnomon.jax.attention(heads(1), x, heads(2), ROPE), (1, 3, 2, 4),
                    False),
    "attention v": (lambda x: gnomon.jax.attention(heads(1), heads(2), x, ROPE), (1, 3, 2, 4),
                    False),
    "attention positions": (lambda x: gnomon.jax.attention(
        heads(), heads(1), heads(2), ROPE, positions=x), (3,), True),
    "attention sequences": (lambda x: gnomon.jax.attention(
        heads(), heads(1), heads(2), ROPE, sequences=x), (3,), True),
    "table positions": (lambda x: gnomon.jax.table(LEARNED, x, [np.ones((3, 8))]), (3,), True),
    "add_position x": (lambda x: gnomon.jax.add_position(x, LEARNED, [np.ones((3, 8))]), (1, 3, 8),
                       False),
    "add_position positions": (lambda x: gnomon.jax.add_position(
        np.ones((1, 3, 8), "f4"), LEARNED, [np.ones((3, 8))], positions=x), (3,), True),
}
every_argument = pytest.mark.parametrize("key", ARGUMENTS)


def right(shape: tuple[int, ...], integers: bool) -> np.ndarray:
    return np.arange(shape[0]) if integers else random(*shape, seed=5).astype(np.float32)


def refused(call: Callable[[Any], Any], given: Any) -> str:
    with pytest.raises((ValueError, TypeError)) as raised:
        call(given)
    text = str(raised.value)
    assert text.startswith("[") and ", got " in text and "\n" not in text, text
    return text


@every_argument
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "int32", "uint8",
                                   "bool", "complex64"])
def test_element_types(key: str, dtype: str) -> None:
    call, shape, integers = ARGUMENTS[key]
    given = jnp.asarray(right(shape, integers)).astype(dtype)
    if integers:
        accepted = ["int8", "int32", "uint8"]
    else:
        accepted = ["float32"] if key.startswith("attention") else ["float16", "bfloat16",
                                                                    "float32"]
    if dtype not in accepted:
        refused(call, given)
        return
    want = call(right(shape, integers))
    error = {"float16": 4e-3, "bfloat16": 3e-2}.get(dtype, 1e-6)
    np.testing.assert_allclose(np.asarray(call(given), "f8"), want, rtol=error, atol=error)
    np.testing.assert_array_equal(jax.jit(call)(given), call(given))


@every_argument
@pytest.mark.parametrize("change", ["surplus", "missing"])
def test_surplus_and_missing_positions(key: str, change: str) -> None:
    call, shape, integers = ARGUMENTS[key]
    x = right(shape, integers)
    axis = 1 if len(shape) > 1 else 0
    given = np.concatenate([x, x], axis) if change == "surplus" else np.delete(x, 0, axis)
    if key == "rotate x" or key == "table positions" or (
            key == "add_position x" and change == "missing"):
        call(given)  # any number of tokens: positions 0 to T - 1
    elif key == "attention q" and change == "missing":
        call(given)  # the queries are the last keys
    else:
        refused(call, given)


@every_argument
def test_other_objects(key: str) -> None:
    call, shape, integers = ARGUMENTS[key]
    x = right(shape, integers)
    np.testing.assert_array_equal(call(x[::-1].copy()[::-1]), call(x))  # any strides
    x.flags.writeable = False
    call(x)  # functions are pure
    for given in ("text", object()):
        with pytest.raises((ValueError, TypeError)):
            call(given)


@pytest.mark.parametrize("layout", ["tokens_heads", "heads_tokens"])
def test_layouts(layout: Any) -> None:
    q, k, v = (heads(seed) for seed in range(3))
    given = [one if layout == "tokens_heads" else one.transpose(0, 2, 1, 3) for one in (q, k, v)]
    for call, want in (
        (lambda q, k, v: gnomon.jax.attention(q, k, v, ROPE, layout=layout),
         gnomon.jax.attention(q, k, v, ROPE)),
        (lambda q, k, v: gnomon.jax.rotate(q, ROPE, np.arange(3), layout=layout),
         gnomon.jax.rotate(q, ROPE)),
    ):
        out = call(*given)
        np.testing.assert_array_equal(
            out if layout == "tokens_heads" else out.transpose(0, 2, 1, 3), want)
    other = "heads_tokens" if layout == "tokens_heads" else "tokens_heads"
    refused(lambda q: gnomon.jax.rotate(q, ROPE, np.arange(3), layout=other), given[0])
    refused(lambda q: gnomon.jax.rotate(q, ROPE, layout="heads"), given[0])  # type: ignore[arg-type]
