"""Tiny GGUF files with the logits of llama.cpp, for the engine of docs/examples.

    python tools/gguf/engine.py              # all files
    python tools/gguf/engine.py gemma2

Writes tests/model/engine/gguf/NAME.gguf and NAME.json. Weights are random and depend on NAME and
the seed only. The format is described in tests/model/engine/README.md.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gguf
import llama_cpp
import numpy as np
import tiny_gguf
from gguf import GGMLQuantizationType as Quantization

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "model" / "engine" / "gguf"
VOCABULARY, LENGTH = 32, 64
PROMPT, STEPS = 12, 8
BASE: dict[str, Any] = {
    "vocab_size": VOCABULARY, "context_length": LENGTH, "embedding_length": 16,
    "block_count": 2, "feed_forward_length": 24,
    "attention.head_count": 4, "attention.head_count_kv": 2,
}
RMS = {"attention.layer_norm_rms_epsilon": 1e-5}
LAYER_NORM = {"attention.layer_norm_epsilon": 1e-5}
ALL_HEADS = {"attention.head_count_kv": 4}
WINDOW = {"attention.sliding_window": 5}
BIASES = ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias", "ffn_up.bias",
          "ffn_gate.bias", "ffn_down.bias", "cls.output.weight")
HEAD_NORMS = ("attn_q_norm.weight", "attn_k_norm.weight")


@dataclass
class Case:
    """A file.

    without: names of tensors that are left out, without "blk.N.". factors: those of frequencies.
    fused: q, k and v are one tensor.
    kind: type of the matrices.
    seed: of the recorded file. With these, the engine rounds all activations to 16 bits as
    llama.cpp does (docs/model/layer.md).
    """

    name: str
    keys: Mapping[str, Any]
    architecture: str = ""
    without: tuple[str, ...] = BIASES
    factors: tuple[str, ...] = ()
    fused: bool = False
    kind: Quantization = Quantization.F32
    seed: int = 0

    def __post_init__(self) -> None:
        self.architecture = self.architecture or self.name


YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 16}
EXPERTS = {"expert_count": 3, "expert_used_count": 2, "expert_feed_forward_length": 24}
LATENT = {"attention.q_lora_rank": 12, "attention.kv_lora_rank": 10, "rope.dimension_count": 4}
# With attn_k_b and attn_v_b: the cache of llama.cpp has the latents.
ABSORBED = LATENT | {
    "attention.head_count_kv": 1, "attention.key_length": 14, "attention.value_length": 10,
    "attention.key_length_mla": 10, "attention.value_length_mla": 5}
# With attn_kv_b, as in files of llama.cpp before that.
EXPANDED = LATENT | {
    "attention.head_count_kv": 4, "attention.key_length": 10, "attention.value_length": 5}
SHARED = EXPERTS | {"expert_count": 6, "expert_feed_forward_length": 8, "expert_shared_count": 1,
                    "leading_dense_block_count": 1}
SIGMOID = {"expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": 1.7}
GROUPS = {"expert_group_count": 3, "expert_group_used_count": 2}
WIDE = {"embedding_length": 32, "feed_forward_length": 64}
CASES = [
    Case("llama", RMS | {"rope.dimension_count": 4}, factors=("rope_freqs.weight",)),
    Case("qwen2", RMS | YARN, without=("attn_output.bias", "output.bias")),
    Case("qwen3", RMS | {"attention.key_length": 8, "attention.value_length": 8}),
    Case("gemma2", RMS | WINDOW | {
        "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
        "attention.key_length": 8, "attention.value_length": 8}, seed=2),
    Case("gemma3", RMS | WINDOW | {
        "block_count": 6, "rope.freq_base": 1e6, "rope.scaling.type": "linear",
        "rope.scaling.factor": 8.0}, seed=1),
    Case("phi3", RMS | ALL_HEADS | {"rope.scaling.attn_factor": 1.2,
                                    "rope.scaling.original_context_length": 16},
         factors=("rope_factors_long.weight", "rope_factors_short.weight"), fused=True),
    Case("gpt2", LAYER_NORM | ALL_HEADS, without=("output.weight",)),
    Case("gptneox", LAYER_NORM | ALL_HEADS | {
        "use_parallel_residual": True, "rope.dimension_count": 2}, without=()),
    Case("bloom", LAYER_NORM | {"embedding_length": 18, "attention.head_count": 3,
                                "attention.head_count_kv": 3}, without=("output.weight",)),
    Case("starcoder2", LAYER_NORM, without=("ffn_gate.bias",)),
    Case("olmo2", RMS),
    Case("granite", RMS | {"embedding_scale": 3.0, "residual_scale": 0.4, "logit_scale": 2.0,
                           "attention.scale": 0.3}),
    Case("stablelm", LAYER_NORM | {"rope.dimension_count": 2},
         without=(*BIASES, *HEAD_NORMS, "ffn_norm.weight", "ffn_norm.bias")),
    Case("cohere2", LAYER_NORM | WINDOW | {"block_count": 4, "logit_scale": 0.25}),
    Case("smollm3", RMS | {"block_count": 4}),
    Case("gpt-oss", RMS | YARN | WINDOW | EXPERTS, without=()),
    Case("deepseek2", RMS | ABSORBED | SHARED | SIGMOID | GROUPS | YARN | {
        "rope.scaling.yarn_log_multiplier": 0.07}),
    Case("deepseek2-kv_b", RMS | EXPANDED | SHARED | {"expert_weights_scale": 1.7}, "deepseek2"),
    Case("minicpm3", RMS | EXPANDED),
    Case("qwen2moe", RMS | EXPERTS | {
        "expert_feed_forward_length": 8, "expert_shared_feed_forward_length": 8}),
    Case("glm4moe", RMS | SHARED | SIGMOID | {"rope.dimension_count": 2}),
    Case("llama-f16", RMS | WIDE, "llama", kind=Quantization.F16),
    Case("llama-bf16", RMS | WIDE, "llama", kind=Quantization.BF16),
    Case("llama-q8_0", RMS | WIDE, "llama", kind=Quantization.Q8_0),
    Case("llama-q4_0", RMS | WIDE, "llama", kind=Quantization.Q4_0),
]


def values(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    draw = rng.standard_normal(shape)
    if "rope_f" in name:
        draw = rng.uniform(1, 4, shape)
    elif "norm" in name and name.endswith(".weight"):
        draw = 1 + 0.3 * draw
    elif name.endswith(".bias"):
        draw *= 0.3
    elif name.startswith("blk."):
        draw *= 1.5 / np.sqrt(shape[-1])
    return draw.astype(np.float32)


def tensors_of(case: Case, keys: Mapping[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Returns random tensors, of the names and shapes that llama.cpp expects for these keys."""
    with tempfile.TemporaryDirectory() as folder:
        only = pathlib.Path(folder) / "keys.gguf"
        tiny_gguf.save(only, case.architecture, keys)
        found = llama_cpp.tensors_of_keys(only)
    tensors: dict[str, np.ndarray] = {}
    for name, extents, _ in found:
        shape = tuple(reversed(extents))
        while len(shape) > 1 and shape[0] == 1:
            shape = shape[1:]
        rng = np.random.default_rng([zlib.crc32(f"{case.name} {name}".encode()), seed])
        short = name.split(".", 2)[2] if name.startswith("blk.") else name
        if tiny_gguf.optional(name) and name not in case.factors or short in case.without:
            continue
        tensors[name] = values(rng, name, shape)
    for layer in range(keys["block_count"] if case.fused else 0):
        parts = [tensors.pop(f"blk.{layer}.attn_{part}.weight") for part in "qkv"]
        tensors[f"blk.{layer}.attn_qkv.weight"] = np.concatenate(parts)
    return tensors


def save(path: pathlib.Path, case: Case, keys: Mapping[str, Any],
         tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Writes a file. Returns the tensors as the file has them, in F32."""
    writer = gguf.GGUFWriter(path, case.architecture)
    tiny_gguf.write_keys(writer, case.architecture, keys)
    writer.add_tokenizer_model("test")
    writer.add_token_list([f"token{i}" for i in range(VOCABULARY)])
    writer.add_token_scores([0.0] * VOCABULARY)
    read = {}
    for name, array in tensors.items():
        kind = case.kind if array.ndim > 1 else Quantization.F32
        blocks = gguf.quants.quantize(array, kind)
        read[name] = gguf.quants.dequantize(blocks, kind).astype(np.float32)
        writer.add_tensor(name, blocks, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read


def make(path: pathlib.Path, case: Case, seed: int, **more: Any) -> pathlib.Path:
    """Writes a file, and the same in F32. Returns the path of that in F32.

    llama.cpp rounds the factors of a product with a matrix of F16, BF16, Q8_0 or Q4_0 to about
    that type, so its logits of such a file are less exact than those of the file in F32.
    """
    keys = BASE | dict(case.keys) | more
    exact = save(path, case, keys, tensors_of(case, keys, seed))
    if case.kind == Quantization.F32:
        return path
    plain = path.with_suffix(".f32.gguf")
    save(plain, Case(case.name, {}, case.architecture), keys, exact)
    return plain


def decode(path: pathlib.Path, prompt: list[int], steps: int, length: int = LENGTH
           ) -> tuple[list[int], np.ndarray]:
    """Returns the new tokens, and the logits of the prompt and of these tokens by llama.cpp."""
    rows, new = [], []
    with llama_cpp.model_of_file(path) as model, llama_cpp.context_of(model, length) as context:
        size = llama_cpp.LIBRARY.llama_vocab_n_tokens(
            llama_cpp.LIBRARY.llama_model_get_vocab(model))
        ids = prompt
        while True:
            llama_cpp.run(context, ids, np.arange(len(rows), len(rows) + len(ids)))
            for i in range(len(ids)):
                row = llama_cpp.LIBRARY.llama_get_logits_ith(context, i)
                rows.append(np.ctypeslib.as_array((llama_cpp.ctypes.c_float * size)
                                                  .from_address(row)).copy())
            if len(new) == steps:
                return new, np.stack(rows)
            ids = [int(rows[-1].argmax())]
            new += ids


def main(names: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        if names and case.name not in names:
            continue
        path = FOLDER / f"{case.name}.gguf"
        plain = make(path, case, case.seed)
        prompt = np.random.default_rng(1).integers(3, VOCABULARY, PROMPT).tolist()
        steps, logits = decode(plain, prompt, STEPS)
        if plain != path:
            plain.unlink()
        rows = ",\n  ".join(json.dumps([float(f"{x:.9g}") for x in row]) for row in logits)
        path.with_suffix(".json").write_text(
            f'{{\n "llama.cpp": "{llama_cpp.version()}",\n "prompt": {prompt},\n'
            f' "steps": {steps},\n "logits": [\n  {rows}]\n}}\n')
        print(f"{case.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
