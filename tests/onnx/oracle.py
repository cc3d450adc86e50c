"""Layers in double by the formulas of the papers, for a few models. Shares no code with Gnomon."""

from __future__ import annotations

import numpy as np

# Model: heads, key heads, head dimension, rotated elements, adjacent pairs, base, slopes, window.
MODELS = {
    "llama-2-7b": (32, 32, 128, 128, False, 10000.0, False, None),
    "gpt-j-6b": (16, 16, 256, 64, True, 10000.0, False, None),
    "mistral-7b-v0.1": (32, 8, 128, 128, False, 10000.0, False, 4096),
    "bloom-560m": (16, 16, 64, 0, False, 0.0, True, None),
}


def rotated(x, positions, size, adjacent, base):
    """RoFormer, equation 34. x: [B, T, H, D]."""
    if size == 0:
        return x
    angles = positions[:, :, None] * base ** (-np.arange(0, size, 2) / size)  # [B, T, R/2]
    cos, sin = np.cos(angles)[:, :, None], np.sin(angles)[:, :, None]
    one, two = ((slice(0, size, 2), slice(1, size, 2)) if adjacent else
                (slice(0, size // 2), slice(size // 2, size)))
    y = x.copy()
    y[..., one] = x[..., one] * cos - x[..., two] * sin
    y[..., two] = x[..., one] * sin + x[..., two] * cos
    return y


def out_of(name, feeds):
    heads, key_heads, dim, size, adjacent, base, sloped, window = MODELS[name]
    q, k, v = (feeds[key].astype(np.float64).reshape(*feeds[key].shape[:2], -1, dim)
               for key in "qkv")
    positions = feeds["positions"].astype(np.float64)
    q, k = (rotated(x, positions, size, adjacent, base) for x in (q, k))
    k, v = (np.repeat(x, heads // key_heads, 2) for x in (k, v))
    scores = np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(dim)
    if sloped:  # Press et al. 2022: 2^(-8 (h + 1) / H) for H a power of two
        distance = np.abs(positions[:, None, :] - positions[:, :, None])
        slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
        scores -= slopes[:, None, None] * distance[:, None]
    row, key = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])
    scores = np.where((key > row) | (window is not None and key <= row - (window or 0)), -np.inf,
                      scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("bhts,bshd->bthd", weights, v).reshape(*q.shape[:2], -1)
