"""Layers of Inkling 1 and 2 against transformers' own attention modules: a prompt, and decoding."""

from __future__ import annotations

import ast
import importlib.util
import pathlib
from typing import Any

import einops
import einops.layers.torch
import numpy as np
import pytest
import torch
from transformers import DynamicCache
from transformers.models.inkling.configuration_inkling import InklingTextConfig
from transformers.models.inkling.modeling_inkling import InklingAttention
from transformers.models.inkling2.configuration_inkling2 import Inkling2TextConfig
from transformers.models.inkling2.modeling_inkling2 import (
    Inkling2FullAttention,
    Inkling2SlidingAttention,
)

import gnomon
import gnomon.torch as gt

BATCH, TOKENS, WINDOW = 2, 23, 5
COMMON = {
    "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 12, "swa_num_attention_heads": 6,
    "swa_num_key_value_heads": 3, "swa_head_dim": 8, "sliding_window_size": WINDOW, "d_rel": 6,
    "rel_extent": 9, "log_scaling_n_floor": 4, "layer_types": ["hybrid", "hybrid_sliding"],
    "conv_kernel_size": 4, "max_position_embeddings": 64}
CONFIGS = {"inkling_text": COMMON,
           "inkling2_text": {**COMMON, "qk_l2_clip_threshold": 2.5, "rel_l2_clip_threshold": 1.5}}


class Theirs:
    """transformers' attention of one layer with random weights."""

    def __init__(self, kind: str, layer: int) -> None:
        second = kind == "inkling2_text"
        self.config = (Inkling2TextConfig if second else InklingTextConfig)(**CONFIGS[kind])
        self.config._attn_implementation = "eager"
        self.layer, self.full = layer, layer == 0
        torch.manual_seed(layer)
        made = (InklingAttention if not second else
                Inkling2FullAttention if self.full else Inkling2SlidingAttention)
        self.attention = made(self.config, layer).eval()
        self.takes_three = second and self.full
        for name, one in self.attention.named_parameters():
            torch.nn.init.normal_(one, 1 if "norm" in name or "clip" in name else 0, 0.4)

    def __call__(self, x: torch.Tensor, others: tuple[torch.Tensor, ...], first: int = 0,
                 cache: Any = None) -> torch.Tensor:
        tokens = x.shape[1]
        if cache is None:
            keys, before = tokens, 0
        else:
            keys, before = cache.get_mask_sizes(tokens, self.layer)
        ids = torch.arange(first, first + tokens)
        distance = ids[:, None] - torch.arange(before, before + keys)
        seen = (distance >= 0) & (distance < (2**30 if self.full else WINDOW))
        mask = torch.where(seen, 0.0, -torch.inf)[None, None]
        more = others if self.takes_three else ()
        with torch.no_grad():
            return self.attention(x, *more, attention_mask=mask, past_key_values=cache,
                                  position_ids=ids[None])[0]


class Ours:
    """The same layer by gnomon: projections by torch, everything between by gnomon."""

    def __init__(self, theirs: Theirs, kind: str) -> None:
        self.of, self.layer = theirs.attention, theirs.layer
        self.full, self.second = theirs.full, kind == "inkling2_text"
        self.model = gnomon.model.from_pretrained({"model_type": kind, **CONFIGS[kind]})
        self.rules = self.model.layers[self.layer]
        of = self.of
        tensors = {"projection": of.r_proj.weight, "table": of.rel_logits_proj.proj}
        if self.second:
            tensors |= {"scale": of.rel_l2_clip.scale, "sinks.weight": of.sink_proj.weight,
                        "query_norm.weight": of.q_l2_clip.scale}
        else:
            tensors |= {"query_norm.weight": of.q_norm.weight,
                        "key_norm.weight": of.k_norm.weight}
        names = [one.name for one in self.model.parameters(self.layer)]
        assert {one for one in names if not one.endswith("norm.bias")} == set(tensors)
        self.parameters = [
            tensors[one.name].detach().numpy().reshape(one.rows, one.columns)
            if one.name in tensors else np.zeros((one.rows, one.columns), np.float32)
            for one in self.model.parameters(self.layer)]
        self.states: dict[str, np.ndarray] = {}
        self.cache: dict[str, np.ndarray] = {}

    def convolved(self, name: str, x: torch.Tensor) -> np.ndarray:
        """The keys or values of new tokens, which continue those before."""
        y = getattr(self.of, name + "_proj")(x).detach().numpy()
        convolution = getattr(self.of, name + "_sconv")
        state = self.states.setdefault(name, np.zeros((len(y), 3, y.shape[2]), np.float32))
        if self.second and self.full:
            dynamic = convolution.weight_proj(x).detach().numpy()
            y = gnomon.convolve(y, convolution.static_weight.detach().numpy().T, state=state,
                                order="newest_first", scale=9**-0.5,
                                dynamic=dynamic.reshape(*y.shape[:2], -1, 4))
        else:
            y = gnomon.convolve(y, convolution.conv1d.weight.detach().numpy()[:, 0], state=state,
                                scale=5**-0.5 if self.second else 1.0)
        return y.reshape(*y.shape[:2], self.rules.key_heads, self.rules.head_dim)

    def __call__(self, x: torch.Tensor, others: tuple[torch.Tensor, ...],
                 first: int = 0) -> torch.Tensor:
        tokens = x.shape[1]
        plan = self.model.lower(self.layer, np.arange(first, first + tokens),
                                np.arange(first + tokens), parameters=self.parameters)
        q = self.of.q_proj(x).detach().numpy().reshape(
            *x.shape[:2], self.rules.heads, self.rules.head_dim)
        of_k, of_v = others if self.second and self.full else (x, x)
        k, v = self.convolved("k", of_k), self.convolved("v", of_v)
        gnomon.prepare(q, k, v, plan)
        for name, new in (("k", k), ("v", v)):
            self.cache[name] = np.concatenate([*([self.cache[name]] if first else []), new], 1)
        out = gnomon.attention(q, self.cache["k"], self.cache["v"], plan,
                               terms=self.model.terms(self.layer, x.numpy(), plan))
        with torch.no_grad():
            y = torch.from_numpy(out).flatten(2)
            if self.second:
                y = y * torch.sigmoid(self.of.gate_proj(x))
            return self.of.o_proj(y)


@pytest.mark.parametrize("layer", [0, 1], ids=["full", "sliding"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_layer_is_that_of_transformers(kind: str, layer: int) -> None:
    """A prompt at once, then a prompt, a few tokens and single tokens from a cache: to 1e-5."""
    theirs = Theirs(kind, layer)
    x, *others = (torch.randn(BATCH, TOKENS, 48) for _ in range(3))
    want = theirs(x, others)
    got = Ours(theirs, kind)(x, others)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    ours, cache, first = Ours(theirs, kind), DynamicCache(config=theirs.config), 0
    for count in (9, 3, *[1] * 11):
        part = [one[:, first:first + count] for one in (x, *others)]
        of_cache = theirs(part[0], part[1:], first, cache)
        own = ours(part[0], part[1:], first)
        torch.testing.assert_close(own, of_cache, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(own, want[:, first:first + count], atol=1e-5, rtol=1e-5)
        first += count


def test_the_parents_are_read() -> None:
    """The multimodal configs describe the text model."""
    for parent, kind in (("inkling_mm_model", "inkling_text"), ("inkling2", "inkling2_text")):
        model = gnomon.model.from_pretrained({"model_type": parent, "text_config": COMMON})
        alone = gnomon.model.from_pretrained({"model_type": kind, **COMMON})
        assert [one.position for one in model.layers] == [one.position for one in alone.layers]
        full, sliding = (one.position[0] for one in alone.layers)
        assert (full.extent, full.heads, sliding.extent, sliding.heads) == (9, 4, WINDOW, 6)


@pytest.fixture
def relative_bias() -> Any:
    """The class of x-transformers, whose module requires einx and loguru."""
    spec = importlib.util.find_spec("x_transformers")
    assert spec is not None and spec.submodule_search_locations is not None
    path = pathlib.Path(spec.submodule_search_locations[0], "x_transformers.py")
    [made] = [one for one in ast.parse(path.read_text()).body
              if isinstance(one, ast.ClassDef) and one.name == "RelativeProjPositionalBias"]

    class Einx:
        @staticmethod
        def subtract(_: str, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
            return i[:, None] - j[None]

    names: dict[str, Any] = {
        "Module": torch.nn.Module, "nn": torch.nn, "torch": torch, "einsum": torch.einsum,
        "repeat": einops.repeat, "Rearrange": einops.layers.torch.Rearrange, "einx": Einx,
        "default": lambda value, otherwise: otherwise if value is None else value}
    exec(compile(ast.Module([made], []), str(path), "exec"), names)
    return names["RelativeProjPositionalBias"]


def test_relative_logits_are_those_of_x_transformers(relative_bias: Any) -> None:
    """With its gradients; the output is softmax(q k / sqrt(D) + bias) v."""
    torch.manual_seed(3)
    heads, width, tokens = 4, 32, 17
    bias = relative_bias(width, heads, num_distance_basis=6, max_dist=7)
    projection = bias.to_distance_weights[0]
    torch.nn.init.zeros_(projection.bias)  # Inkling has none
    torch.nn.init.normal_(bias.distance_bank, 0, 0.5)
    q, k, v = (torch.randn(BATCH, heads, tokens, 8, requires_grad=True) for _ in range(3))
    x = torch.randn(BATCH, tokens, width, requires_grad=True)
    scores = q @ k.mT * 8**-0.5 + bias(x)
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    want = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
    spec = gnomon.RelativeLogits(heads=heads, width=width, rank=6, extent=7)
    module = gt.PositionEncoding(spec)
    with torch.no_grad():
        for one, given in zip(module.parameters(), (projection.weight, bias.distance_bank)):
            one.copy_(given)
    got = module.attend(q, k, v, visibility="causal", hidden=x)
    torch.testing.assert_close(got, want, atol=2e-6, rtol=0)
    grad = torch.randn_like(got)
    mine = torch.autograd.grad(got, [q, k, v, x, *module.parameters()], grad)
    theirs = torch.autograd.grad(want, [q, k, v, x, projection.weight, bias.distance_bank], grad)
    for one, other in zip(mine, theirs):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)
