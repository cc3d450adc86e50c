"""rotate_append: new keys and values of a paged KV cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import RotaryFrequencies
from .._spec import Encoding
from . import _device, _kernels, _plans
from ._registry import Operator, register

_F8 = torch.float8_e4m3fn


def rotate_append(q: Tensor | None, k: Tensor, v: Tensor | None,
                  encoding: Encoding | RotaryFrequencies, positions: Tensor | Sequence[Tensor],
                  key_cache: Tensor, value_cache: Tensor | None = None, *,
                  slots: Tensor | None = None, block_table: Tensor | None = None,
                  entries: Tensor | None = None, sequences: Tensor | None = None,
                  key_scales: Tensor | None = None, value_scales: Tensor | None = None,
                  length: int = 0) -> None:
    """Rotates q in place, and writes rotated keys, and values, to a paged KV cache.

    q: [B, T, H, D] or [T, H, D], or None; k: [B, T, Hk, D]; v: [B, T, Hk, Dv], or None (MLA).
    positions: integers [T] or [B, T], or one such tensor for each axis (M-RoPE).
    key_cache, value_cache: [P, S, Hk, D] and [P, S, Hk, Dv]: P blocks of S entries; any strides,
        so [P, Hk, S, D] is given transposed. The type of k, or float8_e4m3fn or uint8 with scales.
    slots: int64 [T] or [B, T], block * S + entry of each token (vLLM); a negative slot is not
        written. Or instead:
    block_table: int32 [N, M], the blocks of N sequences; entries: int64 [T] or [B, T], the index
        of each token in its sequence; sequences: int32, the row of block_table of each token;
        default: the batch row, or the token for [T, H, D].
    key_scales, value_scales: float32 [1] or [Hk]; a stored element is x / scale, at most 448.

    On a CUDA device one kernel (without a wait, for CUDA graphs), on others operators of PyTorch.
    Not differentiable. Raises ValueError if shapes, types or devices do not fit.
    Source: Kwon et al. 2023, "PagedAttention", arXiv:2309.06180.
    """
    at = [positions] if isinstance(positions, Tensor) else list(positions)
    given = [one for one in (k, q, v, *at, key_cache, value_cache, slots, block_table, entries,
                             sequences, key_scales, value_scales) if one is not None]
    if torch.is_grad_enabled() and any(one.requires_grad for one in given):
        raise ValueError("[rotate_append] tensors must not require a gradient, since a cache has "
                         "none (torch.no_grad() permits them), got a tensor that does")
    if torch._C._are_functorch_transforms_active():
        raise ValueError("[rotate_append] the call must not be inside a transform of torch.func, "
                         "got one inside vmap, grad or jvp; call it for the whole batch")
    if any(one.device != k.device and (one.device.type != "cpu" or one.is_meta) for one in given):
        raise ValueError(f"[rotate_append] all tensors must be on the device of k, {k.device}, got "
                         f"{', '.join(sorted({str(one.device) for one in given}))}")
    torch.ops.gnomon.rotate_append_(q, k, v, at, _plans.text_of(encoding), length, key_cache,
                                    value_cache, slots, block_table, entries, sequences,
                                    key_scales, value_scales)


def _append(q: Tensor | None, k: Tensor, v: Tensor | None, positions: Sequence[Tensor],
            encoding: str, length: int, key_cache: Tensor, value_cache: Tensor | None,
            slots: Tensor | None, block_table: Tensor | None, entries: Tensor | None,
            sequences: Tensor | None, key_scales: Tensor | None,
            value_scales: Tensor | None) -> None:
    module = _device.kernels(k)
    if module is not None:
        at = _device.axes_of(positions, k)
        frequencies = _device.frequencies(module, encoding, length, k)
        if at is not None and frequencies is not None:
            def plain(one: Tensor | None) -> Tensor | None:  # uint8: for exporters without float8
                return one.view(torch.uint8) if one is not None and one.dtype == _F8 else one

            module.rotate_append_at(q, k, v, at, frequencies, plain(key_cache), plain(value_cache),
                                    slots, block_table, entries, sequences, key_scales,
                                    value_scales, _device.stream(k))
            return
    _by_operators(q, k, v, positions, encoding, length, key_cache, value_cache, slots,
                  block_table, entries, sequences, key_scales, value_scales)


def _by_operators(q: Tensor | None, k: Tensor, v: Tensor | None, positions: Sequence[Tensor],
                  encoding: str, length: int, key_cache: Tensor, value_cache: Tensor | None,
                  slots: Tensor | None, block_table: Tensor | None, entries: Tensor | None,
                  sequences: Tensor | None, key_scales: Tensor | None,
                  value_scales: Tensor | None) -> None:
    _check(k, v, key_cache, value_cache, slots, block_table, entries, key_scales, value_scales)
    flat = k.dim() == 3
    _kernels.check_positions("rotate_append", k[None] if flat else k, positions, False)
    table = _plans.rotary_at(encoding, length, positions)

    def batched(x: Tensor) -> Tensor:
        return x[None] if flat else x

    if q is not None:
        rows = batched(q)
        _kernels.rotate_into(rows, rows, table, 0, False, False)
    keys = _kernels.rotated_by(batched(k), table, 0, False, False)
    where = slots if slots is not None else _slots(
        block_table, entries, sequences, k, key_cache.shape[1])
    where = where.expand(keys.shape[:2]).reshape(-1)
    written = (where >= 0) & (where < key_cache.shape[0] * key_cache.shape[1])
    block, entry = where[written] // key_cache.shape[1], where[written] % key_cache.shape[1]
    for x, cache, scales in ((keys, key_cache, key_scales), (v, value_cache, value_scales)):
        if x is None or cache is None:
            continue
        new = batched(x) if x is v else x
        new = new.reshape(-1, *new.shape[2:])[written]
        if scales is not None:
            new = (new.float() / scales.view(-1, 1)).clamp(-448, 448).to(_F8)
            cache = cache.view(torch.uint8)
            new = new.view(torch.uint8)
        cache[block, entry] = new.to(cache.dtype)


def _slots(block_table: Any, entries: Any, sequences: Tensor | None, k: Tensor,
           size: int) -> Tensor:
    """Returns the slots of tokens, [1, T] or [B, T]; -1: not written."""
    entries = entries if entries.dim() == 2 else entries[None]
    if sequences is None:
        count = k.shape[0]
        of = torch.arange(count, device=k.device)
        of = of[None] if k.dim() == 3 else of[:, None]
    else:
        of = sequences if sequences.dim() == 2 else sequences[None]
    of, at = torch.broadcast_tensors(of.long(), entries)
    page = at.div(size, rounding_mode="floor")
    good = (at >= 0) & (page < block_table.shape[1]) & (of >= 0) & (of < block_table.shape[0])
    block = block_table[of.where(good, 0), page.where(good, 0)].long()
    return torch.where(good & (block >= 0), block * size + at % size, -1)


def _check(k: Tensor, v: Tensor | None, key_cache: Tensor, value_cache: Tensor | None,
           slots: Tensor | None, block_table: Tensor | None, entries: Tensor | None,
           key_scales: Tensor | None, value_scales: Tensor | None) -> None:
    def refuse(rule: str, got: object) -> None:
        raise ValueError(f"[rotate_append] {rule}, got {got}")

    if k.dim() not in (3, 4):
        refuse("k must have 3 to 4 axes", k.dim())
    for name, one in (("slots", slots), ("entries", entries)):
        if one is not None and one.shape not in (k.shape[:-2], k.shape[-3:-2]):
            refuse(f"{name} must have one element for each token, {list(k.shape[:-2])}",
                   list(one.shape))
    if (v is None) != (value_cache is None):
        refuse("v and value_cache must both be given, or both left out",
               "value_cache" if v is None else "v")
    if (slots is None) == (block_table is None) or (block_table is None) != (entries is None):
        refuse("either slots, or block_table and entries must be given",
               "no block_table" if block_table is None else "block_table")
    for name, x, cache, scales in (("key_cache", k, key_cache, key_scales),
                                   ("value_cache", v, value_cache, value_scales)):
        if x is None or cache is None:
            continue
        if cache.dim() != 4 or cache.shape[2:] != x.shape[-2:]:
            refuse(f"{name} must be [P, S, Hk, D] with Hk = {x.shape[-2]} and D = {x.shape[-1]}",
                   list(cache.shape))
        narrow = cache.dtype in (_F8, torch.uint8)
        if narrow != (scales is not None):
            refuse(f"scales of {name} must be given if, and only if, it is float8_e4m3fn",
                   cache.dtype)
        if not narrow and cache.dtype != x.dtype:
            refuse(f"{name} must have elements of {x.dtype}", cache.dtype)


register(Operator(
    "rotate_append_(Tensor(a!)? q, Tensor k, Tensor? v, Tensor[] positions, str encoding, "
    "int length, Tensor(b!) key_cache, Tensor(c!)? value_cache, Tensor? slots, "
    "Tensor? block_table, Tensor? entries, Tensor? sequences, Tensor? key_scales, "
    "Tensor? value_scales) -> ()", kernel=_append))
