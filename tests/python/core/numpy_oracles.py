"""Float64 oracles, written from the formulas of the C++ headers and papers with plain NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]


# --- Rotary: include/gnomon/rotary/rotary.h -------------------------------------------------------


def inverse_frequencies(rotary_dim: int, base: float) -> Float:
    return np.array([base ** (-2.0 * i / rotary_dim) for i in range(rotary_dim // 2)])


def rotate(
    x: ArrayLike,
    angles: Float,
    pairing: str,
    *,
    head_offset: int = 0,
    scale: ArrayLike = 1.0,
    sign: int = 1,
) -> Float:
    """Rotates x [B, T, H, D] by angles [B or 1, T, R/2]; scale: a factor on cos and sin."""
    out = np.array(x, np.float64)
    pairs = angles.shape[-1]
    first = head_offset + np.arange(pairs) * (2 if pairing == "adjacent" else 1)
    second = first + (1 if pairing == "adjacent" else pairs)
    cos = (np.cos(angles) * scale)[:, :, None, :]
    sin = sign * (np.sin(angles) * scale)[:, :, None, :]
    a, b = out[..., first].copy(), out[..., second].copy()
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


# --- Attention: include/gnomon/attention/attention.h ----------------------------------------------


def visible(
    queries: int,
    keys: int,
    *,
    visibility: str,
    offset: int = 0,
    left: int | None = None,
    right: int | None = None,
    query_sequences: NDArray[np.int32] | None = None,
    key_sequences: NDArray[np.int32] | None = None,
) -> NDArray[np.bool_]:
    """Whether each query row sees each key row, [B or 1, T, S]."""
    row = np.arange(queries)[:, None] + offset
    key = np.arange(keys)[None, :]
    sees = np.ones((queries, keys), bool)
    if visibility == "causal":
        sees &= key <= row
    if left is not None:
        sees &= row - key <= left
    if right is not None:
        sees &= key - row <= right
    sees = sees[None]
    if query_sequences is not None:
        q, k = query_sequences[:, :, None], key_sequences[:, None, :]
        sees = sees & (q == k) & (q >= 0)
    return sees


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    sees: NDArray[np.bool_],
    scale: float | None = None,
    bias: Float | None = None,
    gates: Float | None = None,
    cap: float | None = None,
    sinks: Sequence[float] = (),
    key_vectors: Float | None = None,
    query_vectors: Float | None = None,
    value_vectors: Float | None = None,
) -> tuple[Float, Float]:
    """Softmax attention. q [B, T, Hq, D], k [B, S, Hk, D], v [B, S, Hk, Dv].

    bias [H or 1, T, S]; gates [B or 1, H, T]; key_vectors and query_vectors [H or 1, T, S, D]
    meet q and k; value_vectors [H or 1, T, S, Dv] are added to v. Returns out and lse [B, Hq, T].
    """
    q, k, v = (np.asarray(one, np.float64) for one in (q, k, v))
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, 2), np.repeat(v, group, 2)
    scores = np.einsum("bthd,bshd->bhts", q, k)
    if key_vectors is not None:
        scores = scores + np.einsum("bthd,htsd->bhts", q, _heads(key_vectors, q.shape[2]))
    if query_vectors is not None:
        scores = scores + np.einsum("bshd,htsd->bhts", k, _heads(query_vectors, q.shape[2]))
    scores = scores * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    if cap is not None:
        scores = cap * np.tanh(scores / cap)
    if bias is not None:
        scores = scores + bias * (1.0 if gates is None else np.asarray(gates)[..., None])
    scores = np.where(sees[:, None], scores, -np.inf)
    if len(sinks):
        sink = np.broadcast_to(np.asarray(sinks)[None, :, None, None], (*scores.shape[:3], 1))
        scores = np.concatenate([scores, sink], -1)
    largest = scores.max(-1, keepdims=True, initial=-np.inf)
    largest = np.where(np.isfinite(largest), largest, 0)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + largest)[..., 0]
    weights = (weights / np.where(total == 0, 1, total))[..., : k.shape[1]]
    out = np.einsum("bhts,bshd->bthd", weights, v)
    if value_vectors is not None:
        out = out + np.einsum("bhts,htsd->bthd", weights, _heads(value_vectors, q.shape[2]))
    return out, lse


def _heads(vectors: Float, heads: int) -> Float:
    return np.broadcast_to(vectors, (heads, *vectors.shape[1:]))


def distances(query_positions: ArrayLike, key_positions: ArrayLike) -> NDArray[np.int64]:
    """Position of the key - position of the query, [T, S]."""
    return np.asarray(key_positions)[None, :] - np.asarray(query_positions)[:, None]


# --- Biases: include/gnomon/bias/*.h --------------------------------------------------------------


def alibi_slopes(heads: int) -> Float:
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8.0 * (h + 1) / power) for h in range(power)]
    slopes += [2 ** (-4.0 * (h + 1) / power) for h in range(0, 2 * (heads - power), 2)]
    return np.array(slopes)


def alibi(heads: int, d: NDArray[np.int64]) -> Float:
    return -alibi_slopes(heads)[:, None, None] * np.abs(d)


def t5_bucket(d: int, buckets: int, max_distance: int, bidirectional: bool) -> int:
    first = 0
    past = -d
    if bidirectional:
        buckets //= 2
        first = buckets if d > 0 else 0
        past = abs(d)
    past = max(past, 0)
    exact = buckets // 2
    if past < exact:
        return first + past
    ratio = np.float32(past) / np.float32(exact)
    log = np.log(ratio, dtype=np.float32) / np.float32(math.log(max_distance / exact))
    return first + min(exact + int(log * np.float32(buckets - exact)), buckets - 1)


def t5(table: Float, d: NDArray[np.int64], max_distance: int, bidirectional: bool) -> Float:
    rows = np.vectorize(lambda one: t5_bucket(one, len(table), max_distance, bidirectional))(d)
    return np.moveaxis(table[rows], -1, 0)


def clipped(table: Float, d: NDArray[np.int64], left: int, right: int) -> Float:
    return table[:, np.clip(-d, -right, left) + right]


def kerple(r1: Float, r2: Float, d: NDArray[np.int64], kernel: str) -> Float:
    r1, r2 = np.maximum(r1, 0.01)[:, :, None], np.maximum(r2, 0.01)[:, :, None]
    if kernel == "power":
        return -r1 * np.abs(d) ** np.minimum(r2, 2.0)
    return -r1 * np.log(1 + r2 * np.abs(d))


def sandwich(heads: int, width: int, base: float, d: NDArray[np.int64]) -> Float:
    rates = base ** (-2.0 * np.arange(1, width // 2 + 1) / width)
    sums = np.cos(d[..., None] * rates).sum(-1) - width / 2
    return sums / (8.0 * np.arange(1, heads + 1) / heads)[:, None, None]


def dynamic(layers: Sequence[Float], d: NDArray[np.int64], logarithmic: bool) -> Float:
    """layers: w1, b1, w2, b2, ..., weights [out, in], biases [out, 1]."""
    past = -d.astype(np.float64)
    x = (np.sign(past) * np.log1p(np.abs(past)) if logarithmic else past)[..., None]
    for at in range(0, len(layers), 2):
        x = x @ layers[at].T + layers[at + 1][:, 0]
        if at + 2 < len(layers):
            x = x / (1 + np.exp(-x))
    return np.moveaxis(x, -1, 0)


def fire(
    w1: Float,
    b1: Float,
    w2: Float,
    b2: Float,
    c: Float,
    multiplier: Float,
    *,
    threshold: float,
    epsilon: float,
    query_positions: ArrayLike,
    key_positions: ArrayLike,
) -> Float:
    rate = abs(float(c[0, 0]))
    limit = abs(float(multiplier[0, 0])) * threshold
    i = np.asarray(query_positions, np.float64)[:, None]
    past = np.abs(i - np.asarray(key_positions, np.float64)[None])
    x = np.log1p(rate * past) / (np.log1p(rate * np.maximum(limit, i)) + epsilon)
    hidden = np.maximum(0, x[..., None] * w1[:, 0] + b1[:, 0])
    return np.moveaxis(hidden @ w2.T + b2[:, 0], -1, 0)


def grid_offsets(height: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(dy, dx) = cell of the query - cell of the key, each [T, T]."""
    y, x = np.divmod(np.arange(height * width), width)
    return y[:, None] - y[None], x[:, None] - x[None]


def swin(table: Float, height: int, width: int, class_tokens: int) -> Float:
    dy, dx = grid_offsets(height, width)
    index = (dy + height - 1) * (2 * width - 1) + dx + width - 1
    if class_tokens:
        last = len(table) - 1
        index = np.pad(index, ((1, 0), (1, 0)), constant_values=last)
        index[0, 1:], index[1:, 0] = last - 2, last - 1
    return np.moveaxis(table[index], -1, 0)


def swin_v2(w1: Float, b1: Float, w2: Float, height: int, width: int) -> Float:
    dy, dx = grid_offsets(height, width)

    def log_spaced(offset: NDArray[np.int64], n: int) -> Float:
        x = 8.0 * offset / (n - 1) if n > 1 else 0.0 * offset
        return np.sign(x) * np.log2(1 + np.abs(x)) / 3

    t = np.stack([log_spaced(dy, height), log_spaced(dx, width)], -1)
    hidden = np.maximum(0, t @ w1.T + b1[:, 0])
    return np.moveaxis(16 / (1 + np.exp(-hidden @ w2.T)), -1, 0)


def layout(text: Float, x: Float, y: Float, tokens: int, spec: object) -> Float:
    at = np.arange(tokens)
    column, line = at % spec.columns, at // spec.columns
    page = [
        t5(table, distances(places, places), spec.page_distance, True)
        for table, places in ((x, column), (y, line))
    ]
    return spec.scale * (t5(text, distances(at, at), spec.text_distance, True) + sum(page))
