"""KvCache and SegmentMemory against attention over the whole text, in double."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy_oracles as oracle
import pytest

import gnomon

ROPE = gnomon.Rotary(rotary_dim=4, pairing="halves", base=100.0)
FREQUENCIES = 100.0 ** -(np.arange(2) / 2)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def turned(x: np.ndarray, positions: Any, frequencies: np.ndarray = FREQUENCIES) -> np.ndarray:
    """x [B, T, H, D] rotated by positions [T] or [B, T], in double."""
    angles = np.asarray(positions, "f8")[..., None] * frequencies
    return oracle.rotate(x.astype("f8"), np.broadcast_to(angles, (*x.shape[:2], 2)), "halves")


def cache(**options: Any) -> gnomon.KvCache:
    return gnomon.KvCache(**({"capacity": 12, "heads": 2, "head_dim": 4, "encoding": ROPE}
                             | options))


def filled(tokens: int = 6, **options: Any) -> tuple[gnomon.KvCache, np.ndarray, np.ndarray]:
    made, k, v = cache(**options), numbers(1, tokens, 2, 4), numbers(1, tokens, 2, 4, seed=1)
    made.append(k, v)
    return made, k, v


def test_decoding_with_a_cache_is_attention_over_the_text() -> None:
    q, k, v = (numbers(1, 7, heads, 4, seed=heads) for heads in (4, 2, 2))
    want, _ = oracle.attention(
        turned(q, range(7)), turned(k, range(7)), v.astype("f8"),
        sees=oracle.visible(7, 7, visibility="causal"))
    made = cache()
    for begin, end in ((0, 4), (4, 5), (5, 7)):  # a prompt, then tokens
        made.append(k[:, begin:end], v[:, begin:end])
        new = q[:, begin:end].copy()
        gnomon.rotate(new, gnomon.RotaryTable(ROPE, np.arange(begin, end)))
        plan = gnomon.lower(None, end - begin, made.tokens, visibility="causal")
        out = gnomon.attention(new, made.keys, made.values, plan)
        np.testing.assert_allclose(out, want[:, begin:end], atol=2e-6)
    assert (made.tokens, made.room) == (7, 5)


def test_changes_of_a_cache_rotate_the_keys() -> None:
    made, k, v = filled()
    made.remove(1, 3)
    left = [0, 3, 4, 5]
    np.testing.assert_array_equal(made.positions().ids, [[0, 1, 2, 3]])
    np.testing.assert_allclose(made.keys, turned(k[:, left], range(4)), atol=2e-6)
    np.testing.assert_array_equal(made.values, v[:, left])
    made.insert(1, k[:, 1:3], v[:, 1:3])
    np.testing.assert_allclose(made.keys, turned(k, range(6)), atol=2e-6)
    made.drop(0, 2)
    np.testing.assert_allclose(made.keys, turned(k[:, 2:], range(2, 6)), atol=2e-6)
    made.shift(0, 4, -2)
    np.testing.assert_allclose(made.keys, turned(k[:, 2:], range(4)), atol=2e-6)
    made.shift(0, 2, [10])
    np.testing.assert_array_equal(made.positions().ids, [[10, 11, 2, 3]])
    made.truncate(1)
    made.clear()
    assert made.tokens == 0 and made.keys.shape == (1, 0, 2, 4)


def test_a_change_of_frequencies_rotates_the_keys() -> None:
    made, k, _ = filled()
    other = gnomon.Rotary(rotary_dim=4, pairing="halves", base=10_000.0)
    made.change_frequencies(other)
    assert made.frequencies == gnomon.rotary_frequencies(other)
    np.testing.assert_allclose(made.keys, turned(k, range(6), 10_000.0 ** -(np.arange(2) / 2)),
                               atol=2e-6)


def test_keys_that_are_rotated_and_keys_without_rotation() -> None:
    k = numbers(2, 3, 2, 4)
    made = cache(batch=2)
    keys = k.copy()
    at = np.array([[0, 1, 2], [5, 6, 7]])
    table = gnomon.RotaryTable(ROPE, at)
    gnomon.rotate(keys, table)
    made.append(keys, k, at, rotated_with=ROPE)
    made.append(k, k, at + 3, table=gnomon.RotaryTable(ROPE, at + 3))
    np.testing.assert_allclose(made.keys[:, :3], turned(k, at), atol=2e-6)
    np.testing.assert_allclose(made.keys[:, 3:], turned(k, at + 3), atol=2e-6)
    plain = cache(encoding=None)
    plain.append(k[:1], k[:1])
    np.testing.assert_array_equal(plain.keys, k[:1])
    assert plain.frequencies is None


@pytest.mark.parametrize("dtype, error", [("float32", 2e-6), ("float16", 4e-3)])
def test_element_types_of_a_cache(dtype: str, error: float) -> None:
    for given in ("f4", dtype):
        made, k = cache(dtype=dtype), numbers(1, 3, 2, 4).astype(given)
        made.append(k, k)
        assert made.keys.dtype == made.values.dtype == dtype
        np.testing.assert_allclose(made.keys, turned(k, range(3)), atol=error)


def test_views_of_a_cache_live_as_long_as_they_are_used() -> None:
    keys = filled()[0].keys
    np.testing.assert_allclose(keys, turned(numbers(1, 6, 2, 4), range(6)), atol=2e-6)
    with pytest.raises(ValueError, match="read-only"):
        keys[:] = 0


@pytest.mark.parametrize("call, rule", [
    (lambda c, k: c.append(k[:, :, :1], k), "k must"),
    (lambda c, k: c.append(np.concatenate([k, k, k], 1), np.concatenate([k, k, k], 1)), "room of 6"),
    (lambda c, k: c.append(k, k, np.arange(3)), "positions"),
    (lambda c, k: c.append(k, k, table=gnomon.RotaryTable(gnomon.Rotary(
        rotary_dim=4, pairing="adjacent", base=100.0), np.arange(6, 12))), "pairing"),
    (lambda c, k: c.append(k.astype("f8"), k), "k must"),
    (lambda c, k: c.remove(2, 9), "entries"),
    (lambda c, k: c.truncate(7), "tokens"),
    (lambda c, k: c.positions(1), "axis"),
])
def test_a_refused_call_leaves_the_cache(call: Any, rule: str) -> None:
    made, k, _ = filled()
    before = made.keys.copy()
    with pytest.raises(ValueError, match=rf"^\[\w+\] .*{rule}"):
        call(made, k)
    np.testing.assert_array_equal(made.keys, before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_segments_with_memory_are_attention_over_the_text(dtype: str) -> None:
    text, memory = 11, 4
    q, k, v = (numbers(1, text, 2, 4, seed=seed).astype(dtype) for seed in range(3))
    sees = oracle.visible(text, text, visibility="causal", left=memory)
    want, _ = oracle.attention(turned(q, range(text)), turned(k, range(text)), v.astype("f8"),
                               sees=sees)
    made = gnomon.SegmentMemory(memory=memory, segment=3, heads=2, head_dim=4, encoding=ROPE,
                                dtype=dtype)
    for begin in range(0, text, 3):
        end = min(begin + 3, text)
        segment = made.append(k[:, begin:end], v[:, begin:end])
        new = q[:, begin:end].copy()
        gnomon.rotate(new, gnomon.RotaryTable(ROPE, np.arange(begin, end)))
        plan = gnomon.lower(None, end - begin, segment.keys.shape[1], visibility="causal",
                            left=memory)
        out = gnomon.attention(new, segment.keys, segment.values, plan)
        np.testing.assert_allclose(out, want[:, begin:end], atol=2e-6)
        assert segment.first == max(0, begin - memory) and segment.offset == min(begin, memory)
        assert made.next == end
    assert made.kept == memory
    made.clear()
    assert (made.kept, made.next) == (0, 0)
    with pytest.raises(ValueError, match="segment"):
        made.append(k, v)
