"""Tiny random models of all model types of transformers, for `gnomon.torch.patch`."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers.models.auto import modeling_auto

import gnomon.model

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

_HALVES = dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                    mrope_section=[4, 2, 2]))
_GLM = dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                 partial_rotary_factor=0.5, mrope_section=[1, 1, 2]))
# Changes for the types whose sizes depend on each other.
CHANGES: dict[str, dict[str, Any]] = {
    "axk1": dict(n_group=1, topk_group=1), "bamba": dict(attn_layer_indices=[1]),
    "codegen": dict(rotary_dim=8), "gptj": dict(rotary_dim=8),
    "cosmos3_edge_text": _HALVES, "glm4v_text": _GLM, "glm4v_moe_text": _GLM,
    "glm_image_text": _GLM, "glm_ocr_text": _GLM, "glmga_text": _GLM,
    "qwen2_vl_text": _HALVES, "qwen2_5_vl_text": _HALVES, "qwen2_5_omni_text": _HALVES,
    "paddleocr_vl_text": _HALVES,
    "deepseek_v2": dict(topk_method="greedy", n_routed_experts=4, num_experts_per_tok=2,
                        first_k_dense_replace=1, n_group=1, topk_group=1),
    "dots1": dict(n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, n_group=1,
                  topk_group=1),
    "esm": dict(vocab_size=VOCABULARY, position_embedding_type="rotary", pad_token_id=1,
                mask_token_id=2),
    "gpt_neo": dict(attention_types=[[["global", "local"], 1]], num_layers=2, num_heads=4,
                    window_size=8),
    "gemma3n_text": dict(num_hidden_layers=4, num_kv_shared_layers=2, activation_sparsity_pattern=[
        0.0] * 4, layer_types=["sliding_attention", "full_attention"] * 2,
        hidden_size_per_layer_input=16, vocab_size_per_layer_input=VOCABULARY,
        intermediate_size=[128] * 4, laurel_rank=8),
    "hunyuan_v1_dense": dict(head_dim=16), "hunyuan_v1_moe": dict(head_dim=16),
    "ministral": dict(head_dim=16), "nemotron": dict(head_dim=16, num_key_value_heads=2),
    "youtu": dict(qk_rope_head_dim=8, head_dim=8),
    "swinv2": dict(embed_dim=24, depths=[1], num_heads=[2], window_size=2, image_size=32,
                   patch_size=4),
    "donut-swin": dict(embed_dim=24, depths=[1], num_heads=[2], window_size=2, image_size=32,
                       patch_size=4),
    "maskformer-swin": dict(embed_dim=24, depths=[1], num_heads=[2], window_size=2, image_size=32,
                            patch_size=4),
    "layoutlmv3": dict(coordinate_size=12, shape_size=8),
    "mamba2": dict(head_dim=16, num_heads=8),
    "mimo_v2_flash": dict(head_dim=24, swa_head_dim=24, partial_rotary_factor=0.5),
    "reformer": dict(is_decoder=True, axial_pos_embds_dim=[16, 48], axial_pos_shape=[4, 16]),

    "dbrx": dict(attn_config=dict(kv_n_heads=2, rope_theta=1e4, clip_qkv=8.0),
                 ffn_config=dict(ffn_hidden_size=64, moe_num_experts=4, moe_top_k=2)),
    "glm5_next_text": dict(qk_rope_head_dim=0), "chameleon": dict(vocabulary_map={"<image>": 100}),
    "emu3": dict(vocabulary_map={"<image>": 100}),
    "step3p7_text": dict(sliding_window=8),
    "zamba2": dict(num_hidden_layers=4, layers_block_type=["mamba", "hybrid"] * 2,
                   hybrid_layer_ids=[1, 3]),
    "vjepa2": dict(crop_size=32, patch_size=8, frames_per_clip=2),
    "timesformer": dict(num_frames=2), "videomae": dict(num_frames=2, tubelet_size=1),
    "vivit": dict(num_frames=2, tubelet_size=[1, 8, 8]),
    "audio-spectrogram-transformer": dict(max_length=32, frequency_stride=8, time_stride=8),
    "mllama_text_model": dict(cross_attention_layers=[1]),
    "granitemoehybrid": dict(layer_types=["mamba", "attention"], num_hidden_layers=2,
                             mamba_n_heads=8, mamba_d_head=16),
    "jamba": dict(attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2,
                  expert_layer_offset=1),
    "lfm2_moe": dict(layer_types=["conv", "full_attention"], num_dense_layers=1),
    "lilt": dict(channel_shrink_ratio=4, hidden_size=96, intermediate_size=128),
    "llama4": dict(pad_token_id=0),
    "mistral4": dict(n_group=1, topk_group=1),
    "mobilebert": dict(embedding_size=64, intra_bottleneck_size=64, true_hidden_size=64),
    "recurrent_gemma": dict(block_types=["recurrent", "attention"], num_hidden_layers=2),
    "swin": dict(embed_dim=24, depths=[2], num_heads=[4], window_size=2, image_size=32,
                 patch_size=4),
    "xmod": dict(default_language="en_XX"),
    "zamba": dict(num_hidden_layers=4, layers_block_type=["mamba", "mamba", "hybrid", "mamba"]),
    "gemma4_text": dict(num_kv_shared_layers=0),
}


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
    rope = values.get("qk_rope_head_dim")
    if isinstance(rope, int) and values.get("head_dim") in (rope, values.get("qk_head_dim")):
        changes["head_dim"] = 8 if values["head_dim"] == rope else 24
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
    config = cls(**arguments)
    for one in parts_of(config):
        one._experts_implementation_internal = "eager"  # grouped products have no float64
        if getattr(one, "pad_token_id", 0) is None:
            one.pad_token_id = 0
        if isinstance(getattr(one, "eos_token_id", None), int):
            one.eos_token_id = 2
    return config


def parts_of(config: Any) -> list[Any]:
    """Returns a config and the configs of its parts."""
    found = [config]
    for name in config.sub_configs:
        if getattr(config, name, None) is not None:
            found += parts_of(getattr(config, name))
    return found


def described() -> list[str]:
    """Returns the model types that have a model class and a description."""
    found = []
    for model_type, cls in transformers.CONFIG_MAPPING.items():
        try:
            gnomon.model.from_pretrained(cls())
        except Exception:
            continue
        if classes_of(model_type):
            found.append(model_type)
    return sorted(found)


def classes_of(model_type: str) -> list[type]:
    """Returns the classes of a model type: with a head for generation, then the base model.

    A part of a model, as its text model, may have a class that is not in the automatic mappings.
    """
    cls = transformers.CONFIG_MAPPING[model_type]
    found: list[type] = []
    for mapping in (modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING,
                    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
                    modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
                    modeling_auto.MODEL_MAPPING):
        try:
            one = mapping[cls]
        except (KeyError, ValueError):
            continue
        found += [each for each in (one if isinstance(one, (list, tuple)) else [one])
                  if each not in found]
    if not found:
        file = cls.__module__.replace(".configuration_", ".modeling_")
        try:
            classes = vars(importlib.import_module(file)).values()
        except ImportError:
            return []
        own = [one for one in classes if isinstance(one, type)
               and issubclass(one, transformers.PreTrainedModel) and one.config_class is cls
               and one.__module__ == file and not one.__name__.endswith("PreTrainedModel")]
        found = sorted(own, key=lambda one: ("For" not in one.__name__, len(one.__name__)))
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


def _pixels(config: Any, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    config = getattr(config, "vision_config", None) or config
    channels = getattr(config, "num_channels", getattr(config, "in_channels", 3))
    return torch.randn(batch, channels, *image_size(config), generator=generator, dtype=dtype)


def candidates(model: Any, batch: int, tokens: int, seed: int, padded: bool,
               ) -> Iterator[dict[str, Any]]:
    """Yields arguments of a forward pass that a model may take."""
    generator = torch.Generator().manual_seed(seed)
    names = inspect.signature(model.forward).parameters
    config, dtype = model.config, model.dtype
    ids = torch.randint(3, 90, (batch, tokens), generator=generator)
    text: dict[str, Any] = {"input_ids": ids}
    if padded:
        text["attention_mask"] = torch.ones_like(ids)
        text["attention_mask"][1, :4] = 0
    decoder = {"decoder_input_ids": ids.flip(1)} if "decoder_input_ids" in names else {}
    main = getattr(model, "main_input_name", "input_ids")
    if "input_ids" in names:
        yield text
        yield text | decoder
    if "pixel_values" in names:
        pixels = _pixels(config, batch, generator, dtype)
        given = {"pixel_values": pixels} | decoder
        if "input_ids" in names:
            yield text | given
            yield text | {"qformer_input_ids": ids} | given
        else:
            yield given
        frames = getattr(config, "num_frames", 4)
        yield {"pixel_values": pixels[:, None].repeat(1, frames, 1, 1, 1)}
    if "pixel_values_videos" in names:
        yield {"pixel_values_videos": _pixels(config, batch, generator, dtype)[:, None].repeat(
            1, getattr(config, "frames_per_clip", 4), 1, 1, 1)}
    grid = next((one for one in names if one.endswith("grid_thw")), None)
    if grid is not None:
        patch = getattr(config, "patch_size", 8)
        width = getattr(config, "in_channels", getattr(config, "num_channels", 3)) * patch ** 2
        for frames in {getattr(config, "temporal_patch_size", 1), 1}:
            first = next(iter(names))
            pixels = torch.randn(16, width * frames, generator=generator, dtype=dtype)
            yield {first: pixels, grid: torch.tensor([[1, 4, 4]])} | (
                {"merge_sizes": torch.tensor([1])} if "merge_sizes" in names else {})
    if main in ("input_features", "input_values", "audio_values") or main in names:
        bins = getattr(config, "num_mel_bins", getattr(config, "input_feat_per_channel", 80))
        frames = 2 * getattr(config, "max_source_positions", 32)
        width = getattr(config, "feature_projection_input_dim", bins)
        longest = getattr(config, "max_length", frames)
        for shape in ((bins, frames), (frames, width), (longest, bins), (1600,), (1, 1600)):
            yield {main: torch.randn(batch, *shape, generator=generator, dtype=dtype)} | decoder


def inputs_of(model: Any, batch: int = 2, tokens: int = 13, seed: int = 0,
              padded: bool = False) -> dict[str, Any]:
    """Returns the first arguments that a model takes. Raises the first error if there are none."""
    first: Exception | None = None
    for arguments in candidates(model, batch, tokens, seed, padded):
        try:
            with torch.no_grad():
                outputs_of(model, arguments)
        except Exception as error:
            first = first or error
            continue
        return arguments
    raise first or LookupError("no input is known")


def outputs_of(model: Any, arguments: dict[str, Any]) -> dict[str, Tensor]:
    """Returns the floating-point tensors of the outputs of a forward pass."""
    torch.manual_seed(3)  # some models drop random patches
    return traced_outputs(model, arguments)


def traced_outputs(model: Any, arguments: dict[str, Any]) -> dict[str, Tensor]:
    """The same without a seed, for torch.compile."""
    out = model(**arguments)
    items = out.items() if hasattr(out, "items") else enumerate(out)
    return {str(key): value for key, value in items
            if isinstance(value, Tensor) and value.is_floating_point()}
