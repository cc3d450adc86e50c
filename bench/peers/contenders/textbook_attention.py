"""Attention with a bias as in tutorials and models, for any release of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

import attention
from arrays import Inputs
from contender import Contender, Run
from contenders.dense_bias import alibi, refuse_beyond_memory

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def eager(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    return torch.matmul(F.softmax(scores + bias, dim=-1), v)


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def heads_first(array: np.ndarray) -> torch.Tensor:
    """[1, H, T, D], contiguous."""
    return torch.from_numpy(array).transpose(1, 2).contiguous()


class DenseBias(Contender):
    """The bias of ALiBi is made before the timing, that of T5 from its table in each step."""

    works = ("attention", "attention_training")
    dtypes = ("f32",)

    def __init__(self, name: str, attend: Attend, matrices: float) -> None:
        """`matrices`: number of simultaneous matrices [H, T, T] in the forward pass."""
        self.name, self.attend, self.matrices = name, attend, matrices

    def prepare(self, inputs: Inputs) -> Run:
        if inputs.table is not None:
            return self.prepare_training(inputs, inputs.table)
        refuse_beyond_memory(inputs.case, self.matrices)
        q, k, v = (heads_first(array) for array in inputs.stored)
        bias = torch.from_numpy(alibi(inputs.case))
        kept: list[torch.Tensor] = []

        def call() -> None:
            kept.clear()
            with torch.no_grad():
                kept.append(self.attend(q, k, v, bias))

        return Run(call, lambda rows: [kept[0][0][:, rows].transpose(0, 1).numpy()])

    def prepare_training(self, inputs: Inputs, numbers: np.ndarray) -> Run:
        case = inputs.case
        refuse_beyond_memory(case, 9)  # both passes, for every implementation
        q, k, v, out_grad = (heads_first(array) for array in inputs.stored)
        table = torch.from_numpy(numbers.copy())
        leaves = [x.requires_grad_() for x in (q, k, v, table)]
        ids = np.arange(case.tokens)
        back = ids[:, None] - ids[None, :]
        buckets = torch.from_numpy(attention.buckets_of(np.maximum(back, 0)))
        ahead = torch.from_numpy(back < 0)
        kept: list = []

        def call() -> None:
            kept.clear()
            bias = F.embedding(buckets, table).permute(2, 0, 1)[None]
            out = self.attend(q, k, v, bias.masked_fill(ahead, -math.inf))
            kept.extend([out.detach(), torch.autograd.grad(out, leaves, out_grad)])

        def results(rows: list[int]) -> list[np.ndarray]:
            out, grads = kept
            of_rows = [x[0][:, rows].transpose(0, 1).numpy() for x in (out, grads[0])]
            return [*of_rows, grads[3][:, attention.CHECKED_HEADS].numpy()]

        return Run(call, results)
