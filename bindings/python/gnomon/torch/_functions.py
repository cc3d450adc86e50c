"""rotate, attention and add_position for tensors of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import gnomon

LAYOUTS = ("tokens_heads", "heads_tokens")


def _tokens_first(x: Tensor, layout: str) -> Tensor:
    if layout not in LAYOUTS:
        raise ValueError(f"[torch] layout must be one of {', '.join(LAYOUTS)}, got {layout}")
    return x.transpose(1, 2) if layout == "heads_tokens" else x


def _positions(positions: Any, tokens: int) -> Any:
    if positions is None:
        return tokens
    if isinstance(positions, int):
        return gnomon.Positions.consecutive(tokens, positions)
    return positions


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Any, direction: str) -> Tensor:
        ctx.table = table
        ctx.inverse = "inverse" if direction == "forward" else "forward"
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        gnomon.rotate(x.detach().contiguous(), table, direction, out=out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return _Rotate.apply(grad, ctx.table, ctx.inverse), None, None


def rotate(x: Tensor, encoding: Any, positions: Any = None, *, layout: str = "tokens_heads",
           inverse: bool = False, length: int = 0, inplace: bool = False) -> Tensor:
    heads = _tokens_first(x, layout)
    table = encoding
    if not isinstance(encoding, gnomon.RotaryTable):
        table = gnomon.RotaryTable(encoding, _positions(positions, heads.shape[1]), length=length)
    direction = "inverse" if inverse else "forward"
    if inplace:
        gnomon.rotate(heads, table, direction)
        return x
    return _tokens_first(_Rotate.apply(heads, table, direction), layout)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lower: Any, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None,
                gates: Tensor | None, *parameters: Tensor) -> Tensor:
        q, k, v = (one.detach().contiguous() for one in (q, k, v))
        plan = lower([one.detach().float() for one in parameters],
                     [] if sinks is None else sinks.tolist())
        out = q.new_empty(*q.shape[:3], v.shape[3])
        kind = torch.float64 if q.dtype == torch.float64 else torch.float32
        lse = torch.empty(q.shape[0], q.shape[2], q.shape[1], dtype=kind)
        gnomon.attention(q, k, v, plan, out=out, lse=lse, gates=gates)
        ctx.save_for_backward(q, k, v, out, lse, sinks, gates, *parameters)
        ctx.plan = plan
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        q, k, v, out, lse, sinks, gates, *parameters = ctx.saved_tensors
        dq, dk, dv = (torch.empty_like(one) for one in (q, k, v))
        ds = None if sinks is None else torch.zeros(sinks.shape, dtype=torch.float64)
        dg = None if gates is None else torch.zeros_like(gates)
        dp = [torch.zeros_like(one, dtype=torch.float32) for one in parameters]
        gnomon.attention_backward(q, k, v, ctx.plan, out, lse, grad.contiguous(), q_grad=dq,
                                  k_grad=dk, v_grad=dv, gates=gates, gates_grad=dg, sinks_grad=ds,
                                  parameter_grads=dp)
        ds = None if ds is None else ds.to(sinks.dtype)
        return None, dq, dk, dv, ds, dg, *(g.to(p.dtype) for g, p in zip(dp, parameters))


def attention(q: Tensor, k: Tensor, v: Tensor, encoding: Any = None,
              parameters: Sequence[Tensor] = (), *, layout: str = "heads_tokens",
              visibility: str = "causal", left: int | None = None, right: int | None = None,
              softmax_scale: float | None = None, cap: float | None = None,
              sinks: Tensor | None = None, positions: Any = None, query_positions: Any = None,
              sequences: Any = None, gates: Tensor | None = None, length: int = 0) -> Tensor:
    q, k, v = (_tokens_first(one, layout) for one in (q, k, v))
    queries, keys = q.shape[1], k.shape[1]
    if positions is not None or sequences is not None or query_positions is not None:
        if positions is None:
            positions = torch.arange(keys)
        if sequences is not None:
            positions = positions.expand(sequences.shape)
        at = positions[..., keys - queries:] if query_positions is None else query_positions
        of = None if sequences is None else sequences[..., keys - queries:]
        queries, keys = gnomon.Positions(at, of), gnomon.Positions(positions, sequences)

    def lower(parameters: Any, sinks: Any) -> Any:
        return gnomon.lower(encoding, queries, keys, parameters=parameters, visibility=visibility,
                            left=left, right=right, softmax_scale=softmax_scale, cap=cap,
                            sinks=sinks, length=length)

    return _tokens_first(_Attention.apply(lower, q, k, v, sinks, gates, *parameters), layout)


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lower: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.plan = lower([one.detach().float() for one in parameters])
        ctx.parameters = parameters
        out = x.detach().clone(memory_format=torch.contiguous_format)
        gnomon.add_position(out, ctx.plan)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        grads = [torch.zeros_like(one, dtype=torch.float32) for one in ctx.parameters]
        gnomon.add_position_backward(grad.contiguous(), ctx.plan, grads)
        return None, grad, *(g.to(p.dtype) for g, p in zip(grads, ctx.parameters))


def add_position(x: Tensor, encoding: Any, parameters: Sequence[Tensor] = (), *, offset: int = 0,
                 positions: Any = None) -> Tensor:
    tokens = x.shape[1]
    at = positions if positions is not None else gnomon.Positions.consecutive(tokens, offset)
    return _Add.apply(lambda p: gnomon.lower(encoding, at, parameters=p, visibility="causal"), x,
                      *parameters)
