"""The attention functions "gnomon" and "gnomon_eager" of transformers.

Letters: B batch, H heads, T query tokens, S key tokens, D head dimension.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

from .. import _kernels, _plans
from .._registry import Operator, call, register
from .masks import Bias, Mask, Rules, dense, recovered

NAME = "gnomon"  # queries that see no key give zeros, as in transformers' sdpa attention
EAGER_NAME = "gnomon_eager"  # they give the mean of all values, as in the eager attention


# -- Queries that see no key -------------------------------------------------------------------


def _fill_blind(out: Tensor, blind: Tensor, v: Tensor) -> None:
    """Writes the mean of all values to the queries that see no key. out: [B, H, T, Dv]."""
    mean = v.mean(2, keepdim=True).repeat_interleave(out.shape[1] // v.shape[1], 1)
    torch.where(blind[:, None, :, None], mean, out, out=out)


def _add_blind(blind: Tensor, grad: Tensor, inputs: Sequence[Tensor], sums: Sequence[Tensor],
               scale: float | None, cap: float | None) -> None:
    """Adds the gradients of the queries that see no key to those of q, k and v.

    transformers adds the lowest number to all scores of such a query. The scores vanish and the
    weights are equal, but the scores have gradients.
    """
    rows = blind.any(0).nonzero()[:, 0]
    kind = torch.float64 if grad.dtype == torch.float64 else torch.float32
    q, k, v = (one.detach().to(kind) for one in inputs)
    groups, keys = q.shape[1] // k.shape[1], k.shape[2]
    q, k, v = q[:, :, rows], repeat_kv(k, groups), repeat_kv(v, groups)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    of_out = grad[:, :, rows].to(kind) * blind[:, None, rows, None] / keys
    of_scores = of_out @ v.mT
    of_scores = (of_scores - of_scores.mean(-1, keepdim=True)) * scale
    if cap is not None:
        of_scores = of_scores * (1 - torch.tanh(q @ k.mT * scale / cap) ** 2)
    sums[0].index_add_(2, rows, (of_scores @ k).to(grad.dtype))
    of_values = of_out.sum(2, keepdim=True).expand(v.shape)
    for to, one in zip(sums[1:], (of_scores.mT @ q, of_values)):
        to.add_(one.unflatten(1, (-1, groups)).sum(2))


# -- The attention of rules --------------------------------------------------------------------


def _cropped(keys: int, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Returns keys or values without the unused rows of a static cache."""
    return tuple(one[:, :, :keys] if one.shape[2] > keys else one for one in tensors)


def _forward(plan: Any, keys: int, blind: Tensor | None, q: Tensor, k: Tensor, v: Tensor,
             ) -> tuple[Tensor, Tensor]:
    out, lse = _kernels.attend(plan, True, q, *_cropped(keys, k, v), {}, None)
    if blind is not None:
        _fill_blind(out, blind, v)
    return out, lse


def _backward(plan: Any, keys: int, blind: Tensor | None, scale: float | None, cap: float | None,
              grad: Tensor, q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor],
              sinks: Tensor | None, out: Tensor, lse: Tensor) -> list[Tensor]:
    """Returns the gradients of q, k, v, the parameters and the sinks."""
    given = grad if blind is None else grad.masked_fill(blind[:, None, :, None], 0)
    results = _kernels.attend_backward(plan, True, given, q, *_cropped(keys, k, v), parameters,
                                       sinks, {}, None, out, lse, False)
    for at, one in ((1, k), (2, v)):
        if results[at].shape != one.shape:
            results[at] = nn.functional.pad(results[at], (0, 0, 0, one.shape[2] - keys))
    if blind is not None:
        _add_blind(blind, grad, (q, k, v), results[:3], scale, cap)
    return results


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, parameter: Tensor | None,
                sinks: Tensor | None, *rest: Any) -> Tensor:
        plan, keys, blind, *_ = ctx.rest = rest
        out, lse = _forward(plan, keys, blind, q, k, v)
        ctx.save_for_backward(q, k, v, parameter, sinks, out, lse)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, parameter, sinks, out, lse = ctx.saved_tensors
        parameters = () if parameter is None else (parameter,)
        dq, dk, dv, *others = _backward(*ctx.rest, grad, q, k, v, parameters, sinks, out, lse)
        return (dq, dk, dv, None if parameter is None else others[0],
                None if sinks is None else others[-1], *[None] * 5)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float | None,
           cap: float | None = None, bias: Bias | None = None,
           sinks: Tensor | None = None) -> Tensor:
    """Returns the attention [B, T, H, Dv] of query [B, H, T, D], key and value [B, Hk, S, D]."""
    rules = mask.rules
    if query.shape[2] != rules.queries or key.shape[2] < rules.keys:
        raise ValueError(f"[patch] the mask must be of {query.shape[2]} queries and "
                         f"{key.shape[2]} keys, got {rules.queries} and {rules.keys}")
    plan = mask.plan(scale, cap, bias, sinks)
    parameter = bias.parameter if bias else None
    blind = mask.blind(bias) if sinks is None else None  # a sink takes all weight of a blind query
    if torch.is_grad_enabled() and torch._C._any_requires_grad(query, key, value, parameter,
                                                               sinks):
        if bias and not bias.masked_gradient:
            scale = 0.0
        return _Attention.apply(query, key, value, parameter, sinks, plan, rules.keys, blind,
                                scale, cap).transpose(1, 2)
    out = _kernels.attended(plan, True, query, *_cropped(rules.keys, key, value), {},
                            None)
    if blind is not None:
        _fill_blind(out, blind, value)
    return out.transpose(1, 2)


# -- The operator, for torch.compile -----------------------------------------------------------


def _resolved(q: Tensor, k: Tensor, parameters: Sequence[Tensor], sinks: Tensor | None,
              masks: Sequence[Tensor | None], rest: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the plan, the keys, the blind queries, the scale and the cap of a call."""
    padding, key_sequences, query_sequences, position = masks
    offset, encoding, by_tokens, masked_gradient, causal, left, right, scale, cap, blind = rest
    rules = Rules(q.shape[2], k.shape[2], int(offset if position is None else position), causal,
                  left, right, padding, key_sequences, query_sequences).resolved()
    if not rules.supported:
        raise ValueError(f"[patch] the last query must be at the last of {rules.keys} keys, "
                         f"got {rules.queries} queries from key {rules.offset}")
    spec = _spec(encoding)
    bias = spec and Bias(spec, parameters[0] if parameters else None, by_tokens)
    plan = rules.plan(scale, cap, bias, sinks)
    return (plan, rules.keys, rules.blind() if blind and sinks is None else None,
            scale if masked_gradient else 0.0, cap)


@functools.lru_cache(maxsize=64)
def _spec(text: str) -> Any:
    from gnomon._spec import Encoding

    return Encoding.from_json(text) if text else None


def _kernel(q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor], sinks: Tensor | None,
            *rest: Any) -> tuple[Tensor, Tensor]:
    return _forward(*_resolved(q, k, parameters, sinks, rest[:4], rest[4:])[:3], q, k, v)


def _fake(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _kernels.result_of(q, v, True)


def _backward_kernel(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor],
                     sinks: Tensor | None, out: Tensor, lse: Tensor, *rest: Any) -> list[Tensor]:
    resolved = _resolved(q, k, parameters, sinks, rest[:4], rest[4:])
    if parameters and resolved[2] is not None and rest[-1] == 1:
        raise ValueError("[patch] queries must see a key if a trained bias has a gradient under "
                         "torch.compile (use the sdpa attention or no compilation), got padding "
                         "before the first token")
    return _backward(*resolved, grad, q, k, v, parameters, sinks, out, lse)


def _fake_backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor],
                   sinks: Tensor | None, *_: Any) -> list[Tensor]:
    return _kernels.empty_gradients(q, k, v, parameters, sinks, (), None)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, parameters, sinks, *rest = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(q, k, v, sinks, *output, *rest[:4], *parameters)
    ctx.rest = rest[4:]


def _gradients(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, sinks, out, lse, *others = ctx.saved_tensors
    masks, parameters = others[:4], others[4:]
    results = call("patched_attention_backward", grad, q, k, v, parameters, sinks, out, lse,
                   *masks, *ctx.rest)
    return *_kernels.split_gradients(results, sinks, 0, False)[:5], *[None] * 14


_INPUTS = "Tensor q, Tensor k, Tensor v, Tensor[] parameters, Tensor? sinks"
# blind: queries that see no key give zeros (0), or the mean of all values (1; 2: without a gradient
# of the bias).
_CALL = ("Tensor? padding, Tensor? key_sequences, Tensor? query_sequences, Tensor? position, "
         "SymInt offset, str encoding, bool by_tokens, bool masked_gradient, bool causal, "
         "int? left, int? right, float? scale, float? cap, int blind")

register(Operator(f"patched_attention({_INPUTS}, {_CALL}) -> (Tensor, Tensor)", kernel=_kernel,
                  fake=_fake, setup_context=_save, backward=_gradients))
register(Operator(f"patched_attention_backward(Tensor grad, {_INPUTS}, Tensor out, Tensor lse, "
                  f"{_CALL}) -> Tensor[]", kernel=_backward_kernel, fake=_fake_backward))


def _traced(query: Tensor, key: Tensor, value: Tensor, rules: Rules, mean: bool,
            scale: float | None, cap: float | None, bias: Bias | None,
            sinks: Tensor | None) -> Tensor:
    bias = bias or Bias(None, None)
    offset, position = rules.offset, None
    if isinstance(offset, Tensor):
        offset, position = 0, offset
    out, _ = call("patched_attention", query, key, value,
                  [] if bias.parameter is None else [bias.parameter], sinks, rules.padding,
                  rules.key_sequences, rules.query_sequences, position, offset,
                  "" if bias.spec is None else _plans.text_of(bias.spec), bias.by_tokens,
                  bias.masked_gradient, rules.causal, rules.left, rules.right, scale, cap,
                  1 if mean else 2 * bias.mean)
    return out.transpose(1, 2)


# -- The attention function of transformers ----------------------------------------------------


def unsupported_reason(module: nn.Module, mask: Any, dropout: float,
                       options: dict[str, Any]) -> str | None:
    """Returns why transformers must compute the attention; None if Gnomon does."""
    if dropout > 0 and module.training:
        return "attention dropout"
    if options.get("output_attentions"):
        return "output_attentions"
    if mask is not None and rules_of_mask(mask)[0] is None:
        return "a dense attention mask"
    return None


def rules_of_mask(mask: Tensor | None) -> tuple[Rules | None, bool]:
    """Returns the rules of a mask, and whether sdpa has none. No rules: a dense tensor or None."""
    if torch.compiler.is_compiling():
        return getattr(mask, "gnomon_rules", (None, False))
    return (mask.rules, mask.skipped) if isinstance(mask, Mask) else (None, False)


def warn(reason: str) -> None:
    if not torch.compiler.is_compiling():
        warnings.warn(f"[patch] transformers computes the attention because of {reason}",
                      stacklevel=3)


def attention_forward(mean: bool, module: nn.Module, query: Tensor, key: Tensor, value: Tensor,
                      attention_mask: Tensor | None, dropout: float = 0.0,
                      scaling: float | None = None, softcap: float | None = None,
                      position_bias: Any = None, s_aux: Tensor | None = None,
                      is_causal: bool | None = None, **options: Any,
                      ) -> tuple[Tensor, Tensor | None]:
    """Attention function of transformers. query: [B, H, T, D]. Returns [B, T, H, Dv].

    mean: whether the model had the eager attention of transformers, otherwise sdpa.
    """
    if options.get("cache") is not None:
        raise ValueError("[patch] the cache must be one of the model's forward pass, "
                         f"got {type(options['cache']).__name__}")
    if query.device.type != "cpu":
        raise ValueError("[patch] attention must be on the CPU (on other devices: "
                         f"gnomon.torch.flex), got {query.device}")
    if type(attention_mask) is Tensor and not torch.compiler.is_compiling():
        found = recovered(attention_mask, query.shape[2], key.shape[2])
        if found is not None:
            # Some modules make a bool mask for the sdpa attention, by its name.
            found.mean = found.mean and (mean or not _names_sdpa(type(module)))
            attention_mask = found
    if isinstance(position_bias, Tensor) and hasattr(module, "gnomon_bias"):
        position_bias = module.gnomon_bias  # UMT5 makes zeros for its cross-attention
    reason = unsupported_reason(module, attention_mask, dropout, options)
    if isinstance(position_bias, Tensor):
        reason = "a dense position bias"
    rules, _ = rules_of_mask(attention_mask)
    if rules is not None and rules.queries != query.shape[2] and (rules.queries != 1 or rules.causal
                                                                  or rules.left is not None):
        reason = f"a mask of {rules.queries} queries for {query.shape[2]}"
    if isinstance(scaling, Tensor) or query.dim() != 4:
        reason = "a scale or a shape that is not that of one attention"
    bias = None if position_bias is None or reason else position_bias.bias
    if (bias and bias.parameter is not None and torch.is_grad_enabled()
            and isinstance(attention_mask, Mask) and attention_mask.blind() is not None):
        reason = "a trained bias of queries that see no key"
    if reason is None:
        rules, skipped = rules_of_mask(attention_mask)
        if rules is not None and rules.queries != query.shape[2]:  # one row for all queries
            rules = dataclasses.replace(rules, queries=query.shape[2])
            attention_mask = None if not isinstance(attention_mask, Mask) else Mask(
                rules, query.shape[0], key.shape[2], attention_mask.dense, mean,
                attention_mask.dtype, query.device)
        causal = getattr(module, "is_causal", True)
        # Moonshine passes False if there is a causal mask.
        if is_causal is not None and (rules is None or is_causal or not rules.causal):
            causal = is_causal
        if rules is None or (skipped and bool(causal) != rules.causal and query.shape[2] > 1):
            rules, attention_mask = _default_rules(not mean and causal, query, key), None
        if not query.dtype == key.dtype == value.dtype:  # torch.autocast
            key, value = key.to(query.dtype), value.to(query.dtype)
        if torch.compiler.is_compiling():
            return _traced(query, key, value, rules, mean, scaling, softcap, bias, s_aux), None
        if attention_mask is None:
            attention_mask = _mask_of(rules, bias)
        return attend(query, key, value, attention_mask, scaling, softcap, bias, s_aux), None
    warn(reason)
    if position_bias is not None:
        past = attention_mask.rules.offset if isinstance(attention_mask, Mask) else (
            key.shape[2] - query.shape[2])
        options["position_bias"] = (position_bias if isinstance(position_bias, Tensor)
                                    else position_bias.dense(query, key, past))
    for name, one in (("softcap", softcap), ("s_aux", s_aux), ("is_causal", is_causal)):
        if one is not None:
            options[name] = one
    attention_mask = dense(attention_mask)
    eager = mean or options.get("output_attentions") or softcap is not None or s_aux is not None
    function = eager_function(module) if eager else sdpa_attention_forward
    if eager and attention_mask is not None and attention_mask.dtype == torch.bool:
        lowest = torch.finfo(query.dtype).min
        attention_mask = torch.zeros(attention_mask.shape, dtype=query.dtype).masked_fill_(
            ~attention_mask, lowest)
    return function(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling,
                    **options)


@functools.lru_cache(maxsize=256)
def _names_sdpa(cls: type) -> bool:
    """Whether a method of a module's class compares with "sdpa"."""
    return any("sdpa" in one.__code__.co_consts for one in vars(cls).values()
               if inspect.isfunction(one))


def _default_rules(causal: bool, query: Tensor, key: Tensor) -> Rules:
    """Returns the rules that transformers assumes without a mask.

    The eager functions have no mask then; sdpa is causal from the first key on.
    """
    T, S = query.shape[2], key.shape[2]
    causal = causal and T > 1
    return Rules(T, min(S, T) if causal else S, 0, causal)


@functools.lru_cache(maxsize=64)
def _shared_mask(queries: int, keys: int, causal: bool) -> Mask:
    return Mask(Rules(queries, keys, 0, causal), 1, keys, lambda: torch.zeros(0), False,
                torch.float32, "cpu")


def _mask_of(rules: Rules, bias: Bias | None) -> Mask:
    make = _shared_mask if bias is None else _shared_mask.__wrapped__  # parameters change
    return make(rules.queries, rules.keys, rules.causal)


def eager_function(module: nn.Module) -> Any:
    """Returns the eager attention function of a module's file."""
    for base in type(module).__mro__:
        function = getattr(sys.modules[base.__module__], "eager_attention_forward", None)
        if function is not None:
            return function
    raise ValueError(f"[patch] {type(module).__name__} must have an eager attention, got none")
