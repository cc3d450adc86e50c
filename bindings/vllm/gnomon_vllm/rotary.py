"""vLLM's rotary layers with exact tables, and rotation by Gnomon.

A class replaces vLLM's class of the same parameters (`CustomOp.register_oot`). Its table of all
positions is exact, also for operators of vLLM that read it. The rotation computes the table of the
tokens of a step once, in float32, for all layers.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from vllm.forward_context import get_forward_context, is_forward_context_available
from vllm.model_executor.layers import rotary_embedding as theirs

import gnomon


def scaling_of(layer: Any) -> gnomon.Scaling | None:
    """The scaling of a layer of vLLM, from its constructor's arguments; None: plain rotary."""
    if isinstance(layer, theirs.Llama3RotaryEmbedding):
        return gnomon.Llama3Scaling(
            factor=layer.scaling_factor, low_freq_factor=layer.low_freq_factor,
            high_freq_factor=layer.high_freq_factor, original_length=layer.orig_max_position)
    if isinstance(layer, theirs.YaRNScalingRotaryEmbedding):
        return gnomon.YarnScaling(
            factor=layer.scaling_factor, original_length=layer.max_position_embeddings,
            beta_fast=layer.beta_fast, beta_slow=layer.beta_slow,
            ramp="whole_pairs" if layer.truncate else "fractional",
            attention_factor=layer.mscale)
    if isinstance(layer, theirs.LinearScalingRotaryEmbedding):
        (factor,) = layer.scaling_factors
        return gnomon.LinearScaling(factor=factor)
    return None


def spec_of(layer: Any) -> Any:
    """The encoding of a layer of vLLM."""
    common = {"rotary_dim": layer.rotary_dim, "base": float(layer.base),
              "pairing": "halves" if layer.is_neox_style else "adjacent"}
    scaling = scaling_of(layer)
    if scaling is None:
        return gnomon.Rotary(**common)
    return gnomon.ScaledRotary(**common, scaling=scaling, length=layer.max_position_embeddings)


class GnomonRotary:
    """The methods that replace those of a class of vLLM."""

    def _compute_cos_sin_cache(self) -> Tensor:
        rows = self.max_position_embeddings  # type: ignore[attr-defined]
        if isinstance(self, theirs.YaRNScalingRotaryEmbedding):
            rows = int(rows * self.scaling_factor)
        if isinstance(self, theirs.LinearScalingRotaryEmbedding):
            (factor,) = self.scaling_factors
            rows = int(rows * factor)
            self._scaling_factor_to_offset = {float(factor): 0}
        self.encoding = spec_of(self)
        table = gnomon.RotaryTable(self.encoding, rows)
        return torch.cat([torch.from_numpy(part[0].copy()) for part in (table.cos, table.sin)], -1)

    def table(self, positions: Tensor) -> gnomon.RotaryTable:
        """The table of the tokens of this step: the layers of a model share it."""
        if not is_forward_context_available():
            return gnomon.RotaryTable(self.encoding, positions)
        kept = get_forward_context().__dict__.setdefault("gnomon_tables", {})
        key = (id(self), positions.data_ptr(), positions.shape)
        if key not in kept:  # with the positions, whose memory is then not used again
            kept[key] = gnomon.RotaryTable(self.encoding, positions), positions
        return kept[key][0]

    def forward_cpu(self, positions: Tensor, query: Tensor,
                    key: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        torch.ops.gnomon_vllm.rotate(positions, query, key, self.number)
        return query, key

    forward_native = forward_cpu

    @classmethod
    def enabled(cls) -> bool:
        """Also if vLLM compiles the model: the rotation is then an operator of the graph."""
        return True


# The layers by their numbers, which the operator has as an argument.
layers: list[weakref.ref[Any]] = []


def rotate(positions: Tensor, query: Tensor, key: Tensor | None, layer: int) -> None:
    """Rotates query [tokens, H D] and key [tokens, Hk D] in place."""
    one = layers[layer]()
    assert one is not None
    heads = [x.view(positions.numel(), -1, one.head_size) for x in (query, key) if x is not None]
    gnomon.rotate(heads[0], one.table(positions.flatten()), k=heads[1] if heads[1:] else None)


torch.library.define("gnomon_vllm::rotate",
                     "(Tensor positions, Tensor(a!) query, Tensor(b!)? key, int layer) -> ()")
torch.library.impl("gnomon_vllm::rotate", "CPU", rotate)
torch.library.register_fake("gnomon_vllm::rotate", lambda *_: None)


def made(base: type) -> type:
    """The class that replaces one of vLLM."""

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        base.__init__(self, *arguments, **named)
        self.number = len(layers)
        layers.append(weakref.ref(self))

    return type(f"Gnomon{base.__name__}", (GnomonRotary, base), {"__init__": __init__})


REPLACED = ("RotaryEmbedding", "Llama3RotaryEmbedding", "YaRNScalingRotaryEmbedding",
            "LinearScalingRotaryEmbedding")


def register() -> None:
    from vllm.model_executor.custom_op import CustomOp, op_registry_oot

    for name in REPLACED:
        if name not in op_registry_oot:
            CustomOp.register_oot(made(getattr(theirs, name)), name=name)
