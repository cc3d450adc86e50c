"""Dape: attention whose scores are adapted by a network over all heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .. import _core
from .._spec import Encoding
from ._functions import Layout, Visibility
from ._modules import PositionEncoding


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan_of: Any, slope: float, q: Tensor, k: Tensor, v: Tensor,
                *parameters: Tensor) -> Tensor:
        network = [one.detach().float().contiguous() for one in parameters[:4]]
        network = [one.flatten(1) if one.dim() > 1 else one for one in network]
        plan = plan_of([one.detach().float() for one in parameters[4:]])
        q, k, v = (one.detach() if one.stride(-1) == 1 else one.detach().contiguous()
                   for one in (q, k, v))
        out = q.new_empty((*q.shape[:3], v.shape[3]))
        lse = torch.empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)
        _core.dape_attention(q, k, v, plan, network, negative_slope=slope, out=out, lse=lse)
        ctx.plan, ctx.slope, ctx.kinds = plan, slope, [one.dtype for one in parameters]
        ctx.shapes = [one.shape for one in parameters]
        ctx.save_for_backward(q, k, v, out, lse, *network)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        q, k, v, out, lse, *network = ctx.saved_tensors
        dq, dk, dv = (torch.empty(one.shape, dtype=one.dtype) for one in (q, k, v))
        of_network = [torch.empty_like(one) for one in network]
        others = [torch.zeros(one) for one in ctx.shapes[4:]]
        _core.dape_attention_backward(
            q, k, v, ctx.plan, network, out, lse, grad.contiguous(), q_grad=dq, k_grad=dk,
            v_grad=dv, network_grads=of_network, parameter_grads=others,
            negative_slope=ctx.slope)
        grads = (one.view(shape).to(kind) for one, shape, kind in
                 zip([*of_network, *others], ctx.shapes, ctx.kinds, strict=True))
        return None, None, dq, dk, dv, *grads


class Dape(nn.Module):
    """DAPE (arXiv:2405.14722): attention with the scores s and biases b of all heads of a pair
    adapted by a network, s + b + second(leaky(first([s; b]))).

        dape = Dape("kerple", heads=8)
        y = dape.attend(q, k, v, visibility="causal")

    encoding: a bias by position: a name of the list, a spec, or several; None: no bias.
    width, length, fields: as in PositionEncoding. hidden: M, units of the network. kernel: K, odd;
    above 1 the layers are convolutions over the keys (DAPE V2, arXiv:2410.04798), causal only.

    `position` has the parameters of the bias; `first` and `second` are the layers. On the CPU, in
    float32, float16 or bfloat16. Memory grows with the tokens, not with their square. Rotate q
    and k before.
    """

    def __init__(self, encoding: str | Encoding | Sequence[Encoding] | None, *, heads: int,
                 hidden: int = 32, kernel: int = 1, negative_slope: float = 0.01,
                 width: int | None = None, length: int | None = None, device: Any = None,
                 dtype: torch.dtype | None = None, **fields: Any) -> None:
        super().__init__()
        self.heads, self.negative_slope = heads, negative_slope
        self.position: PositionEncoding | None = None
        if isinstance(encoding, str):
            self.position = PositionEncoding(encoding, heads=heads, width=width, length=length,
                                             device=device, dtype=dtype, **fields)
        elif encoding is not None:
            self.position = PositionEncoding(encoding, device=device, dtype=dtype, **fields)
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.first: nn.Module
        self.second: nn.Module
        if kernel == 1:
            self.first = nn.Linear(2 * heads, hidden, **where)
            self.second = nn.Linear(hidden, heads, **where)
        else:  # as in the code of the authors, over [B, heads, queries, keys]
            where |= {"kernel_size": (1, kernel), "padding": (0, kernel // 2)}
            self.first = nn.Conv2d(2 * heads, hidden, **where)
            self.second = nn.Conv2d(hidden, heads, **where)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, visibility: Visibility,
               layout: Layout = "heads_tokens", left: int | None = None,
               right: int | None = None, softmax_scale: float | None = None,
               positions: Any = None, query_positions: Any = None) -> Tensor:
        """Attention. q: [B, H, T, D]; k: [B, Hk, S, D]; v: [B, Hk, S, Dv].

        layout, left, right, softmax_scale: as in gnomon.torch.attention.
        positions: of the keys, integers [S] or [B, S], or gnomon.Positions for packed sequences
            and padding; default: 0 to S - 1. query_positions: of the queries, likewise;
            default: the last T positions of the keys if they are not given, else `positions`.
        """
        if q.device.type != "cpu":
            raise ValueError(f"[dape] q must be on the CPU, got {q.device.type}")
        if layout == "heads_tokens":
            q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        mixture = [] if self.position is None else list(self.position.mixture)
        if positions is None:
            tokens = q.shape[1], k.shape[1]
        else:
            tokens = positions if query_positions is None else query_positions, positions

        def plan_of(parameters: list[Tensor]) -> _core.Plan:
            return _core.lower(mixture or None, *tokens, parameters=parameters,
                               visibility=visibility, left=left, right=right,
                               softmax_scale=softmax_scale)

        trained = () if self.position is None else tuple(
            self.position._matrices(self.position.mixture))
        out: Tensor = _Attend.apply(  # type: ignore[no-untyped-call]
            plan_of, self.negative_slope, q, k, v, self.first.weight, self.first.bias,
            self.second.weight, self.second.bias, *trained)
        return out.transpose(1, 2) if layout == "heads_tokens" else out

    forward = attend
