"""Layers of DeepSeek-V4 against transformers' own attention module: a prompt, and decoding."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache
from transformers.models.deepseek_v4 import DeepseekV4Config
from transformers.models.deepseek_v4.modeling_deepseek_v4 import (
    DeepseekV4Attention,
    DeepseekV4RotaryEmbedding,
)

import gnomon

HEADS, HEAD_DIM, ROTARY_DIM, WINDOW, TOKENS, BATCH = 4, 24, 8, 5, 43, 2
TYPES = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
ORIGINAL = {  # the spelling of DeepSeek's config.json, with small sizes
    "model_type": "deepseek_v4", "hidden_size": 48, "num_attention_heads": HEADS,
    "num_key_value_heads": 1, "num_hidden_layers": 3, "head_dim": HEAD_DIM,
    "qk_rope_head_dim": ROTARY_DIM, "q_lora_rank": 20, "o_groups": 2, "o_lora_rank": 6,
    "sliding_window": WINDOW, "index_n_heads": 5, "index_head_dim": 12, "index_topk": 3,
    "rms_norm_eps": 1e-5, "rope_theta": 10000, "compress_rope_theta": 160000,
    "max_position_embeddings": 1024, "compress_ratios": [0, 4, 128],
    "compress_rate_hca": 8,
    "rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 64,
                     "beta_fast": 32, "beta_slow": 1},
}


def transformers_config(fields: dict[str, Any]) -> DeepseekV4Config:
    config = DeepseekV4Config(**{name: one for name, one in fields.items()
                                 if name != "model_type"})
    config._attn_implementation = "eager"
    return config


class Theirs:
    """transformers' attention of one layer with random weights."""

    def __init__(self, layer: int) -> None:
        self.config, self.layer = transformers_config(ORIGINAL), layer
        torch.manual_seed(layer)
        self.attention = DeepseekV4Attention(self.config, layer).eval()
        for name, one in self.attention.named_parameters():
            torch.nn.init.normal_(one, 1 if "norm" in name else 0, 0.5)
        self.rotary = DeepseekV4RotaryEmbedding(self.config)

    def __call__(self, x: torch.Tensor, first: int = 0, cache: Any = None,
                 grad: bool = False) -> torch.Tensor:
        tokens = x.shape[1]
        ids = torch.arange(first, first + tokens)[None].expand(x.shape[0], -1)
        angles = {kind: self.rotary(x, position_ids=ids, layer_type=kind)
                  for kind in ("main", "compress")}
        kept = min(first, WINDOW - 1)
        distance = ids[0][:, None] - torch.arange(first - kept, first + tokens)
        seen = (distance >= 0) & (distance < WINDOW)
        mask = torch.where(seen, 0.0, -torch.inf)[None, None].expand(x.shape[0], 1, -1, -1)
        with torch.set_grad_enabled(grad):
            return self.attention(x, position_embeddings=angles, position_ids=ids,
                                  attention_mask=mask, past_key_values=cache)[0]


class Ours:
    """The same layer by gnomon: projections by torch, everything between by gnomon."""

    def __init__(self, theirs: Theirs, config: Any = ORIGINAL) -> None:
        self.of, self.layer = theirs.attention, theirs.layer
        self.model = gnomon.model.from_pretrained(config)
        self.window = np.zeros((BATCH, 0, 1, HEAD_DIM), np.float32)
        compressor = self.of.compressor
        tensors = {"sinks": self.of.sinks, "key_norm.weight": self.of.kv_norm.weight}
        if compressor is not None:
            tensors |= {"compression.bias": compressor.position_bias,
                        "compression.weight": compressor.kv_norm.weight}
        self.indexer = getattr(compressor, "indexer", None)
        if self.indexer is not None:
            tensors |= {"index.bias": self.indexer.position_bias,
                        "index.weight": self.indexer.kv_norm.weight}
        self.parameters = [tensors[one.name].detach().numpy().reshape(one.rows, one.columns)
                           for one in self.model.parameters(self.layer)]
        assert len(self.parameters) == len(tensors)
        self.kept: list[gnomon.CompressedKeys] = []
        self.selected: np.ndarray | None = None

    def project(self, owner: Any, x: torch.Tensor, width: int) -> list[np.ndarray]:
        return [one(x).detach().numpy().reshape(*x.shape[:2], -1, width)
                for one in (owner.kv_proj, owner.gate_proj)]

    def entries(self, owner: Any, x: torch.Tensor, plan: gnomon.Plan, which: int) -> np.ndarray:
        width = HEAD_DIM if which == 0 else 12
        if len(self.kept) == which:
            self.kept.append(gnomon.CompressedKeys(plan, capacity=TOKENS, batch=BATCH,
                                                   index=which == 1))
        self.kept[which].append(*self.project(owner, x, width))
        return self.kept[which].entries

    def __call__(self, x: torch.Tensor, first: int = 0) -> torch.Tensor:
        tokens = x.shape[1]
        keys = np.arange(first - self.window.shape[1], first + tokens)
        plan = self.model.lower(self.layer, np.arange(first, first + tokens), keys,
                                parameters=self.parameters)
        with torch.no_grad():
            residual = self.of.q_a_norm(self.of.q_a_proj(x))
            q = self.of.q_b_proj(residual).numpy().reshape(*x.shape[:2], HEADS, HEAD_DIM)
            kv = self.of.kv_proj(x).numpy().reshape(*x.shape[:2], 1, HEAD_DIM)
            gnomon.prepare(q, kv, None, plan)
            kv = np.concatenate([self.window, kv], 1)
            self.window = kv[:, -(WINDOW - 1):]
            if self.of.compressor is None:
                out = gnomon.attention(q, kv, kv, plan)
            else:
                entries = self.entries(self.of.compressor, x, plan, 0)
                if self.indexer is not None:
                    self.selected = self.select(x, residual, plan)
                lse = np.empty((BATCH, HEADS, tokens), np.float32)
                out = gnomon.compressed_attention(q, kv, entries, plan, lse=lse,
                                                  selected=self.selected)
                self.call = plan, q, kv, entries, out, lse
            grouped = torch.from_numpy(out).reshape(*x.shape[:2], 2, -1)
            return self.of.o_b_proj(self.of.o_a_proj(grouped).flatten(2))

    def select(self, x: torch.Tensor, residual: torch.Tensor, plan: gnomon.Plan) -> np.ndarray:
        index = self.indexer.q_b_proj(residual).numpy().reshape(*x.shape[:2], -1, 12)
        gnomon.rotate(index, plan.index_rotary)
        weights = self.indexer.scorer.weights_proj(x).numpy()
        return gnomon.select_keys(index, weights, self.entries(self.indexer, x, plan, 1), plan)


def inputs() -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, 48, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("layer", range(3))
def test_a_prompt(layer: int) -> None:
    theirs = Theirs(layer)
    ours = Ours(theirs)
    wanted, got = theirs(inputs()), ours(inputs())
    assert (got - wanted).abs().max() < 1e-5 * wanted.abs().max()
    if layer == 1:
        # The selection leaves entries out, and without it the result differs.
        assert (ours.selected[:, -1] >= 0).sum() == BATCH * 3 < BATCH * TOKENS // 4
        theirs.attention.compressor.indexer.index_topk = TOKENS
        assert (theirs(inputs()) - wanted).abs().max() > 1e-2


@pytest.mark.parametrize("prompt", [0, 6, 17])
@pytest.mark.parametrize("layer", range(3))
def test_decoding(layer: int, prompt: int) -> None:
    """After a prompt, token by token from the caches: as transformers, and as the full pass."""
    x, theirs = inputs(), Theirs(layer)
    ours, whole = Ours(theirs), theirs(x)
    cache = DynamicCache(config=theirs.config)
    starts = ([0] if prompt else []) + list(range(prompt, TOKENS))
    for first, end in zip(starts, [*starts[1:], TOKENS]):
        wanted = theirs(x[:, first:end], first, cache)
        got = ours(x[:, first:end], first)
        assert (got - wanted).abs().max() < 1e-5 * whole.abs().max()
        assert (got - whole[:, first:end]).abs().max() < 1e-5 * whole.abs().max()


@pytest.mark.parametrize("layer", [1, 2])
def test_gradients(layer: int) -> None:
    """From the output of attention to the compressor's projections, by torch's autograd."""
    theirs = Theirs(layer)
    compressor, kept = theirs.attention.compressor, {}

    def keep(name: str, x: torch.Tensor) -> None:
        if x.requires_grad:  # not in the calls of `Ours`
            x.retain_grad()
            kept[name] = x

    compressor.kv_proj.register_forward_hook(lambda *call: keep("values", call[-1]))
    compressor.gate_proj.register_forward_hook(lambda *call: keep("gates", call[-1]))
    theirs.attention.o_a_proj.register_forward_pre_hook(lambda _, args: keep("out", args[0]))
    with torch.enable_grad():
        theirs(inputs(), grad=True).square().sum().backward()
    ours = Ours(theirs)
    ours(inputs())
    plan, q, kv, entries, out, lse = ours.call
    grad = {name: x.grad.numpy().reshape(BATCH, TOKENS, -1, HEAD_DIM)
            for name, x in kept.items()}
    made = [np.empty_like(x) for x in (q, kv, entries)]
    sinks = np.empty(HEADS)
    gnomon.compressed_attention_backward(
        q, kv, entries, plan, out, lse, grad["out"], q_grad=made[0], kv_grad=made[1],
        entries_grad=made[2], selected=ours.selected, sinks_grad=sinks)
    values, gates = ours.project(compressor, inputs(), HEAD_DIM)
    dv, dg = np.empty_like(values), np.empty_like(gates)
    bias, weight = np.empty(compressor.position_bias.numel()), np.empty(HEAD_DIM)
    gnomon.compress_keys_backward(values, gates, plan, made[2], values_grad=dv, gates_grad=dg,
                                  bias_grad=bias, weight_grad=weight)
    for got, wanted in ((dv, grad["values"]), (dg, grad["gates"]),
                        (bias, compressor.position_bias.grad.numpy().ravel()),
                        (weight, compressor.kv_norm.weight.grad.numpy()),
                        (sinks, theirs.attention.sinks.grad.numpy())):
        np.testing.assert_allclose(got, wanted, 0, 2e-5 * np.abs(wanted).max())


SPELLINGS = {
    "original": {},
    "rope_type": {"rope_scaling": ORIGINAL["rope_scaling"] | {"rope_type": "yarn"}},
    "given factor": {"rope_scaling": ORIGINAL["rope_scaling"] | {"attention_factor": 1.5}},
    "mscale": {"rope_scaling": ORIGINAL["rope_scaling"] | {"mscale": 2, "mscale_all_dim": 1}},
    "a base in the dictionary": {"rope_scaling": ORIGINAL["rope_scaling"] | {"rope_theta": 5}},
    "no scaling": {"rope_scaling": None},
    "linear": {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "share": {"qk_rope_head_dim": None, "partial_rotary_factor": 0.25},
    "layer types": {"compress_ratios": None, "layer_types": TYPES[::-1]},
    "layer types before ratios": {"layer_types": TYPES[::-1]},
    "no layer types": {"compress_ratios": None},
    "longer ratios": {"compress_ratios": [4, 128, 0, 4]},
    "rates": {"compress_rate_hca": None,
              "compress_rates": {TYPES[1]: 2, TYPES[2]: 16}},
    "rates and old rates": {"compress_rate_csa": 6,
                            "compress_rates": {TYPES[1]: 2, TYPES[2]: 16}},
}
SHARE = {"partial_rotary_factor": ROTARY_DIM / HEAD_DIM}
MAIN = {"rope_type": "default", "rope_theta": 10000.0} | SHARE
YARN = ORIGINAL["rope_scaling"] | {"rope_theta": 160000.0} | SHARE
NESTED = {
    "labels": {"main": MAIN, "compress": YARN},  # the usual factor of YARN, not 1
    "labels, own bases": {"main": MAIN | {"rope_theta": 77.0},
                          "compress": YARN | {"rope_theta": 99.0, "attention_factor": 1.0}},
    "labels, own share": {"main": MAIN | {"partial_rotary_factor": 0.25},
                          "compress": YARN | {"partial_rotary_factor": 0.25}},
}
for label, given in NESTED.items():
    SPELLINGS[label] = {"rope_scaling": None, "rope_parameters": given}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_a_config(spelling: str) -> None:
    fields = {name: one for name, one in (ORIGINAL | SPELLINGS[spelling]).items()
              if one is not None}
    config = transformers_config(copy.deepcopy(fields))  # it changes its arguments
    rotary = DeepseekV4RotaryEmbedding(config)
    for source in (fields, config):  # as released, and as transformers saves it
        model = gnomon.model.from_pretrained(source)
        assert len(model.layers) == len(config.layer_types) == 3
        for one, kind in zip(model.layers, config.layer_types):
            label = "main" if kind == TYPES[0] else "compress"
            found = model.frequencies(one.index)
            np.testing.assert_allclose(
                found.inv_freq, getattr(rotary, f"{label}_inv_freq").double().numpy(), 2e-6)
            assert found.table_scale == pytest.approx(
                getattr(rotary, f"{label}_attention_scaling"), rel=1e-7)
            assert found.head_offset + found.rotary_dim == HEAD_DIM and one.left == WINDOW - 1
            shapes = {p.name: (p.rows, p.columns) for p in model.parameters(one.index)}
            rate = config.compress_rates.get(kind)
            series = 2 if kind == TYPES[1] else 1
            assert shapes.get("compression.bias") == (rate and (rate, series * HEAD_DIM))
            assert shapes.get("index.bias") == ((rate, 24) if series == 2 else None)


def test_refusals() -> None:
    model = gnomon.model.from_pretrained(ORIGINAL)
    zeros = [np.zeros((one.rows, one.columns), np.float32) for one in model.parameters(1)]
    padded = gnomon.Positions.from_padding_mask(np.array([[0, 1, 1]], np.uint8))
    with pytest.raises(ValueError, match="compressed keys require consecutive positions"):
        model.lower(1, padded, parameters=zeros)
    plan = model.lower(1, 3, parameters=zeros)
    q, kv = np.zeros((1, 3, HEADS, HEAD_DIM)), np.zeros((1, 3, 1, HEAD_DIM))
    with pytest.raises(ValueError, match="requires compressed_attention"):
        gnomon.attention(q, kv, kv, plan)
    for changed, message in (({"compress_ratios": [0, 4, 8]}, "must be 0, 4 or 128, got 8"),
                             ({"compress_rates": {TYPES[1]: 4}, "compress_rate_hca": None},
                              f"must have a rate of {TYPES[2]}"),
                             ({"index_head_dim": 6}, "index_head_dim must be at least the rot"),
                             ({"rope_scaling": {"main": MAIN}}, 'the key "main" of a scaling'),
                             ({"num_key_value_heads": 2}, "has 1 key head, got 2")):
        with pytest.raises(gnomon.FormatError, match=message):
            gnomon.model.from_pretrained(ORIGINAL | changed)
