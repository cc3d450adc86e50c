"""Sizes of the configs of tiny_configs.py, and configs of families outside transformers."""

# Keys of any class that has a default for them.
SIZES = {
    "num_hidden_layers": 6, "n_layer": 6, "n_layers": 6, "num_layers": 6, "depth": 6,
    "encoder_layers": 3, "decoder_layers": 2, "num_decoder_layers": 2,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 24, "d_kv": 24, "kv_channels": 24,
    "hidden_size": 64, "n_embd": 64, "d_model": 64, "dim": 64, "embed_dim": 64,
    "intermediate_size": 96,
    "max_position_embeddings": 320, "n_positions": 320, "max_seq_len": 320,
    "sliding_window": 24,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12, "kv_lora_rank": 32,
    "q_lora_rank": 40,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20,
    "image_size": 48, "patch_size": 8,
}
# Keys of single classes. None: the size above is not used.
FIXED_BASE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
SPECIAL = {
    "aquila": FIXED_BASE,
    "bailing_hybrid": {"layer_group_size": 3},
    "beam": {"layer_types": ["sliding_attention"] * 3 + ["full_attention"] +
             ["sliding_attention", "full_attention"]},
    "blt_global_transformer": {"head_dim": 16},
    "blt_local_decoder": {"head_dim": 16},
    "blt_local_encoder": {"head_dim": 16},
    "bridgetower_vision_model": {"hidden_size": 128},
    "clvp_encoder": {"hidden_size": 128, "projection_dim": 128},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
        "rope_parameters": {"sliding_attention": {
            "rope_type": "default", "rope_theta": 20000.0, "mrope_section": [6, 3, 3]},
                            "full_attention": None}},
    "donut-swin": {"depths": [2, 2], "num_heads": [2, 4], "embed_dim": 32, "window_size": 3},
    "dots3_note_audio_encoder": {"adapter_input_size": 64},
    "dots3_note_text": {"num_key_value_heads": 4},
    "esmc": {"num_key_value_heads": None},
    "flaubert": {"emb_dim": 64},
    "gemma4_unified_text": {"per_layer_config": {5: {"head_dim": 32}}},
    "glm5_next_text": {"num_key_value_heads": 4, "qk_rope_head_dim": None},
    "gradium_phonon_tts": {"flow_head_config": {"condition_dim": 64}},
    "hunyuan_v1_moe": {"head_dim": 24},
    "hunyuan_vl_text": {"head_dim": 24, **FIXED_BASE},
    "idefics": {"num_key_value_heads": None},
    "kosmos_2_text_model": {"layers": 6, "attention_heads": 4},
    "kosmos_2_5_text_model": {"layers": 6, "attention_heads": 4},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention"] * 2},
    "lxmert": {"num_hidden_layers": None, "l_layers": 6},
    "mamba2": {"head_dim": 32},
    "maskformer-swin": {"depths": [2, 2], "num_heads": [2, 4], "embed_dim": 32,
                        "window_size": 3},
    "mbart": {"decoder_attention_heads": 8},
    "modernbert-decoder": {"sliding_window": None, "local_attention": 48},
    "neomme": {"head_dim": 32, "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0,
                              "partial_rotary_factor": 0.5},
        "full_attention": {"rope_type": "default", "rope_theta": 2000000.0,
                           "partial_rotary_factor": 0.25}}},
    "pocket_tts": {"flow_head_config": {"condition_dim": 64}},
    "qwen4_exp_text": {"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 24,
                       "indexer_budget": 64, "indexer_compress_ratio": 4},
    "reformer": {"axial_pos_embds_dim": [24, 40], "axial_pos_shape": [16, 20]},
    "sam3_tracker_video": {"memory_attention_num_layers": 2, "memory_attention_hidden_size": 32,
                           "memory_attention_rope_feat_sizes": [3, 3]},
    "squeezebert": {"embedding_size": 64},
    "time_series_transformer": {"prediction_length": 24, "context_length": 40},
    "xlm": {"emb_dim": 64},
    "xverse": FIXED_BASE,
    "zaya": {"sliding_window": 24, "layer_types": ["hybrid", "hybrid", "hybrid_sliding"] * 2},
    "zamba": {"num_hidden_layers": 14},
}
# Keys that a class or its model requires, and that have no effect on position.
EXTRA = {
    "chameleon": {"vocabulary_map": {"<image>": 8}},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense"] * 32},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 96},
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_text": {"dropout_rate": 0.0},
}
# Families whose layers are all alike, although the modules do not have their numbers.
ALIKE = {
    "funnel": lambda config: sum(config.block_sizes),
    "groupvit_vision_model": lambda config: sum(config.depths),
    "hrm_text": lambda config: config.num_hidden_layers,
    "lxmert": lambda config: config.l_layers,
    "sam3_tracker_video": lambda config: config.memory_attention_num_layers,
}
# Modules of a model that is not a language model, in front of the language model.
DROPPED = {"EvollaConfig": ["protein_encoder"], "IdeficsConfig": ["vision_model"],
           "Sam3TrackerVideoConfig": ["vision_encoder"]}
# Prefix of the table of text positions, in a model that has another table, too. None: the table
# of the modules is not one of positions.
TABLES = {"reformer": None, "vilt": "embeddings.text_embeddings"}
# Values that the modules do not give: the rotation of the audio encoder is not that of the text
# model of the modeling file.
# The modules of CLVP hide their rotation, and TimesFM's scale is trained for each element.
UNKNOWN = {"clvp_encoder": {"kind"}, "dots3_note_audio_encoder": {"pairing"},
           "timesfm": {"softmax_scale"}, "timesfm2_5": {"softmax_scale"}}
# Towers that rotate by the cells of an image.
PATCHES = {"mlcd", "sam3_tracker_video"}
# A config of only a model_type is refused: by the library, which requires the sizes of these
# families, or because the defaults of the class do not fit each other.
WITHOUT_DEFAULTS = set(
    "bigbird_pegasus blenderbot blenderbot-small falcon_mamba fsmt funnel glm5_next_text longt5 "
    "mamba mamba2 mbart moonshine_streaming_encoder moshi_depth mt5 mvp nllb nllb-moe pegasus "
    "perceiver plbart pop2piano qwen3_omni_moe_text qwen4_exp_text reformer rwkv speech_to_text "
    "switch_transformers xlstm zamba".split())
# Keys that have no effect on position.
NOISE = (
    r"dropout|(?<!pad)_token_id|vocab|initializer|_std$|_drop|hidden_act|activation|loss|"
    r"router|use_cache|label|time_step|classifier|summary|_eps|transformers_version|dtype|^_|"
    r"layerdrop|pdrop|expert_|experts|beams|tie_word|^mlp_|moe_|scaling_factor|_bias$|"
    r"(?<!head|ayer)_config$")
# Values that the library reads otherwise: {family: {"expected.KEY" or "defaults.KEY": reason}}.
TYPES = "the layer_types of the class are not the default of the library"
STATE = "all layers are described as layers without attention"
DIFFERENCES = {
    "bailing_hybrid": {"defaults.kind": "layer_group_size is 6 in the class, 8 in the library"},
    "convbert": {key: "the class divides the heads by head_ratio" for key in (
        "expected.heads", "expected.key_heads", "defaults.heads", "defaults.key_heads")},
    "exaone": {"defaults.key_heads": "num_key_value_heads is 8 in the class"},
    "exaone_moe": {"defaults.kind": TYPES, "defaults.window": TYPES},
    "flint": {"defaults.kind": TYPES},
    "funnel": {"expected.layers": "block_sizes, not num_decoder_layers",
               "expected.softmax_scale": "of d_head, not of hidden / heads"},
    "glm5_next_text": {f"expected.{key}": STATE for key in (
        "head_dim", "heads", "key_heads", "softmax_scale")},
    "glm4v": {"defaults.key_heads": "num_key_value_heads is 2 in the class"},
    "granite_docling_text": {"defaults.softmax_scale": "attention_multiplier of the class"},
    "kolibri1": {"defaults.kind": TYPES, "defaults.window": TYPES},
    "lilt": {key: "pad_token_id is 0 in the class" for key in (
        "defaults.length", "defaults.offset")},
    "markuplm": {key: "pad_token_id is 0 in the class" for key in (
        "defaults.length", "defaults.offset")},
    "mbart": {f"expected.{key}": "decoder_attention_heads differs from encoder_attention_heads"
              for key in ("head_dim", "heads", "key_heads", "softmax_scale")},
    "moonshine_streaming_encoder": {f"expected.{key}": STATE for key in (
        "head_dim", "heads", "key_heads", "softmax_scale")},
    "moshi_depth": {f"expected.{key}": STATE for key in (
        "head_dim", "heads", "key_heads", "softmax_scale", "window")},
    "muse_glimmer_assistant": {key: "the layers are marked as unsupported" for key in (
        "expected.window", "defaults.window")},
    "neomme": {key: "the window is that of each layer" for key in (
        "expected.window", "defaults.window")},
    "olmo_hybrid": {"defaults.kind": TYPES},
    "qwen3_omni_moe_talker_text": {"defaults.axes": "mrope_section of the modeling file"},
    "t5gemma2_decoder": {key: "the layers are marked as unsupported" for key in (
        "expected.window", "defaults.window")},
    "transfo-xl": {"expected.head_dim": "d_head is not read",
                   "expected.softmax_scale": "d_head is not read"},
    "zamba": {f"expected.{key}": STATE for key in (
        "head_dim", "heads", "key_heads", "softmax_scale")},
}
# Other names of a class.
ALIASES = {"EvollaModel": "evolla", "code_llama": "llama", "gpt-sw3": "gpt2", "mlcd":
           "mlcd_vision_model", "glm4v": "glm4v_text", "nllb": "m2m_100"}
# Families outside transformers 5 whose code is that of a class: the class, and the source.
OUTSIDE = {
    "aquila": ("llama", "modeling_aquila.py of BAAI/AquilaChat-7B"),
    "deepseek": ("llama", "modeling_deepseek.py of deepseek-ai/deepseek-moe-16b-base"),
    "minicpm": ("llama", "modeling_minicpm.py of openbmb/MiniCPM-2B-sft-bf16"),
    "open-llama": ("llama", "modeling_open_llama.py of transformers 4.40"),
    "orion": ("llama", "modeling_orion.py of OrionStarAI/Orion-14B-Base"),
    "realm": ("bert", "modeling_realm.py of transformers 4.40"),
    "xverse": ("llama", "modeling_xverse.py of xverse/XVERSE-7B"),
}
# Families outside transformers 5 without such a class, and families whose model has no layers.
HAND_WRITTEN = {
    "perceiver": {
        "source": "modeling_perceiver.py of transformers 5.24: PerceiverTextPreprocessor",
        "config": {"model_type": "perceiver", "architectures": ["PerceiverForMaskedLM"],
                   "d_model": 64, "d_latents": 80, "num_latents": 16,
                   "num_self_attends_per_block": 6, "num_self_attention_heads": 4,
                   "num_cross_attention_heads": 4, "max_position_embeddings": 320},
        "expected": {"length": 320, "groups": [
            {"kind": "learned", "rows": 320, "width": 64, "offset": 0}]}},
    "pp_formulanet_text": {
        "source": "modeling_pp_formulanet.py of transformers 5.23: PPFormulaNetTextModel, whose "
                  "table has max_position_embeddings + 2 rows",
        "config": {"model_type": "pp_formulanet_text", "d_model": 64, "decoder_layers": 6,
                   "decoder_attention_heads": 4, "max_position_embeddings": 320},
        "expected": {"layers": 6, "length": 320, "groups": [
            {"kind": "learned", "rows": 322, "width": 64, "offset": 2, "heads": 4}]}},
    **{kind: {
        "source": "modeling_bark.py of transformers 5.23: position_embeds_layer",
        "config": {"model_type": kind, "block_size": 320, "num_layers": 6, "num_heads": 4,
                   "hidden_size": 64},
        "expected": {"layers": 6, "length": 320, "groups": [
            {"kind": "learned", "rows": 320, "width": 64, "offset": 0, "heads": 4}]}}
       for kind in ("coarse_acoustics", "fine_acoustics", "semantic")},
    "pix2struct_text_model": {
        "source": "modeling_pix2struct.py of transformers 5.23: scaling = 1.0",
        "config": {"model_type": "pix2struct_text_model", "num_layers": 6, "num_heads": 4,
                   "d_kv": 24, "hidden_size": 64, "relative_attention_num_buckets": 8,
                   "relative_attention_max_distance": 20},
        "expected": {"layers": 6, "groups": [
            {"kind": "t5", "heads": 4, "head_dim": 24, "softmax_scale": 1.0, "buckets": 8,
             "max_distance": 20, "direction": "causal"}]}},
    "diffusion_gemma_text": {
        "source": "modeling_diffusion_gemma.py of transformers 5.23: scaling = 1.0, and the "
                  "head_dim of per_layer_config",
        "config": {
            "model_type": "diffusion_gemma_text", "hidden_size": 64, "num_hidden_layers": 6,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24,
            "max_position_embeddings": 320, "sliding_window": 24, "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0},
                "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                                   "rope_theta": 2000000.0}},
            "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
            "per_layer_config": {"5": {"head_dim": 32}}},
        "expected": {"layers": 6, "length": 320, "groups": [
            {"layers": [0, 1, 2, 3, 4], "kind": "rotary", "heads": 4, "key_heads": 2,
             "head_dim": 24, "softmax_scale": 1.0, "base": 20000.0, "rotary_dim": 24,
             "window": {"left": 23, "right": None}},
            {"layers": [5], "kind": "rotary", "heads": 4, "key_heads": 2, "head_dim": 32,
             "softmax_scale": 1.0, "base": 2000000.0, "rotary_dim": 32}]}},
    "transfo-xl": {
        "differences": DIFFERENCES["transfo-xl"],
        "source": "modeling_transfo_xl.py of transformers 4.40: scale = 1 / (d_head ** 0.5)",
        "config": {"model_type": "transfo-xl", "d_model": 64, "d_embed": 64, "n_head": 4,
                   "d_head": 24, "d_inner": 96, "n_layer": 6, "mem_len": 40, "clamp_len": 30,
                   "same_length": True, "untie_r": True, "attn_type": 0},
        "expected": {"layers": 6, "groups": [
            {"heads": 4, "key_heads": 4, "head_dim": 24, "softmax_scale": 24 ** -0.5}]}},
}
