"""Sequences of different lengths in one call, and paged caches, compared with separate calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy_oracles as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnomon


class Batch:
    """Sequences with random queries, keys and values."""

    def __init__(self, lengths: list[tuple[int, int]], seed: int = 1, dtype: str = "f4") -> None:
        random = np.random.default_rng(seed)
        self.lengths = lengths
        self.q = [random.standard_normal((1, t, 4, 16)).astype(dtype) for t, _ in lengths]
        self.k = [random.standard_normal((1, s, 2, 16)).astype(dtype) for _, s in lengths]
        self.v = [random.standard_normal((1, s, 2, 16)).astype(dtype) for _, s in lengths]
        self.random = random

    @property
    def query_starts(self) -> np.ndarray:
        return np.cumsum([0] + [t for t, _ in self.lengths])

    @property
    def key_lengths(self) -> list[int]:
        return [s for _, s in self.lengths]

    @property
    def longest(self) -> int:
        return max(max(pair) for pair in self.lengths)

    def padded(self, rows: list[np.ndarray]) -> np.ndarray:
        most = max(one.shape[1] for one in rows) + 2
        out = np.full((len(rows), most, *rows[0].shape[2:]), np.nan, rows[0].dtype)
        for n, one in enumerate(rows):
            out[n, : one.shape[1]] = one[0]
        return out

    def paged(self, rows: list[np.ndarray], page: int) -> tuple[np.ndarray, np.ndarray]:
        counts = [-(-one.shape[1] // page) for one in rows]
        order = np.random.default_rng(5).permutation(sum(counts) + 2)
        table = np.full((len(rows), max(counts) + 1), -1, np.int32)
        pages = np.full((len(order), page, *rows[0].shape[2:]), np.nan, rows[0].dtype)
        for n, one in enumerate(rows):
            first = sum(counts[:n])
            table[n, : counts[n]] = order[first : first + counts[n]]
            for j in range(one.shape[1]):
                pages[table[n, j // page], j % page] = one[0, j]
        return pages, table

    def separate(self, encoding: Any = None, **options: Any) -> list[np.ndarray]:
        return [
            gnomon.attention(q, k, v, gnomon.lower(encoding, t, s, visibility="causal", **options))
            for q, k, v, (t, s) in zip(self.q, self.k, self.v, self.lengths)
        ]


@given(
    lengths=st.lists(
        st.tuples(st.integers(1, 12), st.integers(0, 40)).map(lambda one: (one[0], sum(one))),
        min_size=1,
        max_size=5,
    ),
    page=st.sampled_from([1, 3, 16]),
    left=st.none() | st.integers(0, 20),
    encoding=st.sampled_from([None, gnomon.Alibi(heads=4)]),
)
def test_one_call_gives_the_bits_of_separate_calls(
    lengths: list[tuple[int, int]], page: int, left: int | None, encoding: Any
) -> None:
    batch = Batch(lengths)
    wanted = batch.separate(encoding, left=left)
    plan = gnomon.lower(encoding, batch.longest, visibility="causal", left=left)
    q = np.concatenate(batch.q, axis=1)
    k, table = batch.paged(batch.k, page)
    v, _ = batch.paged(batch.v, page)
    out = gnomon.attention(
        q, k, v, plan, query_starts=batch.query_starts, key_lengths=batch.key_lengths,
        block_table=table,
    )
    np.testing.assert_array_equal(out, np.concatenate(wanted, axis=1))

    out = gnomon.attention(
        batch.padded(batch.q), batch.padded(batch.k), batch.padded(batch.v), plan,
        query_lengths=[t for t, _ in lengths], key_lengths=np.array(batch.key_lengths, np.int32),
        offsets=[s - t for t, s in lengths],
    )
    for n, one in enumerate(wanted):
        np.testing.assert_array_equal(out[n, : one.shape[1]], one[0])
        np.testing.assert_array_equal(out[n, one.shape[1] :], 0)

    key_starts = np.cumsum([0, *batch.key_lengths])
    out = gnomon.attention(
        q, np.concatenate(batch.k, axis=1), np.concatenate(batch.v, axis=1), plan,
        query_starts=batch.query_starts, key_starts=key_starts,
    )
    np.testing.assert_array_equal(out, np.concatenate(wanted, axis=1))


def test_pages_of_int8_and_e4m3() -> None:
    batch = Batch([(1, 30), (3, 17)])
    q = np.concatenate(batch.q, axis=1)
    plan = gnomon.lower(None, 30, visibility="causal")
    rows = {"query_starts": batch.query_starts, "key_lengths": batch.key_lengths}
    integers = [batch.random.integers(-127, 128, (1, s, 2, 16)).astype("i1")
                for s in batch.key_lengths]
    scales = [batch.random.random((1, s, 2)).astype("f4") / 60 for s in batch.key_lengths]
    real = [one * scale[..., None] for one, scale in zip(integers, scales)]
    pages = [np.zeros((5, 16, 2, 16), "i1"), np.zeros((5, 16, 2), "f4")]
    table = np.array([[3, 1], [0, 4]], np.int32)
    for n, length in enumerate(batch.key_lengths):
        for j in range(length):
            pages[0][table[n, j // 16], j % 16] = integers[n][0, j]
            pages[1][table[n, j // 16], j % 16] = scales[n][0, j]
    out = gnomon.attention(
        q, pages[0], pages[0], plan, k_scales=pages[1], v_scales=pages[1], block_table=table, **rows
    )
    check(out, batch, real)

    # 0x38 is 1, 0x40 is 2; bit 7 is the sign.
    codes = [batch.random.choice(np.array([0x38, 0x40, 0xB8, 0], np.uint8), (1, s, 2, 16))
             for s in batch.key_lengths]
    value = {0x38: 1.0, 0x40: 2.0, 0xB8: -1.0, 0: 0.0}
    scale = np.array([0.5, 0.25], "f4")
    real = [np.vectorize(value.get)(one) * scale[:, None] for one in codes]
    bytes_of = np.full((5, 16, 2, 16), 0x7F, np.uint8)
    for n, length in enumerate(batch.key_lengths):
        for j in range(length):
            bytes_of[table[n, j // 16], j % 16] = codes[n][0, j]
    out = gnomon.attention(
        q, bytes_of, bytes_of, plan, k_scales=scale, v_scales=scale, block_table=table, **rows
    )
    check(out, batch, real)


def check(out: np.ndarray, batch: Batch, keys: list[np.ndarray]) -> None:
    for n, (t, s) in enumerate(batch.lengths):
        sees = oracle.visible(t, s, visibility="causal", offset=s - t)
        wanted = oracle.attention(batch.q[n], keys[n], keys[n], sees=sees, scale=0.25)[0]
        first = batch.query_starts[n]
        np.testing.assert_allclose(out[:, first : first + t], wanted, atol=2e-5)


def test_positions_of_ragged_rows_rotate_a_step() -> None:
    starts, offsets = [0, 2, 3], [7, 0]
    positions = gnomon.Positions.ragged(starts=starts, offsets=offsets, tokens=4)
    np.testing.assert_array_equal(positions.ids, [[7, 8, 0, 0]])
    np.testing.assert_array_equal(positions.sequences, [[0, 0, 1, -1]])
    padded = gnomon.Positions.ragged(lengths=np.array([2, 1], np.int32), offsets=offsets)
    np.testing.assert_array_equal(padded.ids, [[7, 8], [0, 0]])
    np.testing.assert_array_equal(padded.sequences, [[0, 0], [1, -1]])
    rope = gnomon.Rotary(rotary_dim=8, pairing="halves", base=10000.0)
    x = np.ones((1, 4, 2, 8), np.float32)
    wanted = x.copy()
    gnomon.rotate(x, gnomon.RotaryTable(rope, positions))
    gnomon.rotate(wanted, gnomon.RotaryTable(rope, [7, 8, 0, 0]))
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_starts": [0, 1]},
         r"\[attention\] the sequences of key_lengths must be 1, as those of query_starts, got 2"),
        ({"query_starts": [0, 2, 9]},
         r"query_starts\[2\] must be at most the rows of the tensor, 4, got 9"),
        ({"key_lengths": [30, 33]}, r"key_lengths\[1\] must be 0 to the rows of 2 blocks of 16"),
        ({"key_lengths": None}, "a block_table requires key_lengths, got none"),
        ({"key_lengths": [[30], [17]]}, r"key_lengths must be integers|must have 1 axis"),
        ({"block_table": np.array([[3, 1], [0, 7]], np.int32)},
         r"block_table\[1\]\[1\] must be a block of the cache, 0 to 4, got 7"),
        ({"block_table": np.array([[3, 1], [0, 4]])}, "block_table must have elements of i32"),
        ({"offsets": [-1, 0]}, r"offsets\[0\] must be 0 to 2\^62, got -1"),
        ({"offsets": ["a", 0]}, "offsets must be integers"),
    ],
)
def test_errors_name_the_rule_and_the_value(change: dict[str, Any], message: str) -> None:
    q, pages = np.ones((1, 4, 4, 16), np.float32), np.ones((5, 16, 2, 16), np.float32)
    rows = {"query_starts": [0, 1, 4], "key_lengths": [30, 17],
            "block_table": np.array([[3, 1], [0, 4]], np.int32)}
    plan = gnomon.lower(None, 30, visibility="causal")
    gnomon.attention(q, pages, pages, plan, **rows)
    with pytest.raises((ValueError, TypeError), match=message):
        gnomon.attention(q, pages, pages, plan, **(rows | change))


def test_plans_that_a_ragged_batch_does_not_have_are_refused() -> None:
    q = np.ones((1, 4, 4, 16), np.float32)
    rope = gnomon.Rotary(rotary_dim=16, pairing="halves", base=10000.0)
    for encoding, tokens, got in [(rope, (4,), "key_rotary"), (None, (4, 6), "an offset of the")]:
        plan = gnomon.lower(encoding, *tokens, visibility="causal")
        with pytest.raises(ValueError, match=got):
            gnomon.attention(q, q, q, plan, query_starts=[0, 4], key_starts=[0, 4])
