"""Rotations of queries and keys by operators of PyTorch, on any device."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _core, specs
from .._spec import Encoding
from . import _kernels
from ._lowering import thawed
from ._plans import kept, numbers


def learned_frequencies(spec: specs.RotaryLearned, alpha: Tensor) -> Tensor:
    """Returns the frequencies of learned rotary, base^(-2i/R) exp(alpha_i), [R/2]. alpha: [R/2, 1].
    """
    plain = _core.rotary_frequencies(specs.Rotary(
        rotary_dim=spec.rotary_dim, pairing=spec.pairing, base=spec.base)).inv_freq
    return torch.from_numpy(plain).to(alpha.device) * alpha[:, 0].double().exp()


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
               if isinstance(one, (specs.RotaryLearned, specs.SelectiveRotary))]
    if trained:
        raise ValueError("[flex] rotations by trained angles must be computed by "
                         f"gnomon.torch.attention on the CPU, got {', '.join(trained)}")
    plan = rotary_plan(mixture, queries, keys, length)
    if isinstance(mixture[0], specs.Vjepa2) and len(mixture) == 1:
        return _vjepa2_rotations(mixture[0], plan, queries, keys, device)
    if plan.query_rotary is None:
        raise ValueError("[flex] the encodings must have one rotation, "
                         f"got {', '.join(one.kind for one in mixture)}")
    tables = []
    for table in (plan.query_rotary, plan.key_rotary):
        f = table.frequencies
        cos, sin = (numbers(x, "float32", device).unsqueeze(1) for x in (table.cos, table.sin))
        tables.append((f.pairing, f.head_offset, cos, sin, cos, sin))
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


def by_trained_angles(q: Tensor, k: Tensor, mixture: Sequence[Encoding],
                      parameters: Sequence[Tensor], query_at: Tensor, at: Tensor,
                      increments: Tensor | None) -> tuple[Tensor, Tensor]:
    """Rotates by trained frequencies, or by the sums of increments [B, S, Ha, R/2].

    The rows of a sequence must be adjacent: scores depend on differences of the sums.
    """
    first = 0
    for one in mixture:
        if isinstance(one, specs.RotaryLearned):
            pairing, head_offset = one.pairing, one.head_offset
            rates = learned_frequencies(one, parameters[first]).to(q.device)
            angles = [(tokens if tokens.dim() == 2 else tokens[None]).double()[:, None, :, None]
                      * rates for tokens in (query_at, at)]
        elif isinstance(one, specs.SelectiveRotary):
            if increments is None:
                raise ValueError("[attention] angles must be given for selective, got None")
            pairing, head_offset = "halves", 0
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
