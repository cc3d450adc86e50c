"""Layers of Mistral Large 4 against transformers' own attention module: a prompt, and decoding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache
from transformers.models.mistral_large4 import MistralLarge4TextConfig
from transformers.models.mistral_large4.modeling_mistral_large4 import (
    MistralLarge4TextAttention,
    MistralLarge4TextRotaryEmbedding,
)

import gnomon

HEADS, NOPE_DIM, ROTARY_DIM, VALUE_DIM, TOKENS, BATCH = 4, 8, 8, 6, 23, 2
CONFIG = MistralLarge4TextConfig(
    hidden_size=32, num_hidden_layers=4, num_attention_heads=HEADS, num_key_value_heads=HEADS,
    kv_lora_rank=12, qk_nope_head_dim=NOPE_DIM, qk_rope_head_dim=ROTARY_DIM,
    v_head_dim=VALUE_DIM, index_topk=TOKENS, index_head_dim=16, index_n_heads=2,
    max_position_embeddings=64, rope_parameters={
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0,
        "original_max_position_embeddings": 4, "attention_factor": 1.0})
CONFIG._attn_implementation = "eager"


class Layer:
    """One layer with random weights, by transformers and by gnomon."""

    def __init__(self, layer: int) -> None:
        torch.manual_seed(layer)
        self.layer, self.of = layer, MistralLarge4TextAttention(CONFIG, layer).eval()
        for name, one in self.of.named_parameters():
            torch.nn.init.normal_(one, 1 if "norm" in name or name.endswith("bias") else 0, 0.4)
        self.rotary = MistralLarge4TextRotaryEmbedding(CONFIG)
        torch.nn.init.normal_(self.rotary.alpha, 0, 0.5)
        self.model = gnomon.model.from_pretrained(CONFIG)
        tensors = {"rotary.alpha": self.rotary.alpha,
                   "query_scale.slope": self.of.softmax_scaling.scale,
                   "query_scale.offset": self.of.softmax_scaling.bias}
        self.parameters = [tensors[one.name].detach().numpy().reshape(one.rows, one.columns)
                           for one in self.model.parameters(layer)]
        self.keys = np.zeros((BATCH, 0, HEADS, NOPE_DIM + ROTARY_DIM), np.float32)
        self.values = np.zeros((BATCH, 0, HEADS, VALUE_DIM), np.float32)

    def theirs(self, x: torch.Tensor, first: int, cache: Any = None) -> torch.Tensor:
        tokens = x.shape[1]
        ids = torch.arange(first, first + tokens)[None].expand(x.shape[0], -1)
        seen = ids[0][:, None] >= torch.arange(first + tokens)
        mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]
        with torch.no_grad():
            return self.of(x, self.rotary(x, ids), mask.expand(x.shape[0], 1, -1, -1), {},
                           position_ids=ids, past_key_values=cache)[0]

    def ours(self, x: torch.Tensor, first: int, parameters: Any = None) -> torch.Tensor:
        of, tokens = self.of, x.shape[1]
        plan = self.model.lower(self.layer, tokens, cached=first,
                                parameters=parameters or self.parameters)
        with torch.no_grad():
            q = of.q_proj(x).reshape(BATCH, tokens, HEADS, -1).numpy()
            latent, shared = of.kv_a_proj_with_mqa(x).split(
                [CONFIG.kv_lora_rank, of.qk_rope_head_dim], -1)
            expanded = of.kv_b_proj(of.kv_a_layernorm(latent)).reshape(BATCH, tokens, HEADS, -1)
            nope, v = expanded.split([of.qk_nope_head_dim, VALUE_DIM], -1)
            k = torch.cat([nope, shared[:, :, None].expand(-1, -1, HEADS, -1)], -1).numpy()
            gnomon.prepare(q, k, None, plan)
            self.keys = np.concatenate([self.keys, k], 1)
            self.values = np.concatenate([self.values, v.numpy()], 1)
            out = gnomon.attention(q, self.keys, np.ascontiguousarray(self.values), plan)
            return of.o_proj(torch.from_numpy(out).reshape(BATCH, tokens, -1))


def inputs() -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, 32, generator=torch.Generator().manual_seed(5))


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()


@pytest.mark.parametrize("layer", [0, 3])  # a layer that rotates, and one that does not
def test_prompt_and_decoding(layer: int) -> None:
    x, prompt = inputs(), 17
    whole = Layer(layer).theirs(x, 0)
    one, cache = Layer(layer), DynamicCache(config=CONFIG)
    close(Layer(layer).ours(x, 0), whole)
    close(one.ours(x[:, :prompt], 0), one.theirs(x[:, :prompt], 0, cache))
    for t in range(prompt, TOKENS):
        step = one.ours(x[:, t:t + 1], t)
        close(step, one.theirs(x[:, t:t + 1], t, cache))
        close(step, whole[:, t:t + 1])


def test_each_parameter_changes_the_result() -> None:
    layer, x = Layer(0), inputs()
    names = [one.name for one in layer.model.parameters(0)]
    assert names == ["rotary.alpha", "query_scale.slope", "query_scale.offset"]
    assert [one.name for one in layer.model.parameters(3)] == names[1:]
    right = layer.theirs(x, 0)
    for at, name in enumerate(names):
        changed = [one + (0.1 if at == i else 0) for i, one in enumerate(layer.parameters)]
        out = Layer(0).ours(x, 0, [one.astype(np.float32) for one in changed])
        assert (out - right).abs().max() > 1e-3 * right.abs().max(), name


def test_more_keys_than_the_indexer_selects_are_refused() -> None:
    message = "must have at most 23 keys: the indexer that selects as many of more keys is not " \
              "supported, got 24"
    with pytest.raises(ValueError, match=message):
        layer = Layer(0)
        layer.model.lower(0, 1, cached=TOKENS, parameters=layer.parameters)


def test_layers_that_share_keys_are_refused() -> None:
    config = CONFIG.to_dict() | {"kv_source_layers": [0, 0, 2, 3]}
    model = gnomon.model.from_pretrained(config)
    reasons = [one.unsupported for one in model.layers]
    assert reasons == ["", "keys and values of an earlier layer", "", ""]
