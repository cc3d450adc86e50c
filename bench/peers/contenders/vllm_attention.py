"""vLLM's CPU attention, which reads keys and values from pages, without other parts of vLLM."""

from __future__ import annotations

import math

import numpy as np
import torch

import plain_attention
from arrays import Inputs, from_storage
from cases import Case
from contender import Contender, Run
from contenders.tensors import DTYPES

PAGE = 128  # tokens; the default of vLLM on CPUs


def instructions(dtype: torch.dtype, page: int) -> str:
    """As vLLM chooses them on x86."""
    if page % 32:
        return "vec16"
    amx = torch.cpu._is_amx_tile_supported() and dtype == torch.bfloat16
    return "amx" if amx else "vec"


class VllmAttention(Contender):
    """Made before the timing, as they serve all layers: the schedule, the pages of k and v."""

    name = "vLLM for CPU, attention"
    works = ("attention_prompt", "attention_decode")

    def takes(self, case: Case) -> bool:
        return super().takes(case) and case.cache != "int8"

    def prepare(self, inputs: Inputs) -> Run:
        case, dtype = inputs.case, DTYPES[inputs.case.dtype]
        page = case.page or min(PAGE, case.tokens)
        isa, scale = instructions(dtype, page), 1 / math.sqrt(case.size)
        cache = "fp8_e4m3" if case.cache else "auto"
        heads, key_heads = case.heads
        q = torch.from_numpy(inputs.stored[0].copy()).view(dtype).flatten(0, 1)
        k, v = (self.typed(stored, inputs, dtype) for stored in inputs.stored[1:])
        blocks = case.batch * case.tokens // page
        order = np.arange(blocks)
        if case.page:
            order = np.random.default_rng(7).permutation(blocks)
        slots = torch.from_numpy((order[:, None] * page + np.arange(page)).ravel())
        table = torch.from_numpy(order.reshape(case.batch, -1).astype(np.int32))
        pages = torch.zeros(
            (blocks, key_heads, 2 * page, case.size),
            dtype=torch.uint8 if case.cache else dtype,
        )
        of_keys, of_values = pages.chunk(2, dim=2)
        ops = torch.ops._C
        ops.cpu_attn_reshape_and_cache(
            k, v, of_keys, of_values, slots, isa, 1.0, 1.0, cache
        )
        del k, v
        lengths = torch.full((case.batch,), case.tokens, dtype=torch.int32)
        count = case.queries or case.tokens
        starts = torch.arange(0, case.batch * count + 1, count, dtype=torch.int32)
        schedule = ops.get_scheduler_metadata(
            case.batch, heads, key_heads, case.size, lengths, dtype, starts, True, -1, isa,
            True, None, cache,
        )  # fmt: skip
        out = torch.empty_like(q)
        arguments = (
            q, of_keys, of_values, out, starts, lengths, scale, True, None, -1, table, 0.0,
            schedule, None, None, 1.0, 1.0, cache,
        )  # fmt: skip
        attend = ops.cpu_attention_with_kv_cache
        return Run(
            lambda: attend(*arguments),
            lambda rows: [out[rows].float().numpy()],
            note=f"pages of {page} tokens",
        )

    @staticmethod
    def typed(stored: np.ndarray, inputs: Inputs, dtype: torch.dtype) -> torch.Tensor:
        """[tokens, G, D], of the type of q."""
        if inputs.case.cache:
            values = from_storage(stored, plain_attention.stored_as(inputs.case))
            return torch.from_numpy(values).to(dtype).flatten(0, 1)
        return torch.from_numpy(stored.copy()).view(dtype).flatten(0, 1)
