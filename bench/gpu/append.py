"""Rotation into a paged cache: prefill of one sequence, and decoding of a batch."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from cases import BLOCK, HEAD_DIM, KEY_HEADS, QUERY_HEADS, Case
from contender import (OURS, PEER, Contender, Work, copy_roof, empty_kernel, numbers, some_rows,
                       stream_of)
from rotate import cos_sin, exact
from rotate_peers import rotate_half
from torch import Tensor

CONTEXT = 1024  # tokens of each sequence of a decoding batch
SCALES = 0.01, 0.01  # of keys and values in E4M3


@dataclass(frozen=True)
class Places:
    """The place of each new token: its position, its sequence and its block."""

    at: Tensor  # int64 [T], the position, and the index in the sequence
    table: Tensor  # int32 [N, M]
    slots: Tensor  # int64 [T]
    blocks: int


def places(case: Case, device: torch.device) -> Places:
    generator = torch.Generator().manual_seed(0)
    sequences = 1 if case.work == "prefill" else case.tokens
    length = case.tokens if case.work == "prefill" else CONTEXT
    per_sequence = -(-length // BLOCK)
    blocks = sequences * per_sequence
    table = torch.randperm(blocks, generator=generator).view(sequences, per_sequence)
    if case.work == "prefill":
        at, of = torch.arange(length), torch.zeros(length, dtype=torch.int64)
    else:
        at, of = torch.randint(CONTEXT, (sequences,), generator=generator), torch.arange(sequences)
    slots = table[of, at // BLOCK] * BLOCK + at % BLOCK
    return Places(at.to(device), table.int().to(device), slots.to(device), blocks)


def caches(case: Case, where: Places) -> list[Tensor]:
    """Keys and values [P, S, Hk, D]."""
    kind = torch.float8_e4m3fn if case.dtype == "f8" else torch.bfloat16
    shape = 2, where.blocks, BLOCK, KEY_HEADS, HEAD_DIM
    return list(torch.zeros(shape, dtype=torch.uint8 if case.dtype == "f8" else kind,
                            device=where.at.device).view(kind))


def written(cache: Tensor, where: Places, scale: float | None) -> Tensor:
    """The entries of the tokens, [T, Hk, D]."""
    entries = cache.view(torch.uint8).flatten(0, 1)[where.slots].view(cache.dtype)
    return entries.float() * scale if scale else entries


def as_stored(x: Tensor, scale: float | None) -> Tensor:
    if not scale:
        return x
    return (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)


def work_of(case: Case, module: Any, device: torch.device) -> Work:
    where, narrow, count = places(case, device), case.dtype == "f8", case.tokens
    scales = SCALES if narrow else (None, None)
    arrays = [numbers(count, heads, HEAD_DIM, dtype=torch.bfloat16, device=device, seed=seed)
              for seed, heads in enumerate((QUERY_HEADS, KEY_HEADS, KEY_HEADS))]
    q, k, v = arrays
    cos, sin = cos_sin(int(where.at.max()) + 1, HEAD_DIM, device)
    rows = some_rows(count, device)
    of = where.at[rows]
    wanted = [exact(x[rows], cos[of], sin[of], case.pairing, 0) for x in (q, k)]
    stored = 1 if narrow else 2
    moved = count * HEAD_DIM * (4 * QUERY_HEADS + 2 * KEY_HEADS * (2 + stored))
    work = Work(arrays, moved, wanted=[*wanted, v[rows].double()], rows=[rows] * 3)
    work.contenders.append(ours(case, module, where, cos.float(), sin.float()))
    work.contenders.append(copy_roof(moved, device))
    if case.graph:
        work.contenders.append(empty_kernel(device))
    work.try_add("PyTorch (transformers)", lambda: eager(case, where, cos, sin, scales))
    work.try_add("vLLM", lambda: vllm(case, where, cos, sin))
    if not narrow:
        work.try_add("FlashInfer", lambda: flashinfer(case, where, cos, sin))
    return work


def ours(case: Case, module: Any, where: Places, cos: Tensor, sin: Tensor) -> Contender:
    keys, values = caches(case, where)
    narrow, prefill = case.dtype == "f8", case.work == "prefill"
    raw = [one.view(torch.uint8) if narrow else one for one in (keys, values)]
    factors = [torch.tensor([scale], device=where.at.device) if narrow else None
               for scale in SCALES]
    at = where.at[None] if prefill else where.at

    def arrange(*arrays: Tensor) -> Sequence[Tensor]:
        return [x[None] for x in arrays] if prefill else arrays

    def call(q: Tensor, k: Tensor, v: Tensor) -> None:
        module.rotate_append(q, k, v, cos, sin, at, case.pairing, 0, *raw, None, where.table,
                             at, None, *factors, stream_of(q))

    def results(_: Any, q: Tensor, *__: Tensor) -> list[Tensor]:
        kept = [written(cache, where, scale if narrow else None)
                for cache, scale in zip((keys, values), SCALES)]
        return [q[0] if prefill else q, *kept]

    return Contender("Gnomon", OURS, call, arrange, results)


def eager(case: Case, where: Places, cos: Tensor, sin: Tensor,
          scales: Sequence[float | None]) -> Contender:
    keys, values = caches(case, where)
    c, s = (torch.cat((one, one), dim=-1)[where.at, None].to(torch.bfloat16)
            for one in (cos, sin))
    block, entry = where.slots // BLOCK, where.slots % BLOCK

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rotated = k * c + rotate_half(k) * s
        for cache, x, scale in zip((keys, values), (rotated, v), scales):
            new = as_stored(x, scale)
            (cache.view(torch.uint8) if scale else cache)[block, entry] = (
                new.view(torch.uint8) if scale else new)
        return q * c + rotate_half(q) * s

    def results(q: Tensor, *_: Tensor) -> list[Tensor]:
        return [q, *(written(cache, where, scale)
                     for cache, scale in zip((keys, values), scales))]

    return Contender("PyTorch (transformers)", PEER, call, results=results,
                     note="writes a new q; cos and sin in the type of q")


def vllm(case: Case, where: Places, cos: Tensor, sin: Tensor) -> Contender:
    module = importlib.import_module("vllm._custom_ops")
    importlib.import_module("vllm._C")
    keys, values = caches(case, where)
    narrow = case.dtype == "f8"
    raw = [one.view(torch.uint8) if narrow else one for one in (keys, values)]
    factors = [torch.tensor(scale if narrow else 1.0, device=where.at.device)
               for scale in SCALES]
    rows = torch.cat((cos, sin), dim=-1).to(torch.bfloat16)

    def call(q: Tensor, k: Tensor, v: Tensor) -> None:
        module.rotary_embedding(where.at, q.flatten(1), k.flatten(1), HEAD_DIM, rows, True)
        module.reshape_and_cache_flash(k, v, *raw, where.slots, "fp8" if narrow else "auto",
                                       *factors)

    def results(_: Any, q: Tensor, *__: Tensor) -> list[Tensor]:
        return [q, *(written(cache, where, scale if narrow else None)
                     for cache, scale in zip((keys, values), SCALES))]

    return Contender("vLLM", PEER, call, results=results,
                     note="two launches; cos and sin in the type of q")


def flashinfer(case: Case, where: Places, cos: Tensor, sin: Tensor) -> Contender:
    module = importlib.import_module("flashinfer")
    keys, values = caches(case, where)
    device = where.at.device
    rows = torch.cat((cos, sin), dim=-1).float()
    sequences, blocks = where.table.shape
    of = torch.zeros_like(where.at) if case.work == "prefill" else torch.arange(
        sequences, device=device)
    starts = torch.arange(sequences + 1, dtype=torch.int32, device=device) * blocks
    last = torch.full((sequences,), BLOCK, dtype=torch.int32, device=device)
    indices, at = where.table.flatten(), where.at.int()

    def call(q: Tensor, k: Tensor, v: Tensor) -> None:
        module.apply_rope_with_cos_sin_cache_inplace(where.at, q.flatten(1), k.flatten(1),
                                                     HEAD_DIM, rows, True)
        module.append_paged_kv_cache(k, v, of.int(), at, (keys, values), indices, starts, last)

    def results(_: Any, q: Tensor, *__: Tensor) -> list[Tensor]:
        return [q, written(keys, where, None), written(values, where, None)]

    return Contender("FlashInfer", PEER, call, results=results, note="two launches")
