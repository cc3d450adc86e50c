"""The replaced parts of each model family: rotary modules, BLOOM's and T5's attention.

A module is patched by changing its class to a subclass, which a copy of the model keeps.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.bloom.modeling_bloom import BloomAttention
from transformers.models.t5.modeling_t5 import T5Attention

from gnomon import specs
from gnomon.model import from_pretrained

from . import not_compiled
from .attend import attend, unsupported_reason, warn
from .masks import Bias, Mask
from .rotary import Angles, ExactRotary, cos_sin, install, rotate, uninstall

# model_type of the configs whose layers rotate with `apply_rotary_pos_emb`.
ROTARY = ("gemma", "gemma2", "gemma3_text", "gpt_neox", "llama", "mistral", "phi", "phi3", "qwen2",
          "qwen3")


class TableBias:
    """T5's bias: the module that owns the trained table, and the spec."""

    def __init__(self, owner: T5Attention, spec: Any) -> None:
        self.owner, self.spec = owner, spec

    @property
    def bias(self) -> Bias:
        return self.spec, self.owner.relative_attention_bias.weight

    def dense(self, query: Tensor, key: Tensor, past: int) -> Tensor:
        """Returns the bias [1, H, T, S] of transformers."""
        return self.owner.compute_bias(query.shape[2], key.shape[2], query.device, past)


class NoBias:
    """The bias of T5's cross-attention, which transformers stores as zeros [1, H, T, S]."""

    bias = None

    def dense(self, query: Tensor, key: Tensor, past: int) -> Tensor:
        return query.new_zeros(1, query.shape[1], query.shape[2], key.shape[2])


class GnomonT5Attention(T5Attention):
    """T5 attention whose position bias is a strip by distance."""

    gnomon_bias: TableBias | NoBias

    def forward(self, hidden_states: Tensor, mask: Any = None, key_value_states: Any = None,
                position_bias: Any = None, past_key_values: Any = None, **options: Any) -> Any:
        if position_bias is None:
            position_bias = self.gnomon_bias
        return super().forward(hidden_states, mask, key_value_states, position_bias,
                               past_key_values, **options)


class GnomonBloomAttention(BloomAttention):
    """BLOOM attention with ALiBi slopes inside attention."""

    gnomon_bias: Bias

    @not_compiled
    def forward(self, hidden_states: Tensor, residual: Tensor, alibi: Tensor,
                attention_mask: Any, layer_past: Any = None, use_cache: bool = False,
                output_attentions: bool = False, **options: Any) -> tuple[Tensor, Tensor | None]:
        reason = unsupported_reason(self, attention_mask, self.attention_dropout.p,
                                {"output_attentions": output_attentions})
        if reason is None and self.pretraining_tp > 1 and self.slow_but_exact:
            reason = "pretraining_tp with slow_but_exact"
        if reason is None and not isinstance(attention_mask, Mask):
            reason = "a missing attention mask"
        if reason is not None:
            warn(reason)
            if isinstance(attention_mask, Mask):
                attention_mask = attention_mask.dense()
            return super().forward(hidden_states, residual, alibi, attention_mask, layer_past,
                                   use_cache, output_attentions, **options)
        query, key, value = self._reshape(self.query_key_value(hidden_states))
        if layer_past is not None:
            key, value = layer_past.update(key, value, self.layer_idx)
        out = attend(query, key, value, attention_mask, self.inv_norm_factor,
                     bias=self.gnomon_bias)
        out = self.dense(out.flatten(2))
        out = residual + nn.functional.dropout(out, self.hidden_dropout, self.training)
        return out, None


_exact_classes: dict[type, type] = {}


def _exact(cls: type) -> type:
    if cls not in _exact_classes:
        _exact_classes[cls] = type("Gnomon" + cls.__name__, (ExactRotary, cls), {})
    return _exact_classes[cls]


class Change:
    """The replaced parts of a model, and what restores them."""

    def __init__(self) -> None:
        self.replaced: list[tuple[str, str]] = []  # name, change
        self.classes: list[tuple[nn.Module, type, tuple[str, ...]]] = []
        self.files: list[str] = []

    def set_class(self, name: str, module: nn.Module, cls: type, **attributes: Any) -> None:
        self.classes.append((module, type(module), tuple(attributes)))
        self.replaced.append((name, f"{type(module).__name__} -> {cls.__name__}"))
        for key, value in attributes.items():
            setattr(module, key, value)
        module.__class__ = cls

    def undo(self) -> None:
        for module, cls, attributes in self.classes:
            module.__class__ = cls
            for key in attributes:
                delattr(module, key)
        for file in self.files:
            uninstall(file)


def _largest_difference(a: Tensor, b: Tensor) -> float:
    return float(((a - b).abs() / b.abs().clamp_min(torch.finfo(torch.float32).tiny)).max())


def _check_frequencies(name: str, module: nn.Module, layer_type: str | None,
                       angles: Angles) -> None:
    """Raises ValueError unless the frequencies of the module are those of the config."""
    prefix = "" if layer_type is None else f"{layer_type}_"
    theirs = getattr(module, f"{prefix}original_inv_freq")
    ours = torch.from_dlpack(angles.frequencies.inv_freq)
    # A cast of the model rounds the buffers too (transformers issue 45902).
    allowed = 4 * torch.finfo(theirs.dtype).eps
    far = (_largest_difference(theirs.double(), ours) if theirs.shape == ours.shape
           else f"{theirs.shape[0]} pairs")
    if isinstance(far, str) or not far <= max(allowed, 1e-5):
        raise ValueError(f"[patch] the frequencies of {name} must be those of the config, "
                         f"{ours.shape[0]} pairs, got {far} (largest relative difference)")


def _check_rotation(name: str, original: Any, angles: Angles) -> None:
    """Raises ValueError unless a RotaryTable rotates as the function of the model's file."""
    width = 2 * len(angles.frequencies.inv_freq)
    q = torch.linspace(-1, 1, 2 * 3 * width).view(1, 2, 3, width)
    table = angles.table(torch.tensor([[0, 1, 5]]))
    theirs, _ = original(q, q, *cos_sin(table))  # no table: the rotation of transformers
    ours = rotate(q.transpose(1, 2), table).transpose(1, 2)
    if not torch.allclose(ours, theirs, rtol=0, atol=1e-5):
        raise ValueError(f"[patch] the rotation of {name} must be that of the config, "
                         f"got a difference of {float((ours - theirs).abs().max())}")


def patch_rotary(model: nn.Module, config: Any, change: Change) -> None:
    """Gives the rotary modules of a model exact tables, and its file the rotation."""
    description = from_pretrained(config)
    types = getattr(config, "layer_types", None)
    found = False
    for name, module in model.named_modules():
        if name.rpartition(".")[2] != "rotary_emb" or isinstance(module, ExactRotary):
            continue
        by_type = isinstance(getattr(module, "rope_type", None), dict)
        layers = {one: types.index(one) for one in module.rope_type} if by_type else {None: 0}
        angles = {}
        for layer_type, layer in layers.items():
            spec = next((one for one in description.layers[layer].position
                         if "queries and keys" in one.enters), None)
            if spec is None:
                raise ValueError(f"[patch] layer {layer} must have a rotary encoding, got none")
            angles[layer_type] = Angles(spec)
            _check_frequencies(name, module, layer_type, angles[layer_type])
        file = type(module).__module__
        original = sys.modules[file].apply_rotary_pos_emb
        _check_rotation(name, original, next(iter(angles.values())))
        change.set_class(name, module, _exact(type(module)), gnomon_angles=angles)
        change.replaced.append((file, "apply_rotary_pos_emb -> rotation by exact tables"))
        install(file)
        change.files.append(file)
        found = True
    if not found:
        raise ValueError("[patch] the model must have a module rotary_emb, got none")


def patch_bloom(model: nn.Module, config: Any, change: Change) -> None:
    """Gives the attention modules of BLOOM the ALiBi spec of the config."""
    description = from_pretrained(config)
    for name, module in model.named_modules():
        if isinstance(module, BloomAttention):
            spec = description.layers[module.layer_idx].position[0]
            change.set_class(name, module, GnomonBloomAttention, gnomon_bias=(spec, None))


def patch_t5(model: nn.Module, config: Any, change: Change) -> None:
    """Gives the attention modules of T5 a reference to the trained table of their stack."""
    parts = {False: ("encoder", "bidirectional"), True: ("decoder", "causal")}
    layers = from_pretrained(config).layers
    owners = {}
    for name, module in list(model.named_modules()):
        if not isinstance(module, T5Attention):
            continue
        if name.endswith("EncDecAttention"):
            change.set_class(name, module, GnomonT5Attention, gnomon_bias=NoBias())
            continue
        if module.has_relative_attention_bias:
            part, direction = parts[module.is_decoder]
            spec = specs.T5Bias(heads=module.n_heads, direction=direction,
                                 buckets=module.relative_attention_num_buckets,
                                 max_distance=module.relative_attention_max_distance)
            if not any(layer.part == part and spec in layer.position for layer in layers):
                raise ValueError(
                    f"[patch] the bias of {name} must be that of the config, got {spec}")
            owners[module.is_decoder] = TableBias(module, spec)
        change.set_class(name, module, GnomonT5Attention, gnomon_bias=owners[module.is_decoder])


FAMILIES = {**{one: patch_rotary for one in ROTARY}, "bloom": patch_bloom, "t5": patch_t5}
