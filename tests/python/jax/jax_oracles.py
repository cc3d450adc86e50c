"""Dense formulas of the papers in float64, written with jax.numpy, so that JAX also differentiates
them. They share no code with the library."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def rotated(x, positions, base: float = 10000.0, pairing: str = "halves"):
    """x [B, T, H, D] with all of D rotated; positions [T] or [B, T]."""
    half = x.shape[-1] // 2
    frequencies = np.array([base ** (-2 * i / x.shape[-1]) for i in range(half)])
    angles = jnp.asarray(positions, jnp.float64)[..., None, None] * frequencies
    if pairing == "halves":
        a, b = x[..., :half], x[..., half:]
    else:
        a, b = x[..., 0::2], x[..., 1::2]
    one = a * jnp.cos(angles) - b * jnp.sin(angles)
    two = a * jnp.sin(angles) + b * jnp.cos(angles)
    if pairing == "halves":
        return jnp.concatenate([one, two], -1)
    return jnp.stack([one, two], -1).reshape(x.shape)


def distances(queries: int, keys: int) -> np.ndarray:
    """position(key) - position(query); the queries are the last keys. [T, S]."""
    return np.arange(keys)[None] - (np.arange(queries) + max(keys - queries, 0))[:, None]


def visible(queries: int, keys: int, visibility: str, left=None, right=None) -> np.ndarray:
    d = distances(queries, keys)
    mask = d <= 0 if visibility == "causal" else np.ones_like(d, bool)
    if left is not None:
        mask &= d >= -left
    if right is not None:
        mask &= d <= right
    return mask


def attention(
    q, k, v, *, mask, bias=None, scale=None, cap=None, sinks=None, relative_k=None, relative_v=None
):
    """q [B, T, Hq, D], k, v [B, S, Hk, .]; mask [T, S] or [B, T, S]; bias [Hq, T, S];
    relative_k, relative_v [T, S, D]."""
    group = q.shape[2] // k.shape[2]
    k, v = jnp.repeat(k, group, axis=2), jnp.repeat(v, group, axis=2)
    scores = jnp.einsum("bthd,bshd->bhts", q, k)
    if relative_k is not None:
        scores = scores + jnp.einsum("bthd,tsd->bhts", q, relative_k)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if cap is not None:
        scores = cap * jnp.tanh(scores / cap)
    if bias is not None:
        scores = scores + bias[None]
    mask = np.broadcast_to(
        mask if mask.ndim == 3 else mask[None], scores.shape[:1] + mask.shape[-2:]
    )
    scores = jnp.where(mask[:, None], scores, -1e300)
    if sinks is not None:
        sink = jnp.broadcast_to(sinks[None, :, None, None], (*scores.shape[:3], 1))
        scores = jnp.concatenate([scores, sink], -1)
    weights = jnp.exp(scores - jnp.max(scores, -1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    if sinks is not None:
        weights = weights[..., :-1]
    out = jnp.einsum("bhts,bshd->bthd", weights, v)
    if relative_v is not None:
        out = out + jnp.einsum("bhts,tsd->bthd", weights, relative_v)
    return out * mask.any(-1)[:, :, None, None]


def alibi_bias(heads: int, queries: int, keys: int):
    """heads: a power of two."""
    slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    return -slopes[:, None, None] * abs(distances(queries, keys))


def t5_buckets(
    d: np.ndarray, bidirectional: bool, buckets: int = 32, most: int = 128
) -> np.ndarray:
    """Raffel et al. 2019, as in the released code."""
    start = np.zeros_like(d)
    if bidirectional:
        buckets //= 2
        start, n = np.where(d > 0, buckets, 0), abs(d)
    else:
        n = np.maximum(-d, 0)
    exact = buckets // 2
    log = exact + (np.log(np.maximum(n, 1) / exact) / math.log(most / exact) * (buckets - exact))
    return start + np.where(n < exact, n, np.minimum(log.astype(int), buckets - 1))


def t5_bias(table, queries: int, keys: int, bidirectional: bool):
    """table [buckets, H]."""
    return table[t5_buckets(distances(queries, keys), bidirectional)].transpose(2, 0, 1)


def kerple_bias(r1, r2, queries: int, keys: int):
    """The logarithmic kernel: -r1 log(1 + r2 |d|); r1, r2 [H, 1]."""
    return -r1[:, :, None] * jnp.log1p(r2[:, :, None] * abs(distances(queries, keys)))


def clipped_vectors(table, queries: int, keys: int, limit: int):
    """Shaw et al. 2018: the vector of the clipped distance, [T, S, D]; table [2 limit + 1, D]."""
    return table[np.clip(distances(queries, keys), -limit, limit) + limit]


def sinusoid(positions, width: int):
    """Vaswani et al. 2017: sine in even, cosine in odd columns."""
    angles = np.asarray(positions, float)[..., None] * 10000.0 ** (
        -2 * np.arange(width // 2) / width
    )
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(*angles.shape[:-1], width)
