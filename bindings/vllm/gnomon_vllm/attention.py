"""vLLM's attention for CPU with Gnomon's attention over its pages.

The pages are those that vLLM allocates, [blocks, Hk, page, 2 D], as two tensors [blocks, Hk, page,
D]. Keys and values are stored as they are, not in the order of a kernel.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends.cpu_attn import (
    CPUAttentionBackend,
    CPUAttentionBackendImpl,
    CPUAttentionMetadata,
)

import gnomon

ENCODERS = (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)


def pages_of(kv_cache: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values [blocks, page, Hk, D], without a copy."""
    blocks, heads, page, _ = kv_cache.shape
    both = kv_cache.view(blocks, heads, 2 * page, -1).transpose(1, 2)
    return both[:, :page], both[:, page:]


def alibi_of(slopes: list[float]) -> gnomon.Alibi:
    """The ALiBi encoding with these slopes, from their ratio and their first one."""
    heads = len(slopes)
    power = 1 << (heads.bit_length() - 1)
    ratio = slopes[1] / slopes[0] if power > 1 else 2.0**-8
    found = [slopes[0] * ratio**i for i in range(power)]
    found += [slopes[0] * ratio ** (i - 0.5) for i in range(heads - power)]
    if not all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(found, slopes, strict=True)):
        raise NotImplementedError("[gnomon] slopes other than those of ALiBi for all heads of the "
                                  f"model are not supported, got {slopes}")
    return gnomon.Alibi(heads=heads, max_bias=-power * math.log2(ratio),
                        bias_scale=slopes[0] / ratio)


class GnomonAttentionImpl(CPUAttentionBackendImpl):
    """The attention of a layer. Encoders, which have no cache, are left to vLLM."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if self.kv_cache_dtype == "fp8_e5m2":
            raise NotImplementedError("[gnomon] a cache of fp8_e5m2 is not supported: fp8_e4m3 is")
        self.plans: dict[bool, gnomon.Plan] = {}
        self.planned = 0  # tokens

    def plan(self, causal: bool, longest: int) -> gnomon.Plan:
        """The plan of all steps. With ALiBi: up to a length, which doubles."""
        kept = self.plans.get(causal)
        if kept is not None and (self.alibi_slopes is None or longest <= self.planned):
            return kept
        self.planned = max(self.planned, 1024, 1 << (longest - 1).bit_length())
        bias = None
        if self.alibi_slopes is not None:
            bias = alibi_of(self.alibi_slopes.tolist())
        window = {"left": self.sliding_window - 1} if self.sliding_window > 0 else {}
        self.plans[causal] = gnomon.lower(
            bias, self.planned, visibility="causal" if causal else "bidirectional",
            softmax_scale=self.scale, cap=self.logits_soft_cap or None,
            sinks=() if self.sinks is None else self.sinks.float().tolist(), **window)
        return self.plans[causal]

    def stored(self, layer: Any, kv_cache: Tensor) -> dict[str, Any]:
        """The scales of a cache of fp8_e4m3, as arguments."""
        if not self.is_fp8_kv_cache:
            return {}
        return {"k_scales": torch.tensor([layer._k_scale_float]),
                "v_scales": torch.tensor([layer._v_scale_float])}

    def forward(self, layer: Any, query: Tensor, key: Tensor, value: Tensor, kv_cache: Tensor,
                attn_metadata: CPUAttentionMetadata | None, output: Tensor,
                output_scale: Tensor | None = None,
                output_block_scale: Tensor | None = None) -> Tensor:
        if attn_metadata is None or self.attn_type in ENCODERS:
            return super().forward(layer, query, key, value, kv_cache, attn_metadata, output,
                                   output_scale, output_block_scale)
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("[gnomon] quantised outputs are not supported")
        if attn_metadata.dynamic_causal is not None:
            raise NotImplementedError("[gnomon] visibility by sequence is not supported")
        tokens = attn_metadata.num_actual_tokens
        keys, values = pages_of(kv_cache)
        shape = (1, tokens, self.num_heads, self.head_size)
        gnomon.attention(
            query[:tokens].view(shape), keys, values,
            self.plan(bool(attn_metadata.causal), attn_metadata.max_seq_len),
            out=output[:tokens].view(shape), query_starts=attn_metadata.query_start_loc,
            key_lengths=attn_metadata.seq_lens, block_table=attn_metadata.block_table,
            **self.stored(layer, kv_cache))
        return output

    def do_kv_cache_update(self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor,
                           slot_mapping: Tensor) -> None:
        if self.attn_type in ENCODERS:
            return
        keys, values = pages_of(kv_cache)
        tokens = slot_mapping.shape[0]
        scales = self.stored(layer, kv_cache)
        gnomon.rotate_append(
            key[:tokens], value[:tokens], None, keys, values, slots=slot_mapping,
            key_scales=scales.get("k_scales"), value_scales=scales.get("v_scales"))


class GnomonAttentionBackend(CPUAttentionBackend):
    """Replaces CPU_ATTN, with its schedule and its shapes of pages."""

    supported_kv_cache_dtypes: ClassVar[list[Any]] = ["auto", "fp8", "fp8_e4m3"]

    @staticmethod
    def get_impl_cls() -> type[GnomonAttentionImpl]:
        return GnomonAttentionImpl
