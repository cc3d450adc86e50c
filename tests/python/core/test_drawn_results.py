"""Drawn calls with drawn strides, types and capsules against the oracles in float64.

GNOMON_DRAWN_CASES: the cases of each test; default 300.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import numpy_oracles as oracle
from attack_capsules import Capsule, check_deleters

import gnomon

CASES = int(os.environ.get("GNOMON_DRAWN_CASES", "300"))
TYPES = ["f4", "f4", "f2", "f8"]
ROUNDING = {"f2": 2.0**-11, "f4": 2.0**-24, "f8": 2.0**-53}
every_seed = pytest.mark.parametrize("seed", range(3))


class Draw:
    """A generator of shapes, arrays and choices."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def of(self, *values: Any) -> Any:
        return values[self.rng.integers(len(values))]

    def up_to(self, most: int, least: int = 1) -> int:
        return int(self.rng.integers(least, most + 1))

    def array(self, shape: tuple[int, ...], dtype: str, *, repeats: bool = False) -> np.ndarray:
        """Normal numbers in a drawn layout whose last axis has stride 1.

        repeats: whether outer axes may have stride 0.
        """
        wide = [n + self.up_to(2, 0) for n in shape]
        order = [*self.rng.permutation(len(shape) - 1), len(shape) - 1]
        memory = self.rng.standard_normal([wide[axis] for axis in order]).astype(dtype)
        x = memory.transpose(np.argsort(order))
        for axis, n in enumerate(shape):
            first = self.up_to(wide[axis] - n, 0)
            if repeats and axis + 1 < len(shape) and self.up_to(8) == 1:
                one = np.lib.stride_tricks.as_strided(
                    x, [n if a == axis else m for a, m in enumerate(x.shape)],
                    [0 if a == axis else m for a, m in enumerate(x.strides)])  # fmt: skip
                x = one
            else:
                x = x[(slice(None),) * axis + (slice(first, first + n),)]
            if axis + 1 < len(shape) and self.up_to(3) == 1:
                x = np.flip(x, axis)
        return x

    def given(self, x: np.ndarray) -> Any:
        """The array, or a capsule of its memory."""
        if self.up_to(4) > 1:
            return x
        one = Capsule(x, "true", self.up_to(2) == 1, False)
        if self.up_to(2) == 1 and x.size:
            one.skip = x.itemsize * self.up_to(5)
        return one


@every_seed
def test_rotations(seed: int) -> None:
    for case in range(CASES):
        d = Draw(1, seed, case)
        dtype, pairs = d.of(*TYPES), d.up_to(9)
        batch, tokens, heads = d.up_to(2), d.up_to(5), d.up_to(3)
        offset, rest = d.up_to(3, 0), d.up_to(3, 0)
        shape = (batch, tokens, heads, offset + 2 * pairs + rest)
        pairing, direction = d.of("halves", "adjacent"), d.of("forward", "inverse")
        spec = gnomon.Rotary(rotary_dim=2 * pairs, pairing=pairing, head_offset=offset,
                             base=d.of(1e4, 5e5))  # fmt: skip
        rows = d.of(1, batch)
        ids = d.rng.integers(-100, 2 ** d.up_to(20), (rows, tokens))
        table = gnomon.RotaryTable(spec, ids if rows == batch and rows > 1 else ids[0])
        angles = ids[..., None] * oracle.inverse_frequencies(2 * pairs, spec.base)
        if not (rows == batch and rows > 1):
            angles = angles[:1]
        options = {"head_offset": offset, "sign": 1 if direction == "forward" else -1}
        way = d.of("in place", "out", "k")
        x = d.array(shape, dtype, repeats=way == "out")
        want = oracle.rotate(x, angles, pairing, **options)
        relative = (3 * 2.0**-24 + ROUNDING[dtype] + 2e-9) * 2
        bound = relative * np.abs(x).max()
        if way == "in place":
            gnomon.rotate(d.given(x), table, direction)
            got = x
        elif way == "out":
            before, got = x.copy(), d.array(shape, dtype)
            gnomon.rotate(d.given(x), table, direction, out=d.given(got))
            np.testing.assert_array_equal(x, before)
        else:
            k = d.array((batch, tokens, d.up_to(3), shape[3] + d.up_to(2, 0)), dtype)
            want_k = oracle.rotate(k, angles, pairing, **options)
            bound_k = relative * np.abs(k).max()
            gnomon.rotate(d.given(x), table, direction, k=d.given(k))
            np.testing.assert_allclose(k, want_k, rtol=0, atol=bound_k, err_msg=f"{case}")
            got = x
        np.testing.assert_allclose(got, want, rtol=0, atol=bound, err_msg=f"{case}")
    check_deleters()


def _encoding(d: Draw, heads: int, tokens: int, keys: int) -> tuple[Any, list[Any], Any]:
    """A spec, its parameters, and its bias [H, T, S]."""
    distances = oracle.distances(np.arange(keys - tokens, keys), np.arange(keys))
    kind = d.of("none", "alibi", "t5", "clipped")
    if kind == "alibi":
        return gnomon.Alibi(heads=heads), [], oracle.alibi(heads, distances)
    if kind == "t5":
        values = d.rng.standard_normal((8, heads)).astype("f4")
        spec = gnomon.T5Bias(heads=heads, buckets=8, max_distance=16, direction="bidirectional")
        return spec, [values], oracle.t5(values.astype("f8"), distances, 16, True)
    if kind == "clipped":
        values = d.rng.standard_normal((heads, 6)).astype("f4")
        spec = gnomon.ClippedBias(heads=heads, left=3, right=2)
        return spec, [values], oracle.clipped(values.astype("f8"), distances, 3, 2)
    return None, [], None


@every_seed
def test_attention(seed: int) -> None:
    for case in range(CASES):
        d = Draw(2, seed, case)
        dtype, batch, key_heads = d.of(*TYPES), d.up_to(2), d.up_to(2)
        heads, dim, value_dim = key_heads * d.up_to(2), d.up_to(20), d.up_to(20)
        keys = d.up_to(40)
        tokens = d.up_to(keys)
        spec, parameters, bias = _encoding(d, heads, tokens, keys)
        rules: dict[str, Any] = {
            "visibility": d.of("causal", "bidirectional"),
            "left": d.of(None, d.up_to(9, 0)),
            "cap": d.of(None, 5.0),
            "sinks": d.of((), tuple(map(float, d.rng.standard_normal(heads)))),
        }
        plan = gnomon.lower(spec, tokens, keys, parameters=parameters, **rules,
                            softmax_scale=(scale := d.of(None, 0.3)))  # fmt: skip
        q = d.array((batch, tokens, heads, dim), dtype, repeats=True)
        k = d.array((batch, keys, key_heads, dim), dtype, repeats=True)
        v = d.array((batch, keys, key_heads, value_dim), dtype, repeats=True)
        sees = oracle.visible(tokens, keys, visibility=rules["visibility"], left=rules["left"],
                              offset=keys - tokens)  # fmt: skip
        want, want_lse = oracle.attention(q, k, v, sees=sees, scale=scale, bias=bias,
                                          cap=rules["cap"], sinks=rules["sinks"])  # fmt: skip
        options: dict[str, Any] = {}
        if d.up_to(2) == 1:
            sums = dtype if dtype == "f8" else "f4"
            options["lse"] = np.full((batch, heads, tokens), np.nan, sums)
        if d.up_to(2) == 1:
            options["out"] = d.array(want.shape, dtype)
        if d.up_to(2) == 1:
            order = (0, 2, 1, 3)
            given = {name: one.transpose(order) for name, one in options.items() if name == "out"}
            got = gnomon.attention(*(d.given(one.transpose(order)) for one in (q, k, v)), plan,
                                   layout="heads_tokens", **{**options, **given})  # fmt: skip
            got = np.asarray(got).transpose(order)
        else:
            got = gnomon.attention(d.given(q), d.given(k), d.given(v), plan, **options)
        most = max(np.abs(v).max(), 1e-3)
        error = {"f2": 2.0**-10, "f4": 2.0**-17, "f8": 2.0**-40}[dtype] * most
        np.testing.assert_allclose(got, want, rtol=0, atol=error, err_msg=f"{case}")
        if "lse" in options:
            np.testing.assert_allclose(options["lse"], want_lse, rtol=1e-5, atol=1e-4)
        if "out" in options:
            np.testing.assert_array_equal(options["out"], got)
    check_deleters()


@every_seed
def test_caches(seed: int) -> None:
    """Entries after drawn appends, insertions, removals and shifts: those of the oracle."""
    spec = gnomon.Rotary(rotary_dim=8, pairing="halves")
    rates = oracle.inverse_frequencies(8, 10000.0)
    for case in range(CASES // 3):
        d = Draw(3, seed, case)
        batch, heads = d.up_to(2), d.up_to(2)
        cache = gnomon.KvCache(capacity=12, heads=heads, head_dim=10, batch=batch, encoding=spec)
        keys, values = np.zeros((batch, 0, heads, 10)), np.zeros((batch, 0, heads, 10))
        places = np.zeros(0, np.int64)
        for _ in range(d.up_to(8)):
            count = cache.tokens
            begin = d.up_to(count, 0)
            end = d.up_to(count, begin)
            step = d.of("append", "append", "insert", "remove", "drop", "shift", "truncate")
            if step in ("append", "insert") and cache.room:
                new = d.up_to(min(3, cache.room))
                at = count if step == "append" else begin
                k = d.array((batch, new, heads, 10), "f4", repeats=True)
                v = d.array((batch, new, heads, 10), "f4", repeats=True)
                if step == "append":
                    ids = np.arange(new) + d.up_to(1000)
                    cache.append(d.given(k), d.given(v), ids)
                else:
                    ids = np.arange(at, at + new)
                    cache.insert(at, d.given(k), d.given(v))
                    places[at:] += new
                places = np.concatenate([places[:at], ids, places[at:]])
                keys = np.concatenate([keys[:, :at], k, keys[:, at:]], 1)
                values = np.concatenate([values[:, :at], v, values[:, at:]], 1)
            elif step in ("remove", "drop"):
                getattr(cache, step)(begin, end)
                if step == "remove":
                    places[end:] -= end - begin
                kept = np.r_[0:begin, end:count]
                keys, values, places = keys[:, kept], values[:, kept], places[kept]
            elif step == "shift":
                delta = d.up_to(50, -50)
                cache.shift(begin, end, delta)
                places[begin:end] += delta
            elif step == "truncate":
                cache.truncate(end)
                keys, values, places = keys[:, :end], values[:, :end], places[:end]
        np.testing.assert_array_equal(cache.positions().ids, np.tile(places, (batch, 1)))
        np.testing.assert_array_equal(cache.values, values)
        want = oracle.rotate(keys, places[None, :, None] * rates, "halves")
        np.testing.assert_allclose(cache.keys, want, rtol=0, atol=1e-5, err_msg=f"{case}")
    check_deleters()


@every_seed
def test_paged_caches(seed: int) -> None:
    """Sequences that share blocks, and attention over their pages."""
    spec = gnomon.Rotary(rotary_dim=8, pairing="adjacent")
    rates = oracle.inverse_frequencies(8, 10000.0)
    plan = gnomon.lower(None, 64, visibility="causal")
    for case in range(CASES // 3):
        d = Draw(4, seed, case)
        heads = d.up_to(2)
        cache = gnomon.PagedKvCache(blocks=16, block_size=d.of(1, 3, 4), heads=heads, head_dim=8,
                                    encoding=spec)  # fmt: skip
        held: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        none = np.zeros((0, heads, 8))
        for _ in range(d.up_to(12)):
            step = d.of("start", "append", "append", "append", "fork", "truncate", "end")
            one = d.of(*held) if held else None
            if step == "start" or one is None:
                held[cache.start()] = none, none
            elif step == "append":
                new = d.up_to(3)
                if cache.room(one) < new:
                    continue
                k, v = (d.array((new, heads, 8), "f4", repeats=True) for _ in range(2))
                cache.append(d.given(k), d.given(v), one, [0, new])
                held[one] = tuple(np.concatenate(pair) for pair in zip(held[one], (k, v)))
            elif step == "fork":
                kept = d.up_to(cache.tokens(one), 0)
                held[cache.fork(one, kept)] = tuple(x[:kept] for x in held[one])
            elif step == "truncate":
                kept = d.up_to(cache.tokens(one), 0)
                cache.truncate(one, kept)
                held[one] = tuple(x[:kept] for x in held[one])
            else:
                cache.end(one)
                del held[one]
        full = [one for one, (k, _) in held.items() if len(k)]
        if not full:
            continue
        q = d.array((len(full), 1, heads, 8), "f4", repeats=True)
        got = gnomon.attention(
            d.given(q), cache.keys, cache.values, plan, block_table=cache.block_table(full),
            key_lengths=cache.key_lengths(full), query_lengths=[1] * len(full),
        )  # fmt: skip
        for row, one in enumerate(full):
            k, v = held[one]
            turned = oracle.rotate(k[None], np.arange(len(k))[None, :, None] * rates, "adjacent")
            want, _ = oracle.attention(q[row : row + 1], turned, v[None],
                                       sees=np.ones((1, 1, len(k)), bool))  # fmt: skip
            np.testing.assert_allclose(got[row], want[0], rtol=0, atol=4e-5, err_msg=f"{case}")
    check_deleters()


@every_seed
def test_convolutions(seed: int) -> None:
    for case in range(CASES):
        d = Draw(5, seed, case)
        dtype, batch, tokens, taps = d.of("f4", "f8"), d.up_to(2), d.up_to(6), d.up_to(4)
        channels, scale = d.up_to(9), d.of(1.0, -0.5)
        x = d.array((batch, tokens, channels), dtype, repeats=True)
        weight, order = d.array((channels, taps), "f4"), d.of("oldest_first", "newest_first")
        newest = (weight if order == "newest_first" else weight[:, ::-1]).astype("f8")
        past = np.concatenate([np.zeros((batch, taps - 1, channels)), x], 1)
        want = scale * (x + sum(newest[:, n] * past[:, taps - 1 - n : taps - 1 - n + tokens]
                                for n in range(taps)))  # fmt: skip
        got = gnomon.convolve(d.given(x), d.given(weight), order=order, scale=scale)
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5, err_msg=f"{case}")
    check_deleters()
