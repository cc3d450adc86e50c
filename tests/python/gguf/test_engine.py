"""The engine of docs/examples against llama.cpp, on files of other seeds and sizes than the
recorded ones, and on more architectures."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools/gguf"))

import engine  # noqa: E402
from engine import (  # noqa: E402
    ABSORBED, ALL_HEADS, BIASES, EXPANDED, EXPERTS, HEAD_NORMS, LAYER_NORM, RMS, SHARED, SIGMOID,
    WINDOW, Case)

PROGRAM = ROOT / "build/release/tests/gnomon_engine"
PARTIAL = {"rope.dimension_count": 2}
MORE = [
    *(Case(name, RMS) for name in (
        "mistral3", "exaone", "internlm2", "xverse", "ernie4_5", "refact", "arcee",
        "hunyuan-dense", "plamo")),
    Case("qwen", RMS | ALL_HEADS),
    Case("exaone4", RMS | WINDOW | {"block_count": 8}),
    Case("llama-window", RMS | WINDOW, "llama"),
    Case("phi3-window", RMS | WINDOW, "phi3"),
    Case("seed_oss", RMS, without=("attn_output.bias",)),
    Case("baichuan", RMS | {"block_count": 32}),
    Case("glm4", RMS | PARTIAL),
    Case("chatglm", RMS | PARTIAL, fused=True),
    Case("gemma", RMS | {"attention.key_length": 8, "attention.value_length": 8}),
    Case("mixtral", RMS | EXPERTS, "llama"),
    Case("qwen3moe", RMS | EXPERTS),
    Case("olmoe", RMS | ALL_HEADS | EXPERTS),
    Case("granitemoe", RMS | EXPERTS | {"logit_scale": 2.0, "residual_scale": 0.5}),
    Case("granitemoe-shared", RMS | EXPERTS | {
        "logit_scale": 2.0, "residual_scale": 0.5, "expert_shared_feed_forward_length": 8},
        "granitemoe"),
    # 27 layers of V2 Lite: queries without a latent.
    Case("deepseek2-lite", RMS | EXPANDED | SHARED | {
        "block_count": 27, "attention.q_lora_rank": 0}, "deepseek2"),
    Case("mistral4", RMS | ABSORBED | SHARED | {
        "expert_weights_norm": True, "expert_weights_scale": 1.3}),
    Case("deepseek", RMS | SHARED | {"expert_weights_scale": 1.3}),
    Case("dots1", RMS | ALL_HEADS | SHARED | SIGMOID),
    Case("ernie4_5-moe", RMS | SHARED | {
        "interleave_moe_layer_step": 1, "expert_shared_feed_forward_length": 8}),
    Case("exaone-moe", RMS | SHARED | SIGMOID | WINDOW | {"block_count": 4}),
    Case("bailingmoe2", RMS | SHARED | SIGMOID | {"expert_shared_feed_forward_length": 8}),
    Case("hunyuan-moe", RMS | EXPERTS | {"expert_shared_feed_forward_length": 8}),
    Case("minimax-m2", RMS | EXPERTS | {"expert_gating_func": 2}),
    Case("mellum", RMS | EXPERTS | {"expert_feed_forward_length": 8}),
    Case("command-r", LAYER_NORM | {"logit_scale": 0.25}),
    Case("olmo", LAYER_NORM),
    Case("orion", LAYER_NORM),
    Case("jais", LAYER_NORM | ALL_HEADS | {"attention.max_alibi_bias": 8.0}, without=()),
    Case("mpt", LAYER_NORM | {"attention.max_alibi_bias": 8.0}, without=(
        *HEAD_NORMS, "attn_q_norm.bias", "attn_k_norm.bias", "ffn.act.scales",
        "position_embd.weight")),
    Case("falcon", LAYER_NORM),
    Case("falcon-7b", LAYER_NORM, "falcon", without=("attn_norm_2.weight", "attn_norm_2.bias")),
    Case("starcoder", LAYER_NORM | {"attention.head_count_kv": 1}, without=()),
    Case("codeshell", LAYER_NORM, without=()),
    Case("phi2", LAYER_NORM | PARTIAL, without=()),
    Case("nemotron", LAYER_NORM | PARTIAL, without=()),
    Case("gptneox-serial", LAYER_NORM | {"use_parallel_residual": False}, "gptneox", without=()),
    Case("stablelm-serial", LAYER_NORM | PARTIAL, "stablelm", without=(*BIASES, *HEAD_NORMS)),
    Case("phi3-separate", RMS, "phi3"),
    Case("llama-biases", RMS, "llama", without=("cls.output.weight",)),
]
GELU = {"gemma", "gemma2", "gemma3", "gpt2", "gptneox", "bloom", "mpt", "falcon", "starcoder",
        "starcoder2", "codeshell", "phi2"}
# Of the rms of the logits: llama.cpp's rounding of both factors of a product.
ROUNDING = {"F32": 1e-5, "F16": 3e-3, "BF16": 2e-2, "Q8_0": 6e-2, "Q4_0": 6e-2}


def run(path: pathlib.Path, prompt: list[int], steps: int) -> tuple[list[int], np.ndarray]:
    logits = path.with_suffix(".npy")
    done = subprocess.run([PROGRAM, path, "--steps", str(steps), "--logits", logits,
                           *map(str, prompt)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [int(token) for token in done.stdout.split()], np.load(logits)


def doubled(case: Case) -> dict[str, int]:
    keys = engine.BASE | dict(case.keys)
    names = ["embedding_length", "feed_forward_length", "attention.head_count"]
    if keys["attention.head_count_kv"] > 1:
        names += ["attention.head_count_kv"]
    return {name: 2 * keys[name] for name in names}


@pytest.mark.parametrize("case", [*engine.CASES, *MORE], ids=lambda case: case.name)
def test_logits_are_those_of_llama_cpp(case: Case, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.gguf"
    exact = engine.make(path, case, 11, **doubled(case))
    # 12 tokens at once, then one at a time; and one at a time from the start.
    for prompt, steps in (list(range(3, 15)), 8), ([7], 12):
        tokens, expected = engine.decode(exact, prompt, steps)
        got_tokens, got = run(path, prompt, steps)
        assert got_tokens == tokens
        error = np.abs(got - expected).max(axis=1) / np.abs(expected).max()
        assert np.median(error) < 1e-5
        # GELU: a rounding of its table to 16 bits may go the other way.
        assert error.max() < (1e-3 if case.architecture in GELU else 5e-5)
        _, rounded = engine.decode(path, prompt, 0)
        rows = slice(0, len(prompt))
        rms = np.sqrt(np.mean((got[rows] - rounded) ** 2) / np.mean(rounded ** 2))
        assert rms < max(ROUNDING[case.kind.name], 1e-3 * (case.architecture in GELU))


def test_layers_that_predict_further_tokens_are_not_run(tmp_path: pathlib.Path) -> None:
    case = next(case for case in engine.CASES if case.name == "deepseek2")
    keys = engine.BASE | dict(case.keys)
    tensors = engine.tensors_of(case, keys, 11)
    engine.save(tmp_path / "plain.gguf", case, keys, tensors)
    tensors["blk.2.nextn.eh_proj.weight"] = np.ones((16, 32), np.float32)
    engine.save(tmp_path / "further.gguf", case, keys | {
        "block_count": 3, "nextn_predict_layers": 1}, tensors)
    prompt = [5, 3, 8]
    tokens, logits = run(tmp_path / "plain.gguf", prompt, 4)
    further_tokens, further = run(tmp_path / "further.gguf", prompt, 4)
    assert further_tokens == tokens
    np.testing.assert_array_equal(further, logits)


def test_recorded_files_are_those_of_the_script(tmp_path: pathlib.Path) -> None:
    for case in engine.CASES:
        made, recorded = tmp_path / "made.gguf", engine.FOLDER / f"{case.name}.gguf"
        engine.make(made, case, case.seed)
        assert made.read_bytes() == recorded.read_bytes(), case.name
        expected = json.loads(recorded.with_suffix(".json").read_text())
        assert len(expected["logits"]) == engine.PROMPT + engine.STEPS
