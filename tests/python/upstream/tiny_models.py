"""Tiny random models of all model types of transformers, for `gnomon.torch.patch`."""

from __future__ import annotations

import inspect
import re
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers.models.auto import modeling_auto

transformers.logging.set_verbosity_error()

VOCABULARY = 128

# Names of sizes (a regular expression of the whole name) and their values in a tiny model.
SIZES: list[tuple[str, int]] = [
    (r"vocab_size|num_embeddings", VOCABULARY),
    (r"head_dim|d_kv|attention_head_dim|kv_channels|v_head_dim|qk_nope_head_dim|key_value_proj_dim"
     r"|linear_key_head_dim|linear_value_head_dim|global_head_dim", 16),
    (r"qk_rope_head_dim", 8), (r"qk_head_dim", 24),
    (r"q_lora_rank|kv_lora_rank|o_lora_rank|.*lora_rank", 32),
    (r"num_key_value_heads|num_kv_heads|n_head_kv|num_global_key_value_heads"
     r"|swa_num_key_value_heads|.*_kv_heads|.*_key_value_heads", 2),
    (r"(num|n)_?(attention_)?heads?|n_heads|(encoder|decoder)_attention_heads"
     r"|.*num_attention_heads|(mlp|time)_num_heads|linear_num_(key|value)_heads|num_heads", 4),
    (r"(num|n)_?(hidden_)?layers?|.*num_hidden_layers|(encoder|decoder)_layers|depth"
     r"|num_(encoder|decoder)_layers|num_blocks|conformer_num_layers", 2),
    (r"moe_intermediate_size|expert_dim|moe_.*intermediate_size"
     r"|shared_expert_intermediate_size", 32),
    (r"intermediate_size|.*ffn_dim|d_ff|ffn_hidden_size|n_inner|intermediate_dim|ffn_size"
     r"|.*_intermediate_size|block_ff_dim", 128),
    (r"hidden_size|d_model|n_embd|embed_dim|hidden_dim|width|model_dim|embedding_size|dim"
     r"|projection_dim|out_hidden_size|embedding_dim|lru_width|.*_hidden_size|word_embed_proj_dim"
     r"|output_dim|projection_size|.*_embed_dim|decoder_dim", 64),
    (r"num_experts_per_tok|num_experts_per_token|moe_topk|moe_top_k|top_k_experts|moe_k"
     r"|num_selected_experts", 2),
    (r"(num|n)_?(routed_|local_)?experts|moe_num_experts|num_.*experts", 4),
    (r"n_group|topk_group|num_expert_groups?|n_shared_experts|num_shared_experts", 1),
    (r"sliding_window|attention_chunk_size|local_attention|attention_window_size", 8),
    (r"image_size", 32), (r"patch_size", 8),
    (r"mamba_(d_)?state|mamba_d_state|ssm_state_size|state_size|d_state", 16),
    (r"num_mel_bins|input_feat_per_channel", 16),
    (r"max_source_positions|max_target_positions", 64),
]
SIZES_COMPILED = [(re.compile(name), size) for name, size in SIZES]
KEY_HEADS = SIZES[5][0]

# Changes for the types whose sizes depend on each other.
CHANGES: dict[str, dict[str, Any]] = {}


def shrunk(config: Any, depth: int = 0) -> dict[str, Any]:
    """Returns the arguments of a tiny config, from the default config."""
    changes: dict[str, Any] = {}
    values = {key: value for key, value in vars(config).items() if not key.startswith("_")}
    heads = [value for key, value in values.items()
             if re.fullmatch(SIZES[6][0], key) and isinstance(value, int)]
    for key, value in values.items():
        if key in config.sub_configs:
            if hasattr(value, "to_dict"):
                changes[key] = shrunk(value, depth + 1) | {"model_type": value.model_type}
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        if re.search(r"_token_(id|index)$|_token_id", key):
            if value >= VOCABULARY:
                changes[key] = VOCABULARY - 1 - len(changes) % 20
            continue
        for name, size in SIZES_COMPILED:
            if name.fullmatch(key):
                if name.pattern == KEY_HEADS and value in (1, *heads):
                    size = 1 if value == 1 else 4
                changes[key] = min(size, value) if size < 8 and value > 0 else size
                break
    if "layer_types" in values and isinstance(values["layer_types"], (list, tuple)):
        kinds = list(dict.fromkeys(values["layer_types"]))
        count = max(2, len(kinds))
        changes["layer_types"] = (kinds * 2)[:count]
        for key in ("num_hidden_layers", "num_layers", "n_layer", "n_layers"):
            if key in values:
                changes[key] = count
    return changes | CHANGES.get(config.model_type, {})


def config_of(model_type: str, **changes: Any) -> Any:
    """Returns a tiny config of a model type."""
    cls = transformers.CONFIG_MAPPING[model_type]
    arguments = shrunk(cls()) | changes
    arguments.pop("model_type", None)
    return cls(**arguments)


def classes_of(model_type: str) -> list[type]:
    """Returns the classes of a model type: with a head for generation, then the base model."""
    cls = transformers.CONFIG_MAPPING[model_type]
    found: list[type] = []
    for mapping in (modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING,
                    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
                    modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
                    modeling_auto.MODEL_MAPPING):
        try:
            one = mapping[cls]
        except KeyError:
            continue
        found += [each for each in (one if isinstance(one, (list, tuple)) else [one])
                  if each not in found]
    return found


def make(cls: type, config: Any, dtype: torch.dtype = torch.float64) -> Any:
    """Returns a random model whose outputs depend strongly on the positions."""
    torch.manual_seed(7)
    model = cls(config).eval().to(dtype)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, one in model.named_parameters():
            if one.ndim > 1 and one.is_floating_point():
                one.copy_(0.2 * torch.randn(one.shape, generator=generator, dtype=torch.float32))
    return model


def image_size(config: Any) -> tuple[int, int]:
    size = getattr(config, "image_size", 32)
    return (size, size) if isinstance(size, int) else (size[0], size[-1])


def inputs_of(model: Any, batch: int = 2, tokens: int = 13, seed: int = 0,
              padded: bool = False) -> dict[str, Any]:
    """Returns the arguments of a forward pass."""
    generator = torch.Generator().manual_seed(seed)
    names = inspect.signature(model.forward).parameters
    config, dtype = model.config, model.dtype
    result: dict[str, Any] = {}
    main = getattr(model, "main_input_name", "input_ids")
    ids = torch.randint(3, 90, (batch, tokens), generator=generator)
    if main in ("input_ids", "decoder_input_ids") or "input_ids" in names and main not in names:
        result["input_ids"] = ids
        if padded:
            mask = torch.ones_like(ids)
            mask[1, :4] = 0
            result["attention_mask"] = mask
    elif main == "pixel_values":
        height, width = image_size(config)
        channels = getattr(config, "num_channels", getattr(config, "in_channels", 3))
        result[main] = torch.randn(batch, channels, height, width, generator=generator,
                                   dtype=dtype)
    elif main in ("input_features", "audio_values"):
        bins = getattr(config, "num_mel_bins", getattr(config, "input_feat_per_channel", 80))
        frames = 2 * getattr(config, "max_source_positions", 32)
        result[main] = torch.randn(batch, bins, frames, generator=generator, dtype=dtype)
    elif main == "input_values":
        result[main] = torch.randn(batch, 1600, generator=generator, dtype=dtype)
    else:
        raise NotImplementedError(f"input {main}")
    if "decoder_input_ids" in names and (getattr(config, "is_encoder_decoder", False)
                                         or "input_ids" not in result):
        result["decoder_input_ids"] = ids.flip(1)
    if "pixel_values" in names and main == "input_ids" and names[
            "pixel_values"].default is inspect.Parameter.empty:
        height, width = image_size(getattr(config, "vision_config", config))
        result["pixel_values"] = torch.randn(batch, 3, height, width, generator=generator,
                                             dtype=dtype)
    return result


def outputs_of(model: Any, arguments: dict[str, Any]) -> dict[str, Tensor]:
    """Returns the floating-point tensors of the outputs of a forward pass."""
    out = model(**arguments)
    items = out.items() if hasattr(out, "items") else enumerate(out)
    return {str(key): value for key, value in items
            if isinstance(value, Tensor) and value.is_floating_point()}
