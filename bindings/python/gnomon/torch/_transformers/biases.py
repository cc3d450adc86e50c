"""Attention modules with a bias (ALiBi, T5's tables) or without the attention interface.

A module is patched by changing its class to a subclass, which a copy of the model keeps.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any

from torch import Tensor, nn
from transformers.models.bloom.modeling_bloom import BloomAttention, BloomModel
from transformers.models.codegen.modeling_codegen import CodeGenAttention
from transformers.models.falcon import modeling_falcon
from transformers.models.falcon.modeling_falcon import FalconAttention, FalconModel
from transformers.models.gpt_neox_japanese.modeling_gpt_neox_japanese import (
    GPTNeoXJapaneseAttention,
)
from transformers.models.gptj.modeling_gptj import GPTJAttention
from transformers.models.mpt.modeling_mpt import MptAttention, MptModel

from gnomon import specs
from gnomon.model import from_pretrained

from .attend import NAME, attention_forward, unsupported_reason, warn
from .change import Change, Replaced
from .masks import Bias, dense


# -- T5 ----------------------------------------------------------------------------------------


class TableBias:
    """T5's bias: the module that owns the trained table, and the spec."""

    def __init__(self, owner: nn.Module, spec: Any) -> None:
        self.owner, self.spec = owner, spec

    @property
    def bias(self) -> Bias:
        return Bias(self.spec, self.owner.relative_attention_bias.weight, mean=True)

    def dense(self, query: Tensor, key: Tensor, past: int) -> Tensor:
        """Returns the bias [1, H, T, S] of transformers."""
        return super(TableAttention, self.owner).compute_bias(
            query.shape[2], key.shape[2], query.device, past)


class NoBias:
    """The bias of T5's cross-attention, which transformers stores as zeros [1, H, T, S]."""

    bias = Bias(None, None, mean=True)

    def dense(self, query: Tensor, key: Tensor, past: int) -> Tensor:
        return query.new_zeros(1, query.shape[1], query.shape[2], key.shape[2])


class TableAttention(Replaced):
    """Mixed into attention like T5's, whose position bias is a strip by distance."""

    gnomon_bias: TableBias | NoBias

    def compute_bias(self, *_: Any, **__: Any) -> Any:
        return self.gnomon_bias


class GivenTableAttention(TableAttention):
    """For the classes that pass the bias from layer to layer."""

    def forward(self, hidden_states: Tensor, mask: Any = None, key_value_states: Any = None,
                position_bias: Any = None, past_key_values: Any = None, **options: Any) -> Any:
        if position_bias is None:
            position_bias = self.gnomon_bias
        return super().forward(hidden_states, mask, key_value_states, position_bias,
                               past_key_values, **options)


@functools.cache
def _table_class(cls: type) -> type:
    given = list(inspect.signature(cls.forward).parameters)[1:6] == [
        "hidden_states", "mask", "key_value_states", "position_bias", "past_key_values"]
    return type("Gnomon" + cls.__name__, (GivenTableAttention if given else TableAttention, cls),
                {})


def is_table_attention(module: nn.Module) -> bool:
    """Whether a module is attention with T5's buckets, through the interface of transformers."""
    cls = type(module)
    return (hasattr(cls, "compute_bias") and hasattr(cls, "_relative_position_bucket")
            and "ALL_ATTENTION_FUNCTIONS" in cls.forward.__code__.co_names)


def patch_tables(model: nn.Module, change: Change) -> None:
    """Gives the attention modules of T5 and its like a reference to the table of their stack."""
    owners: dict[tuple[int, bool], TableBias] = {}
    for name, module in list(model.named_modules()):
        if not is_table_attention(module):
            continue
        stack = id(module.config), module.is_decoder
        if name.endswith("EncDecAttention"):
            bias: Any = NoBias()
        elif module.has_relative_attention_bias:
            direction = "causal" if module.is_decoder else "bidirectional"
            spec = specs.T5Bias(heads=module.n_heads, direction=direction,
                                buckets=module.relative_attention_num_buckets,
                                max_distance=module.relative_attention_max_distance)
            if not any(spec in layer.position for layer in from_pretrained(module.config).layers):
                raise ValueError(
                    f"[patch] the bias of {name} must be that of the config, got {spec}")
            bias = owners[stack] = TableBias(module, spec)
        else:
            bias = owners[stack]
        change.set_class(name, module, _table_class(type(module)), gnomon_bias=bias)


# -- ALiBi -------------------------------------------------------------------------------------


class Slopes:
    """The slopes of ALiBi."""

    def __init__(self, bias: Bias) -> None:
        self.bias = bias


def _attended(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any,
              scale: float) -> Tensor:
    """Returns the attention [B, T, C] of a module with rules as its mask."""
    mean = module.config._attn_implementation != NAME
    out, _ = attention_forward(mean, module, query, key, value, mask, scaling=scale,
                               position_bias=module.gnomon_bias)
    return out.flatten(2)


def _reason(module: Any, mask: Any, dropout: float, output_attentions: Any) -> str | None:
    if mask is None:
        return "a missing attention mask"
    return unsupported_reason(module, mask, dropout, {"output_attentions": output_attentions})


class GnomonBloomAttention(Replaced, BloomAttention):
    """BLOOM attention with ALiBi slopes inside attention."""

    gnomon_bias: Slopes

    def forward(self, hidden_states: Tensor, residual: Tensor, alibi: Tensor,
                attention_mask: Any, layer_past: Any = None, use_cache: bool = False,
                output_attentions: bool = False, **options: Any) -> tuple[Tensor, Tensor | None]:
        reason = _reason(self, attention_mask, self.attention_dropout.p, output_attentions)
        if reason is None and self.pretraining_tp > 1 and self.slow_but_exact:
            reason = "pretraining_tp with slow_but_exact"
        if reason is not None:
            warn(reason)
            return super().forward(hidden_states, residual, alibi, dense(attention_mask),
                                   layer_past, use_cache, output_attentions, **options)
        query, key, value = self._reshape(self.query_key_value(hidden_states))
        if layer_past is not None:
            key, value = layer_past.update(key, value, self.layer_idx)
        out = self.dense(_attended(self, query, key, value, attention_mask, self.inv_norm_factor))
        out = residual + nn.functional.dropout(out, self.hidden_dropout, self.training)
        return out, None


class GnomonFalconAttention(Replaced, FalconAttention):
    """Falcon attention, with ALiBi slopes inside attention or with a rotation before it."""

    gnomon_bias: Slopes | None

    def forward(self, hidden_states: Tensor, alibi: Tensor | None, attention_mask: Any,
                position_ids: Any = None, layer_past: Any = None, use_cache: bool = False,
                output_attentions: bool = False, position_embeddings: Any = None,
                **options: Any) -> tuple[Tensor, Tensor | None]:
        # transformers applies dropout to the weights with ALiBi only.
        dropout = self.attention_dropout.p if self.gnomon_bias else 0.0
        reason = _reason(self, attention_mask, dropout, output_attentions)
        if reason is not None:
            if self.gnomon_bias:
                raise ValueError("[patch] Falcon with ALiBi must have a mask [B, S], no dropout "
                                 f"and no output_attentions, got {reason}")
            warn(reason)
            return super().forward(hidden_states, alibi, dense(attention_mask), position_ids,
                                   layer_past, use_cache, output_attentions, position_embeddings,
                                   **options)
        query, key, value = (one.transpose(1, 2) for one in self._split_heads(
            self.query_key_value(hidden_states)))
        if self.gnomon_bias is None:
            query, key = modeling_falcon.apply_rotary_pos_emb(query, key, *position_embeddings)
        if layer_past is not None:
            key, value = layer_past.update(key, value, self.layer_idx)
        return self.dense(_attended(self, query, key, value, attention_mask,
                                    self.inv_norm_factor)), None


class GnomonMptAttention(Replaced, MptAttention):
    """MPT attention with ALiBi slopes inside attention."""

    gnomon_bias: Slopes

    def forward(self, hidden_states: Tensor, position_bias: Tensor, past_key_values: Any = None,
                attention_mask: Any = None, **options: Any) -> tuple[Tensor, Tensor | None]:
        reason = _reason(self, attention_mask, self.attn_dropout_p,
                         options.get("output_attentions"))
        if reason is not None:
            warn(reason)
            return super().forward(hidden_states, position_bias, past_key_values,
                                   dense(attention_mask), **options)
        mixed = self.Wqkv(hidden_states)
        if self.clip_qkv:
            mixed = mixed.clamp(min=-self.clip_qkv, max=self.clip_qkv)
        query, key, value = (one.unflatten(-1, (self.n_heads, self.head_dim)).transpose(1, 2)
                             for one in mixed.chunk(3, dim=2))
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        return self.out_proj(_attended(self, query, key, value, attention_mask,
                                       self.softmax_scale)), None


class HookedAttention(Replaced):
    """Mixed into attention whose method `_attn` computes softmax attention (GPT-J, CodeGen)."""

    gnomon_bias = None
    gnomon_scale: float

    def _attn(self, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any = None,
              ) -> tuple[Tensor, Tensor | None]:
        dropout = getattr(self, "attn_dropout", None) or self.attention_dropout
        reason = _reason(self, attention_mask, dropout.p, self.config.output_attentions)
        if reason is not None:
            warn(reason)
            return super()._attn(query, key, value, dense(attention_mask))
        out = _attended(self, query, key, value, attention_mask, self.gnomon_scale)
        return out.unflatten(-1, (query.shape[1], -1)).transpose(1, 2), None


class GnomonGPTJAttention(HookedAttention, GPTJAttention):
    """GPT-J attention."""


class GnomonCodeGenAttention(HookedAttention, CodeGenAttention):
    """CodeGen attention."""


class GnomonGPTNeoXJapaneseAttention(HookedAttention, GPTNeoXJapaneseAttention):
    """Attention of the Japanese GPT-NeoX."""


HOOKED = {GPTJAttention: GnomonGPTJAttention, CodeGenAttention: GnomonCodeGenAttention,
          GPTNeoXJapaneseAttention: GnomonGPTNeoXJapaneseAttention}


def patch_hooked(model: nn.Module, config: Any, change: Change) -> None:
    """Gives the attention modules with a method `_attn` the scale of the description."""
    layers: Any = ()
    for name, module in model.named_modules():
        if (cls := HOOKED.get(type(module))) is not None:
            layers = layers or from_pretrained(config).layers
            change.set(module, "config", config)
            change.set_class(name, module, cls, gnomon_scale=layers[0].softmax_scale)


ALIBI = {BloomAttention: GnomonBloomAttention, FalconAttention: GnomonFalconAttention,
         MptAttention: GnomonMptAttention}


def patch_alibi(model: nn.Module, change: Change, mean: bool) -> None:
    """Gives the attention modules of BLOOM, Falcon and MPT the ALiBi spec of the config."""
    config: Any = None
    layers: Any = ()
    for name, module in model.named_modules():
        if isinstance(module, (BloomModel, FalconModel, MptModel)):
            config, layers = module.config, from_pretrained(module.config).layers
            if getattr(module, "use_alibi", False):  # transformers adds the bias to the mask
                change.set(module, "use_alibi", False)
        if (cls := ALIBI.get(type(module))) is None:
            continue
        spec = layers[module.layer_idx].position[0]
        slopes = None
        if isinstance(spec, specs.Alibi):
            if cls is GnomonFalconAttention and mean:
                # The eager attention of transformers adds the bias to the mask and to the scores.
                spec = dataclasses.replace(spec, bias_scale=2 * spec.bias_scale)
            mpt = cls is GnomonMptAttention
            slopes = Slopes(Bias(spec, None, by_tokens=not mpt, masked_gradient=not mpt,
                                 mean=True))
        change.set(module, "config", config)
        change.set_class(name, module, cls, gnomon_bias=slopes)


KNOWN = (*ALIBI, *HOOKED)
