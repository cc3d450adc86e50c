"""The attention function "gnomon" of transformers.

Letters: B batch, H heads, T query tokens, S key tokens, D head dimension.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from transformers import masking_utils

from gnomon import _core

from . import not_compiled
from .masks import Bias, Mask, mask

NAME = "gnomon"


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, parameter: Tensor | None,
                plan: Any) -> Tensor:
        q, k, v = q.detach(), k.detach(), v.detach()
        out = q.new_empty(*q.shape[:3], v.shape[3])
        kind = torch.float64 if q.dtype == torch.float64 else torch.float32
        lse = torch.empty(q.shape[0], q.shape[2], q.shape[1], dtype=kind)
        _core.attention(q, k, v, plan, out=out, lse=lse)
        ctx.save_for_backward(q, k, v, out, lse, parameter)
        ctx.plan = plan
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse, parameter = ctx.saved_tensors
        grads = [one.new_empty(one.shape) for one in (q, k, v)]
        table = ()
        if parameter is not None and ctx.needs_input_grad[3]:
            table = (torch.zeros(parameter.shape, dtype=torch.float32),)
        _core.attention_backward(q, k, v, ctx.plan, out, lse, grad.contiguous(), q_grad=grads[0],
                                 k_grad=grads[1], v_grad=grads[2], parameter_grads=table)
        return *grads, table[0].to(parameter.dtype) if table else None, None


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Mask, softmax_scale: float | None,
           cap: float | None = None, bias: Bias | None = None) -> Tensor:
    """Returns the attention [B, T, H, Dv] of query [B, H, T, D], key and value [B, Hk, S, D]."""
    if query.device.type != "cpu":
        raise ValueError("[patch] attention must be on the CPU (on other devices: "
                         f"gnomon.torch.flex), got {query.device}")
    if query.shape[2] != mask.queries or key.shape[2] < mask.keys:
        raise ValueError(f"[patch] the mask must be of {query.shape[2]} queries and {key.shape[2]} "
                         f"keys, got {mask.queries} and {mask.keys}")
    plan = mask.plan(softmax_scale, cap, bias)
    if not query.dtype == key.dtype == value.dtype:  # torch.autocast
        key, value = key.to(query.dtype), value.to(query.dtype)
    if key.shape[2] > mask.keys:  # a static cache
        key, value = key[:, :, :mask.keys], value[:, :, :mask.keys]
    q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    if torch.is_grad_enabled():
        parameter = bias[1] if bias else None
        if (q.requires_grad or k.requires_grad or v.requires_grad
                or (parameter is not None and parameter.requires_grad)):
            return _Attention.apply(q, k, v, parameter, plan)
    out = q.new_empty(*q.shape[:3], v.shape[3])
    _core.attention(q, k, v, plan, out=out)
    return out


def additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Returns a mask for the eager functions of transformers."""
    if isinstance(mask, Mask):
        return mask.dense()
    if mask is not None and mask.dtype == torch.bool:
        lowest = torch.finfo(dtype).min
        return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, lowest)
    return mask


def unsupported_reason(module: nn.Module, mask: Tensor | None, dropout: float,
                       options: dict[str, Any]) -> str | None:
    """Returns why transformers must compute the attention; None if Gnomon does."""
    if dropout > 0 and module.training:
        return "attention dropout"
    if options.get("output_attentions"):
        return "output_attentions"
    if options.get("s_aux") is not None:
        return "attention sinks"
    if mask is not None and not isinstance(mask, Mask):
        return "a dense attention mask"
    return None


def warn(reason: str) -> None:
    warnings.warn(f"[patch] transformers computes the attention because of {reason}", stacklevel=3)


@not_compiled
def attention_forward(module: nn.Module, query: Tensor, key: Tensor, value: Tensor,
                      attention_mask: Tensor | None, dropout: float = 0.0,
                      scaling: float | None = None, softcap: float | None = None,
                      position_bias: Any = None, **options: Any) -> tuple[Tensor, Tensor | None]:
    """Attention function of transformers. query: [B, H, T, D]. Returns [B, T, H, Dv]."""
    if options.get("cache") is not None:
        raise ValueError("[patch] the cache must be one of the model's forward pass, "
                         f"got {type(options['cache']).__name__}")
    reason = unsupported_reason(module, attention_mask, dropout, options)
    if isinstance(position_bias, Tensor):
        reason = "a dense position bias"
    if reason is None:
        if attention_mask is None:
            attention_mask = _default_mask(module, query, key, options.get("is_causal"))
        bias = position_bias.bias if position_bias is not None else None
        return attend(query, key, value, attention_mask, scaling, softcap, bias), None
    warn(reason)
    if position_bias is not None:
        past = attention_mask.offset if isinstance(attention_mask, Mask) else (
            key.shape[2] - query.shape[2])
        options["position_bias"] = (position_bias if isinstance(position_bias, Tensor)
                                    else position_bias.dense(query, key, past))
    if softcap is not None:
        options["softcap"] = softcap
    return _eager(module)(module, query, key, value, additive(attention_mask, query.dtype),
                          dropout=dropout, scaling=scaling, **options)


def _default_mask(module: nn.Module, query: Tensor, key: Tensor, causal: bool | None) -> Mask:
    """Returns the mask that the sdpa function of transformers assumes if it gets none."""
    causal = getattr(module, "is_causal", True) if causal is None else causal
    T, S = query.shape[2], key.shape[2]
    causal = causal and T > 1
    functions = masking_utils.causal_mask_function, masking_utils.bidirectional_mask_function
    return mask(batch_size=query.shape[0], q_length=T, kv_length=min(S, T) if causal else S,
                mask_function=functions[0 if causal else 1], dtype=query.dtype)


def _eager(module: nn.Module) -> Any:
    for base in type(module).__mro__:
        function = getattr(sys.modules[base.__module__], "eager_attention_forward", None)
        if function is not None:
            return function
    raise ValueError(f"[patch] {type(module).__name__} must have an eager attention, got none")
