"""Cases of image and video towers."""

import torch
from build import Case
from text_cases import small


def grid(height, width, frames=1):
    return {"frames": frames, "height": height, "width": width}


def pixels(case, config, rng, patch=2):
    """An image whose patches are 2 x 2 pixels."""
    shape = (1, 3, patch * case.image["height"], patch * case.image["width"])
    return {"pixel_values": torch.from_numpy(rng.standard_normal(shape))}, None


def single_pixels(case, config, rng):
    arguments, _ = pixels(case, config, rng)
    return {key: value.float() for key, value in arguments.items()}, None


def interpolated_pixels(case, config, rng):
    arguments, _ = pixels(case, config, rng)
    return arguments | {"interpolate_pos_encoding": True}, None


def pixels_in_order(case, config, rng):
    """Ascending noise, because ViT-MAE shuffles patches by noise."""
    arguments, _ = pixels(case, config, rng)
    count = case.image["height"] * case.image["width"]
    return arguments | {"noise": torch.arange(count)[None].double()}, None


def pixels_and_mask(case, config, rng):
    """The first stage of a ResNet makes a patch of 4 x 4 pixels."""
    arguments, _ = pixels(case, config, rng, patch=4)
    height, width = arguments["pixel_values"].shape[2:]
    return arguments | {"pixel_mask": torch.ones(1, height, width).long()}, None


def sized_pixels(case, config, rng):
    arguments, _ = pixels(case, config, rng)
    return arguments | {"image_sizes": [arguments["pixel_values"].shape[2:]]}, None


def video(case, config, rng):
    image = case.image
    shape = (1, 2 * image["frames"], 3, 2 * image["height"], 2 * image["width"])
    values = torch.from_numpy(rng.standard_normal(shape))
    return {"pixel_values_videos": values, "skip_predictor": True}, None


def patches(case, config, rng):
    """Flat patches and the grid, for the towers of Qwen and GLM."""
    count = case.image["height"] * case.image["width"]
    values = rng.standard_normal((count, 3 * 2 * 2 * 2))
    sizes = torch.tensor([[1, case.image["height"], case.image["width"]]])
    return {"hidden_states": torch.from_numpy(values), "grid_thw": sizes}, None


def located_patches(case, config, rng):
    """Gemma 4: flat patches and (column, row) of each."""
    height, width = case.image["height"], case.image["width"]
    values = torch.from_numpy(rng.random((1, height * width, 3 * 2 * 2)))
    places = [(x, y) for y in range(height) for x in range(width)]
    return {"pixel_values": values, "pixel_position_ids": torch.tensor([places])}, None


def fill_table(recorder, model):
    """ViT-MAE's fixed table, which its class fills only if nothing has filled its convolution;
    the other weights that this draws are put back."""
    module = model.embeddings
    kept = {name: t.clone() for name, t in module.state_dict().items()}
    del kept["position_embeddings"]
    for tensor in (module.patch_embeddings.projection, module.position_embeddings):
        tensor._is_hf_initialized = False
    module.initialize_weights()
    module.load_state_dict(kept, strict=False)
    assert module.position_embeddings.std() > 0.5


def record_regions(recorder, model):
    """Records the regions of a shifted window. The first token of a region is its number."""
    for module in list(recorder.names):
        if type(module).__name__ not in ("SwinAttention", "Swinv2SelfAttention"):
            continue

        def keep(m, arguments, named, output):
            mask = arguments[1] if len(arguments) > 1 else named.get("attention_mask")
            if mask is not None:
                number = recorder.layers[-1]["number"]
                regions = (mask == 0).int().argmax(-1).to(torch.int32)
                recorder.tensors[f"@layers.{number}.sequences"] = regions

        # after the hook that adds the layer
        module.register_forward_hook(keep, with_kwargs=True)


def record_added(recorder, model):
    """Records the positions that DETR adds before the q and k projections, in each layer."""
    for module, name in recorder.names.items():
        if type(module).__name__ != "DetrSelfAttention" or "encoder" not in name:
            continue

        def keep(m, arguments, named, output):
            hidden = arguments[0] if arguments else named["hidden_states"]
            number = recorder.layers[-1]["number"]
            recorder.tensors[f"@layers.{number}.add_in"] = hidden
            added = hidden + named["position_embeddings"]
            recorder.tensors[f"@layers.{number}.add_out"] = added

        module.register_forward_hook(keep, with_kwargs=True)


def tower(name, cls, vision, text, image, entry, inputs=patches, **more):
    config = {"vision_config": vision, "text_config": text} | more.pop("config", {})
    return Case(name, cls, config, part="vision_config", image=image, entry=entry,
                inputs=inputs, check="norm", only=more.pop("only", "."), **more)


def vit(**more):
    sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, patch_size=2)
    return sizes | dict(intermediate_size=16, image_size=8) | more


QWEN = dict(depth=1, num_heads=2, patch_size=2, temporal_patch_size=2, spatial_merge_size=2)
TEXT = small(layers=1, heads=2, kv=1, rope_parameters={
    "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]})

SIGLIP_TEXT = dict(vocab_size=40, hidden_size=16, intermediate_size=16, num_hidden_layers=1)
SIGLIP_TEXT |= dict(num_attention_heads=2, max_position_embeddings=8, projection_size=16)

CASES = [
    tower("qwen2_vl_vision", "Qwen2VLForConditionalGeneration", QWEN | dict(
        embed_dim=32, hidden_size=16), TEXT, grid(4, 6), "model.visual"),
    tower("qwen3_vl_vision", "Qwen3VLForConditionalGeneration", QWEN | dict(
        hidden_size=32, intermediate_size=16, out_hidden_size=16, num_position_embeddings=9,
        deepstack_visual_indexes=[0]), TEXT, grid(4, 6), "model.visual",
        embed=[("layers", "<visual.patch_embed", "visual.blocks.0")]),
    tower("glm4v_vision", "Glm4vForConditionalGeneration", QWEN | dict(
        hidden_size=32, intermediate_size=16, out_hidden_size=16, image_size=6), TEXT,
        grid(4, 6), "model.visual", embed=[("layers", "visual.embeddings", "")]),
    Case("pixtral", "PixtralVisionModel", vit(head_dim=8), inputs=sized_pixels,
         image=grid(3, 4), check="norm"),
    tower("siglip", "SiglipModel", vit(), SIGLIP_TEXT, grid(4, 4), "vision_model", pixels,
          embed=[("layers", "vision_model.embeddings.position_embedding",
                  "vision_model.encoder.layers.0")]),
    tower("siglip-interpolated", "SiglipModel", vit(), SIGLIP_TEXT, grid(3, 5), "vision_model",
          interpolated_pixels,
          embed=[("layers", "<patch_embedding", "vision_model.encoder.layers.0")]),
    Case("clip_vision", "CLIPVisionModelWithProjection", vit(projection_dim=8), inputs=pixels,
         image=grid(4, 4), check="norm",
         embed=[("layers", "position_embedding", "pre_layrnorm")]),
    Case("dinov3_vit", "DINOv3ViTModel", vit(num_register_tokens=2), inputs=pixels,
         image=grid(3, 4), check="norm"),
    tower("llama4_vision", "Llama4ForConditionalGeneration", vit(
        vision_output_dim=16, projector_input_dim=16, projector_output_dim=16,
        pixel_shuffle_ratio=0.5, intermediate_size=64), small(
            layers=1, num_local_experts=2), grid(4, 4), "vision_model", pixels,
        embed=[("layers", "positional_embedding_vlm", "vision_model.layernorm_pre")]),
    tower("gemma4_vision", "Gemma4ForConditionalGeneration", vit(
        head_dim=8, num_key_value_heads=2, position_embedding_size=8, pooling_kernel_size=1),
        small(layers=1, head_dim=8, num_kv_shared_layers=0, vocab_size_per_layer_input=40,
              hidden_size_per_layer_input=8), grid(3, 4), "model.vision_tower",
        located_patches, tensors="position_embedding_table",
        embed=[("layers", "<patch_embedder.input_proj", "encoder.layers.0")]),
    Case("vjepa2", "VJEPA2Model", dict(
        patch_size=2, crop_size=6, frames_per_clip=4, tubelet_size=2, hidden_size=28,
        num_attention_heads=2, num_hidden_layers=1, mlp_ratio=1, pred_hidden_size=24,
        pred_num_attention_heads=2, pred_num_hidden_layers=1), inputs=video,
        image=grid(3, 3, 2), check="none", only="^encoder"),
    tower("sam_vision", "SamModel", vit(
        num_hidden_layers=2, image_size=10, window_size=3, global_attn_indexes=[1],
        output_channels=8, mlp_dim=16), {}, grid(5, 5), "vision_encoder", pixels,
        embed=[("layers", "pos_embed", "vision_encoder.layers.0")]),
    Case("beit", "BeitModel", vit(
        image_size=6, use_relative_position_bias=True, num_hidden_layers=2), inputs=pixels,
        image=grid(3, 3), check="norm"),
    Case("beit-shared", "BeitModel", vit(
        image_size=6, use_shared_relative_position_bias=True,
        use_absolute_position_embeddings=True), inputs=pixels, image=grid(3, 3),
        check="norm", embed=[("layers", "embeddings.position_embeddings", "layers.0")]),
    Case("swin", "SwinModel", dict(
        image_size=12, patch_size=2, embed_dim=16, depths=[2], num_heads=[2], window_size=3),
        inputs=pixels, image=grid(6, 6), check="norm", running=True, extra=record_regions),
    Case("swinv2", "Swinv2Model", dict(
        image_size=12, patch_size=2, embed_dim=16, depths=[2], num_heads=[2], window_size=3),
        inputs=single_pixels, image=grid(6, 6), running=True, extra=record_regions,
        double=False, tensors="continuous_position_bias_mlp|logit_scale"),
    Case("vit_mae", "ViTMAEModel", vit(mask_ratio=0.0), inputs=pixels_in_order,
         image=grid(4, 4), check="norm",
         extra=fill_table, embed=[("layers", "position_embeddings", "layers.0")]),
    Case("detr", "DetrModel", dict(
        d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, num_queries=3,
        use_timm_backbone=False, backbone=None, backbone_config=dict(
            model_type="resnet", embedding_size=8, hidden_sizes=[8], depths=[1],
            layer_type="basic", out_features=["stage1"])), inputs=pixels_and_mask,
        image=grid(3, 4), check="norm", only=r"^encoder", extra=record_added, gain=0.7),
]
