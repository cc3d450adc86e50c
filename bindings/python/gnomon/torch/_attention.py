"""attention: masks, biases, dropout, packed batches and autocast, and the choice of the path.

The direct path and the operators are those of _functions.py. Dropout, and numbers in float64, are
computed by operators of PyTorch (_composed.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _core, specs
from .._spec import Encoding
from . import _composed, _kernels, _plans
from ._functions import (
    Layout,
    Visibility,
    _all_direct,
    _compiling,
    _direct,
    _refuse_tangents,
    _with_gradients,
    heads_tokens,
)
from ._kernels import AttentionArguments
from ._registry import call


# Encodings that attention over ragged batches takes.
_BY_DISTANCE = (specs.Alibi, specs.T5Bias, specs.ClippedBias, specs.Kerple, specs.Sandwich,
                specs.Fire)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rest: AttentionArguments, q: Tensor, k: Tensor, v: Tensor,
                sinks: Tensor | None, bias: Tensor | None, count: int,
                *others: Tensor) -> Tensor:  # `count` terms, then the parameters
        plan = rest.plan(q, k, others[count:], sinks)
        out, lse = _kernels.attend(plan, rest.heads_tokens, q, k, v, rest.named(others[:count]),
                                   bias)
        ctx.save_for_backward(q, k, v, sinks, bias, out, lse, *others)
        ctx.rest, ctx.plan, ctx.count = rest, plan, count
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        q, k, v, sinks, bias, out, lse, *others = ctx.saved_tensors
        wanted, count = ctx.needs_input_grad[5], ctx.count
        terms, parameters = others[:count], others[count:]
        if _with_gradients() or not _direct(grad):
            results = call("attention_backward", grad, q, k, v, parameters, sinks, terms, bias, out,
                           lse, wanted, *ctx.rest)
        else:
            results = _kernels.attend_backward(
                ctx.plan, ctx.rest.heads_tokens, grad, q, k, v, parameters, sinks,
                ctx.rest.named(terms), bias, out, lse, wanted)
        dq, dk, dv, others, sinks_grad, term_grads, bias_grad = _kernels.split_gradients(
            results, sinks, count, wanted)
        return None, dq, dk, dv, sinks_grad, bias_grad, None, *term_grads, *others


def attention(q: Tensor, k: Tensor, v: Tensor,
              encoding: Encoding | Sequence[Encoding] | None = None,
              parameters: Sequence[Tensor] = (), *, layout: Layout = "heads_tokens",
              visibility: Visibility = "causal", left: int | None = None,
              right: int | None = None, softmax_scale: float | None = None,
              cap: float | None = None, sinks: Tensor | None = None,
              positions: Tensor | None = None, query_positions: Tensor | None = None,
              sequences: Tensor | None = None, query_sequences: Tensor | None = None,
              terms: Mapping[str, Tensor] | None = None, attn_mask: Tensor | None = None,
              bias: Tensor | None = None,
              dropout: float = 0,  # not 0.0, which torch.compile would make symbolic
              cu_seqlens_q: Tensor | None = None, cu_seqlens_k: Tensor | None = None,
              key_lengths: Tensor | None = None, block_table: Tensor | None = None,
              k_scales: Tensor | None = None, v_scales: Tensor | None = None,
              length: int = 0) -> Tensor:
    """Softmax attention with the rotation, bias or relative vectors of an encoding.

    q: [B, H, T, D]; k: [B, Hk, S, D]; v: [B, Hk, S, Dv]; or, for the layout 'tokens_heads',
        [B, T, H, D] and so on. Hk divides H. float32, float16, bfloat16 or float64; autocast
        casts them, as for scaled_dot_product_attention. q and k are not rotated before the call;
        an encoding that rotates does it inside.
    encoding: a spec, several specs, or None (no position). An embedding that is added to the
        tokens has no effect here: see add_position.
    parameters: the trained matrices, in the order of spec.parameters(). Computed in float32, or
        in float64 if they and q are float64 (not relative vectors).
    visibility: 'causal': query row i sees key rows up to i + S - T. 'bidirectional': all rows.
    left, right: window limits in rows. `sliding_window` w of a config is left = w - 1.
    softmax_scale: scale of q . k before a factor of the encoding. Default: 1 / sqrt(D).
    cap: soft cap of the scores (Gemma 2). sinks: one score for each head, [H] (gpt-oss).
    positions: integers [S] or [B, S] of the keys; default: 0 to S - 1.
    query_positions: integers [T] or [B, T]; default: the last T of positions.
    sequences: integers, [S] or [B, S]: a query sees keys of its own sequence (packing); -1 is
        padding. query_sequences: default: the last T of sequences.
    terms: inputs that depend on the tokens, by name, those of gnomon.token_terms(encoding):
        gates [B or 1, H, T] (WavLM), log_gates [B, H, S] (FoX). All shapes: gnomon.attention.
    attn_mask: bool (True: visible) or added to the scores; broadcasts to [B, H, T, S] in every
        layout. Combined with visibility, whose default is 'causal'.
    bias: added to the scores, broadcasts to [B, H, T, S]; differentiable.
    dropout: probability that a weight is zero, from the generator of PyTorch.
    cu_seqlens_q, cu_seqlens_k: int [N + 1], first rows of N sequences (flash-attn's varlen
        functions); q [total, H, D], k and v alike. cu_seqlens_k: default: cu_seqlens_q. Each
        sequence has positions from 0. One call of the library without gradients, for a bias by
        distance or no encoding; else a call for each sequence.
    key_lengths: int [N], forward only, for a bias by distance or no encoding: k and v are a cache
        with room, [N, S, Hk, D], and sequence n has its first key_lengths[n] rows; its last query
        corresponds to the last of them. q: as with cu_seqlens_q, or [N, H, T, D].
    block_table: int32 [N, M], with key_lengths: k and v are pages [P, page, Hk, D], and row j of
        sequence n is row j % page of page block_table[n, j // page].
    k_scales, v_scales: with key_lengths, scales of int8 k and v, [P, page, Hk] or [N, S, Hk], or
        of float8_e4m3fn (or uint8 with its bits), [1] or [Hk].
    length: declared context length for dynamic NTK and LongRoPE; 0: that of the spec.

    Returns the shape of q with Dv in place of D; in memory [B, T, H, Dv]. A query that sees no
    key gives zeros. Differentiable once, in q, k, v, parameters, sinks, terms, attn_mask and bias;
    gradients have the same bits for any number of threads. CPU only: on a GPU use
    gnomon.torch.flex. Memory beyond the arguments grows with T + S. Cost: D + Dv multiply-adds
    for each visible score. An encoding without parameters is lowered once for the same tokens.
    O(B H T S) memory: a mask or bias beside the bias of an encoding, the gradient of a bias, and
    dropout, float64 parameters, and a mask or bias on another device, which run as operators of
    PyTorch.
    Raises ValueError if shapes, types or devices do not fit.
    """
    if not q.device == k.device == v.device:
        raise ValueError("[attention] q, k and v must be on one device, "
                         f"got {q.device}, {k.device}, {v.device}")
    q, k, v = _cast(q, k, v)
    if key_lengths is not None:
        return _cached(q, k, v, {**_given(locals()), "cu_seqlens_q": cu_seqlens_q,
                                 "cu_seqlens_k": cu_seqlens_k})
    if block_table is not None or k_scales is not None or v_scales is not None:
        raise ValueError("[attention] key_lengths must be given with block_table, k_scales and "
                         "v_scales, got None")
    if cu_seqlens_q is not None or cu_seqlens_k is not None:
        return _packed(q, k, v, cu_seqlens_q, cu_seqlens_k, _given(locals()))
    by_heads = layout == "heads_tokens" or heads_tokens(layout)
    named = {name: one for name, one in (terms or {}).items() if one is not None}
    rest = AttentionArguments(query_positions, positions, query_sequences, sequences,
                              _plans.texts_of(encoding), by_heads, visibility, left, right,
                              softmax_scale, cap, length, ",".join(named))
    given = list(named.values())
    if attn_mask is not None or bias is not None:
        _check_heads(q, k, v)
        bias = _sum_of(_mask(attn_mask, q, k, by_heads), _bias("bias", bias, q, k, by_heads))
    elsewhere = bias is not None and q.device.type not in ("cpu", "meta")
    if dropout or elsewhere or (q.dtype == torch.float64 and _exact(rest, parameters, bias)):
        if not 0 <= dropout < 1:
            raise ValueError(f"[attention] dropout must be at least 0 and below 1, got {dropout}")
        _check_heads(q, k, v)
        return _composed.attention(q, k, v, parameters, sinks, given, bias, *rest, replaces=False,
                                   dropout=dropout)[0]
    if bias is not None:
        bias, rest, given = _composed.with_own(rest, q, k, parameters, given, bias)
    if _compiling() or not _all_direct(q, k, v, sinks, bias, *given, *parameters):
        _refuse_tangents("attention", q, k, v, sinks, bias, *given, *parameters)
        return call("attention", q, k, v, list(parameters), sinks, given, bias, *rest)[0]
    if _with_gradients() and torch._C._any_requires_grad(q, k, v, sinks, bias, *given, *parameters):
        return _Attention.apply(rest, q, k, v, sinks, bias, len(given), *given, *parameters)
    plan = rest.plan(q, k, parameters, sinks)
    return _kernels.attended(plan, rest.heads_tokens, q, k, v, rest.named(given), bias)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of attention beside q, k, v and the lengths."""
    return {name: one for name, one in values.items()
            if name not in ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k")}


def _cast(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Casts as autocast does for scaled_dot_product_attention: all but float64."""
    device = q.device.type
    if not (torch._C._is_any_autocast_enabled() and torch.is_autocast_enabled(device)):
        return q, k, v
    kind = torch.get_autocast_dtype(device)
    q, k, v = (one.to(kind) if one.is_floating_point() and one.dtype != torch.float64 else one
               for one in (q, k, v))
    return q, k, v


def _check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, one in (("q", q), ("k", k), ("v", v)):
        if one.dim() != 4:
            raise ValueError(f"[attention] {name} must have 4 axes, got {one.dim()}")


def _exact(rest: AttentionArguments, parameters: Sequence[Tensor], bias: Tensor | None) -> bool:
    """Whether the call has numbers in float64 that the kernels would round to float32."""
    given = [*parameters, *([] if bias is None else [bias])]
    return any(one.dtype == torch.float64 for one in given) and not any(
        "keys and values" in one.enters and not isinstance(one, specs.Cope)
        for one in _composed.mixture_of(rest.encoding))


def _bias(name: str, one: Tensor | None, q: Tensor, k: Tensor, by_heads: bool) -> Tensor | None:
    """Returns a bias with 4 axes. Refuses one that does not broadcast to [B, H, T, S]."""
    if one is None:
        return None
    tokens, heads = (2, 1) if by_heads else (1, 2)
    shape = [q.shape[0], q.shape[heads], q.shape[tokens], k.shape[tokens]]
    if not one.is_floating_point():
        raise ValueError(f"[attention] {name} must have elements of a float type"
                         f"{' or bool' if name == 'attn_mask' else ''}, got {one.dtype}")
    if one.dim() > 4 or any(n not in (1, m) for n, m in zip(one.shape[::-1], shape[::-1])):
        raise ValueError(f"[attention] {name} must broadcast to [B, H, T, S] = {shape}, "
                         f"got {list(one.shape)}")
    return one[(None,) * (4 - one.dim())]


def _mask(mask: Tensor | None, q: Tensor, k: Tensor, by_heads: bool) -> Tensor | None:
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device).masked_fill(
            ~mask, -math.inf)
    return _bias("attn_mask", mask, q, k, by_heads)


def _sum_of(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


# -- packed batches ----------------------------------------------------------------------------


def _packed(q: Tensor, k: Tensor, v: Tensor, of_queries: Tensor | None, of_keys: Tensor | None,
            options: dict[str, Any]) -> Tensor:
    """Attention of each of N sequences, joined along their tokens: [total, H, D]."""
    if of_queries is None:
        raise ValueError("[attention] cu_seqlens_q must be given with cu_seqlens_k, got None")
    refused = [name for name in ("positions", "query_positions", "sequences", "query_sequences",
                                 "terms", "attn_mask", "bias") if options.pop(name) is not None]
    if refused:
        raise ValueError("[attention] cu_seqlens_q must be given without positions, sequences, "
                         f"masks, biases and terms, got {', '.join(refused)}")
    options.pop("layout")
    for name in ("key_lengths", "block_table", "k_scales", "v_scales"):
        options.pop(name)
    starts = [boundaries("attention", name, one, x.shape[0]) for name, one, x in (
        ("cu_seqlens_q", of_queries, q),
        ("cu_seqlens_k", of_queries if of_keys is None else of_keys, k))]
    for name, one in (("q", q), ("k", k), ("v", v)):
        if one.dim() != 3:
            raise ValueError(f"[attention] {name} must be [total, H, D] with cu_seqlens_q, "
                             f"got {list(one.shape)}")
    if len(starts[0]) != len(starts[1]):
        raise ValueError(f"[attention] cu_seqlens_k must have {len(starts[0])} elements, as "
                         f"cu_seqlens_q, got {len(starts[1])}")
    lengths = [[b - a for a, b in zip(one, one[1:])] for one in starts]
    direct = (not options["dropout"] and q.is_cpu and k.is_cpu and _by_distance(options["encoding"])
              and all(t <= s for t, s in zip(*lengths)) and _is_plain(q, k, v, options))
    if direct:
        plan = _ragged_plan(options, max(lengths[1], default=0))
        out = q.new_empty(1, q.shape[0], q.shape[1], v.shape[2])
        q, k, v = (_kernels.readable(one) for one in (q, k, v))
        return _core.attention(q[None], k[None], v[None], plan, out=out, query_starts=starts[0],
                               key_starts=starts[1])[0]
    parts = []
    for i in range(len(starts[0]) - 1):
        rows, columns = (slice(one[i], one[i + 1]) for one in starts)
        parts.append(attention(q[None, rows], k[None, columns], v[None, columns],
                               layout="tokens_heads", **options)[0])
    return torch.cat(parts) if parts else q.new_empty(0, q.shape[1], v.shape[2])


def _by_distance(encoding: Any) -> bool:
    """Whether an encoding has only a bias by distance, or no position."""
    mixture = encoding if isinstance(encoding, (list, tuple)) else [encoding]
    return all(one is None or isinstance(one, _BY_DISTANCE) for one in mixture)


def _is_plain(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> bool:
    """Whether a call of the kernels computes the result: no gradients, no tracing, no float64."""
    others = [*options["parameters"], *([] if options["sinks"] is None else [options["sinks"]])]
    if q.dtype == torch.float64 and others:
        return False
    if _compiling() or not _all_direct(q, k, v, *others):
        return False
    return not (_with_gradients() and torch._C._any_requires_grad(q, k, v, *others))


def _ragged_plan(options: dict[str, Any], longest: int) -> Any:
    """Returns the plan of sequences of up to `longest` rows."""
    texts = _plans.texts_of(options["encoding"])
    rest = (options[name] for name in ("visibility", "left", "right", "softmax_scale", "cap",
                                       "length"))
    return _plans.attention(texts, options["parameters"], options["sinks"], 1, longest, longest,
                            (None,) * 4, *rest)


def _cached(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> Tensor:
    """Attention over a cache with room or in pages, forward only."""
    refused = [name for name in ("positions", "query_positions", "sequences", "query_sequences",
                                 "terms", "attn_mask", "bias", "cu_seqlens_k")
               if options[name] is not None]
    if options["dropout"]:
        refused.append("dropout")
    if refused:
        raise ValueError("[attention] key_lengths must be given without positions, sequences, "
                         f"masks, biases, terms and dropout, got {', '.join(refused)}")
    if not _by_distance(options["encoding"]):
        raise ValueError("[attention] key_lengths requires no encoding or a bias by distance (keys "
                         f"are rotated before they are stored), got {options['encoding']}")
    if not (q.is_cpu and k.is_cpu) or not _is_plain(q, k, v, options):
        raise ValueError("[attention] key_lengths requires tensors on the CPU, without gradients "
                         f"and outside of torch.compile, got {q.device.type}")
    starts = options["cu_seqlens_q"]
    by_heads = starts is None and (options["layout"] == "heads_tokens"
                                   or heads_tokens(options["layout"]))
    if starts is not None:
        starts, q = boundaries("attention", "cu_seqlens_q", starts, q.shape[0]), q[None]
    if q.dim() != 4 or v.dim() != 4:
        raise ValueError("[attention] with key_lengths, q must be [N, H, T, D] (or [total, H, D] "
                         f"with cu_seqlens_q) and k and v must have 4 axes, got {list(q.shape)} "
                         f"and {list(v.shape)}")
    q = _kernels.readable(q.transpose(1, 2) if by_heads else q)
    lengths = options["key_lengths"]
    longest = max(int(lengths.max()) if lengths.numel() else 0, q.shape[1])
    out = _core.attention(q, k, v, _ragged_plan(options, longest),
                          out=q.new_empty(*q.shape[:3], v.shape[3]), k_scales=options["k_scales"],
                          v_scales=options["v_scales"], query_starts=starts, key_lengths=lengths,
                          block_table=options["block_table"])
    return out[0] if starts is not None else out.transpose(1, 2) if by_heads else out


def boundaries(operation: str, name: str, given: Tensor, total: int) -> list[int]:
    """Returns the first rows of sequences, and the end of the last one."""
    if given.dim() != 1 or given.is_floating_point() or given.dtype == torch.bool or not len(given):
        raise ValueError(f"[{operation}] {name} must be integers [N + 1], got {given.dtype} "
                         f"{list(given.shape)}")
    starts: list[int] = given.tolist()
    if starts[0] != 0 or starts[-1] != total or any(a > b for a, b in zip(starts, starts[1:])):
        raise ValueError(f"[{operation}] {name} must increase from 0 to the number of rows, "
                         f"{total}, got {starts}")
    return starts
