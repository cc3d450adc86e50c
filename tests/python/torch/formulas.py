"""Formulas in float64 in plain PyTorch, and inputs."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import scaled_dot_product_attention


def rotation(x, positions, pairing="halves", rotary_dim=8, head_offset=0, sign=1):
    """The rotation of x [B, T, H, D] in float64; positions [T] or [B, T]."""
    half = rotary_dim // 2
    inv_freq = 10000.0 ** (-2 * torch.arange(half, dtype=torch.float64) / rotary_dim)
    angle = sign * positions.double()[..., None] * inv_freq
    cos, sin = angle.cos().unsqueeze(-2), angle.sin().unsqueeze(-2)
    first = torch.arange(half) if pairing == "halves" else 2 * torch.arange(half)
    first = first + head_offset
    second = first + (half if pairing == "halves" else 1)
    out = x.double().clone()
    a, b = x.double()[..., first], x.double()[..., second]
    out[..., first], out[..., second] = a * cos - b * sin, a * sin + b * cos
    return out


def tolerance(dtype):
    return {torch.float64: 2e-7, torch.float32: 1e-6, torch.float16: 2e-3,
            torch.bfloat16: 2e-2}[dtype]


def buckets(distance):
    """T5's buckets of a causal bias with 8 buckets and max_distance 16, from Raffel et al."""
    n = (-distance).clamp(min=0).double()
    far = 4 + torch.floor(torch.log(n.clamp(min=1) / 4) / math.log(16 / 4) * 4)
    return torch.where(n < 4, n, far.clamp(max=7)).long()


def dense(queries, keys, left=None, visible=None):
    """A causal mask as a bias of 0 and -inf, [T, S], with a window."""
    row = torch.arange(queries)[:, None] + keys - queries
    column = torch.arange(keys)
    sees = column <= row
    if left is not None:
        sees &= column >= row - left
    return torch.zeros(queries, keys, dtype=torch.float64).masked_fill(~sees, -math.inf)


def expected(q, k, v, bias):
    """Attention in float64; q, k, v [B, H, T, D]."""
    group = q.shape[1] // k.shape[1]
    k, v = (one.repeat_interleave(group, 1).double() for one in (k, v))
    return scaled_dot_product_attention(q.double(), k, v, attn_mask=bias.expand(
        q.shape[0], q.shape[1], -1, -1))


def tokens_first(x, at, **options):
    """The rotation of x [B, H, T, D]."""
    return rotation(x.transpose(1, 2), at, **options).transpose(1, 2)


def inputs(queries=7, keys=7, key_heads=2, dtype=torch.float32, value_dim=8):
    return (torch.randn(2, 4, queries, 8).to(dtype), torch.randn(2, key_heads, keys, 8).to(dtype),
            torch.randn(2, key_heads, keys, value_dim).to(dtype))
