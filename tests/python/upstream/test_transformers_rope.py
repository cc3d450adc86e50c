"""Frequencies of released models against transformers: its functions and its rotary modules.

The cases of `RopeTest` in transformers' tests/utils/test_modeling_rope_utils.py are expressed for
`gnomon.model.from_pretrained(config).frequencies(...)`.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

import gnomon

FLOAT32 = 2e-6  # relative: transformers computes powers in float32


def config_of(**rope: Any) -> LlamaConfig:
    """Llama 2 7B, the config of transformers' cases: 4096 wide, 32 heads, 2048 tokens."""
    fields = {"max_position_embeddings": 2048, "num_hidden_layers": 2} | rope.pop("fields", {})
    parameters = {"rope_theta": 10000.0, "rope_type": "default"} | rope
    return LlamaConfig(rope_parameters=parameters, **fields)


def ours(config: Any, length: int = 0) -> tuple[np.ndarray, float]:
    found = gnomon.model.from_pretrained(config).frequencies(0, length)
    return found.inv_freq, found.table_scale


def theirs(config: Any, length: int | None = None) -> tuple[np.ndarray, float]:
    rope_type = config.rope_parameters["rope_type"]
    if rope_type == "default":
        made = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    else:
        made = ROPE_INIT_FUNCTIONS[rope_type](config, torch.device("cpu"), seq_len=length)
    return made[0].double().numpy(), made[1]


def assert_equal(config: Any, length: int | None = None) -> tuple[np.ndarray, float]:
    got, wanted = ours(config, length or 0), theirs(config, length)
    np.testing.assert_allclose(got[0], wanted[0], FLOAT32, 0)
    assert got[1] == pytest.approx(wanted[1], rel=1e-7)
    return got


DEFAULT = 10000.0 ** (-np.arange(64) / 64)


def test_default() -> None:
    inv_freq, scale = assert_equal(config_of())
    assert scale == 1
    np.testing.assert_allclose(inv_freq, DEFAULT, 1e-15)
    np.testing.assert_allclose(inv_freq[[1, 16, 32]], [8.6596e-01, 1e-01, 1e-02], 1e-4)


@pytest.mark.parametrize("factor", [2.0, 10.0, 20.0])
def test_linear(factor: float) -> None:
    inv_freq, scale = assert_equal(config_of(rope_type="linear", factor=factor))
    assert scale == 1
    np.testing.assert_allclose(inv_freq, DEFAULT / factor, 1e-15)


@pytest.mark.parametrize("factor", [2.0, 10.0, 20.0])
def test_dynamic_changes_nothing_up_to_the_training_length(factor: float) -> None:
    config = config_of(rope_type="dynamic", factor=factor)
    for length in (None, 1, 2048):
        inv_freq, scale = assert_equal(config, length)
        assert scale == 1
        np.testing.assert_allclose(inv_freq, DEFAULT, 1e-15)


@pytest.mark.parametrize("length", [2049, 4096, 16384, 100000])
def test_dynamic_beyond_the_training_length(length: int) -> None:
    inv_freq, _ = assert_equal(config_of(rope_type="dynamic", factor=10.0), length)
    assert not np.allclose(inv_freq, DEFAULT / 10, 1e-3)
    if length == 16384:  # a value of transformers' snapshot
        np.testing.assert_allclose(inv_freq[[1, 63]], [8.0931e-01, 1.6265e-06], 1e-4)


@pytest.mark.parametrize("factor", [1.0, 2.0, 10.0, 20.0])
def test_yarn_attention_factor(factor: float) -> None:
    _, scale = assert_equal(config_of(rope_type="yarn", factor=factor))
    assert scale == pytest.approx(0.1 * math.log(factor) + 1 if factor > 1 else 1, rel=1e-15)
    given = config_of(rope_type="yarn", factor=factor, attention_factor=0.5)
    assert assert_equal(given)[1] == 0.5
    deepseek = config_of(rope_type="yarn", factor=factor, mscale=0.707, mscale_all_dim=1.0)
    assert_equal(deepseek)


@pytest.mark.parametrize("beta_fast", [16, 32, 1000])
@pytest.mark.parametrize("beta_slow", [1, 4])
@pytest.mark.parametrize("truncate", [True, False])
def test_yarn_frequencies(beta_fast: float, beta_slow: float, truncate: bool) -> None:
    config = config_of(
        rope_type="yarn", factor=10.0, beta_fast=beta_fast, beta_slow=beta_slow, truncate=truncate,
        original_max_position_embeddings=1024,
    )
    inv_freq, _ = assert_equal(config)
    assert (inv_freq <= DEFAULT * (1 + 1e-12)).all()
    assert (inv_freq >= DEFAULT / 10 * (1 - 1e-12)).all()
    if beta_fast == 1000:
        assert (inv_freq[1:] < DEFAULT[1:]).all()
        np.testing.assert_allclose(inv_freq[-20:], DEFAULT[-20:] / 10, 1e-12)


@pytest.mark.parametrize("factor", [2.0, 10.0, 20.0])
def test_longrope(factor: float) -> None:
    factors = {"short_factor": [2.0] * 64, "long_factor": [float(1 + i) for i in range(64)]}
    config = config_of(
        rope_type="longrope", factor=factor, original_max_position_embeddings=2048, **factors,
        fields={"max_position_embeddings": int(2048 * factor)},
    )
    for length, divisors in ((2048, factors["short_factor"]), (2049, factors["long_factor"])):
        inv_freq, scale = assert_equal(config, length)
        np.testing.assert_allclose(inv_freq, DEFAULT / divisors, 1e-15)
        assert scale == pytest.approx(math.sqrt(1 + math.log(factor) / math.log(2048)), rel=1e-12)
    given = config_of(
        rope_type="longrope", factor=factor, attention_factor=0.5,
        original_max_position_embeddings=2048, **factors,
    )
    assert assert_equal(given, 100)[1] == 0.5


@pytest.mark.parametrize("factor", [2.0, 8.0, 32.0])
@pytest.mark.parametrize("high", [2, 4])
def test_llama3(factor: float, high: int) -> None:
    config = config_of(
        rope_type="llama3", factor=factor, low_freq_factor=1, high_freq_factor=high,
        original_max_position_embeddings=2048,
    )
    inv_freq, scale = assert_equal(config)
    assert scale == 1
    wavelength = 2 * math.pi / DEFAULT
    short = wavelength < 2048 / high
    np.testing.assert_allclose(inv_freq[short], DEFAULT[short], 1e-15)
    np.testing.assert_allclose(inv_freq[wavelength > 2048], DEFAULT[wavelength > 2048] / factor)


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("factor", [1.0, 8.0])
def test_proportional(share: float, factor: float) -> None:
    config = config_of(rope_type="proportional", partial_rotary_factor=share, factor=factor)
    inv_freq, _ = assert_equal(config)
    assert len(inv_freq) == 64 and (inv_freq[int(64 * share) :] == 0).all()


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "dynamic", "factor": 4.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512},
    ],
)
def test_partial_rotary(share: float, rope: dict) -> None:
    config = config_of(partial_rotary_factor=share, **rope)
    for length in (None, 5000):
        inv_freq, _ = assert_equal(config, length)
        assert len(inv_freq) == 64 * share


def test_a_type_without_its_keys_is_refused_or_noted() -> None:
    """transformers' first case: each type needs its keys."""
    for rope_type in ROPE_INIT_FUNCTIONS:
        config = {
            "model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
            "num_hidden_layers": 1, "max_position_embeddings": 128,
            "rope_scaling": {"rope_type": rope_type},
        }
        try:
            model = gnomon.model.from_pretrained(config)
        except gnomon.FormatError as error:
            assert "factor" in str(error)
        else:
            assert rope_type == "proportional" or any("factor" in one for one in model.notes)


# Model types, and changes to their default configs.
MODULES: list[tuple[str, dict]] = [
    (name, {})
    for name in (
        "llama qwen2 qwen3 mistral mixtral gemma gemma2 phi phi3 gpt_neox stablelm starcoder2 "
        "olmo olmo2 olmo3 cohere cohere2 glm glm4 granite granitemoe nemotron persimmon "
        "deepseek_v2 deepseek_v3 gpt_oss smollm3 exaone4 ministral qwen2_moe qwen3_moe "
        "glm4_moe dbrx jetmoe arcee apertus ernie4_5 hunyuan_v1_dense seed_oss lfm2 "
        "helium moonshine qwen3_next falcon minimax doge dots1 bitnet diffllama bamba "
        "falcon_h1 modernbert gemma3_text gemma3n_text gemma4_text t5gemma2_text llama4_text "
        "recurrent_gemma"
    ).split()
]
MODULES += [
    ("zamba2", {"use_mem_rope": True}),
    ("qwen2", {"max_position_embeddings": 1024, "rope_parameters": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256,
        "rope_theta": 1e6}}),
    ("gpt_neox", {"rope_parameters": {
        "rope_type": "linear", "factor": 3.0, "rope_theta": 1e4, "partial_rotary_factor": 0.25}}),
    ("phi3", {
        "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4,
        "max_position_embeddings": 4096, "original_max_position_embeddings": 1024,
        "rope_parameters": {
            "rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 1.0,
            "short_factor": [1.0 + i / 8 for i in range(8)],
            "long_factor": [4.0 + i for i in range(8)],
            "original_max_position_embeddings": 1024}}),
]


def rotary_modules(model_type: str, changes: dict) -> tuple[Any, Any]:
    """Returns the config and transformers' rotary module of it."""
    config = CONFIG_MAPPING[model_type](**changes)
    folder = type(config).__module__.rpartition(".")[0]
    file = importlib.import_module(f"{folder}.modeling_{folder.rpartition('.')[2]}")
    classes = [
        getattr(file, name)
        for name in dir(file)
        if name.endswith("RotaryEmbedding") and getattr(file, name).__module__ == file.__name__
        and "Vision" not in name and "Axial" not in name and "Audio" not in name
    ]
    assert classes, model_type
    # The first part whose name says text, else the part with the shortest name.
    chosen = min(classes, key=lambda one: ("Text" not in one.__name__, len(one.__name__)))
    return config, chosen(config)


@pytest.mark.parametrize(
    ("model_type", "changes"),
    MODULES,
    ids=[name + ("-changed" if changes else "") for name, changes in MODULES],
)
def test_rotary_modules(model_type: str, changes: dict) -> None:
    """The default config of each family, and each layer type of those that have several."""
    config, module = rotary_modules(model_type, changes)
    buffers = {
        name.removesuffix("inv_freq").rstrip("_"): value.double().numpy()
        for name, value in module.named_buffers()
        if name.endswith("inv_freq") and "original" not in name
    }
    assert buffers
    model = gnomon.model.from_pretrained(config)
    types = getattr(config, "layer_types", None)
    compared = set()
    for layer in model.layers:
        if not any("queries and keys" in one.enters for one in layer.position):
            continue
        kind = types[layer.index] if types and "" not in buffers else ""
        # The buffers of LongRoPE are those of short contexts until the first long one.
        found = model.frequencies(layer.index, 1024, part=layer.part)
        np.testing.assert_allclose(np.abs(found.inv_freq), buffers[kind], FLOAT32, 0)
        scaling = getattr(module, f"{kind}_attention_scaling" if kind else "attention_scaling", 1.0)
        assert found.table_scale == pytest.approx(scaling, rel=1e-6)
        compared.add(kind)
    assert compared == set(buffers)


PAIRED = (
    "llama qwen2 qwen3 mistral mixtral gemma gemma2 phi phi3 gpt_neox stablelm starcoder2 olmo "
    "olmo2 cohere cohere2 glm glm4 granite nemotron persimmon gpt_oss smollm3 exaone4 ministral "
    "dbrx jetmoe arcee apertus ernie4_5 hunyuan_v1_dense seed_oss lfm2 helium falcon "
    "minimax doge dots1 bitnet diffllama bamba glm4_moe"
).split()


@pytest.mark.parametrize("model_type", PAIRED)
def test_pairing(model_type: str) -> None:
    """`apply_rotary_pos_emb` of each family, on the rotated elements, with its own cos and sin."""
    config, module = rotary_modules(model_type, {})
    file = importlib.import_module(type(module).__module__)
    frequencies = gnomon.model.from_pretrained(config).frequencies()
    torch.manual_seed(3)
    q, k = (torch.randn(1, heads, 6, frequencies.rotary_dim) for heads in (4, 2))
    cos, sin = module(q, torch.arange(6)[None])
    want = file.apply_rotary_pos_emb(q, k, cos, sin)
    made = gnomon.RotaryFrequencies(
        pairing=frequencies.pairing, inv_freq=frequencies.inv_freq,
        table_scale=frequencies.table_scale,
    )
    gnomon.rotate(q.transpose(1, 2), gnomon.RotaryTable(made, 6), k=k.transpose(1, 2))
    np.testing.assert_allclose(q.numpy(), want[0].numpy(), 0, 1e-5)
    np.testing.assert_allclose(k.numpy(), want[1].numpy(), 0, 1e-5)
