"""Rotation of q and k: Gnomon, the roof, and the oracle in float64."""

from __future__ import annotations

from typing import Any

import rotate_peers
import torch
from cases import BASE, HEAD_DIM, KEY_HEADS, QUERY_HEADS, Case
from contender import (DTYPES, OURS, Contender, Work, copy_roof, empty_kernel, numbers,
                       some_rows, stream_of)
from torch import Tensor

SLICE = 64, 192, 128  # R, D and head_offset of DeepSeek's queries


def inv_freq(rotary_dim: int) -> Tensor:
    return BASE ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim)


def cos_sin(tokens: int, rotary_dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """float64 [T, R/2], computed on the host."""
    angle = torch.arange(tokens, dtype=torch.float64)[:, None] * inv_freq(rotary_dim)
    return angle.cos().to(device), angle.sin().to(device)


def exact(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, head_offset: int) -> Tensor:
    """The rotation of x [T, H, D] in float64."""
    out = x.double().clone()
    size = 2 * cos.shape[-1]
    part = out[..., head_offset:head_offset + size]
    a, b = ((part[..., 0::2], part[..., 1::2]) if pairing == "adjacent"
            else (part[..., :size // 2], part[..., size // 2:]))
    c, s = cos[:, None], sin[:, None]
    first, second = a * c - b * s, a * s + b * c
    a.copy_(first)
    b.copy_(second)
    return out


def frequencies(module: Any, pairing: str, rotary_dim: int, head_offset: int,
                device: torch.device) -> Any:
    return module.Frequencies(pairing, head_offset, inv_freq(rotary_dim).tolist(), [], 1.0,
                              device.index or 0)


def in_place(_: Any, *arrays: Tensor) -> tuple[Tensor, ...]:
    return arrays


def work_of(case: Case, module: Any, device: torch.device) -> Work:
    dtype, sliced = DTYPES[case.dtype], case.work == "slice"
    rotary_dim, head_dim, head_offset = SLICE if sliced else (HEAD_DIM, HEAD_DIM, 0)
    heads = (QUERY_HEADS,) if sliced else (QUERY_HEADS, KEY_HEADS)
    arrays = [numbers(case.tokens, count, head_dim, dtype=dtype, device=device, seed=count)
              for count in heads]
    cos, sin = cos_sin(case.tokens, rotary_dim, device)
    rows = some_rows(case.tokens, device)
    moved = 2 * case.tokens * sum(heads) * rotary_dim * dtype.itemsize
    wanted = [exact(x[rows], cos[rows], sin[rows], case.pairing, head_offset) for x in arrays]
    work = Work(arrays, moved, wanted=wanted, rows=[rows] * len(arrays))
    c, s = cos.float(), sin.float()
    at = torch.arange(case.tokens, device=device)

    def by_tables(q: Tensor, k: Tensor | None = None) -> None:
        module.rotate(q, None, k, c, s, None, case.pairing, head_offset, False, False,
                      stream_of(q))

    if case.work == "positions":
        there = frequencies(module, case.pairing, rotary_dim, head_offset, device)

        def by_positions(q: Tensor, k: Tensor) -> None:
            module.rotate_at(q, None, k, at, there, False, False, stream_of(q))

        work.contenders.append(Contender("Gnomon", OURS, by_positions, results=in_place))
    else:
        work.contenders.append(Contender("Gnomon", OURS, by_tables, results=in_place))
    work.contenders.append(copy_roof(moved, device))
    if case.graph:
        work.contenders.append(empty_kernel(device))
    if not sliced:
        rotate_peers.add(work, case, c, s, at)
    return work
