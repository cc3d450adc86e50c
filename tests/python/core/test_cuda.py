"""gnomon._cuda with the emulator, whose devices are the memory of the CPU. On a GPU: make gpu."""

from __future__ import annotations

import emulated
import numpy as np
import pytest

import gnomon


@pytest.fixture(scope="module")
def cuda():
    return emulated.module()


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


def frequencies(cuda, f):
    return cuda.Frequencies(f.pairing, f.head_offset, list(f.inv_freq), list(f.axes),
                            f.table_scale, 0)


@pytest.mark.parametrize("pairing", ["halves", "adjacent"])
@pytest.mark.parametrize("inverse", [False, True])
def test_rotate_equals_the_cpu(cuda, pairing, inverse):
    rope = gnomon.Rotary(rotary_dim=16, pairing=pairing, head_offset=4)
    table = gnomon.RotaryTable(rope, np.arange(7) * 100)
    x = numbers(2, 7, 3, 24)
    want = x.copy()
    gnomon.rotate(want, table, "inverse" if inverse else "forward")
    here, out = x.copy(), np.zeros_like(x)
    rest = table.cos, table.sin, None, pairing, 4, False, inverse, 0
    cuda.rotate(here, None, None, *rest)
    cuda.rotate(x, out, None, *rest)
    np.testing.assert_allclose(here, want, atol=1e-6)
    np.testing.assert_allclose(out, want, atol=1e-6)
    heads_first = np.ascontiguousarray(x.transpose(0, 2, 1, 3))
    cuda.rotate(heads_first, None, None, *rest[:5], True, inverse, 0)
    np.testing.assert_allclose(heads_first.transpose(0, 2, 1, 3), want, atol=1e-6)


def test_rotate_at_takes_queries_and_keys(cuda):
    rope = gnomon.Rotary(rotary_dim=8, pairing="halves")
    at = np.array([5, 9, 1])
    q, k = numbers(3, 4, 8), numbers(3, 2, 8, dtype=np.float16)
    table = gnomon.RotaryTable(rope, at)
    there = frequencies(cuda, gnomon.rotary_frequencies(rope))
    want = q.copy()
    gnomon.rotate(want, table)
    with pytest.raises(ValueError, match=r"k must have elements of f32, got f16"):
        cuda.rotate_at(q, None, k, at, there, False, False, 0)
    k = k.astype(np.float32)
    want_k = k.copy()
    gnomon.rotate(want_k, table)
    cuda.rotate_at(q, None, k, at, there, False, False, 0)
    np.testing.assert_allclose(q, want, atol=1e-6)
    np.testing.assert_allclose(k, want_k, atol=1e-6)


def test_tables_equal_those_of_the_cpu(cuda):
    rope = gnomon.Rotary(rotary_dim=32, pairing="halves", base=1e6)
    there = frequencies(cuda, gnomon.rotary_frequencies(rope))
    cos, sin = np.zeros((70, 16), np.float32), np.zeros((70, 16), np.float32)
    cuda.fill_cos_sin(there, 100_000, None, cos, sin, 0)
    want = gnomon.RotaryTable(rope, np.arange(100_000, 100_070))
    # The same bits, if the processor has a fused multiply-add.
    np.testing.assert_allclose(cos, want.cos[0], rtol=0, atol=6e-8)
    np.testing.assert_allclose(sin, want.sin[0], rtol=0, atol=6e-8)
    cuda.fill_cos_sin(there, 0, np.arange(70), cos, sin, 0)
    np.testing.assert_allclose(cos, gnomon.RotaryTable(rope, 70).cos[0], rtol=0, atol=6e-8)


def test_append_writes_the_slots(cuda):
    rope = gnomon.Rotary(rotary_dim=8, pairing="adjacent")
    there = frequencies(cuda, gnomon.rotary_frequencies(rope))
    k, v = numbers(3, 2, 8), numbers(3, 2, 4)
    keys, values = np.zeros((4, 2, 2, 8), np.float32), np.zeros((4, 2, 2, 4), np.float32)
    at, slots = np.array([7, 8, 9]), np.array([5, -1, 0])
    cuda.rotate_append_at(None, k, v, at, there, keys, values, slots, None, None, None, None,
                          None, 0)
    want = k.copy()
    gnomon.rotate(want, gnomon.RotaryTable(rope, at))
    np.testing.assert_allclose(keys[2, 1], want[0], atol=1e-6)
    np.testing.assert_allclose(keys[0, 0], want[2], atol=1e-6)
    np.testing.assert_array_equal(values[2, 1], v[0])
    assert np.count_nonzero(values) == 2 * v[0].size


def test_errors_name_the_rule(cuda):
    x = numbers(3, 2, 8)
    with pytest.raises(ValueError, match=r"pairing must be halves or adjacent, got both"):
        cuda.Frequencies("both", 0, [1.0], [], 1.0, 0)
    there = frequencies(cuda, gnomon.rotary_frequencies(gnomon.Rotary(rotary_dim=8, pairing="halves")))
    with pytest.raises(ValueError, match=r"positions must be \[A, B or 1, T\].*got \[2\]"):
        cuda.rotate_at(x, None, None, np.arange(2), there, False, False, 0)
    with pytest.raises(ValueError, match="positions must have elements of i64, got i32"):
        cuda.rotate_at(x, None, None, np.arange(3, dtype=np.int32), there, False, False, 0)
