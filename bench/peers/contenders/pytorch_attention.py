"""Recent PyTorch: fused attention with a dense bias, FlexAttention, and textbook code."""

from __future__ import annotations

import logging

import torch

import attention
from arrays import Inputs
from contender import Contender, Run
from contenders import pytorch_plain
from contenders.textbook_attention import DenseBias, eager, heads_first, sdpa


class Flex(Contender):
    """Computes the bias in the kernel, compiled before the timing. On CPUs: forward only."""

    name = "PyTorch FlexAttention"
    works = ("attention",)
    dtypes = ("f32",)

    def prepare(self, inputs: Inputs) -> Run:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        torch.compiler.reset()  # after eight compilations of a function PyTorch does no more
        tokens = inputs.case.tokens
        q, k, v = (heads_first(array) for array in inputs.stored)
        slopes = torch.from_numpy(attention.slopes()).float()

        def alibi(score, b, h, i, j):  # noqa: ANN001, ANN202
            return score + slopes[h] * (j - i)

        def causal(b, h, i, j):  # noqa: ANN001, ANN202
            return j <= i

        mask = create_block_mask(causal, None, None, tokens, tokens, device="cpu")
        compiled = torch.compile(flex_attention, dynamic=False)
        kept: list[torch.Tensor] = []

        def call() -> None:
            kept.clear()
            with torch.no_grad():
                kept.append(compiled(q, k, v, score_mod=alibi, block_mask=mask))

        return Run(call, lambda rows: [kept[0][0][:, rows].transpose(0, 1).numpy()])


def contenders(threads: int) -> list[Contender]:
    torch.set_num_threads(threads)
    logging.getLogger("torch").setLevel(logging.ERROR)
    return [
        DenseBias("PyTorch SDPA, dense bias", sdpa, 1),
        Flex(),
        DenseBias("PyTorch eager, textbook", eager, 3),
        pytorch_plain.Sdpa(),
        pytorch_plain.Flex(),
    ]


def versions() -> dict[str, str]:
    return {"torch": torch.__version__.split("+")[0]}
