"""Rotations of queries and keys by operators of PyTorch, on any device."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from .. import _core, specs
from .._spec import Encoding
from . import _kernels
from ._lowering import thawed
from ._plans import kept, numbers


# Specs whose angles are sums of positions times frequencies of a head, computed by operators.
HEADS = specs.RotaryLearned, specs.RotaryPlusPlus, specs.RotaryMixed, specs.ComRope
# Specs whose angles are sums of increments, terms of the tokens.
SUMS = specs.SelectiveRotary, specs.RotaryContextual, specs.RotaryMamba3


class HeadAngles(NamedTuple):
    """Frequencies of heads on position axes, and phases of query heads.

    rates: float64, [A, H or 1, R/2]. phases: radians, [H], or None. grid: None: no grid.
    """

    pairing: Literal["halves", "adjacent"]
    head_offset: int
    rates: Tensor
    phases: Tensor | None = None
    grid: tuple[int, ...] | None = None

    def angles(self, positions: Sequence[Tensor], phases: Tensor | None, heads: int) -> Tensor:
        """Returns the angles [B or 1, heads or 1, T, R/2] at positions, [T] or [B, T] each."""
        angle: Any = 0
        for at, rates in zip(axes_of(self.grid, len(self.rates), positions), self.rates,
                             strict=True):
            rows = at.double() if at.dim() == 2 else at.double()[None]
            angle = angle + rows[:, None, :, None] * rates[:, None]
        if phases is not None:
            angle = angle + phases[:, None, None]
        own = angle.shape[1]
        if heads % own:
            raise ValueError(f"[rotate] the heads of q and k must be a multiple of {own}, which "
                             f"have angles of their own, got {heads}")
        return angle if own == 1 else angle.repeat_interleave(heads // own, 1)


def head_angles(spec: Any, parameters: Sequence[Tensor]) -> HeadAngles:
    """Returns the frequencies of one of HEADS. Differentiable in the parameters."""
    if isinstance(spec, specs.RotaryMixed):
        fx, fy = (one.double() for one in parameters)
        return HeadAngles(spec.pairing, spec.head_offset, torch.stack([fy, fx]), None,
                          spec.grid)
    if isinstance(spec, specs.ComRope):
        p = parameters[0].double().unflatten(1, (-1, 2, 2))
        theta, count = p[:, :, 1, 0] - p[:, :, 0, 1], len(spec.grid)
        axes = torch.arange(count, device=p.device)[:, None]
        factors = (parameters[1].double() if spec.form == "linearly_dependent" else
                   torch.arange(theta.shape[1], device=p.device) % count == axes)
        extents = torch.tensor(spec.grid, dtype=torch.float64, device=p.device)
        return HeadAngles("adjacent", spec.head_offset,
                          (factors / extents[:, None])[:, None] * theta, None, spec.grid)
    plain = torch.from_numpy(_core.rotary_frequencies(specs.Rotary(
        rotary_dim=spec.rotary_dim, pairing=spec.pairing, base=spec.base)).inv_freq)
    phases = None
    if isinstance(spec, specs.RotaryLearned):
        plain = plain.to(parameters[0].device) * parameters[0][:, 0].double().exp()
    else:
        odd = (torch.arange(spec.heads) + spec.first_head) % 2
        phases = odd.double() * (-math.pi / 2)
    return HeadAngles(spec.pairing, spec.head_offset, plain[None, None], phases)


def by_heads(x: Tensor, own: HeadAngles, positions: Any, heads_first: bool,
             phases: Tensor | None = None) -> Tensor:
    """Rotates queries or keys by frequencies of heads; layout and positions as for `rotate`."""
    tokens, heads = (x.shape[2], x.shape[1]) if heads_first else x.shape[1:3]
    if positions is None or isinstance(positions, (int, torch.SymInt)):
        at = [torch.arange(tokens) + (positions or 0)]
    else:
        at = [torch.as_tensor(one) for one in
              (positions if isinstance(positions, tuple) else (positions,))]
        _kernels.check_positions("rotate", x, at, heads_first)
    own = own._replace(rates=own.rates.to(x.device))
    angle = own.angles([one.to(x.device) for one in at],
                       None if phases is None else phases.to(x.device), heads)
    return _kernels.rotated(x, angle.cos(), angle.sin(), own.pairing, own.head_offset, heads_first,
                            False)


def axes_of(grid: tuple[int, ...] | None, count: int,
            positions: Sequence[Tensor]) -> Sequence[Tensor]:
    """Returns the position on each axis: that of text on all axes, or of a cell of the grid."""
    if len(positions) == count:
        return positions
    if grid == () and len(positions) == 1:
        return [positions[0]] * count
    if grid is None or len(grid) != count or len(positions) > 1 or (
            positions[0].is_floating_point()):
        raise ValueError(f"[rotate] positions must be a tuple of {count}, one for each position "
                         f"axis, got {len(positions)}")
    cell, found = positions[0], []
    for extent in reversed(grid):
        found.append(cell % extent)
        cell = cell // extent
    return found[::-1]


@functools.lru_cache(maxsize=32)
def rotary_plan(mixture: tuple[Encoding, ...], queries: Any, keys: Any, length: int) -> _core.Plan:
    """Returns the plan of rotary encodings for tokens of `frozen`. The last plans are kept."""
    return _core.lower(list(mixture), thawed(queries), thawed(keys), visibility="bidirectional",
                       length=length)


@kept(32)
def rotations(mixture: tuple[Encoding, ...], queries: Any, keys: Any, length: int,
              device: torch.device) -> tuple[Any, Any]:
    """Returns the rotations of q and of k for `rotated`, on a device. The last ones are kept."""
    if not mixture:
        return None, None
    trained = [one.kind for one in mixture
               if isinstance(one, (*HEADS, *SUMS))
               and not isinstance(one, specs.RotaryPlusPlus)]
    if trained:
        raise ValueError("[flex] rotations by trained angles must be computed by "
                         f"gnomon.torch.attention on the CPU, got {', '.join(trained)}")
    plan = rotary_plan(mixture, queries, keys, length)
    if isinstance(mixture[0], specs.Vjepa2) and len(mixture) == 1:
        return _vjepa2_rotations(mixture[0], plan, queries, keys, device)
    if isinstance(mixture[0], specs.RotaryPlusPlus) and len(mixture) == 1:
        return _phased_rotations(head_angles(mixture[0], ()), plan, queries, keys, device)
    if plan.query_rotary is None:
        raise ValueError("[flex] the encodings must have one rotation, "
                         f"got {', '.join(one.kind for one in mixture)}")
    tables = []
    for table in (plan.query_rotary, plan.key_rotary):
        f = table.frequencies
        cos, sin = (numbers(x, "float32", device).unsqueeze(1) for x in (table.cos, table.sin))
        tables.append((f.pairing, f.head_offset, cos, sin, cos, sin))
    return tables[0], tables[1]


def _phased_rotations(own: HeadAngles, plan: _core.Plan, queries: Any, keys: Any,
                      device: torch.device) -> tuple[Any, Any]:
    tables: list[Any] = []
    for tokens, count, phases in ((queries, plan.queries, own.phases), (keys, plan.keys, None)):
        at = torch.arange(count) + (plan.keys - count)
        if not isinstance(tokens, int):
            at = torch.as_tensor(thawed(tokens).ids)
        angle = own.angles([at], phases, 1 if phases is None else len(phases)).to(device)
        cos, sin = angle.cos(), angle.sin()
        if phases is None:  # as the table of keys
            cos, sin = cos.float(), sin.float()
        tables.append((own.pairing, own.head_offset, cos, sin, cos, sin))
    return tables[0], tables[1]


def _vjepa2_rotations(spec: specs.Vjepa2, plan: _core.Plan, queries: Any, keys: Any,
                      device: torch.device) -> tuple[Any, Any]:
    # V-JEPA 2: each element of a pair has its own angle. The images of the unit vectors (1, 0) and
    # (0, 1) of all pairs are the numbers of the rotation.
    images = []
    for first in (0, 1):
        units = []
        for tokens, count in ((queries, plan.queries), (keys, plan.keys)):
            batch = 1 if isinstance(tokens, int) else thawed(tokens).batch
            units.append(torch.zeros(batch, count, 1, spec.head_dim))
            units[-1][..., first:spec.head_dim // 2 * 2:2] = 1
        _core.rotate_heads(*units, plan)
        images.append([one.transpose(1, 2).to(device) for one in units])
    even = slice(0, spec.head_dim // 2 * 2, 2)
    odd = slice(1, None, 2)
    q, k = (("adjacent", 0, a[..., even], -b[..., even], b[..., odd], a[..., odd])
            for a, b in zip(*images, strict=True))
    return q, k


def rotated(x: Tensor, rotation: tuple[Any, ...] | None) -> Tensor:
    """Rotates x [B, H, T, D]; float32 inside, or float64 for float64."""
    if rotation is None:
        return x
    pairing, head_offset, *tables = rotation
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    cos_a, sin_a, cos_b, sin_b = (one.to(kind) for one in tables)
    pairs = cos_a.shape[-1]
    end = head_offset + 2 * pairs
    part = x[..., head_offset:end].to(kind)
    if pairing == "halves":
        a, b = part[..., :pairs], part[..., pairs:]
    else:
        a, b = part[..., 0::2], part[..., 1::2]
    c, d = a * cos_a - b * sin_a, b * cos_b + a * sin_b
    joined = torch.cat([c, d], -1) if pairing == "halves" else torch.stack([c, d], -1).flatten(-2)
    return torch.cat([x[..., :head_offset], joined.to(x.dtype), x[..., end:]], -1)


def by_angles(q: Tensor, k: Tensor, mixture: Sequence[Encoding], parameters: Sequence[Tensor],
              query_at: Tensor, at: Tensor, increments: Tensor | None) -> tuple[Tensor, Tensor]:
    """Rotates by frequencies of heads, or by the sums of increments [B, S, Ha, R/2].

    The rows of a sequence must be adjacent: scores depend on differences of the sums.
    """
    first = 0
    for one in mixture:
        if isinstance(one, HEADS):
            own = head_angles(one, parameters[first:first + len(one.parameters())])
            own = own._replace(rates=own.rates.to(q.device))
            pairing, head_offset = own.pairing, own.head_offset
            phases = None if own.phases is None else own.phases.to(q.device)
            angles = [own.angles([query_at], phases, q.shape[1]),
                      own.angles([at], None, k.shape[1])]
        elif isinstance(one, SUMS):
            if increments is None:
                raise ValueError(f"[attention] angles must be given for {one.kind}, got None")
            pairing, head_offset = getattr(one, "pairing", "halves"), 0
            sums = increments.double().cumsum(1).transpose(1, 2)
            angles = [x if x.shape[1] in (1, y.shape[1]) else
                      x.repeat_interleave(y.shape[1] // x.shape[1], 1)
                      for x, y in ((sums[:, :, sums.shape[2] - q.shape[2]:], q), (sums, k))]
        elif "queries and keys" in one.enters:
            raise ValueError("[attention] the encodings must have one rotation, "
                             f"got {', '.join(two.kind for two in mixture)}")
        first += len(one.parameters())
    q, k = (_kernels.rotated(x, angle.cos(), angle.sin(), pairing, head_offset, True, False)
            for x, angle in zip((q, k), angles, strict=True))
    return q, k
