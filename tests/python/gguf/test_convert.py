"""`gnomon convert --to gguf`: a file of a tiny random model, opened by llama.cpp, has the logits
of transformers, and the description of its config.json."""

from __future__ import annotations

import copy
import dataclasses
import json
import pathlib
import subprocess
import sys
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "tools/gguf"))

import llama_cpp

PROGRAM = pathlib.Path(__file__).parents[3] / "build/release/apps/cli/gnomon"
TOKENS = 24
SIZES = {
    "vocab_size": 101, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
        "original_max_position_embeddings": 16}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.2, 1.3],
            "long_factor": [2.0, 3.0, 4.0, 5.0]}
GPT2 = {"vocab_size": 101, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64,
        "bos_token_id": 1, "eos_token_id": 2}
WINDOW = 8


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: str  # prefix of the classes of transformers
    config: dict[str, Any]
    equal: int = TOKENS  # tokens whose logits are equal
    note: str = ""  # begin of a note that must be printed


def case(name: str, model: str, equal: int = TOKENS, note: str = "", **config: Any) -> Case:
    return Case(name, model, copy.deepcopy(SIZES | config), equal, note)


EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
NO_WINDOW = f"llama.cpp has no window in 4 of 4 layers of {{}}: contexts longer than {WINDOW}"
CASES = [
    case("llama", "Llama"),
    case("llama tied, llama3", "Llama", rope_parameters=LLAMA3, head_dim=16,
         tie_word_embeddings=True),
    case("llama biases, yarn", "Llama", rope_parameters=YARN, attention_bias=True, mlp_bias=True),
    case("llama yarn factor", "Llama", rope_parameters=YARN | {"attention_factor": 1.5}),
    case("llama linear", "Llama",
         rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}),
    case("mistral", "Mistral", WINDOW, NO_WINDOW.format("llama"), sliding_window=WINDOW),
    case("mixtral", "Mixtral", **EXPERTS),
    case("qwen2", "Qwen2"),
    case("qwen3", "Qwen3", head_dim=16),
    case("qwen3_moe", "Qwen3Moe", head_dim=16, num_experts=4, num_experts_per_tok=2,
         moe_intermediate_size=24, norm_topk_prob=True),
    case("gemma", "Gemma", head_dim=16),
    case("gemma2", "Gemma2", head_dim=16, sliding_window=WINDOW, query_pre_attn_scalar=16),
    case("gemma3_text", "Gemma3", head_dim=16, sliding_window=WINDOW, query_pre_attn_scalar=16,
         num_hidden_layers=7),
    case("phi3", "Phi3", WINDOW, NO_WINDOW.format("phi3"), sliding_window=WINDOW),
    case("phi3 longrope", "Phi3", original_max_position_embeddings=16, rope_parameters=LONGROPE),
    Case("gpt2", "GPT2", GPT2),
    case("gpt_neox", "GPTNeoX", note="llama.cpp computes hidden_act gelu as gelu_new",
         rotary_pct=0.5),
    Case("bloom", "Bloom", {"vocab_size": 101, "hidden_size": 32, "n_layer": 3, "n_head": 4}),
    case("olmo2", "Olmo2"),
    case("olmo3", "Olmo3", sliding_window=WINDOW,
         rope_parameters={"full_attention": YARN, "sliding_attention": DEFAULT}),
    case("olmoe", "Olmoe", num_key_value_heads=4, num_experts=4, num_experts_per_tok=2),
    case("arcee", "Arcee", rope_parameters=YARN),
    case("seed_oss", "SeedOss", head_dim=16),
    case("cohere", "Cohere", logit_scale=0.5),
    case("granite", "Granite", attention_multiplier=0.3, embedding_multiplier=3.0,
         residual_multiplier=0.7, logits_scaling=2.0),
    case("smollm3", "SmolLM3"),
    case("starcoder2", "Starcoder2"),
    case("cohere2", "Cohere2", sliding_window=WINDOW, logit_scale=0.5),
    case("stablelm", "StableLm", use_qkv_bias=True, partial_rotary_factor=0.5),
    case("stablelm norms", "StableLm", qk_layernorm=True, use_parallel_residual=True),
    case("gpt_oss", "GptOss", head_dim=16, sliding_window=WINDOW, **EXPERTS,
         rope_parameters=YARN | {"truncate": True}),
    case("gpt_oss fractional ramp", "GptOss", 0, "llama.cpp rounds the ends of YaRN's ramp",
         head_dim=16, sliding_window=WINDOW, **EXPERTS),
]


class GgmlGelu(torch.nn.Module):
    """GELU of GGML on a CPU: a table of the tanh approximation in float16."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        table = torch.nn.functional.gelu(x.half().float(), approximate="tanh").half().float()
        return torch.where(x <= -10, 0, torch.where(x >= 10, x, table))


def replace_gelu(model: torch.nn.Module) -> int:
    """Replaces the GELU modules of a model. Returns their number."""
    found = [(module, name) for module in model.modules()
             for name, child in module.named_children() if "gelu" in type(child).__name__.lower()]
    for module, name in found:
        setattr(module, name, GgmlGelu())
    return len(found)


def config_class(one: Case) -> Any:
    return getattr(transformers, one.model + ("TextConfig" if one.model == "Gemma3" else "Config"))


def random_model(one: Case) -> torch.nn.Module:
    config = config_class(one)(**one.config)
    kind = getattr(transformers, one.model + ("LMHeadModel" if one.model == "GPT2"
                                              else "ForCausalLM"))
    torch.manual_seed(0)
    model = kind._from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.3 * torch.randn_like(weight))
            if weight.ndim == 1 and not one.model.startswith("Gemma"):
                weight += 1
    return model


def program(*arguments: Any) -> str:
    return subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True,
                          text=True).stdout


def facts_of(path: pathlib.Path) -> dict[int, dict[str, Any]]:
    """Returns the facts of `gnomon inspect` that both descriptions must have, by layer."""
    keys = ("kind", "rotary_dim", "head_offset", "inv_freq", "table_scale", "softmax_scale",
            "visibility", "window", "softcap", "sinks", "qk_norm", "heads", "key_heads",
            "value_dim", "query_scale")
    return {layer: {key: group.get(key) for key in keys}
            for group in json.loads(program("inspect", path, "--json"))["groups"]
            for layer in group["layers"]}


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_llama_cpp_has_the_logits_of_transformers(one: Case, tmp_path: pathlib.Path) -> None:
    model = random_model(one)
    model.save_pretrained(tmp_path / "model")
    out = tmp_path / "out.gguf"
    text = program("convert", tmp_path / "model", "--to", "gguf", "-o", out)
    assert f"note: {one.note}" in text if one.note else "note: llama.cpp" not in text

    by_layer, of_file = facts_of(tmp_path / "model"), facts_of(out)
    assert by_layer.keys() == of_file.keys()
    for layer, facts in by_layer.items():
        for key, value in facts.items():
            if key == "window" and one.note.startswith("llama.cpp has no window"):
                assert value and not of_file[layer][key]
            elif key in ("inv_freq", "softmax_scale", "table_scale") and value:
                tolerance = 1e-6 if one.equal else 1e9
                np.testing.assert_allclose(of_file[layer][key], value, tolerance, err_msg=key)
            else:
                assert of_file[layer][key] == value, (layer, key)

    approximate = replace_gelu(model)
    ids = np.random.default_rng(0).integers(3, 101, TOKENS)
    with torch.no_grad():
        expected = model(torch.tensor(ids)[None]).logits[0].numpy()
    for step in (False, True):
        found = llama_cpp.logits(out, ids.tolist(), step)
        error = np.abs(found - expected)[:one.equal] / np.abs(expected).max()
        # An entry of the float16 table may be the next one: a few tokens differ by 1e-3.
        assert not error.size or error.max() < (2e-3 if approximate else 2e-5)
        assert not error.size or np.median(error.max(axis=1)) < 1e-4
        if one.equal < TOKENS:
            difference = np.abs(found - expected)[one.equal:] / np.abs(expected).max()
            assert difference.max() > 1e-3, "the note is wrong: the logits are equal"


def test_every_family_has_a_case(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "unknown"}))
    save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(subprocess.CalledProcessError) as error:
        program("convert", tmp_path, "--to", "gguf", "--dry-run")
    text = error.value.stderr
    families = text[text.index("one of ") + 7:text.index(", got")].split(", ")
    cases = {config_class(one).model_type for one in CASES}
    assert cases == set(families)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_element_types(kind: str, tmp_path: pathlib.Path) -> None:
    """A file of a model in bfloat16 or float16, and one of a float32 model with --type."""
    one = CASES[0]
    model = random_model(one)
    model.save_pretrained(tmp_path / "wide")
    dtype = torch.float16 if kind == "f16" else torch.bfloat16
    model.to(dtype).save_pretrained(tmp_path / "narrow")
    program("convert", tmp_path / "wide", "--to", "gguf", "--type", kind, "-o",
            tmp_path / "wide.gguf")
    report = json.loads(program("convert", tmp_path / "narrow", "--to", "gguf", "--json", "-o",
                                tmp_path / "narrow.gguf"))
    types = {tensor["name"]: tensor["type"] for tensor in report["tensors"]}
    assert types["blk.0.attn_q.weight"] == kind.upper()
    assert types["blk.0.attn_norm.weight"] == "F32"
    ids = list(range(3, 3 + TOKENS))
    with torch.no_grad():
        expected = model.float()(torch.tensor(ids)[None]).logits[0].numpy()
    for name in ("wide", "narrow"):
        error = np.abs(llama_cpp.logits(tmp_path / f"{name}.gguf", ids) - expected)
        assert error.max() < 0.05 * np.abs(expected).max()


def test_mxfp4_of_gpt_oss(tmp_path: pathlib.Path) -> None:
    """Experts in MXFP4 keep their values. llama.cpp multiplies them with rounded activations."""
    one = case("gpt_oss", "GptOss", head_dim=16, sliding_window=WINDOW, intermediate_size=64,
               **EXPERTS, rope_parameters=YARN | {"truncate": True})
    model = random_model(one)
    model.save_pretrained(tmp_path / "model")
    weights = load_file(tmp_path / "model/model.safetensors")
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = torch.cat([values, -values])
    expected, generator = {}, torch.Generator().manual_seed(0)
    for name in [name for name in weights if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, columns, rows = weights.pop(name).shape
        blocks = torch.randint(256, (experts, rows, columns // 32, 16), dtype=torch.uint8,
                               generator=generator)
        scales = torch.randint(123, 126, (experts, rows, columns // 32), dtype=torch.uint8,
                               generator=generator)
        weights |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        both = torch.stack([values[(blocks & 15).long()], values[(blocks >> 4).long()]], -1)
        expected[name] = (both.flatten(-2) * 2.0 ** (scales.float() - 127)[..., None]).flatten(-2)
        with torch.no_grad():
            model.get_parameter(name).copy_(expected[name].transpose(1, 2))
    save_file(weights, tmp_path / "model/model.safetensors")
    program("convert", tmp_path / "model", "--to", "gguf", "-o", tmp_path / "out.gguf")

    found = {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type)
             for tensor in gguf.GGUFReader(tmp_path / "out.gguf").tensors if "exps" in tensor.name}
    for layer in range(4):
        experts = f"model.layers.{layer}.mlp.experts."
        for name, value in (("gate", expected[experts + "gate_up_proj"][:, ::2]),
                            ("up", expected[experts + "gate_up_proj"][:, 1::2]),
                            ("down", expected[experts + "down_proj"])):
            np.testing.assert_array_equal(found[f"blk.{layer}.ffn_{name}_exps.weight"], value)
    ids = list(range(3, 3 + TOKENS))
    with torch.no_grad():
        wanted = model(torch.tensor(ids)[None]).logits[0].numpy()
    error = np.abs(llama_cpp.logits(tmp_path / "out.gguf", ids) - wanted)
    assert np.median(error.max(axis=1)) < 0.05 * np.abs(wanted).max()

    scales = "model.layers.1.mlp.experts.down_proj_scales"
    for bad in (weights[scales][..., :1].contiguous(), weights[scales].to(torch.int8)):
        save_file(weights | {scales: bad}, tmp_path / "model/model.safetensors")
        with pytest.raises(subprocess.CalledProcessError) as error:
            program("convert", tmp_path / "model", "--to", "gguf", "-o", tmp_path / "bad.gguf")
        assert "down_proj_scales must be U8 [4, 32, 2], got" in error.value.stderr
