"""The gradient of T5's bias: FlexAttention's backward pass, without it and with its own or ours.

The call of gnomon._cuda is in `bias_gradient`, with a strip (values [H, N], min_distance) as the
bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from cases import HEAD_DIM, QUERY_HEADS, Case
from contender import BASELINE, OURS, PEER, Contender, Work, numbers, stream_of
from torch import Tensor
from torch.nn.attention import flex_attention as flex

Attention = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def attention_of(tokens: int, device: torch.device) -> Attention:
    """Causal attention of q, k, v [B, H, T, D] with a strip [H, T]; also returns lse [B, H, T]."""
    if device.type != "cuda":
        return plain_attention
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, tokens, tokens,
                                  device=device)
    # The backward pass runs many times on one graph, so it must keep the tensors of the graph.
    torch._functorch.config.donated_buffer = False
    compiled: Any = torch.compile(flex.flex_attention, dynamic=False)

    def call(q: Tensor, k: Tensor, v: Tensor, strip: Tensor) -> tuple[Tensor, Tensor]:
        def add_bias(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + strip[h, (j - i + tokens - 1).clamp(max=tokens - 1)]

        out, lse = compiled(q, k, v, score_mod=add_bias, block_mask=mask, return_lse=True)
        return out, lse

    return call


def plain_attention(q: Tensor, k: Tensor, v: Tensor, strip: Tensor) -> tuple[Tensor, Tensor]:
    """The same with whole matrices in float32 or wider. For a CPU, and as the oracle."""
    wide = torch.promote_types(q.dtype, torch.float32)
    count = q.shape[2]
    at = torch.arange(count, device=q.device)
    distance = at[None] - at[:, None]
    score = q.to(wide) @ k.to(wide).transpose(2, 3) * HEAD_DIM ** -0.5
    score = score + strip.to(wide)[:, (distance + count - 1).clamp(max=count - 1)]
    score = score.masked_fill(distance > 0, -torch.inf)
    return (score.softmax(-1) @ v.to(wide)).to(q.dtype), score.logsumexp(-1)


def exact_gradient(q: Tensor, k: Tensor, v: Tensor, strip: Tensor, grad: Tensor) -> Tensor:
    """The gradient of the strip of one head, in float64."""
    one = [x[:, :1].double() for x in (q, k, v)]
    values = strip[:1].double().requires_grad_()
    out, _ = plain_attention(*one, values)
    return torch.autograd.grad(out, values, grad[:, :1].double())[0]


def bias_gradient(module: Any, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor,
                  grad: Tensor, strip: Tensor) -> tuple[Callable[[], None], Tensor]:
    """Returns the call of Gnomon and the gradient that it writes. Arrays [B, H, T, D]."""
    tokens = q.shape[2]
    form = "strip", [strip], [1 - tokens], []
    softmax = "causal", 0, None, None, HEAD_DIM ** -0.5, None
    arguments = (q, k, v, out, lse, grad, *form, *softmax)
    size = module.bias_gradient_workspace(*arguments)
    workspace = torch.empty(size, dtype=torch.uint8, device=q.device)
    values_grad = torch.empty(strip.shape, dtype=torch.float32, device=q.device)

    def call() -> None:
        module.bias_gradient(*arguments, values_grad, workspace, stream_of(q))

    return call, values_grad


def work_of(case: Case, module: Any, device: torch.device) -> Work:
    heads = QUERY_HEADS if device.type == "cuda" else 2
    shape = 1, heads, case.tokens, HEAD_DIM
    q, k, v, grad = (numbers(*shape, dtype=torch.bfloat16, device=device, seed=seed)
                     for seed in range(4))
    strip = numbers(heads, case.tokens, dtype=torch.float32, device=device, seed=4)
    attention = attention_of(case.tokens, device)
    inputs = [x.requires_grad_() for x in (q, k, v)]
    head = torch.zeros(1, dtype=torch.int64, device=device)
    wanted = exact_gradient(q.detach(), k.detach(), v.detach(), strip, grad)
    work = Work([], 0, wanted=[wanted], rows=[head])

    out, lse = attention(*inputs, strip)

    def without() -> tuple[Tensor, ...]:
        return torch.autograd.grad(out, inputs, grad, retain_graph=True)

    call, values_grad = bias_gradient(module, q.detach(), k.detach(), v.detach(), out.detach(),
                                      lse.detach(), grad, strip)

    def ours() -> None:
        without()
        call()

    def alone() -> None:
        call()

    work.contenders += [
        Contender("Gnomon", OURS, ours, results=lambda *_: [values_grad],
                  note="FlexAttention's backward, and Gnomon's gradient of the bias"),
        Contender("FlexAttention, no gradient of the bias", BASELINE, without),
        Contender("Gnomon, the gradient of the bias alone", "part", alone,
                  results=lambda *_: [values_grad]),
    ]
    work.try_add("FlexAttention, its own gradient", lambda: own(attention, inputs, strip, grad))
    return work


def own(attention: Attention, inputs: list[Tensor], strip: Tensor, grad: Tensor) -> Contender:
    values = strip.clone().requires_grad_()
    out, _ = attention(*inputs, values)

    def call() -> tuple[Tensor, ...]:
        return torch.autograd.grad(out, [*inputs, values], grad, retain_graph=True)

    return Contender("FlexAttention, its own gradient", PEER, call,
                     results=lambda out, *_: [out[-1]])
