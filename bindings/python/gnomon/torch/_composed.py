"""Rotation, attention and tables by operators of PyTorch alone, in O(B H T S) memory.

For what the kernels do not compute: dropout, numbers in double, fractional positions, and graphs
without operators of Gnomon (ONNX).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _core, specs
from .._spec import Encoding
from . import _kernels, _plans, _walk
from ._lowering import bias_form, dense, frozen
from ._registry import call
from ._rotation import HEADS, SUMS, axes_of, by_angles, rotary_plan, rotated, rotations
from ._terms import has_form, scale_factor, slopes_of

_compiling = torch.compiler.is_dynamo_compiling

# -- rotation ----------------------------------------------------------------------------------


def cos_sin(encoding: str, length: int, positions: Sequence[Tensor],
            grid: tuple[int, ...] | None) -> tuple[Tensor, Tensor]:
    """Returns cos and sin, float64 [T, R/2] or [B, T, R/2], of one tensor for each position axis.

    The positions may be fractional. Differentiable in them. grid: of cells; (): text, which has
    one position for all axes; None: neither.
    """
    count, several, scale, growth, centre = _state(encoding, length)[2:]
    if len(positions) != count:
        positions = axes_of(grid, count, positions)
    device = str(positions[0].device)
    at = torch.stack(torch.broadcast_tensors(*(one.double() for one in positions)), -1)
    if several:
        at = at[..., _numbers(encoding, length, 3, device)]
    angle = at * _numbers(encoding, length, 2, device)
    factor: Any = scale
    if growth:
        factor = scale * ((at - centre) * _numbers(encoding, length, 5, device)).exp()
    return angle.cos() * factor, angle.sin() * factor


def check_precision(operation: str, positions: Tensor) -> None:
    """Refuses fractional positions that were rounded before they arrived."""
    if (positions.is_floating_point() or positions.is_complex()) and (
            positions.dtype != torch.float64):
        raise ValueError(f"[{operation}] positions must be integers or float64 (float32 rounds "
                         f"positions above 2^24; use .double()), got {positions.dtype}")


def on_device(x: Tensor, positions: Sequence[Tensor]) -> list[Tensor]:
    """Returns positions, also fractional ones, on the device of x."""
    for one in positions:
        check_precision("rotate", one)
        if one.is_meta and not x.is_meta:
            raise ValueError("[rotate] positions must have values, got a tensor on the device meta")
    return [one.to(x.device) for one in positions]


# Functions of the encoding, which torch.compile calls while it traces.


def _frequencies(encoding: str, length: int) -> tuple[Any, ...]:
    _plans.has_axes(encoding)  # refuses encodings without one table
    return _core.rotary_frequencies(_plans.source_of(encoding), length).__getstate__()


@_plans.constant
def _state(encoding: str, length: int) -> tuple[Any, ...]:
    pairing, head_offset, _, axes, scale, growth, centre = _frequencies(encoding, length)
    return pairing, head_offset, max(axes, default=0) + 1, bool(axes), scale, bool(growth), centre


@_plans.constant
def _numbers(encoding: str, length: int, index: int, device: str) -> Tensor:
    values = _frequencies(encoding, length)[index]
    return _plans.numbers(values, "int64" if index == 3 else "float64", torch.device(device))


@_plans.constant
def _grid(encoding: str) -> tuple[int, ...] | None:
    source = _plans.source_of(encoding)
    if not isinstance(source, str):
        return None
    spec = Encoding.from_json(source)
    return (spec.grid or None) if isinstance(spec, specs.AxialRotary) else ()


def factors(encoding: str, positions: Sequence[Tensor], length: int,
            ) -> tuple[Tensor, Tensor, str, int]:
    """Returns cos, sin, the pairing and the offset in the head, the arguments of `rotate_with`."""
    cos, sin = cos_sin(encoding, length, positions, _grid(encoding))
    pairing, head_offset = _state(encoding, length)[:2]
    return cos, sin, pairing, head_offset


def rotate(x: Tensor, encoding: str, positions: Sequence[Tensor], offset: Any, length: int,
           heads_tokens: bool, inverse: bool) -> Tensor:
    """The operator `rotate`."""
    _kernels.check_heads(x)
    if not positions:
        positions = [torch.arange(x.shape[2 if heads_tokens else 1], device=x.device) + offset]
    _kernels.check_positions("rotate", x, positions, heads_tokens)
    return _kernels.rotated(x, *factors(encoding, positions, length), heads_tokens, inverse)


# -- attention ---------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def mixture_of(texts: str) -> tuple[Encoding, ...]:
    return tuple(Encoding.from_json(one) for one in _plans._specs(texts))


def visible(queries: int, keys: int, visibility: str, left: int | None, right: int | None,
            query_sequences: Tensor | None, sequences: Tensor | None,
            device: torch.device) -> Tensor | None:
    """Returns which keys each query sees, bool [T, S] or [B or 1, 1, T, S]; None: all."""
    if visibility not in ("causal", "bidirectional"):
        raise ValueError("[attention] visibility must be one of causal, bidirectional, "
                         f"got {visibility}")
    right = 0 if visibility == "causal" else right
    offset = keys - queries if keys > queries else 0
    distance = (torch.arange(keys, device=device)[None]
                - torch.arange(queries, device=device)[:, None] - offset)
    seen = None
    if right is not None:
        seen = distance <= right
    if left is not None:
        near = distance >= -left
        seen = near if seen is None else seen & near
    if sequences is not None:
        of_keys, of_queries = (one if one.dim() == 2 else one[None]  # type: ignore[union-attr]
                               for one in (sequences, query_sequences))
        same = ((of_queries[:, :, None] == of_keys[:, None]) & (of_keys >= 0)[:, None])[:, None]
        seen = same if seen is None else seen & same
    return seen


@functools.lru_cache(maxsize=32)
def _both_rotations(rotary: tuple[Encoding, ...], length: int) -> tuple[float, list[str]]:
    """Returns the factor on the softmax scale, and the texts of the frequencies of q and of k."""
    plan = rotary_plan(rotary, 1, 1, length)
    if isinstance(rotary[0], specs.Vjepa2):
        return plan.softmax_factor, []
    if plan.query_rotary is None or plan.key_rotary is None:
        raise ValueError("[attention] the encodings must have one rotation, "
                         f"got {', '.join(one.kind for one in rotary)}")
    return plan.softmax_factor, [_plans.text_of(one.frequencies)
                                 for one in (plan.query_rotary, plan.key_rotary)]


def prepared(q: Tensor, k: Tensor, mixture: Sequence[Encoding], parameters: Sequence[Tensor],
             query_at: Tensor, at: Tensor, softmax_scale: float | None,
             length: int, increments: Tensor | None = None) -> tuple[Tensor, Tensor, float]:
    """Returns rotated and scaled q and k, [B, H, T, D], and the scale of their products.

    increments: of the angles of all keys (selective rotary), [B, S, Ha, R/2].
    """
    kind = torch.float64 if q.dtype == torch.float64 else torch.float32
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    rotary = tuple(one for one in mixture if "queries and keys" in one.enters)
    if any(isinstance(one, (*HEADS, *SUMS)) for one in rotary):
        q, k = by_angles(q, k, mixture, parameters, query_at, at, increments)
    elif rotary:
        factor, texts = _both_rotations(rotary, length)
        scale *= factor
        if isinstance(rotary[0], specs.Vjepa2):
            tokens: Any = (frozen(one) for one in (query_at, at))
            q, k = (rotated(x, one) for x, one in zip((q, k), rotations(
                rotary, *tokens, length, q.device), strict=True))
        else:
            grid = _grid(rotary[0].to_json())
            q, k = (_kernels.rotated(x, *cos_sin(text, 0, [one], grid), *_state(text, 0)[:2], True,
                                     False)
                    for x, one, text in zip((q, k), (query_at, at), texts, strict=True))
    first = 0
    for one in mixture:
        count = len(one.parameters())
        scale *= scale_factor(one)
        if isinstance(one, specs.SwinV2):
            logits = parameters[first + 3].to(device=q.device, dtype=kind)
            heads = logits.clamp(max=math.log(100)).exp().view(-1, 1, 1)
            q = (torch.nn.functional.normalize(q, dim=-1) * heads).to(q.dtype)
            k, scale = torch.nn.functional.normalize(k, dim=-1), 1.0
        first += count
    return q, k, scale


def bias_of(mixture: Sequence[Encoding], parameters: Sequence[Tensor], query_at: Tensor,
            at: Tensor, gates: Tensor | None, plain: bool, kind: torch.dtype) -> Tensor | None:
    """Returns the bias of encodings, [H, T, S] or [B or 1, H, T, S]; None: there is none.

    plain: the positions are consecutive, and the queries are the last T of the keys.
    """
    if not any(map(has_form, mixture)):
        return None
    if any(isinstance(one, specs.Alibi) for one in mixture):
        tokens: Any = 1, 1  # the slopes do not depend on the tokens
    elif plain:
        tokens = int(query_at.shape[-1]), int(at.shape[-1])
    else:
        tokens = query_at, at
    form = bias_form(mixture, parameters, *tokens, device=at.device, dtype=kind)
    if form is None:
        return None
    bias = dense(form, query_at, at)
    if gates is not None and any(isinstance(one, specs.WavLm) for one in mixture):
        bias = bias * gates.to(kind).unsqueeze(-1)
    return bias


def _positions(a: _kernels.AttentionArguments, queries: int, keys: int,
               device: torch.device) -> tuple[Any, ...]:
    """Returns positions and sequences, and whether the positions are consecutive."""
    query_at, at, query_of, of = a.tokens(queries, keys)
    if query_at is not None and at is not None:
        return query_at, at, query_of, of, False
    offset = keys - queries if keys > queries else 0
    at = torch.arange(keys, device=device)
    return torch.arange(queries, device=device) + offset, at, query_of, of, True


def with_own(a: _kernels.AttentionArguments, q: Tensor, k: Tensor, parameters: Sequence[Tensor],
             terms: list[Tensor], bias: Tensor,
             ) -> tuple[Tensor, _kernels.AttentionArguments, list[Tensor]]:
    """Returns a bias plus that of the encoding, and the call without the gates that it contains."""
    axis = 2 if a.heads_tokens else 1
    queries, keys = q.shape[axis], k.shape[axis]
    a.check(q.shape[0], queries, keys)
    query_at, at, _, _, plain = _positions(a, queries, keys, q.device)
    if not has_bias(a.encoding):
        return bias, a, terms
    named = a.named(terms)
    given = list(parameters), named.pop("gates", None), query_at, at, a.encoding, plain
    own = call("encoding_bias", *given) if _compiling() else encoding_bias(*given)
    return own + bias.float(), a._replace(term_names=",".join(named)), list(named.values())


@_plans.constant
def has_bias(texts: str) -> bool:
    return any(has_form(one) for one in mixture_of(texts))


@_plans.constant
def heads_of(texts: str) -> int:
    return next(one.heads for one in mixture_of(texts)  # type: ignore[attr-defined]
                if has_form(one))


def encoding_bias(parameters: Sequence[Tensor], gates: Tensor | None, query_at: Tensor, at: Tensor,
                  texts: str, plain: bool) -> Tensor:
    """The operator `encoding_bias`: the bias of encodings without relative vectors, float32."""
    mixture, mine, first = [], [], 0
    for one in mixture_of(texts):
        count = len(one.parameters())
        if "keys and values" not in one.enters:
            mixture.append(one)
            mine += parameters[first:first + count]
        first += count
    bias = bias_of(mixture, mine, query_at, at, gates, plain, torch.float32)
    assert bias is not None
    return bias if bias.dim() == 4 else bias[None]


def attention(q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor],
              sinks: Tensor | None, terms: Sequence[Tensor], bias: Tensor | None, *rest: Any,
              replaces: bool = True, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """The operator `attention`. replaces: the bias is in place of that of the encoding."""
    a = _kernels.AttentionArguments(*rest)
    if not a.heads_tokens:
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    a.check(q.shape[0], q.shape[2], k.shape[2])
    mixture = mixture_of(a.encoding)
    relative = [one.kind for one in mixture
                if "keys and values" in one.enters and not isinstance(one, specs.Cope)]
    if relative:
        raise ValueError("[attention] relative vectors must have no dropout, no parameters in "
                         f"float64, and no export to ONNX, got {', '.join(relative)}")
    if any(isinstance(one, specs.Pope) for one in mixture):
        raise ValueError("[attention] polar products must have no dropout, no parameters in "
                         "float64, and no export to ONNX, got pope")
    kind = torch.float64 if q.dtype == torch.float64 else torch.float32
    queries, keys = q.shape[2], k.shape[2]
    query_at, at, query_of, of, plain = _positions(a, queries, keys, q.device)
    named = a.named(terms)
    unknown = set(named) - {"gates", "log_gates", "key_slopes", "edge_queries", "edge_keys",
                            "angles"}
    if unknown:
        raise ValueError("[attention] these terms of the tokens have no dropout, no float64 "
                         f"parameters and no export to ONNX: {', '.join(unknown)}")
    if bias is None or not replaces:
        own = bias_of(mixture, parameters, query_at, at, named.get("gates"), plain, kind)
        bias = own if bias is None else bias if own is None else own + bias
    biased = bias is not None or "log_gates" in named or "key_slopes" in named
    _walk.check(a, mixture, sinks, biased)
    q, k, scale = prepared(q, k, mixture, parameters, query_at, at, a.softmax_scale, a.length,
                            named.get("angles"))
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k, v = (one.repeat_interleave(group, 1) for one in (k, v))
    scores = (q.to(kind) * scale) @ k.to(kind).transpose(-2, -1)
    if a.cap is not None:
        scores = a.cap * torch.tanh(scores / a.cap)
    if bias is not None:
        scores = scores + bias.to(kind)
    if "log_gates" in named:
        scores = scores + _walk.cumulative_bias(named["log_gates"].to(kind), queries)
    if "key_slopes" in named:
        scores = scores + _walk.slopes_of_keys(named["key_slopes"].to(kind), query_at, at)
    seen = visible(queries, keys, a.visibility, a.left, a.right, query_of, of, q.device)
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    for one in mixture:
        if isinstance(one, specs.GrapePath):
            scores = _walk.edge_sums(named, at, scores, slopes_of(one.heads))
    sticks = _walk.sticks_of(mixture)
    if sticks:
        out, lse = _walk.attend(sticks, scores, v.to(kind), dropout)
    else:
        scores = _walk.with_positions(mixture, parameters, scores, q.to(kind))
        out, lse = _walk.softmax(scores, v.to(kind), sinks, dropout)
    out = out.to(q.dtype)
    return (out if a.heads_tokens else out.transpose(1, 2)), lse


# -- add_position ------------------------------------------------------------------------------


def add_fractional(x: Tensor, texts: str, positions: Tensor) -> Tensor:
    """Returns x plus a sinusoid at fractional positions, float64 [T] or [B, T]."""
    if positions.requires_grad:
        raise ValueError("[add_position] positions must not require a gradient, got a tensor that "
                         "does")
    check_precision("add_position", positions)
    if x.dim() not in (2, 3) or positions.dim() not in (1, 2) or (
            positions.shape[-1] != x.shape[-2]
            or (positions.dim() == 2 and positions.shape[0] not in (1, *x.shape[:-2]))):
        raise ValueError("[add_position] positions must be [T] or [B, T] for x [B, T, C] or "
                         f"[T, C], got {list(positions.shape)} for {list(x.shape)}")
    if positions.is_meta and not x.is_meta:
        raise ValueError("[add_position] positions must have values, got a tensor on the device "
                         "meta")
    rows = call("sinusoid", positions.double(), texts)
    if rows.shape[-1] != x.shape[-1]:
        raise ValueError(f"[add_position] x must have width {rows.shape[-1]}, got {x.shape[-1]}")
    if x.dim() == 2 and rows.dim() == 3:
        rows = rows[0]
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    return (x.to(kind) + rows.to(x.device, kind)).to(x.dtype)


@_plans.constant
def width_of(texts: str) -> int:
    mixture = mixture_of(texts)
    if len(mixture) != 1 or not isinstance(mixture[0], specs.Sinusoidal):
        raise ValueError("[add_position] fractional positions must have a sinusoidal encoding, got "
                         f"{', '.join(one.kind for one in mixture)}; round them for others")
    return mixture[0].width


@_plans.constant
def is_learned(texts: str) -> bool:
    mixture = mixture_of(texts)
    return len(mixture) == 1 and isinstance(mixture[0], specs.Learned)


def sinusoid(positions: Tensor, texts: str) -> Tensor:
    """The operator `sinusoid`: rows of a sinusoidal encoding, float32 [..., C]."""
    width = width_of(texts)  # refuses other encodings
    at = positions.detach().to("cpu", torch.float64).reshape(-1)
    plan = _core.lower(mixture_of(texts)[0], at, visibility="causal")
    return _plans.numbers(plan.table, "float32", positions.device).view(*positions.shape, width)


def add_position(x: Tensor, parameters: Sequence[Tensor], positions: Tensor | None,
                 encoding: str, offset: Any) -> Tensor:
    """The operator `add_position`, for learned tables and encodings without parameters."""
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    mixture = mixture_of(encoding)
    if not parameters and positions is None:
        table = _plans.embedding(encoding, (), None, int(offset), int(x.shape[-2])).table
        if table is None:
            return x.clone()
        rows = _plans.numbers(table, "float32", x.device).view(x.shape[-2:])
        return (x.to(kind) + rows.to(kind)).to(x.dtype)
    spec = mixture[0]
    if len(mixture) > 1 or not isinstance(spec, specs.Learned):
        raise ValueError("[add_position] export to ONNX must have a learned table, or an encoding "
                         "without parameters and positions, got "
                         f"{', '.join(one.kind for one in mixture)}")
    at = torch.arange(x.shape[-2], device=x.device) + offset if positions is None else positions
    rows = parameters[0][at + spec.offset]
    return (x.to(kind) + rows.to(kind)).to(x.dtype)
