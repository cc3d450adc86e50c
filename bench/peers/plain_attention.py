"""The arrays of attention without a bias, and its oracle in double.

Letters: B batch, T tokens, Q queries, H and G query and key heads, D head dimension, P blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import aligned
from cases import Case

Floats = NDArray[np.float32]
QUERY_LIMIT = 8.0  # so that the weights of a row differ by powers of e, as in trained models


def stored_as(case: Case) -> str:
    """The type of the keys and values that contenders receive. Each makes int8 from them in its
    own format."""
    return "e4m3" if case.cache == "e4m3" else case.dtype


def make(case: Case, uniform: Callable[..., NDArray]) -> list[NDArray]:
    """q [B, Q, H, D], k and v [B, T, G, D]."""
    heads, key_heads = case.heads
    q = uniform(case.batch, case.queries or case.tokens, heads, case.size, limit=QUERY_LIMIT)
    shape = (case.batch, case.tokens, key_heads, case.size)
    return [q, *(uniform(*shape, dtype=stored_as(case)) for _ in "kv")]


def picked(array: Any, rows: list[int]) -> Any:
    """The rows [rows, H, D] of [B, Q, H, D], counted through the batch."""
    return array.reshape(-1, *array.shape[2:])[rows]


def picked_heads_first(array: Any, rows: list[int]) -> Any:
    """The same rows of [B, H, Q, D]."""
    batches, ids = zip(*(divmod(row, array.shape[2]) for row in rows), strict=True)
    return array[list(batches), :, list(ids)]


def expected(
    case: Case,
    stored: list[NDArray],
    rows: list[int],
    from_storage: Callable[[NDArray, str], Floats],
) -> NDArray[np.float64]:
    """The results of these rows, [rows, H, D]."""
    q, k, v = stored
    heads, key_heads = case.heads
    out = np.empty((len(rows), heads, case.size))
    for batch in sorted({row // q.shape[1] for row in rows}):
        for key_head in range(key_heads):
            keys, values = (
                from_storage(x[batch, :, key_head], stored_as(case)).astype(np.float64)
                for x in (k, v)
            )
            of_keys = range(key_head * heads // key_heads, (key_head + 1) * heads // key_heads)
            for index, row in enumerate(rows):
                if row // q.shape[1] != batch:
                    continue
                visible = row % q.shape[1] + 1 + case.tokens - q.shape[1]
                queries = from_storage(q[batch, row % q.shape[1], list(of_keys)], case.dtype)
                scores = queries.astype(np.float64) @ keys[:visible].T / math.sqrt(case.size)
                weights = np.exp(scores - scores.max(axis=1, keepdims=True))
                weights /= weights.sum(axis=1, keepdims=True)
                out[index, list(of_keys)] = weights @ values[:visible]
    return out


def tolerance(case: Case) -> float:
    """The allowed error, as a share of the greatest result. A product of q and an int8 or 16-bit
    key is rounded by some contenders."""
    if case.cache:
        return 0.1
    return 1e-3 if case.dtype == "f32" else 0.05


def pages(array: NDArray, page: int) -> tuple[NDArray, NDArray[np.int32]]:
    """The blocks [P, page, G, D] of k or v [1, T, G, D] in random order, and the table [1, P] of
    the blocks of the sequence."""
    blocks = array[0].reshape(-1, page, *array.shape[2:])
    table = np.random.default_rng(7).permutation(len(blocks)).astype(np.int32)
    shuffled = aligned.zeros_like(blocks)
    shuffled[table] = blocks
    return shuffled, table[None]


def int8_rows(array: Floats) -> tuple[NDArray[np.int8], Floats]:
    """k or v as int8 with a scale for each row of a head, [1, T, G]."""
    scales = np.abs(array).max(axis=-1) / np.float32(127)
    return aligned.copied(np.rint(array / scales[..., None]).astype(np.int8)), scales


def hidden(case: Case) -> NDArray[np.bool_]:
    """[Q, T]: the keys after each query."""
    count = case.queries or case.tokens
    last = np.arange(case.tokens - count, case.tokens)
    return np.arange(case.tokens)[None, :] > last[:, None]
