"""The arrays of attention, and its oracle in double.

Letters: T tokens, H heads, D head dimension, N buckets.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cases import ATTENTION_HEADS as HEADS
from cases import Case

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
BUCKETS, MAX_DISTANCE = 32, 128  # of T5, causal
CHECKED_HEADS = [0, HEADS - 1]  # of the gradient of the table, which sums over all pairs


def slopes() -> Doubles:
    """The slopes of ALiBi, for a number of heads that is a power of two."""
    return 2.0 ** (-8.0 * np.arange(1, HEADS + 1) / HEADS)


def buckets_of(distances: NDArray[np.int64]) -> NDArray[np.int64]:
    """T5's bucket of a key `distances` tokens before the query, computed in float32 as in T5."""
    exact = BUCKETS // 2
    far = np.maximum(distances, exact).astype(np.float32) / np.float32(exact)
    steps = np.log(far) / np.float32(math.log(MAX_DISTANCE / exact)) * np.float32(exact)
    large = np.minimum(exact + steps.astype(np.int64), BUCKETS - 1)
    return np.where(distances < exact, distances, large)


def make(case: Case, uniform: Callable[..., NDArray]) -> tuple[list[NDArray], Floats | None]:
    """q, k, v [1, T, H, D], in training also the gradient of the result; and T5's table."""
    count = 4 if case.trains else 3
    arrays = [uniform(1, case.tokens, HEADS, case.size) for _ in range(count)]
    return arrays, uniform(BUCKETS, HEADS) if case.trains else None


def bias(case: Case, table: Floats | None, head: int, rows: NDArray[np.int64]) -> Doubles:
    """[rows, T], with minus infinity for keys after the query."""
    back = rows[:, None] - np.arange(case.tokens)[None, :]
    if table is None:
        values = -slopes()[head] * back
    else:
        values = table[buckets_of(np.maximum(back, 0)), head].astype(np.float64)
    return np.where(back < 0, -np.inf, values)


def weights(
    case: Case, stored: list[NDArray], table: Floats | None, head: int, rows: NDArray[np.int64]
) -> Doubles:
    q, k = (stored[i][0, :, head].astype(np.float64) for i in (0, 1))
    scores = q[rows] @ k.T / math.sqrt(case.size) + bias(case, table, head, rows)
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def expected(
    case: Case, stored: list[NDArray], table: Floats | None, rows: list[int]
) -> list[Doubles]:
    """The results of these rows [rows, H, D]. In training also the gradients of q and of the table,
    for two heads."""
    out, q_grads = (np.empty((len(rows), HEADS, case.size)) for _ in range(2))
    for head in range(HEADS):
        p = weights(case, stored, table, head, np.array(rows))
        v = stored[2][0, :, head].astype(np.float64)
        out[:, head] = p @ v
        if table is not None:
            k = stored[1][0, :, head].astype(np.float64)
            s = slopes_of_scores(stored, head, np.array(rows), p)
            q_grads[:, head] = s @ k / math.sqrt(case.size)
    if table is None:
        return [out]
    return [out, q_grads, table_gradient(case, stored, table)]


def slopes_of_scores(
    stored: list[NDArray], head: int, rows: NDArray[np.int64], p: Doubles
) -> Doubles:
    """The gradient of the scores."""
    v, out_grad = (stored[i][0, :, head].astype(np.float64) for i in (2, 3))
    of_p = out_grad[rows] @ v.T
    return p * (of_p - (p * of_p).sum(axis=1, keepdims=True))


def table_gradient(case: Case, stored: list[NDArray], table: Floats) -> Doubles:
    grad = np.zeros((BUCKETS, len(CHECKED_HEADS)))
    ids = buckets_of(np.arange(case.tokens))
    for first in range(0, case.tokens, 512):
        rows = np.arange(first, min(first + 512, case.tokens))
        of_pair = ids[np.maximum(rows[:, None] - np.arange(case.tokens)[None, :], 0)]
        for i, head in enumerate(CHECKED_HEADS):
            s = slopes_of_scores(stored, head, rows, weights(case, stored, table, head, rows))
            grad[:, i] += np.bincount(of_pair.ravel(), s.ravel(), BUCKETS)
    return grad


def gigabytes(case: Case, matrices: float) -> float:
    """Gigabytes of `matrices` matrices [H, T, T] in f32."""
    return matrices * HEADS * case.tokens**2 * 4e-9
