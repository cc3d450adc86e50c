"""The cases of the comparison, and their expected outcomes."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import architectures
import numpy as np

TOKENS = 40


@dataclass
class Case:
    """A file, and the tokens of its run.

    keys: changes of the keys of its architecture; None removes a key.
    factors: tensors of frequency factors that are in the file, by their name.
    axes: positions differ between the axes of M-RoPE.
    """

    architecture: str
    name: str = ""
    keys: Mapping[str, Any] = field(default_factory=dict)
    factors: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    tokens: int = TOKENS
    sequences: int = 1
    shards: int = 1  # 2: the first one has the keys, the second one the tensors
    axes: bool = False
    tolerance: float = 2e-5

    def all_keys(self) -> dict[str, Any]:
        keys = architectures.keys(self.architecture) | dict(self.keys)
        return {name: value for name, value in keys.items() if value is not None}

    def layers_run(self) -> int:
        """Returns the number of layers without those that predict several tokens ahead."""
        keys = self.all_keys()
        return keys["block_count"] - keys.get("nextn_predict_layers", 0)

    def write(self, path: pathlib.Path) -> dict[str, np.ndarray]:
        """Writes the file. Returns its tensors."""
        import tiny_gguf  # loads llama.cpp, as the imports of the functions below

        def keep(name: str) -> bool:
            absent = (*self.without, *architectures.ABSENT.get(self.architecture, ()))
            needed = (*self.factors, *architectures.NEEDED.get(self.architecture, ()))
            if any(part in name for part in absent):
                return False
            return not tiny_gguf.optional(name) or any(part in name for part in needed)

        return tiny_gguf.write(path, self.architecture, self.all_keys(), keep, self.shards > 1)


def record(path: pathlib.Path, case: Case) -> list[Any]:
    """Runs a file in llama.cpp. Returns (part, attention, positions for Gnomon, length)."""
    import graph
    import llama_cpp

    import gnomon

    runs = []
    rng = np.random.default_rng(7)
    library = llama_cpp.LIBRARY
    with llama_cpp.model_of_file(path) as model:
        encoder = library.llama_model_has_encoder(model)
        two = encoder and library.llama_model_has_decoder(model)
        size = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))
        recorder = graph.Recorder()
        with llama_cpp.context_of(model, max(case.tokens, architectures.LENGTH), recorder,
                                  n_seq_max=case.sequences) as context:
            length = library.llama_n_ctx(context)
            tokens: Any = rng.integers(3, size, case.tokens)
            places: Any = np.arange(case.tokens)
            given: Any = case.tokens
            sequences = np.arange(case.tokens) * case.sequences // case.tokens
            if case.sequences > 1:
                places = np.concatenate([np.arange(np.count_nonzero(sequences == i))
                                         for i in range(case.sequences)])
                given = gnomon.Positions(places, sequences)
            if case.axes:
                tokens = rng.standard_normal((case.tokens, library.llama_model_n_embd_inp(model)))
                axes = np.sort(rng.integers(0, case.tokens, (3, case.tokens)), 1)
                axes[0] = np.arange(case.tokens)
                places = np.concatenate([axes, np.zeros((1, case.tokens))])
                given = tuple(axes)  # a fourth one is 0
            for encode in (True, False) if two else (encoder,):
                recorder.clear()
                llama_cpp.run(context, tokens, places, sequences, encode)
                part = "encoder" if encode else "decoder" if two else ""
                # Other attentions: to the encoder, and the selector of adapters after the layers.
                found = [one for one in recorder.attentions() if one.layer < case.layers_run()
                         and (one.cached or not two or encode)]
                runs += [(part, one, given, length) for one in found]
    return runs


def listing(case: Case) -> list[str]:
    """Returns the nodes of the graph of a case."""
    import graph
    import llama_cpp

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.gguf"
        case.write(path)
        recorder = graph.Recorder()
        with llama_cpp.model_of_file(path) as model, llama_cpp.context_of(
                model, architectures.LENGTH, recorder) as context:
            llama_cpp.run(context, list(range(3, 3 + case.tokens)), np.arange(case.tokens))
        return graph.describe(recorder.nodes)


# Changes of keys that the sweep makes to every architecture.
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 64}
SLIDING = {"attention.sliding_window": 7}
SWEEP: dict[str, Mapping[str, Any]] = {
    "linear scaling": {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    "scale_linear": {"rope.scale_linear": 4.0},
    "scaling none": {"rope.scaling.type": "none", "rope.scaling.factor": 4.0},
    "linear scaling, attn_factor": {"rope.scaling.factor": 4.0, "rope.scaling.attn_factor": 1.3},
    "yarn": YARN,
    "yarn, attn_factor": YARN | {"rope.scaling.attn_factor": 1.3},
    "yarn, yarn_attn_factor": YARN | {"rope.scaling.yarn_attn_factor": 1.3},
    "yarn, ext_factor 0": YARN | {"rope.scaling.yarn_ext_factor": 0.0},
    "yarn, ext_factor 0.5": YARN | {"rope.scaling.yarn_ext_factor": 0.5},
    "yarn, betas": YARN | {"rope.scaling.yarn_beta_fast": 8.0, "rope.scaling.yarn_beta_slow": 2.0},
    "yarn, log_multiplier": YARN | {"rope.scaling.yarn_log_multiplier": 0.08},
    "alpha": {"rope.scaling.alpha": 50.0},
    "not finetuned": {"rope.scaling.finetuned": False},
    "finetuned": {"rope.scaling.finetuned": True},
    "base": {"rope.freq_base": 500.0},
    "swa base": SLIDING | {"rope.freq_base": 500.0, "rope.freq_base_swa": 77.0},
    "window 0": {"attention.sliding_window": 0},
    "no window": {"attention.sliding_window": None},
    "window": SLIDING,
    "window, bool pattern": SLIDING | {
        "attention.sliding_window_pattern": [True, False, False, True]},
    "window, uint32 pattern": SLIDING | {"attention.sliding_window_pattern": [1, 0, 0, 1]},
    "window, int32 pattern": SLIDING | {
        "attention.sliding_window_pattern": np.array([0, 1, 1, 0], np.int32)},
    "window, every second": SLIDING | {"attention.sliding_window_pattern": 2},
    "window, yarn": SLIDING | YARN,
    "window, linear scaling": SLIDING | {"rope.scaling.factor": 4.0},
    "attention.scale": {"attention.scale": 0.4},
    "output_scale": {"attention.output_scale": 0.4},
    "value_scale": {"attention.value_scale": 0.7},
    "softcap": {"attn_logit_softcapping": 3.0},
    "temperature": {"attention.temperature_scale": 0.3, "attention.temperature_length": 8},
    "temperature, no length": {"attention.temperature_scale": 0.3,
                               "rope.scaling.original_context_length": 8},
    "partial rotation": {"rope.dimension_count": 8},
    "head sizes": {"attention.key_length": 24, "attention.value_length": 24,
                   "rope.dimension_count": 24},
    "swa head sizes": SLIDING | {
        "attention.key_length": 24, "attention.value_length": 24,
        "attention.key_length_swa": 16, "attention.value_length_swa": 16,
        "rope.dimension_count": 24, "rope.dimension_count_swa": 16},
    "swa partial rotation": SLIDING | {"rope.dimension_count_swa": 8},
    "sections": {"rope.dimension_sections": [2, 3, 3, 0]},
    "sections, four": {"rope.dimension_sections": [2, 2, 2, 2]},
    "alibi": {"attention.max_alibi_bias": 6.0},
    "not causal": {"attention.causal": False},
    "causal": {"attention.causal": True},
    "clamp": {"attention.clamp_kqv": 0.5},
    "key heads by layer": {"attention.head_count_kv": [2, 4, 2, 1]},
    "heads by layer": {"attention.head_count": [4, 2, 4, 2], "attention.head_count_kv": 2,
                       "attention.key_length": 16, "attention.value_length": 16},
    "layers without key heads": {"attention.head_count_kv": [2, 0, 2, 0]},
    "full_attention_interval": {"full_attention_interval": 4},
    "one layer more predicts": {"block_count": 5, "nextn_predict_layers": 1},
    "rope_pattern": {"attention.rope_pattern": [1, 0, 1, 0]},
    "recurrent_layers": {"attention.recurrent_layers": [1, 1, 0, 0]},
    "shared_kv_layers": {"attention.shared_kv_layers": 2},
}


# Changes that also add tensors of frequency factors: the tensors, and the keys.
FACTORS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "rope_freqs": ("rope_freqs", {}),
    "long factors": ("rope_factors", {"rope.scaling.original_context_length": 64,
                                      "rope.scaling.attn_factor": 1.2}),
    "short factors": ("rope_factors", {"rope.scaling.original_context_length": 1024,
                                       "rope.scaling.attn_factor": 1.2}),
}


def changes() -> set[str]:
    """Returns the names of the cases of the sweep."""
    return set(SWEEP) | set(FACTORS)


def sweep() -> list[Case]:
    """Returns every change of keys for every architecture."""
    # Norms of each head have the heads of the first layer: llama.cpp reads beyond them. And
    # llama-embed, which is causal, has no cache and runs all layers with the heads of the first.
    undefined = {("stablelm", "heads by layer"), ("k2-horizon", "heads by layer"),
                 ("chameleon", "heads by layer"), ("llama-embed", "layers without key heads")}
    return [Case(name, change, keys) for name in architectures.KEYS
            for change, keys in SWEEP.items() if (name, change) not in undefined] + [
        Case(name, change, keys, (tensors,)) for name in architectures.KEYS
        for change, (tensors, keys) in FACTORS.items()]


def special() -> list[Case]:
    """Returns cases of single architectures."""
    long = {"context_length": 16384, "attention.head_count": 2, "attention.head_count_kv": 1,
            "embedding_length": 32, "feed_forward_length": 32}
    released = {"rope.dimension_sections": [4, 2, 2, 0]}  # as 24, 20, 20 of 64 pairs
    return [
        Case("baichuan", "40 layers", {"block_count": 40}),
        Case("exaone4", "64 layers, window", {"block_count": 64} | SLIDING),
        Case("gemma2", "46 layers", {"block_count": 46, "attention.key_length": 24,
                                     "attention.value_length": 24}),
        Case("gemma3", "62 layers", SLIDING | {"block_count": 62, "attention.key_length": 24,
                                               "attention.value_length": 24}),
        Case("stablelm", "no norms", without=("attn_q_norm", "attn_k_norm")),
        Case("mpt", "alibi and clipping", {"attention.max_alibi_bias": 8.0,
                                           "attention.clamp_kqv": 0.5}),
        Case("falcon", "one key head", {"attention.head_count_kv": 1}),
        Case("openelm", "sizes by layer", {
            "attention.head_count": [4, 6, 2, 4], "attention.head_count_kv": [2, 3, 1, 1],
            "feed_forward_length": [96, 64, 32, 96], "attention.key_length": 16,
            "attention.value_length": 16}),
        Case("deci", "layers without attention", {
            "attention.head_count": [4, 0, 4, 0], "attention.head_count_kv": [2, 0, 1, 0],
            "feed_forward_length": [96, 96, 0, 96]}),
        Case("mimo2", "sizes by layer", {
            "attention.head_count_kv": [4, 2, 4, 2], "attention.key_length": 24,
            "attention.value_length": 16, "attention.key_length_swa": 24,
            "attention.value_length_swa": 16, "rope.dimension_count": 8,
            "rope.freq_base": 5e6, "rope.freq_base_swa": 1e4}),
        Case("gemma4", "key heads of each layer", {"attention.head_count_kv": [2, 2, 1, 2]}),
        Case("gemma4", "equal sizes", {"attention.key_length_swa": 32, "rope.dimension_count_swa":
                                       32, "attention.value_length_swa": 32}),
        Case("gemma4", "shared keys", {
            "attention.shared_kv_layers": 2,
            "attention.sliding_window_pattern": [True, False, True, False]}),
        Case("olmo2", "window, yarn, pattern", SLIDING | YARN | {
            "rope.scaling.attn_factor": 1.2,
            "attention.sliding_window_pattern": [True, True, True, False]}),
        Case("phi3", "longrope, short", {
            "rope.scaling.type": "longrope", "rope.scaling.original_context_length": 512,
            "rope.scaling.attn_factor": 1.19}, factors=("rope_factors",)),
        Case("phi3", "longrope, long", {
            "rope.scaling.type": "longrope", "rope.scaling.original_context_length": 128,
            "rope.scaling.attn_factor": 1.19}, factors=("rope_factors",)),
        Case("llama", "rope_freqs and linear scaling", {"rope.scaling.factor": 2.0},
             factors=("rope_freqs",)),
        Case("llama", "rope_freqs and yarn", YARN, factors=("rope_freqs",)),
        Case("llama", "shards, tensors in the second", shards=2),
        Case("qwen3", "shards, tensors in the second", shards=2),
        Case("gpt-oss", "shards, tensors in the second", shards=2),
        Case("llama", "two sequences", sequences=2),
        Case("gemma3", "two sequences", SLIDING, sequences=2),
        Case("bert", "two sequences", sequences=2),
        *(Case(name, "positions on axes", axes=True)
          for name in ("qwen2vl", "qwen3vl", "qwen35", "paddleocr")),
        *(Case(name, "positions on axes, sections", {"rope.dimension_sections": [2, 3, 3, 0]},
               axes=True) for name in ("glm4", "glm4moe", "hunyuan_vl", "bailingmoe3")),
        *(Case(name, "positions on axes, pairs left over", released, axes=True)
          for name in ("qwen3vl", "qwen3vlmoe")),
        Case("qwen3vl", "pairs left over", released),
        Case("hunyuan_vl", "sections, alpha", {"rope.dimension_sections": [2, 2, 2, 2],
                                               "rope.scaling.alpha": 1000.0}),
        # Windows and chunks of a fixed size.
        Case("smallthinker", "5000 tokens", long | {"attention.sliding_window": 4096},
             tokens=5000, tolerance=1e-4),
        Case("llama4", "8300 tokens", long | {"attention.head_count": 2}, tokens=8300,
             tolerance=1e-4),
        Case("gemma2", "4200 tokens", long, tokens=4200, tolerance=1e-4),
    ]


def single() -> list[Case]:
    """Returns a case of each architecture, and the special ones."""
    return [Case(name) for name in architectures.KEYS] + special()
