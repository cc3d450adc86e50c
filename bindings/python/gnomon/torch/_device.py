"""Kernels of the library for tensors on a CUDA device, where the wheel has them (gnomon._cuda).

Calls are on the current stream of PyTorch. They wait for nothing and allocate nothing but their
results, so they can be captured into a CUDA graph. Frequencies are copied to a device once.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import rotary_frequencies
from . import _plans

try:
    _cuda: Any = importlib.import_module("gnomon._cuda")
except ImportError:  # built without the component cuda
    _cuda = None

_KINDS = (torch.float32, torch.float16, torch.bfloat16)


def kernels(x: Tensor) -> Any:
    """Returns the module with the kernels for the device and the type of x, or None."""
    return _cuda if x.is_cuda and x.dtype in _KINDS else None


def stream(x: Tensor) -> int:
    """Returns the address of PyTorch's current stream on the device of x."""
    return torch.cuda.current_stream(x.device).cuda_stream


def frequencies(module: Any, text: str, length: int, x: Tensor) -> Any:
    """Returns the frequencies of an encoding on the device of x; None if they need a table."""
    index = x.device.index or 0
    key = "device frequencies", text, length, module.__name__, index
    cached = _plans.cache.get(key)
    if cached is None:
        f = rotary_frequencies(_plans.source_of(text), length)
        pairing, head_offset, inv_freq, axes, table_scale, growth, _ = f.__getstate__()
        copy = None if growth else module.Frequencies(pairing, head_offset, inv_freq, axes,
                                                      table_scale, index)
        cached = _plans.cache.put(key, (copy,), 512 * f.rotary_dim)
    return cached[0]


def axes_of(positions: Sequence[Tensor], x: Tensor) -> Tensor | None:
    """Returns positions [T], [B, T] or [A, B, T] for the kernels; None: on another device."""
    if any(one.device != x.device for one in positions):
        return None
    if len(positions) == 1:
        return positions[0].to(torch.int64)
    rows = torch.broadcast_tensors(*(one if one.dim() > 1 else one[None] for one in positions))
    return torch.stack([one.to(torch.int64) for one in rows])


def rotate_at(out: Tensor, x: Tensor, encoding: str, positions: Sequence[Tensor], length: int,
              heads_tokens: bool, inverse: bool) -> bool:
    """Writes the rotation of x by positions on its device to out, which may be x.

    Returns False if there is no kernel for it.
    """
    module = kernels(x)
    if module is None or x.dim() != 4 or x.stride(-1) != 1:
        return False
    if len(positions) == 1 and _plans.has_axes(encoding):
        return False
    at, there = axes_of(positions, x), frequencies(module, encoding, length, x)
    if at is None or there is None:
        return False
    module.rotate_at(x, None if out is x else out, None, at, there, heads_tokens, inverse,
                     stream(x))
    return True


def rotate(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, pairing: str, head_offset: int,
           heads_tokens: bool, inverse: bool) -> bool:
    """Writes the rotation of x by tables to out, which may be x. False: there is no kernel."""
    module = kernels(x)
    fits = module is not None and x.dim() == 4 and x.stride(-1) == 1 and out.stride(-1) == 1
    if not fits or cos.device != x.device or cos.shape != sin.shape:
        return False
    cos, sin = cos.float(), sin.float()
    if cos.stride() != sin.stride() or cos.stride(-1) != 1:
        cos, sin = cos.contiguous(), sin.contiguous()
    module.rotate(x, None if out is x else out, None, cos, sin, None, pairing, head_offset,
                  heads_tokens, inverse, stream(x))
    return True


def add_table(x: Tensor, table: Any, rows: Tensor | None = None) -> bool:
    """Adds a table [T, C], or rows [B, T] of a table [N, C], to x in place. False: no kernel."""
    module = kernels(x)
    if module is None or x.stride(-1) != 1 or table.device != x.device:
        return False
    module.add_table(x, table, rows, stream(x))
    return True


def add_table_backward(grad: Tensor, table: Tensor, rows: Tensor | None) -> Tensor | None:
    """Returns the gradient of a table, as add_table reads it, in its type. None: no kernel."""
    module = kernels(grad)
    if module is None:
        return None
    grad = grad if grad.stride(-1) == 1 else grad.contiguous()
    sums = torch.zeros(table.shape, dtype=torch.float32, device=grad.device)
    space = None
    if rows is not None:
        size = module.add_rows_backward_workspace(grad.numel() // grad.shape[-1], table.shape[0])
        space = torch.empty(size, dtype=torch.uint8, device=grad.device)
    module.add_table_backward(grad, rows, sums, space, stream(grad))
    return sums.to(table.dtype)


def learned_rows(encoding: str, x: Tensor, parameters: Sequence[Tensor],
                 positions: Tensor | None, offset: int) -> tuple[Tensor, Tensor | None] | None:
    """Returns the rows that a learned table adds to x: a slice, or all of it and ids [B or 1, T].

    None if the encoding is not one learned table on the device of x. Ids outside the table give
    NaN, since the host does not read them; a slice outside of it is refused.
    """
    if len(parameters) != 1 or kernels(x) is None:
        return None
    specs = json.loads(encoding)
    if len(specs) != 1 or specs[0].get("kind") != "learned" or x.dim() not in (2, 3):
        return None
    spec, table = specs[0], parameters[0].detach()
    first, tokens = offset + spec.get("offset", 0), x.shape[-2]
    if table.device != x.device or tuple(table.shape) != (spec["rows"], spec["width"]):
        return None
    if table.dtype not in _KINDS or x.shape[-1] != spec["width"] or table.stride(-1) != 1:
        return None
    if positions is None:
        if first < 0 or first + tokens > spec["rows"]:
            return None  # the library refuses it, with the position and the capacity
        return table[first:first + tokens], None
    if positions.device != x.device or positions.is_floating_point():
        return None
    rows = positions.to(torch.int64) + spec.get("offset", 0)
    return table, rows.masked_fill(positions < 0, -1)
