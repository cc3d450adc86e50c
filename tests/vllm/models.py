"""Small models with random weights, as folders with config.json and model.safetensors."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import torch
from safetensors.torch import save_file

WIDTH, LAYERS, HEADS, KEY_HEADS, SIZE, VOCABULARY = 256, 2, 4, 2, 64, 1000
INNER = 384

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
    "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS, "head_dim": SIZE, "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "rope_theta": 10000.0, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}

MODELS: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Llama 3": {"rope_theta": 500000.0, "max_position_embeddings": 8192, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024}},
    "Mistral, window": {"architectures": ["MistralForCausalLM"], "model_type": "mistral",
                        "sliding_window": 32},
}


def write(name: str, folder: pathlib.Path) -> pathlib.Path:
    """Writes a model of the shape of Llama."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | MODELS[name]))
    generator = torch.Generator().manual_seed(1)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * 1.5 / columns**0.5

    tensors = {"model.embed_tokens.weight": torch.randn(VOCABULARY, WIDTH, generator=generator),
               "model.norm.weight": torch.ones(WIDTH), "lm_head.weight": matrix(VOCABULARY, WIDTH)}
    for layer in range(LAYERS):
        shapes = {"self_attn.q_proj": (HEADS * SIZE, WIDTH),
                  "self_attn.k_proj": (KEY_HEADS * SIZE, WIDTH),
                  "self_attn.v_proj": (KEY_HEADS * SIZE, WIDTH),
                  "self_attn.o_proj": (WIDTH, HEADS * SIZE), "mlp.gate_proj": (INNER, WIDTH),
                  "mlp.up_proj": (INNER, WIDTH), "mlp.down_proj": (WIDTH, INNER)}
        for part, shape in shapes.items():
            tensors[f"model.layers.{layer}.{part}.weight"] = matrix(*shape)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{norm}.weight"] = torch.ones(WIDTH)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder
