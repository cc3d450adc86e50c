"""Kernels of the library for tensors on a CUDA device, where the wheel has them (gnomon._cuda).

Calls are on the current stream of PyTorch. They wait for nothing and allocate nothing but their
results, so they can be captured into a CUDA graph. Frequencies are copied to a device once.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import rotary_frequencies
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
    known = _plans.cache.get(key)
    if known is None:
        f = rotary_frequencies(_plans.source_of(text), length)
        pairing, head_offset, inv_freq, axes, table_scale, growth, _ = f.__getstate__()
        made = None if growth else module.Frequencies(pairing, head_offset, inv_freq, axes,
                                                      table_scale, index)
        known = _plans.cache.put(key, (made,), 512 * f.rotary_dim)
    return known[0]


def axes_of(positions: Sequence[Tensor], x: Tensor) -> Tensor | None:
    """Returns positions [T], [B, T] or [A, B, T] as the kernels read them; None: on another device."""
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
