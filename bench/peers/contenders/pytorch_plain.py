"""Recent PyTorch: attention without a bias by SDPA and FlexAttention."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

import aligned
import plain_attention
from arrays import Inputs
from cases import Case
from contender import Contender, Run
from contenders.tensors import DTYPES

WORKS = ("attention_prompt", "attention_decode")


def heads_first(inputs: Inputs) -> list[torch.Tensor]:
    """q, k and v as [B, H, T, D], contiguous."""
    return [
        torch.from_numpy(aligned.copied(array))
        .view(DTYPES[inputs.case.dtype])
        .transpose(1, 2)
        .contiguous()
        for array in inputs.stored
    ]


class Plain(Contender):
    """Contiguous caches of the type of q only."""

    works = WORKS

    def takes(self, case: Case) -> bool:
        return super().takes(case) and not case.cache and not case.page

    @staticmethod
    def run(attend, note: str = "") -> Run:  # noqa: ANN001
        """`attend` returns [B, H, Q, D]."""

        def compute() -> torch.Tensor:
            with torch.no_grad():
                return attend()

        return Run.keeping(
            compute,
            lambda out, rows: [plain_attention.picked_heads_first(out, rows).float().numpy()],
            note,
        )


class Sdpa(Plain):
    name = "PyTorch SDPA"

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        q, k, v = heads_first(inputs)
        options: dict = {"enable_gqa": q.shape[1] != k.shape[1]}
        if not case.queries:
            options["is_causal"] = True
        elif case.queries > 1:
            mask = torch.from_numpy(plain_attention.hidden(case))
            options["attn_mask"] = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(
                mask, -torch.inf
            )
        return self.run(lambda: F.scaled_dot_product_attention(q, k, v, **options))


class Flex(Plain):
    """Compiled before the timing."""

    name = "PyTorch FlexAttention"

    def prepare(self, inputs: Inputs) -> Run:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        case = inputs.case
        torch.compiler.reset()  # after eight compilations of a function PyTorch does no more
        q, k, v = heads_first(inputs)
        queries, tokens = q.shape[2], k.shape[2]
        before = tokens - queries

        def causal(b, h, i, j):  # noqa: ANN001, ANN202
            return j <= i + before

        mask = None
        if queries > 1:
            mask = create_block_mask(causal, None, None, queries, tokens, device="cpu")
        compiled = torch.compile(flex_attention, dynamic=False)
        grouped = q.shape[1] != k.shape[1]
        return self.run(lambda: compiled(q, k, v, block_mask=mask, enable_gqa=grouped))
