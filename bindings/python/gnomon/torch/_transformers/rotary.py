"""Rotation of transformers models with Gnomon's exact tables.

A rotary module of transformers returns (cos, sin), which reach `apply_rotary_pos_emb` of the
model's file. The patched module returns exact ones, and cos carries the RotaryTable. The patched
function rotates with the table. Without a table, it is the original function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

import gnomon
from gnomon import _core


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Any) -> Tensor:
        ctx.table = table
        return _rotated(x.detach(), table)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _rotated(grad.contiguous(), ctx.table, "inverse"), None


def _rotated(x: Tensor, table: Any, direction: str = "forward") -> Tensor:
    out = torch.empty_like(x)
    _core.rotate(x, table, direction, out=out)
    return out


@torch.compiler.disable
def rotate(x: Tensor, table: Any) -> Tensor:
    """Returns the rotated x, [B, T, H, D]."""
    if x.requires_grad and torch.is_grad_enabled():
        return _Rotate.apply(x, table)
    return _rotated(x, table)


class Angles:
    """The rotary tables of the layers that share a rotary module and a layer type."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.frequencies = gnomon.rotary_frequencies(spec)
        scaling = getattr(spec, "scaling", None)
        self.dynamic = isinstance(scaling, gnomon.DynamicNtkScaling)
        self.by_length = self.dynamic or isinstance(scaling, gnomon.LongRopeScaling)
        self.longest = self.trained = getattr(scaling, "trained_length", 0)

    def table(self, position_ids: Tensor) -> Any:
        """Returns the RotaryTable of positions [B, T], at the length that transformers takes."""
        if not self.by_length:
            return _core.RotaryTable(self.frequencies, position_ids)
        length = int(position_ids.max()) + 1
        if self.dynamic:
            # transformers keeps the longest length until a sequence fits the trained length.
            self.longest = max(self.longest, length) if length >= self.trained else self.trained
            length = self.longest
        return _core.RotaryTable(self.spec, position_ids, length=length)


class ExactRotary(nn.Module):
    """Mixed into the rotary module of a model; `gnomon_angles` by layer type."""

    gnomon_angles: dict[str | None, Angles]

    @torch.compiler.disable
    def forward(self, x: Tensor, position_ids: Tensor,
                layer_type: str | None = None) -> tuple[Tensor, Tensor]:
        if position_ids.ndim == 1:
            position_ids = position_ids[None]
        table = self.gnomon_angles[layer_type].table(position_ids)
        cos, sin = (torch.cat((half, half), -1).to(x.dtype)
                    for half in (_tensor(table.cos), _tensor(table.sin)))
        cos.gnomon_table = table
        return cos, sin


def _tensor(values: Any) -> Tensor:
    return torch.from_dlpack(values.copy())


def rotating(original: Callable) -> Callable:
    """Returns `apply_rotary_pos_emb` that rotates with the table of cos, if it has one."""

    @functools.wraps(original)
    def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *arguments: Any,
                             **options: Any) -> tuple[Tensor, Tensor]:
        table = getattr(cos, "gnomon_table", None)
        if table is None or arguments or options:
            return original(q, k, cos, sin, *arguments, **options)
        return (rotate(q.transpose(1, 2), table).transpose(1, 2),
                rotate(k.transpose(1, 2), table).transpose(1, 2))

    apply_rotary_pos_emb.gnomon_original = original  # type: ignore[attr-defined]
    return apply_rotary_pos_emb


_users: dict[ModuleType, int] = {}  # patched models by the file that defines their rotation


def install(file: ModuleType) -> None:
    """Replaces `apply_rotary_pos_emb` of a file of transformers."""
    if not _users.get(file):
        file.apply_rotary_pos_emb = rotating(file.apply_rotary_pos_emb)
    _users[file] = _users.get(file, 0) + 1


def uninstall(file: ModuleType) -> None:
    """Restores `apply_rotary_pos_emb` after the last patched model of the file."""
    _users[file] -= 1
    if not _users[file]:
        file.apply_rotary_pos_emb = file.apply_rotary_pos_emb.gnomon_original
