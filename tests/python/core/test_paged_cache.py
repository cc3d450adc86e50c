"""rotate_append, PagedKvCache and the window of KvCache against rotation in double."""

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


def turned(x: np.ndarray, positions: Any) -> np.ndarray:
    """x [rows, H, D] rotated by positions [rows], in double."""
    angles = np.asarray(positions, "f8")[None, :, None] * FREQUENCIES
    return oracle.rotate(x[None].astype("f8"), angles, "halves")[0]


def cache(**options: Any) -> gnomon.PagedKvCache:
    return gnomon.PagedKvCache(**({"blocks": 6, "block_size": 4, "heads": 2, "head_dim": 4,
                                   "encoding": ROPE} | options))


def entries(made: gnomon.PagedKvCache, sequence: int, of: np.ndarray) -> np.ndarray:
    """The entries of a sequence in `of` [P, S, ...], in order."""
    table = made.block_table(sequence)[0]
    rows = of[table[table >= 0]].reshape(-1, *of.shape[2:])
    return rows[:made.tokens(sequence)]


@pytest.mark.parametrize("by_table", [False, True])
def test_append_writes_the_places(by_table: bool) -> None:
    k, v = numbers(5, 2, 4), numbers(5, 2, 4, seed=1)
    at = [7, 8, 3, 0, 5]
    table = gnomon.RotaryTable(ROPE, at)
    keys, values = np.full((6, 4, 2, 4), 7, "f4"), np.full((6, 2, 4, 4), 7, "f4")
    places: dict[str, Any] = {"slots": np.array([23, 8, 9, -1, 0])}
    if by_table:
        places = {"block_table": np.array([[2, 0], [5, 3]], "i4"),
                  "entries": np.array([3, 0, 1, 99, 4]),
                  "sequences": np.array([1, 0, 0, 0, 0], "i4")}
    gnomon.rotate_append(k, v, table, keys, values.transpose(0, 2, 1, 3), **places)
    want = np.full((24, 2, 4), 7, "f8")
    want[[23, 8, 9, 0]] = turned(k, at)[[0, 1, 2, 4]]
    np.testing.assert_allclose(keys.reshape(24, 2, 4), want, atol=2e-6)
    want[[23, 8, 9, 0]] = v[[0, 1, 2, 4]]
    np.testing.assert_array_equal(values.transpose(0, 2, 1, 3).reshape(24, 2, 4), want)


def test_append_to_8_bits() -> None:
    k = numbers(3, 2, 4)
    slots = np.array([1, 2, 9])
    keys, scales = np.zeros((3, 4, 2, 4), "i1"), np.zeros((3, 4, 2), "f4")
    gnomon.rotate_append(k, None, gnomon.RotaryTable(ROPE, 3), keys, slots=slots,
                         key_scales=scales)
    got = (keys * scales[..., None].astype("f8")).reshape(12, 2, 4)[slots]
    np.testing.assert_allclose(got, turned(k, range(3)), atol=np.abs(k).max() * 1.5 / 127)
    narrow = np.zeros((3, 4, 2, 4), "u1")
    one = np.ones((3, 2, 4), "f4") * [1, -1.0625, 3, 1000]
    gnomon.rotate_append(one.astype("f4"), None, None, narrow, slots=slots,
                         key_scales=np.array([1, 2], "f4"))
    # 1 is 0x38, -1.0625 is a tie and becomes -1, 3 is 0x44; 448 is 0x7e. Half of each is next.
    np.testing.assert_array_equal(narrow.reshape(12, 2, 4)[slots[0]],
                                  [[0x38, 0xB8, 0x44, 0x7E], [0x30, 0xB0, 0x3C, 0x7E]])


@pytest.mark.parametrize("arguments, rule", [
    ({}, "either slots"),
    ({"slots": np.arange(2)}, "slots must be"),
    ({"slots": np.arange(3), "key_scales": np.ones(1, "f4")}, "scales of keys"),
    ({"slots": np.arange(3, dtype="i4")}, "i64"),
])
def test_append_refuses(arguments: Any, rule: str) -> None:
    keys = np.zeros((2, 4, 2, 4), "f4")
    with pytest.raises(ValueError, match=rf"^\[\w+\] .*{rule}"):
        gnomon.rotate_append(numbers(3, 2, 4), None, None, keys, **arguments)
    assert not keys.any()


def test_sequences_grow_share_and_shrink() -> None:
    made = cache()
    a, b = made.start(), made.start()
    k, v = numbers(8, 2, 4), numbers(8, 2, 4, seed=1)
    made.append(k, v, [a, b], [0, 5, 8])
    assert (made.tokens(a), made.tokens(b), made.free_blocks, made.sequences) == (5, 3, 3, 2)
    assert (made.room(a), made.blocks_needed([a, b], [0, 4, 8])) == (3 + 12, 2)
    c = made.fork(a)
    more = numbers(3, 2, 4, seed=2)
    made.append(more, more, np.array([c, a, b]))
    assert made.free_blocks == 2
    for sequence, rows in ((a, [*k[:5], more[1]]), (b, [*k[5:], more[2]]), (c, [*k[:5], more[0]])):
        want = turned(np.stack(rows), range(len(rows)))
        np.testing.assert_allclose(entries(made, sequence, made.keys), want, atol=2e-6)
    np.testing.assert_array_equal(entries(made, a, made.values), [*v[:5], more[1]])
    np.testing.assert_array_equal(made.key_lengths([b, c]), [4, 6])
    assert made.block_table([a, b]).dtype == np.int32
    np.testing.assert_array_equal(made.block_table([b, a])[0], [made.block_table(b)[0, 0], -1])
    made.truncate(c, 4)
    made.end(a)
    assert made.free_blocks == 4
    np.testing.assert_array_equal(made.positions(c).ids, [[0, 1, 2, 3]])
    d = made.fork(c, 2)
    made.append(more, more, d, positions=[9, 10, 11])
    np.testing.assert_array_equal(made.positions(d).ids, [[0, 1, 9, 10, 11]])
    made.clear()
    assert made.free_blocks == 6 and "0 sequences" in repr(made)


@pytest.mark.parametrize("dtype, options, error", [
    ("float16", {}, 4e-3),
    ("int8", {}, 0.05),
    ("float8_e4m3fn", {"key_scales": [0.01, 0.02], "value_scales": [0.0625]}, 0.2),
])
def test_element_types(dtype: str, options: Any, error: float) -> None:
    made, k = cache(dtype=dtype, **options), numbers(6, 2, 4)
    made.append(k, k, made.start())
    assert made.keys.dtype == {"float16": "f2", "int8": "i1", "float8_e4m3fn": "u1"}[dtype]
    if dtype == "float8_e4m3fn":
        np.testing.assert_array_equal(made.key_scales, np.array([0.01, 0.02], "f4"))
        return
    got = entries(made, 0, made.keys).astype("f8")
    if dtype == "int8":
        got *= entries(made, 0, made.key_scales)[..., None]
    np.testing.assert_allclose(got, turned(k, range(6)), atol=error)


def test_tables_rotated_keys_and_frequencies() -> None:
    made, k = cache(), numbers(4, 2, 4)
    rotated = k.copy()
    table = gnomon.RotaryTable(ROPE, 4)
    gnomon.rotate(rotated, table)
    a, b = made.start(), made.start()
    made.append(k, k, a, table=table)
    made.append(rotated, k, b, rotated_with=ROPE)
    np.testing.assert_array_equal(entries(made, a, made.keys), rotated)
    np.testing.assert_array_equal(entries(made, b, made.keys), rotated)
    other = gnomon.Rotary(rotary_dim=4, pairing="halves", base=10_000.0)
    made.change_frequencies(other)
    assert made.frequencies == gnomon.rotary_frequencies(other)
    with pytest.raises(ValueError, match=r"inv_freq\[1\]"):
        made.append(k, k, a, table=table)


@pytest.mark.parametrize("call, rule", [
    (lambda c, k: c.append(k, k, [0, 0], [0, 1, 2]), "once"),
    (lambda c, k: c.append(k, k, [0, 7], [0, 1, 2]), "got 7"),
    (lambda c, k: c.append(np.concatenate([k] * 8), np.concatenate([k] * 8), 0), "free blocks"),
    (lambda c, k: c.append(k[:, :1], k, 0), "k must"),
    (lambda c, k: c.append(k, None, 0), "v must"),
    (lambda c, k: c.append(k.astype("f8"), k.astype("f8"), 0), "f64"),
    (lambda c, k: c.append(k, k, 0, positions=[1, 2]), "positions"),
    (lambda c, k: c.truncate(0, 9), "tokens to keep"),
    (lambda c, k: c.fork(0, 9), "fork"),
    (lambda c, k: c.end(5), "got 5"),
])
def test_a_refused_call_leaves_the_cache(call: Any, rule: str) -> None:
    made, k = cache(), numbers(4, 2, 4)
    made.append(k, k, made.start())
    before = made.keys.copy()
    with pytest.raises(ValueError, match=rf"^\[\w+\] .*{rule}"):
        call(made, k)
    np.testing.assert_array_equal(made.keys, before)
    assert (made.tokens(0), made.free_blocks) == (4, 5)


@pytest.mark.parametrize("dtype", ["float32", "int8", "float8_e4m3fn"])
def test_steps_are_attention_over_each_text(dtype: str) -> None:
    """Prompts, tokens and drafts of two sequences in one call each."""
    texts = {n: [numbers(20, heads, 4, seed=10 * n + heads) for heads in (4, 2)] for n in (0, 1)}
    scales = {"key_scales": [0.0125], "value_scales": [0.0125]} if dtype[:6] == "float8" else {}
    made = cache(blocks=12, dtype=dtype, **scales)
    error = {"float32": 2e-6, "int8": 0.05, "float8_e4m3fn": 0.25}[dtype]
    plan = gnomon.lower(None, 20, visibility="causal")
    sequences = [made.start(), made.start()]
    for counts in ((7, 1), (1, 9), (1, 1), (3, 2)):
        at = [made.tokens(n) for n in sequences]
        starts = [0, counts[0], sum(counts)]
        q, k = (np.concatenate([texts[n][i][at[n]:at[n] + counts[n]] for n in sequences])
                for i in (0, 1))
        made.append(k, k, sequences, starts)
        turned_q = turned(q, [*range(at[0], at[0] + counts[0]), *range(at[1], at[1] + counts[1])])
        out = gnomon.attention(
            turned_q.astype("f4")[None], made.keys, made.values, plan,
            k_scales=made.key_scales, v_scales=made.value_scales, query_starts=starts,
            key_lengths=made.key_lengths(sequences), block_table=made.block_table(sequences))
        for n in sequences:
            s = made.tokens(n)
            keys = texts[n][1][:s]
            sees = oracle.visible(counts[n], s, visibility="causal", offset=at[n])
            want, _ = oracle.attention(turned_q[None, starts[n]:starts[n + 1]],
                                       turned(keys, range(s))[None], keys[None].astype("f8"),
                                       sees=sees)
            np.testing.assert_allclose(out[:, starts[n]:starts[n + 1]], want, atol=error)


def test_a_cache_with_a_window_is_attention_over_the_text() -> None:
    text, window = 40, 6
    q, k, v = (numbers(1, text, heads, 4, seed=heads) for heads in (4, 2, 2))
    rotated_q, rotated_k = (turned(x[0], range(text))[None] for x in (q, k))
    sees = oracle.visible(text, text, visibility="causal", left=window - 1)
    want, _ = oracle.attention(rotated_q, rotated_k, v.astype("f8"), sees=sees)
    made = gnomon.KvCache(capacity=16, heads=2, head_dim=4, encoding=ROPE, window=window)
    at = 0
    for count in (11, 1, 11, 3, 1, 1, 11, 1):  # parts of a prompt, drafts and tokens
        made.append(k[:, at:at + count], v[:, at:at + count])
        new = q[:, at:at + count].copy()
        gnomon.rotate(new, gnomon.RotaryTable(ROPE, np.arange(at, at + count)))
        plan = gnomon.lower(None, count, made.tokens, visibility="causal", left=window - 1)
        out = gnomon.attention(new, made.keys, made.values, plan)
        np.testing.assert_allclose(out, want[:, at:at + count], atol=2e-6)
        at += count
        assert made.dropped + made.tokens == at and made.room >= 16 - window + 1
    assert at == text and made.dropped > 0
