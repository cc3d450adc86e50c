"""Biases and masks for FlexAttention, which runs the encodings on GPUs.

    import torch, gnomon
    from gnomon.torch import flex

    t5 = gnomon.T5Bias(heads=8, direction="causal")
    table = torch.randn(32, 8)                                # [buckets, H]
    q, k, v = torch.randn(3, 1, 8, 256, 64).unbind()          # [B, H, T, D]
    out = flex.attend(q, k, v, t5, [table], softmax_scale=1.0)

    # The parts, for a call of flex_attention of your own:
    score = flex.score_mod(t5, 256, parameters=[table])
    mask = flex.block_mask(256, visibility="causal")

A bias is evaluated for each score from O(T + S) numbers: a T5 bias, KERPLE, Sandwich or a clipped
table is one lookup in a strip of distances. No matrix [H, T, S] is stored by the compiled kernel.
Relative vectors (Shaw, DeBERTa, Transformer-XL) are refused: their bias depends on the queries.

Source: Dong et al. 2024, "Flex Attention", arXiv:2412.05496.
Letters: B batch, H query heads, Hk key heads, T queries, S keys, D head dimension.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    create_block_mask,
    flex_attention,
)

from .. import _core, specs
from . import _bias_gradient
from ._attention import _cast
from ._functions import Layout, Visibility
from ._kernels import AttentionArguments
from ._lowering import Form, bias_form, form_of_numbers, frozen, mixture_of
from ._rotation import rotary_plan, rotated, rotations
from ._terms import scale_factor

__all__ = ["attend", "block_mask", "mask_mod", "score_mod"]

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _row(table: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns the function (batch, row) -> element of a table [T], [1, T] or [B, T]."""
    if table.ndim == 2 and table.shape[0] > 1:
        return lambda b, i: table[b, i]
    line = table.reshape(-1)
    return lambda b, i: line[i]


def _integers(tokens: Any, device: torch.device) -> Tensor:
    """Returns positions [T] or [B, T] as a tensor of int64."""
    if isinstance(tokens, _core.Positions):
        tokens = tokens.ids
    if isinstance(tokens, Tensor) and tokens.is_meta:
        raise ValueError("[flex] positions and sequences must have values, got a tensor on the "
                         "device meta")
    tokens = torch.as_tensor(tokens, device=device)
    if tokens.is_floating_point() or tokens.is_complex():
        raise ValueError("[flex] positions and sequences must be integers (gnomon.torch.rotate "
                         f"takes fractional positions), got {tokens.dtype}")
    return tokens.to(torch.int64)


def _position_functions(queries: Any, keys: Any, device: torch.device) -> tuple[Any, Any]:
    """Returns the functions (batch, row) -> position of the queries and of the keys."""
    if isinstance(queries, int) and isinstance(keys, int):
        offset = max(0, keys - queries)
        return (lambda b, i: i + offset), (lambda b, i: i)
    one, other = (torch.arange(t) if isinstance(t, int) else t for t in (queries, keys))
    return _row(_integers(one, device)), _row(_integers(other, device))


def _modification(form: Form | None, at_queries: Any, at_keys: Any, cap: float | None,
                  gates: Tensor | None) -> ScoreMod | None:
    if form is None and cap is None:
        return None
    if gates is not None:
        gates = gates if gates.shape[0] > 1 else gates[0]

    def modify(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        if cap is not None:
            score = cap * torch.tanh(score / cap)
        if form is None:
            return score
        bias = form.at(h, at_queries(b, q), at_keys(b, k))
        if gates is not None:
            bias = bias * (gates[b, h, q] if gates.ndim == 3 else gates[h, q])
        return score + bias.to(score.dtype)

    return modify


def score_mod(encoding: Any, queries: Any = None, keys: Any = None, *,
              parameters: Sequence[Tensor] = (), cap: float | None = None,
              gates: Tensor | None = None, device: Any = None,
              dtype: torch.dtype = torch.float32) -> ScoreMod | None:
    """Returns the `score_mod` that adds the bias of an encoding; None if there is nothing to add.

    encoding: a spec, several specs, None, or a gnomon.Plan, whose numbers have no gradient.
    queries, keys: numbers T and S of tokens (the queries are the last T of the keys), or their
        positions, [T] or [B, T]. Default for keys: the queries. A plan has its own numbers.
    parameters: tensors in the order of spec.parameters(); the bias is differentiable in them.
    cap: soft cap of the scores, applied before the bias is added. A plan has its own.
    gates: factors on the bias, [B or 1, H, T] (WavLM).
    device: of q; default: that of the first parameter, or the CPU. dtype: of the bias.

    The scores that flex_attention passes are scaled: give it `scale` (1 for T5). Raises ValueError
    if the bias depends on the queries, and for Swin v2. Cost: O(H (T + S)) numbers.
    """
    if encoding.cosine if isinstance(encoding, _core.Plan) else any(
            isinstance(one, specs.SwinV2) for one in mixture_of(encoding)):
        raise ValueError("[flex] the encoding must not scale q and k, which a score_mod cannot do, "
                         "got swin-v2; use flex.attend")
    return _score_mod(encoding, queries, keys, parameters=parameters, cap=cap, gates=gates,
                      device=device, dtype=dtype)


def _refuse_products(mixture: Sequence[Any]) -> None:
    for one in mixture:
        if isinstance(one, (specs.Wall, specs.PathAttention, specs.Pope)):
            raise ValueError("[flex] the encoding must leave the products of q and k as they are, "
                             f"which a score_mod cannot change, got {one.kind}")
        if isinstance(one, (specs.GrapeAdditive, specs.GrapePath)):
            raise ValueError("[flex] the encoding must have no slopes of keys and no sums of "
                             f"edges, got {one.kind}; use gnomon.torch.attention")


def _score_mod(encoding: Any, queries: Any, keys: Any, *, parameters: Sequence[Tensor],
               cap: float | None, gates: Tensor | None, device: Any,
               dtype: torch.dtype) -> ScoreMod | None:
    device = torch.device(device or (parameters[0].device if parameters else "cpu"))
    if isinstance(encoding, _core.Plan):
        if encoding.has_relative or encoding.changes_products:
            raise ValueError("[flex] the plan must have no relative vectors and plain products, "
                             f"got {encoding}")
        if encoding.stick_breaking:
            raise ValueError(f"[flex] the weights must be those of a softmax, got {encoding}")
        queries = encoding.queries if queries is None else queries
        keys = encoding.keys if keys is None else keys
        form = form_of_numbers(encoding.bias_form, device, dtype)
        cap, gated = encoding.cap if cap is None else cap, encoding.gated
    else:
        if queries is None:
            raise ValueError("[flex] queries must be given with an encoding, got None")
        keys = queries if keys is None else keys
        mixture = mixture_of(encoding)
        _refuse_products(mixture)
        form = bias_form(mixture, parameters, queries, keys, device=device, dtype=dtype)
        gated = any(isinstance(one, specs.WavLm) for one in mixture)
    if gated and gates is None:
        raise ValueError("[flex] gates must be given for a gated bias, got None")
    return _modification(form, *_position_functions(queries, keys, device), cap,
                         gates if gated else None)


def mask_mod(visibility: Visibility, *, offset: int = 0, left: int | None = None,
             right: int | None = None, sequences: Tensor | None = None,
             query_sequences: Tensor | None = None) -> MaskMod | None:
    """Returns the `mask_mod` of a mask; None if every query sees every key.

    visibility: 'causal' or 'bidirectional'.
    offset: the key row that corresponds to query row 0: the tokens in the KV cache.
    left, right: window limits in rows. Mistral's `sliding_window` w is left = w - 1.
    sequences: the sequence of each key, integers [S] or [B, S]; -1 is padding. A query sees the
        keys of its own sequence. query_sequences: those of the queries; default: sequences.
    """
    if visibility not in ("causal", "bidirectional"):
        raise ValueError(
            f"[flex] visibility must be one of causal, bidirectional, got {visibility}")
    for name, limit in (("offset", offset), ("left", left), ("right", right)):
        if limit is not None and limit < 0:
            raise ValueError(f"[flex] {name} must not be negative, got {limit}")
    if visibility == "causal":
        right = 0
    if left is None and right is None and sequences is None:
        return None
    of_keys = None if sequences is None else _row(sequences)
    of_queries: Any = of_keys if query_sequences is None else _row(query_sequences)

    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        distance = k - q - offset
        seen = b == b
        if right is not None:
            seen = seen & (distance <= right)
        if left is not None:
            seen = seen & (distance >= -left)
        if of_keys is not None:
            sequence = of_queries(b, q)
            seen = seen & (sequence == of_keys(b, k)) & (sequence >= 0)
        return seen

    return sees


def block_mask(queries: int, keys: int | None = None, *, visibility: Visibility,
               left: int | None = None, right: int | None = None,
               sequences: Tensor | None = None, query_sequences: Tensor | None = None,
               device: Any = "cpu") -> BlockMask | None:
    """Returns the BlockMask of T queries and S keys; None if every query sees every key.

    The queries are the last T of the keys. Arguments as `mask_mod`. Masks without sequences are
    kept. Share a mask with sequences between the layers: its cost is O(B T S).
    """
    keys = queries if keys is None else keys
    if sequences is None:
        return _plain_mask(queries, keys, visibility, left, right, torch.device(device))
    if query_sequences is None:
        query_sequences = sequences[..., sequences.shape[-1] - queries:]
    sees: Any = mask_mod(visibility, offset=max(0, keys - queries), left=left, right=right,
                         sequences=sequences, query_sequences=query_sequences)
    rows = max(one.shape[0] if one.ndim == 2 else 1 for one in (sequences, query_sequences))
    return create_block_mask(sees, rows if rows > 1 else None, None, queries, keys, device=device)


@functools.lru_cache(maxsize=16)
def _plain_mask(queries: int, keys: int, visibility: Visibility, left: int | None,
                right: int | None, device: torch.device) -> BlockMask | None:
    sees = mask_mod(visibility, offset=max(0, keys - queries), left=left, right=right)
    if sees is None:
        return None
    return create_block_mask(sees, None, None, queries, keys, device=device)


@functools.lru_cache(maxsize=1)
def _compiled() -> Any:
    return torch.compile(flex_attention)


def attend(q: Tensor, k: Tensor, v: Tensor, encoding: Any = None,
           parameters: Sequence[Tensor] = (), *, layout: Layout = "heads_tokens",
           visibility: Visibility = "causal", left: int | None = None, right: int | None = None,
           softmax_scale: float | None = None, cap: float | None = None,
           sinks: Tensor | None = None, positions: Any = None, query_positions: Any = None,
           sequences: Any = None, query_sequences: Any = None,
           terms: Mapping[str, Tensor] | None = None, length: int = 0, mask: BlockMask | None = None, kernel: Any = None) -> Tensor:
    """Attention with position on any device, by flex_attention. As gnomon.torch.attention.

    q: [B, H, T, D]; k: [B, Hk, S, D]; v: [B, Hk, S, Dv] (layout 'heads_tokens'), or [B, T, H, D],
        ... ('tokens_heads'). Returns the shape of q with Dv. Hk divides H. The queries are the
        last T of the S tokens; the keys are not rotated.
    positions: of the keys, integers [S] or [B, S]; query_positions: of the queries [T] or [B, T];
        default: the last T of positions.
    sequences: the sequence of each key, [S] or [B, S]; -1 is padding. query_sequences: default:
        the last T of sequences.
    sinks: one score for each head, [H] (gpt-oss). terms: inputs that
        depend on the tokens, by name: gates [B or 1, H, T] (WavLM), log_gates [B, H, S] (FoX).
    mask: a BlockMask of `block_mask`, in place of one made from visibility, left, right and
        sequences.
    kernel: default: flex_attention on the CPU, compiled flex_attention on other devices.

    q and k are rotated by operators of PyTorch with Gnomon's tables, which are computed in double
    on the CPU and kept for each device. Differentiable in q, k, v, parameters, sinks and terms
    where FlexAttention is: not in q, k, v on the CPU. Raises ValueError for relative vectors, and,
    on a GPU, for head dimensions below 16, for which FlexAttention has no kernel.
    """
    _check(q, k, v, kernel)
    terms = dict(terms or {})
    gates, log_gates = terms.pop("gates", None), terms.pop("log_gates", None)
    if terms:
        raise ValueError("[flex] terms must be gates or log_gates, which a score_mod can add, got "
                         f"{', '.join(terms)}")
    least = min(q.shape[-1], v.shape[-1])
    if kernel is None and q.is_cuda and least < 16:
        raise ValueError(f"[flex] head dimensions must be at least 16 on a GPU, got {least}")
    if layout == "tokens_heads":
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    elif layout != "heads_tokens":
        raise ValueError(
            f"[flex] layout must be one of tokens_heads, heads_tokens, got {layout}")
    q, k, v = _cast(q, k, v)
    device, T, S = q.device, q.shape[2], k.shape[2]
    if 0 in (q.shape[0], T, S):  # FlexAttention fails
        out = q.new_zeros(*q.shape[:3], v.shape[3])
        return out.transpose(1, 2) if layout == "tokens_heads" else out
    mixture = mixture_of(encoding)
    _refuse_products(mixture)
    queries: Any = T
    keys: Any = S
    if positions is not None or query_positions is not None:
        keys = _integers(torch.arange(S) if positions is None else positions, device)
        queries = keys[..., S - T:] if query_positions is None else \
            _integers(query_positions, device)
    AttentionArguments(*(None if one is None else _integers(one, device) for one in (
        query_positions, positions, query_sequences, sequences)),
        "" if mixture else "[]", True, visibility, left, right,
        None, None, 0).check(q.shape[0], T, S)
    of_queries = None
    if sequences is not None:
        sequences = _integers(sequences, device)
        of_queries = sequences[..., S - T:] if query_sequences is None else \
            _integers(query_sequences, device)
        padding = (sequences < 0).view(-1, 1, S, 1)
        k, v = k.masked_fill(padding, 0), v.masked_fill(padding, 0)

    rotary = tuple(one for one in mixture if "queries and keys" in one.enters)
    tokens = frozen(queries), frozen(keys)
    rotate_q, rotate_k = rotations(rotary, *tokens, length, device)
    q, k = rotated(q, rotate_q), rotated(k, rotate_k)
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    if rotary:
        scale *= rotary_plan(rotary, *tokens, length).softmax_factor
    kind = torch.float64 if q.dtype == torch.float64 else torch.float32
    first = 0
    for one in mixture:
        count = len(one.parameters())
        scale *= scale_factor(one)
        if isinstance(one, specs.SwinV2):
            logits = parameters[first + 3].to(device=device, dtype=kind)
            factors = logits.clamp(max=math.log(100)).exp().view(-1, 1, 1)
            q = (torch.nn.functional.normalize(q, dim=-1) * factors).to(q.dtype)
            k, scale = torch.nn.functional.normalize(k, dim=-1), 1.0
        first += count

    # A gradient of the bias by the library's kernel, where there is one for all of the call.
    form = None
    plain = isinstance(queries, int) and isinstance(keys, int) and sequences is None
    if plain and gates is None and log_gates is None and sinks is None and mask is None:
        form = bias_form(mixture, parameters, T, S, device=device, dtype=kind)
        form = form if _bias_gradient.available(form, q, v) else None
    if form is not None:
        modify = _modification(_bias_gradient.detached(form),
                               *_position_functions(T, S, device), cap, None)
    else:
        modify = _score_mod(mixture, queries, keys, parameters=parameters, cap=cap, gates=gates,
                           device=device, dtype=kind)
    if log_gates is not None:
        modify = _with_log_gates(modify, log_gates.to(device, kind), T)
    if mask is None:
        mask = block_mask(T, S, visibility=visibility, left=left, right=right,
                          sequences=sequences, query_sequences=of_queries, device=device)
    run = kernel or (flex_attention if device.type == "cpu" else _compiled())
    given = {"score_mod": modify, "block_mask": mask, "scale": scale,
             "enable_gqa": q.shape[1] != k.shape[1]}
    if form is not None:
        out, aux = run(q, k, v, return_aux=AuxRequest(lse=True), **given)
        seen = _bias_gradient.Mask(visibility, max(0, S - T), left, right, scale, cap)
        out = _bias_gradient.attach(form, seen, out, aux.lse, q, k, v)
    elif sinks is not None:
        out = _with_sinks(run, q, k, v, sinks, given)
    else:
        out = run(q, k, v, **given)
    return out.transpose(1, 2) if layout == "tokens_heads" else out


def _with_log_gates(modify: ScoreMod | None, log_gates: Tensor, queries: int) -> ScoreMod:
    """Adds the differences of cumulative log gates [B, H, S], as _walk.cumulative_bias."""
    sums = log_gates.clamp_min(-32768).cumsum(-1)
    offset = sums.shape[-1] - queries

    def modified(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        score = score if modify is None else modify(score, b, h, q, k)
        return score + (sums[b, h, q + offset] - sums[b, h, k]).to(score.dtype)

    return modified


def _check(q: Tensor, k: Tensor, v: Tensor, kernel: Any) -> None:
    for name, one in (("q", q), ("k", k), ("v", v)):
        if one.dim() != 4:
            raise ValueError(f"[flex] {name} must have 4 axes, got {one.dim()}")
        if one.dtype not in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            raise ValueError(f"[flex] {name} must have elements of f32, f16, bf16 or f64, "
                             f"got {one.dtype}")
    if q.is_meta:
        raise ValueError("[flex] q, k and v must have values, got tensors on the device meta; use "
                         "gnomon.torch.attention for shapes")
    if torch._C._are_functorch_transforms_active():
        raise ValueError("[flex] the call must not be inside a transform of torch.func, got one "
                         "inside vmap, grad or jvp; use gnomon.torch.attention")
    if kernel is None and q.is_cpu and torch.is_grad_enabled() and (
            q.requires_grad or k.requires_grad or v.requires_grad):
        raise ValueError("[flex] q, k and v must not require a gradient on the CPU, where "
                         "FlexAttention has none, got a tensor that does; use "
                         "gnomon.torch.attention")


def _with_sinks(run: Any, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor,
                given: dict[str, Any]) -> Tensor:
    # The weights of the keys sum to e^lse / (e^lse + e^sink).
    out, aux = run(q, k, v, return_aux=AuxRequest(lse=True), **given)
    share = torch.sigmoid(aux.lse - sinks.to(aux.lse.dtype)[:, None])
    return out * share.unsqueeze(-1).to(out.dtype)
