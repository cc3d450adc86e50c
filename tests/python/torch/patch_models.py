"""Tiny random models of transformers, one for each supported family."""

from __future__ import annotations

import copy
from typing import Any

import torch
import transformers
from torch import Tensor

import gnomon.torch

transformers.logging.set_verbosity_error()

VOCABULARY = 97
LLAMA = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3,
             intermediate_size=96, vocab_size=VOCABULARY, pad_token_id=0, bos_token_id=1,
             eos_token_id=None, max_position_embeddings=64)
WINDOW = dict(sliding_window=8)
BOTH = dict(head_dim=16, layer_types=["sliding_attention", "full_attention", "sliding_attention"])

# Family: prefix of the classes, suffix of the model class, arguments of the config.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("Llama", "ForCausalLM", LLAMA),
    "qwen2": ("Qwen2", "ForCausalLM", LLAMA),
    "qwen3": ("Qwen3", "ForCausalLM", LLAMA | dict(head_dim=16)),
    "mistral": ("Mistral", "ForCausalLM", LLAMA | WINDOW),
    "gemma": ("Gemma", "ForCausalLM", LLAMA | dict(head_dim=16)),
    "gemma2": ("Gemma2", "ForCausalLM", LLAMA | WINDOW | BOTH | dict(
        query_pre_attn_scalar=16, attn_logit_softcapping=5.0)),
    "gemma3_text": ("Gemma3", "ForCausalLM", LLAMA | WINDOW | BOTH),
    "phi": ("Phi", "ForCausalLM", LLAMA | dict(partial_rotary_factor=0.5)),
    "phi3": ("Phi3", "ForCausalLM", LLAMA | WINDOW),
    "gpt_neox": ("GPTNeoX", "ForCausalLM", {k: v for k, v in LLAMA.items() if "key" not in k}),
    "bloom": ("Bloom", "ForCausalLM", dict(
        hidden_size=48, n_head=6, n_layer=3, vocab_size=VOCABULARY, pad_token_id=0,
        bos_token_id=1, eos_token_id=None)),
    "t5": ("T5", "ForConditionalGeneration", dict(
        d_model=64, d_kv=16, num_heads=4, num_layers=3, d_ff=96, vocab_size=VOCABULARY,
        relative_attention_num_buckets=8, relative_attention_max_distance=20, dropout_rate=0.0,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=None)),
}
DECODERS = [one for one in MODELS if one != "t5"]


def make(family: str, implementation: str = "eager", **changes: Any) -> Any:
    """Returns a random model in float32, whose logits depend strongly on the positions."""
    prefix, suffix, arguments = MODELS[family]
    name = "Gemma3Text" if family == "gemma3_text" else prefix
    config = getattr(transformers, name + "Config")(**arguments | changes)
    config._attn_implementation = implementation
    torch.manual_seed(7)
    model = getattr(transformers, prefix + suffix)(config).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            # T5 does not scale its scores by 1 / sqrt(D).
            torch.nn.init.normal_(parameter, std=0.05 if name.endswith(".q.weight") else 0.2)
    return model


def tokens(batch: int, length: int, seed: int = 0) -> Tensor:
    """Returns random token ids [batch, length], without the padding id."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, VOCABULARY, (batch, length), generator=generator)


def inputs(family: str, ids: Tensor, mask: Tensor | None = None) -> dict[str, Any]:
    """Returns the arguments of a forward pass."""
    arguments: dict[str, Any] = {"input_ids": ids}
    if mask is not None:
        arguments["attention_mask"] = mask
    if family == "t5":
        # More queries than keys in cross-attention.
        arguments["decoder_input_ids"] = torch.cat((ids.flip(1), ids), 1)
    return arguments


TOLERANCE = 2e-5  # relative to the largest logit, float32


def pair(family: str, **changes: Any) -> tuple[Any, Any]:
    """Returns an eager model and a patched copy of it."""
    eager = make(family, **changes)
    patched = copy.deepcopy(eager)
    gnomon.torch.patch(patched)
    return eager, patched


def same(got: Tensor, want: Tensor, tolerance: float = TOLERANCE) -> None:
    assert got.shape == want.shape
    error, largest = (float(one.detach().abs().max()) for one in (got - want, want))
    assert error <= tolerance * largest


@torch.no_grad()
def logits(model: Any, arguments: dict[str, Any]) -> Tensor:
    return model(**arguments).logits.double()
