"""Small GGUF files, one for each way in which position enters, and what ggml must be told of each.

The arguments of ggml are those that llama.cpp passes for such a file, written by hand here.
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import Any

import gguf
import ggml
import numpy as np
import oracle

NORMAL, NEOX, MROPE = 0, 2, 8
FACTORS = np.linspace(1, 8, 32).astype(np.float32)
LONG = np.linspace(1, 30, 32).astype(np.float32)
SHORT = np.linspace(1, 1.3, 32).astype(np.float32)
SINKS = np.linspace(-2, 3, 8).astype(np.float32)


@dataclass(frozen=True)
class Rope:
    """Arguments of ggml_rope_ext, and of the oracle."""

    dim: int
    mode: int
    base: float = 1e4
    factor: float = 1.0  # freq_scale is its inverse
    length: int = 0  # n_ctx_orig
    yarn: bool = False
    factors: np.ndarray | None = None
    attn_factor: float = 1.0
    sections: tuple[int, ...] = ()

    def oracle(self) -> tuple[np.ndarray, float]:
        if self.yarn:
            inv_freq, scale = oracle.yarn(self.dim, self.base, self.factor, self.length)
            return inv_freq, scale * self.attn_factor
        plain = oracle.frequencies(self.dim, self.base) / self.factor
        if self.factors is not None:
            plain = plain / self.factors.astype(np.float64)
        return plain, self.attn_factor


@dataclass(frozen=True)
class Model:
    """A file of a model with D = 64, and its kinds of layers: arguments of the oracle."""

    name: str
    architecture: str
    keys: dict[str, Any]
    rope: Rope | None = None
    layers: tuple[dict[str, Any], ...] = ({},)
    heads: int = 8
    key_heads: int = 2
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    length: int = 0  # declared
    values: tuple[np.ndarray, ...] = ()

    def write(self, path: pathlib.Path) -> pathlib.Path:
        writer = gguf.GGUFWriter(path, self.architecture)
        common = {"block_count": 2, "context_length": 4096, "embedding_length": 64 * self.heads,
                  "feed_forward_length": 64, "attention.head_count": self.heads,
                  "attention.head_count_kv": self.key_heads,
                  "attention.key_length": 64, "attention.value_length": 64}
        for name, value in (common | self.keys).items():
            key = f"{self.architecture}.{name}"
            if isinstance(value, str):
                writer.add_string(key, value)
            elif isinstance(value, float):
                writer.add_float32(key, value)
            elif isinstance(value, list):
                writer.add_array(key, value)
            else:
                writer.add_uint32(key, value)
        for name, values in self.tensors.items():
            writer.add_tensor(name, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def rms(**more: Any) -> dict[str, Any]:
    return {"attention.layer_norm_rms_epsilon": 1e-5, "rope.dimension_count": 64, **more}


def layer_norm(**more: Any) -> dict[str, Any]:
    return {"attention.layer_norm_epsilon": 1e-5, **more}


def dotted(**more: Any) -> dict[str, Any]:
    return {name.replace("__", "."): value for name, value in more.items()}


YARN = dotted(rope__freq_base=1e6, rope__scaling__type="yarn", rope__scaling__factor=4.0,
              rope__scaling__original_context_length=32768)
LONGROPE = dotted(rope__scaling__original_context_length=4096, rope__scaling__attn_factor=1.19,
                  context_length=131072)
PHI3 = {"rope_factors_long.weight": LONG, "rope_factors_short.weight": SHORT}

MODELS = (
    Model("Llama, adjacent pairs", "llama", rms(), Rope(64, NORMAL)),
    Model("Llama 3.1, rope_freqs", "llama", rms() | dotted(rope__freq_base=5e5),
          Rope(64, NORMAL, 5e5, factors=FACTORS), tensors={"rope_freqs.weight": FACTORS}),
    Model("Qwen2, halves", "qwen2", rms() | dotted(rope__freq_base=1e6), Rope(64, NEOX, 1e6)),
    Model("Qwen2, YaRN", "qwen2", rms() | YARN,
          Rope(64, NEOX, 1e6, 4.0, 32768, yarn=True)),
    Model("GPT-NeoX, 16 of 64 elements", "gptneox",
          layer_norm() | {"rope.dimension_count": 16, "use_parallel_residual": 1},
          Rope(16, NEOX), key_heads=8),
    Model("Phi-3, LongRoPE, short", "phi3", rms() | LONGROPE,
          Rope(64, NEOX, factors=SHORT, attn_factor=1.19), tensors=PHI3, length=4096),
    Model("Phi-3, LongRoPE, long", "phi3", rms() | LONGROPE,
          Rope(64, NEOX, factors=LONG, attn_factor=1.19), tensors=PHI3, length=131072),
    Model("Gemma 2, window and soft cap", "gemma2",
          rms() | dotted(attention__sliding_window=16, attn_logit_softcapping=50.0),
          Rope(64, NEOX), ({"left": 15, "cap": 50.0}, {"cap": 50.0})),
    Model("gpt-oss, sinks and window", "gpt-oss",
          rms() | dotted(attention__sliding_window=16, rope__freq_base=1.5e5),
          Rope(64, NEOX, 1.5e5),
          ({"left": 15, "sinks": SINKS.astype(float)}, {"sinks": SINKS.astype(float)}),
          tensors={f"blk.{layer}.attn_sinks.weight": SINKS for layer in range(2)},
          values=(SINKS[:, None],)),
    Model("BLOOM, ALiBi, 8 heads", "bloom", layer_norm(),
          layers=({"bias_slopes": oracle.slopes(8)},), key_heads=8),
    Model("MPT, ALiBi, 12 heads", "mpt", layer_norm() | {"attention.max_alibi_bias": 8.0},
          layers=({"bias_slopes": oracle.slopes(12)},), heads=12, key_heads=12),
)


def ggml_rope(graph: Any, rope: Rope, x: Any, positions: Any) -> Any:
    """x: [D, H, T]."""
    factors = graph.new(rope.factors) if rope.factors is not None else None
    return ggml.ggml_rope_ext(
        graph.context, x, positions, factors, rope.dim, rope.mode, rope.length, rope.base,
        1 / rope.factor, 1.0 if rope.yarn else 0.0, rope.attn_factor, 32.0, 1.0)


def ggml_attend(graph: Any, layer: dict[str, Any], q: Any, k: Any, v: Any, queries: int,
                cached: int, keys: int) -> Any:
    """q: [D, T, H]; k, v: [D, S, Hk]. ALiBi is a mask of distances and max_bias."""
    distance = np.arange(keys) - (np.arange(queries) + cached)[:, None]
    slopes = layer.get("bias_slopes")
    mask = -np.abs(distance).astype(np.float16) if slopes is not None else np.zeros(
        distance.shape, np.float16)
    mask[distance > 0] = -np.inf
    if "left" in layer:
        mask[distance < -layer["left"]] = -np.inf
    scale = layer.get("scale") or 64 ** -0.5
    out = ggml.ggml_flash_attn_ext(graph.context, q, k, v, graph.new(mask), scale,
                                   8.0 if slopes is not None else 0.0, layer.get("cap", 0.0))
    ggml.ggml_flash_attn_ext_set_prec(out, ggml.GGML_PREC_F32)
    if "sinks" in layer:
        ggml.ggml_flash_attn_ext_add_sinks(out, graph.new(layer["sinks"].astype(np.float32)))
    return out

