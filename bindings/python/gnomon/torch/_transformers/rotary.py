"""Rotation of transformers models with Gnomon's exact tables.

A rotary module of transformers returns (cos, sin), which reach `apply_rotary_pos_emb` of the
model's file. The patched module returns exact ones, and cos carries a `Turn`. The patched function
rotates with it. Without a Turn, it is the original function.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gnomon import _core, specs

from .. import _functions, _plans
from .._drop_ins import rotate_with
from .._registry import Operator, call, register
from . import not_compiled


class Turn:
    """The rotation of given positions: a RotaryTable, or cos and sin [B or 1, T, R/2]."""

    def __init__(self, angles: Angles, table: Any, cos: Tensor, sin: Tensor) -> None:
        self.angles, self.table, self.cos, self.sin = angles, table, cos, sin

    def rotate(self, x: Tensor) -> Tensor:
        """Rotates x [B, H, T, D]."""
        if self.table is not None:
            return _functions.rotate(x, self.table, layout="heads_tokens")
        return rotate_with(x, self.cos, self.sin, self.angles.pairing, True)


class Angles:
    """The rotary tables of the layers that share a rotary module and a layer type.

    widths: by function of the model's file, the sizes of the last axis of q and k for which a
        Turn rotates as the function.
    negative: whether the module stores the opposite angles.
    form: how the module stores pairs: 'halves' (twice, one after the other), 'adjacent' (each
        twice), or 'once'.
    """

    def __init__(self, spec: Any) -> None:
        self.spec, self.text = spec, _plans.text_of(spec)
        self.widths: dict[str, tuple[int, ...]] = {}
        self.form, self.negative = "halves", False
        scaling = getattr(spec, "scaling", None)
        self.dynamic = isinstance(scaling, specs.DynamicNtkScaling)
        self.by_length = self.dynamic or isinstance(scaling, specs.LongRopeScaling)
        self.longest = self.trained = getattr(scaling, "trained_length", 0)
        # transformers makes its modules with the short factors of LongRoPE.
        self.frequencies = _core.rotary_frequencies(
            spec, getattr(scaling, "original_length", 0) if self.by_length else 0)
        self.pairing, self.pairs = self.frequencies.pairing, len(self.frequencies.inv_freq)

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

    def turn(self, position_ids: Tensor) -> Turn:
        """Returns the rotation of positions [B, T]. torch.compile traces an operator."""
        if torch.compiler.is_compiling():
            return Turn(self, None, *call("rotary_factors", position_ids, self.text,
                                          self.pairs))
        table = self.table(position_ids)
        cos, sin = (torch.from_numpy(one.copy()) for one in (table.cos, table.sin))
        return Turn(self, table, cos, sin)

    def stored(self, turn: Turn) -> tuple[Tensor, Tensor]:
        """Returns cos and sin of a Turn as the module of transformers stores them."""
        both = turn.cos, -turn.sin if self.negative else turn.sin
        if self.form == "halves":
            both = torch.cat((both[0], both[0]), -1), torch.cat((both[1], both[1]), -1)
        elif self.form == "adjacent":
            both = both[0].repeat_interleave(2, -1), both[1].repeat_interleave(2, -1)
        return both


# -- The operator, for torch.compile -----------------------------------------------------------


def _factors(position_ids: Tensor, text: str, pairs: int) -> tuple[Tensor, Tensor]:
    spec = _plans.source_of(text)
    # LongRoPE; the other scalings do not depend on the length.
    table = _core.RotaryTable(spec, position_ids, length=int(position_ids.max()) + 1)
    return torch.tensor(table.cos), torch.tensor(table.sin)


def _fake_factors(position_ids: Tensor, text: str, pairs: int) -> tuple[Tensor, Tensor]:
    one = torch.empty(*position_ids.shape, pairs, device=position_ids.device)
    return one, torch.empty_like(one)


register(Operator("rotary_factors(Tensor position_ids, str encoding, int pairs) -> "
                  "(Tensor, Tensor)", kernel=_factors, fake=_fake_factors))


# -- The rotary modules ------------------------------------------------------------------------


class ExactRotary(nn.Module):
    """Mixed into the rotary module of a model; `gnomon_angles` by layer type."""

    gnomon_angles: dict[str | None, Angles]

    def forward(self, x: Tensor, position_ids: Tensor,
                layer_type: str | None = None) -> tuple[Tensor, Tensor]:
        angles = self.gnomon_angles.get(layer_type)
        if position_ids.ndim > 2 or angles is None:  # M-RoPE
            given = {} if layer_type is None else {"layer_type": layer_type}
            return super().forward(x, position_ids, **given)
        if position_ids.ndim == 1:
            position_ids = position_ids[None]
        if angles.dynamic:
            return _untraced(angles, x, position_ids)
        return turned(angles, x, position_ids)


def turned(angles: Angles, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Returns cos and sin in the type of x; cos carries the exact rotation."""
    turn = angles.turn(position_ids)
    cos, sin = (one.to(x.device, x.dtype) for one in angles.stored(turn))
    if turn.cos is cos:
        cos = cos.clone()
    cos.gnomon_turn = turn  # type: ignore[attr-defined]
    return cos, sin


_untraced = not_compiled(turned)  # the longest length is a state


def rotating(name: str, original: Callable) -> Callable:
    """Returns `apply_rotary_pos_emb` that rotates with the Turn of cos, if it has one."""

    @functools.wraps(original)
    def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *arguments: Any,
                             **options: Any) -> tuple[Tensor, Tensor]:
        turn = getattr(cos, "gnomon_turn", None)
        widths = () if turn is None else turn.angles.widths.get(name, ())
        if arguments or options or q.shape[-1] not in widths or k.shape[-1] not in widths:
            return original(q, k, cos, sin, *arguments, **options)
        return turn.rotate(q), turn.rotate(k)

    apply_rotary_pos_emb.gnomon_original = original  # type: ignore[attr-defined]
    return apply_rotary_pos_emb


_users: dict[tuple[str, str], int] = {}  # patched models, by file and function


def install(file: str, name: str) -> None:
    """Replaces a function of a file (a module name) of transformers."""
    module = sys.modules[file]
    if not _users.get((file, name)):
        setattr(module, name, rotating(name, getattr(module, name)))
    _users[file, name] = _users.get((file, name), 0) + 1


def uninstall(file: str, name: str) -> None:
    """Restores a function after the last patched model of the file."""
    # A copy of a patched model is not counted. It rotates correctly with either function.
    _users[file, name] = max(_users[file, name] - 1, 0)
    module = sys.modules[file]
    original = getattr(getattr(module, name), "gnomon_original", None)
    if not _users[file, name] and original is not None:
        setattr(module, name, original)
