"""Rotation and attention in float64, from the papers."""

from __future__ import annotations

import math

import numpy as np


def frequencies(dim: int, base: float) -> np.ndarray:
    return base ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)


def yarn(dim: int, base: float, factor: float, length: int, fast: float = 32,
         slow: float = 1) -> tuple[np.ndarray, float]:
    """YaRN (Peng et al. 2023): frequencies, and the factor on cos and sin."""
    def dimension(rotations: float) -> float:
        return dim * math.log(length / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = math.floor(dimension(fast)), math.ceil(dimension(slow))
    low, high = max(low, 0), min(high, dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
    plain = frequencies(dim, base)
    return plain / factor * ramp + plain * (1 - ramp), 0.1 * math.log(factor) + 1


def rotate(x: np.ndarray, positions: np.ndarray, inv_freq: np.ndarray, halves: bool,
           scale: float = 1.0) -> np.ndarray:
    """x: [T, H, D]; positions: [T], or [T, R/2] for each pair."""
    x = x.astype(np.float64)
    places = positions.astype(np.float64)
    angles = (places if places.ndim == 2 else places[:, None]) * inv_freq
    cos, sin = (scale * f(angles)[:, None, :] for f in (np.cos, np.sin))
    dim = 2 * inv_freq.size
    first = slice(0, dim // 2) if halves else slice(0, dim, 2)
    second = slice(dim // 2, dim) if halves else slice(1, dim, 2)
    a, b = x[..., first], x[..., second]
    out = x.copy()
    out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
    return out


def slopes(heads: int, max_bias: float = 8.0) -> np.ndarray:
    """ALiBi (Press et al. 2022), for any number of heads."""
    power = 2 ** math.floor(math.log2(heads))
    first = 2.0 ** (-max_bias / power * np.arange(1, power + 1))
    rest = 2.0 ** (-max_bias / 2 / power * np.arange(1, 2 * (heads - power), 2))
    return np.concatenate([first, rest])


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, cached: int, *, causal: bool = True,
           left: int | None = None, scale: float | None = None, cap: float = 0.0,
           sinks: np.ndarray | None = None, bias_slopes: np.ndarray | None = None) -> np.ndarray:
    """q: [T, H, D]; k, v: [cached + T, Hk, D]. Returns [T, H, D]."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    score = np.einsum("thd,shd->hts", q, k) * (scale or 1 / math.sqrt(q.shape[2]))
    if cap:
        score = cap * np.tanh(score / cap)
    distance = np.arange(k.shape[0]) - (np.arange(q.shape[0]) + cached)[:, None]
    if bias_slopes is not None:
        score -= bias_slopes[:, None, None] * np.abs(distance)
    hidden = np.zeros(distance.shape, bool)
    if causal:
        hidden |= distance > 0
    if left is not None:
        hidden |= distance < -left
    score[:, hidden] = -np.inf
    top = score.max(-1, keepdims=True)
    if sinks is not None:
        top = np.maximum(top, sinks[:, None, None])
    weight = np.exp(score - top)
    total = weight.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks[:, None, None] - top)
    return np.einsum("hts,shd->thd", weight / total, v)
