"""The rotation of other packages. Each is called as its users call it, with tables made before.

A package that cannot be imported is listed with the reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from cases import HEAD_DIM, Case
from contender import PEER, Contender, Work
from torch import Tensor


def rotate_half(x: Tensor) -> Tensor:
    return torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), dim=-1)


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """The code of transformers' models; q, k [B, H, T, D], cos and sin [B, T, D]."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def heads_first(*arrays: Tensor) -> list[Tensor]:
    """[T, H, D] as [1, H, T, D] in the same memory, as after the projections of a model."""
    return [x[None].transpose(1, 2) for x in arrays]


def from_heads_first(out: Any, *_: Tensor) -> list[Tensor]:
    return [x.transpose(1, 2)[0] for x in out]


def flat(q: Tensor, k: Tensor) -> Sequence[Tensor]:
    """[T, H D], the layout of vLLM and FlashInfer."""
    return q.flatten(1), k.flatten(1)


def unflatten(_: Any, *arrays: Tensor) -> list[Tensor]:
    return [x.unflatten(1, (-1, HEAD_DIM)) for x in arrays]


def add(work: Work, case: Case, cos: Tensor, sin: Tensor, at: Tensor) -> None:
    """Adds the peers that have this case. cos and sin: float32 [T, D/2]."""
    dtype, cuda = work.arrays[0].dtype, cos.is_cuda
    cache = torch.cat((cos, sin), dim=-1)  # [T, D]
    whole = [torch.cat((one, one), dim=-1)[None].to(dtype) for one in (cos, sin)]
    halves = case.pairing == "halves"

    def eager() -> Contender:
        return Contender("PyTorch (transformers)", PEER,
                         lambda q, k: apply_rotary_pos_emb(q, k, *whole), heads_first,
                         from_heads_first, "writes new arrays; cos and sin in the type of q")

    def compiled() -> Contender:
        torch._dynamo.reset()
        function = torch.compile(apply_rotary_pos_emb, dynamic=False,
                                 backend="inductor" if cuda else "eager")
        return Contender("torch.compile (transformers)", PEER,
                         lambda q, k: function(q, k, *whole), heads_first, from_heads_first,
                         "writes new arrays; cos and sin in the type of q")

    def flash_attn() -> Contender:
        module = importlib.import_module("flash_attn.layers.rotary")
        c, s = cos.to(dtype), sin.to(dtype)

        def call(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            return tuple(module.apply_rotary_emb(x, c, s, interleaved=not halves, inplace=True)
                         for x in (q, k))

        return Contender("flash-attn", PEER, call, lambda *all: [x[None] for x in all],
                         lambda out, *_: [x[0] for x in out],
                         "two launches; cos and sin in the type of q")

    def vllm() -> Contender:
        module = importlib.import_module("vllm._custom_ops")
        if cuda:
            importlib.import_module("vllm._C")
        rows = cache.to(dtype)

        def call(q: Tensor, k: Tensor) -> None:
            module.rotary_embedding(at, q, k, HEAD_DIM, rows, halves)

        return Contender("vLLM", PEER, call, flat, unflatten, "cos and sin in the type of q")

    def liger() -> Contender:
        module = importlib.import_module("liger_kernel.transformers.rope")
        return Contender("Liger-Kernel", PEER,
                         lambda q, k: module.liger_rotary_pos_emb(q, k, *whole), heads_first,
                         from_heads_first, "cos and sin in the type of q")

    def flashinfer() -> Contender:
        module = importlib.import_module("flashinfer")

        def call(q: Tensor, k: Tensor) -> None:
            module.apply_rope_with_cos_sin_cache_inplace(at, q, k, HEAD_DIM, cache, halves)

        return Contender("FlashInfer", PEER, call, flat, unflatten, "cos and sin in float32")

    if halves:
        work.try_add("PyTorch (transformers)", eager)
        work.try_add("torch.compile (transformers)", compiled)
        work.try_add("Liger-Kernel", liger)
    work.try_add("flash-attn", flash_attn)
    work.try_add("vLLM", vllm)
    if dtype != torch.float32:
        work.try_add("FlashInfer", flashinfer)
