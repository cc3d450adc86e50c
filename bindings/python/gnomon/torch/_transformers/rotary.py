"""Rotation of transformers models with Gnomon's exact tables.

A rotary module of transformers returns (cos, sin), which reach `apply_rotary_pos_emb` of the
model's file. The patched module returns exact ones, and cos carries the RotaryTable. The patched
function rotates with the table. Without a table, it is the original function.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gnomon import _core, specs

from .. import _functions
from . import not_compiled


# torch.compile does not trace it, because cos carries the table.
rotate = not_compiled(_functions.rotate)


class Angles:
    """The rotary tables of the layers that share a rotary module and a layer type."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.frequencies = _core.rotary_frequencies(spec)
        scaling = getattr(spec, "scaling", None)
        self.dynamic = isinstance(scaling, specs.DynamicNtkScaling)
        self.by_length = self.dynamic or isinstance(scaling, specs.LongRopeScaling)
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

    @not_compiled
    def forward(self, x: Tensor, position_ids: Tensor,
                layer_type: str | None = None) -> tuple[Tensor, Tensor]:
        if position_ids.ndim == 1:
            position_ids = position_ids[None]
        table = self.gnomon_angles[layer_type].table(position_ids)
        cos, sin = (one.to(x.device, x.dtype) for one in cos_sin(table))
        cos.gnomon_table = table
        return cos, sin


def cos_sin(table: Any) -> tuple[Tensor, ...]:
    """Returns cos and sin [B or 1, T, R] of a table, as transformers stores them."""
    halves = (torch.from_numpy(one.copy()) for one in (table.cos, table.sin))
    return tuple(torch.cat((one, one), -1) for one in halves)


def rotating(original: Callable) -> Callable:
    """Returns `apply_rotary_pos_emb` that rotates with the table of cos, if it has one."""

    @functools.wraps(original)
    def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *arguments: Any,
                             **options: Any) -> tuple[Tensor, Tensor]:
        table = getattr(cos, "gnomon_table", None)
        if table is None or arguments or options:
            return original(q, k, cos, sin, *arguments, **options)
        return (rotate(q, table, layout="heads_tokens"),
                rotate(k, table, layout="heads_tokens"))

    apply_rotary_pos_emb.gnomon_original = original  # type: ignore[attr-defined]
    return apply_rotary_pos_emb


_users: dict[str, int] = {}  # patched models, by the file that defines their rotation


def install(file: str) -> None:
    """Replaces `apply_rotary_pos_emb` of a file (a module name) of transformers."""
    module = sys.modules[file]
    if not _users.get(file):
        module.apply_rotary_pos_emb = rotating(module.apply_rotary_pos_emb)
    _users[file] = _users.get(file, 0) + 1


def uninstall(file: str) -> None:
    """Restores `apply_rotary_pos_emb` after the last patched model of the file."""
    # A copy of a patched model is not counted. It rotates correctly with either function.
    _users[file] = max(_users[file] - 1, 0)
    module = sys.modules[file]
    original = getattr(module.apply_rotary_pos_emb, "gnomon_original", None)
    if not _users[file] and original is not None:
        module.apply_rotary_pos_emb = original
