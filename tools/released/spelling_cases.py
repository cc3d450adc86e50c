"""Cases whose config.json has the keys of checkpoints before transformers 5.

The family determines the values that such files omit (layer types, head sizes, windows)."""

from build import Case
from text_cases import EXPERTS, GLM_MOE, LATENT, MOE, axes_inputs, small


def released(name, cls, model_type, config, **more):
    config = {"model_type": model_type} | config
    return Case(name, cls, config, literal=True, **more)


LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
LLAMA3 |= dict(original_max_position_embeddings=32, rope_type="llama3")
YARN = dict(beta_fast=32, beta_slow=1, factor=4, type="yarn")
YARN |= dict(original_max_position_embeddings=16)
LONG = dict(short_factor=[1.0, 1.1, 1.3, 1.6], long_factor=[1.2, 2.0, 4.0, 8.0])
VISION = dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2)

CASES = [
    released("llama-4x-llama3", "LlamaForCausalLM", "llama", small(
        rope_theta=500000.0, rope_scaling=LLAMA3)),
    released("llama-4x-dynamic", "LlamaForCausalLM", "llama", small(
        max_position_embeddings=8, rope_scaling={"type": "dynamic", "factor": 2.0})),
    released("mistral-4x", "MistralForCausalLM", "mistral", small(
        rope_theta=10000.0, sliding_window=5)),
    released("qwen2-4x", "Qwen2ForCausalLM", "qwen2", small(
        layers=3, rope_theta=1000000.0, use_sliding_window=True, sliding_window=5,
        max_window_layers=2, rope_scaling=dict(
            factor=4.0, original_max_position_embeddings=16, type="yarn"))),
    released("qwen2-4x-no-window", "Qwen2ForCausalLM", "qwen2", small(
        rope_theta=1000000.0, use_sliding_window=False, sliding_window=5,
        max_window_layers=0)),
    released("gemma2-4x", "Gemma2ForCausalLM", "gemma2", small(
        layers=3, heads=2, kv=1, head_dim=8, rope_theta=10000.0, sliding_window=5,
        query_pre_attn_scalar=24, attn_logit_softcapping=3.0, cache_implementation="hybrid")),
    released("gemma3_text-4x", "Gemma3ForCausalLM", "gemma3_text", small(
        layers=4, heads=2, kv=1, head_dim=8, rope_theta=1000000.0, rope_local_base_freq=10000.0,
        rope_scaling={"factor": 8.0, "rope_type": "linear"}, sliding_window=5,
        sliding_window_pattern=2, query_pre_attn_scalar=12)),
    released("cohere2-4x", "Cohere2ForCausalLM", "cohere2", small(
        layers=4, heads=2, kv=1, rope_theta=50000, sliding_window=5, sliding_window_pattern=4)),
    released("exaone4-4x", "Exaone4ForCausalLM", "exaone4", small(
        layers=4, heads=2, kv=1, head_dim=8, rope_theta=1000000, rope_scaling=LLAMA3,
        sliding_window=5, sliding_window_pattern="LLLG",
        layer_types=["sliding_attention"] * 3 + ["full_attention"])),
    released("exaone4-4x-no-window", "Exaone4ForCausalLM", "exaone4", small(
        head_dim=8, rope_theta=1000000, sliding_window=None, sliding_window_pattern=None,
        layer_types=["full_attention"] * 2)),
    released("olmo3-4x", "Olmo3ForCausalLM", "olmo3", small(
        layers=4, heads=2, kv=1, rope_theta=500000, rope_scaling=dict(
            attention_factor=1.2079441541679836, beta_fast=32.0, beta_slow=1.0, factor=8.0,
            original_max_position_embeddings=16, rope_type="yarn"), sliding_window=5)),
    released("smollm3-4x", "SmolLM3ForCausalLM", "smollm3", small(
        layers=4, heads=2, kv=1, rope_theta=5000000.0, no_rope_layer_interval=4,
        use_sliding_window=False, sliding_window=None)),
    released("llama4_text-4x", "Llama4ForCausalLM", "llama4_text", small(
        layers=4, heads=2, kv=1, **MOE, intermediate_size_mlp=24, attention_chunk_size=6,
        floor_scale=4, attn_scale=0.5, attn_temperature_tuning=True, head_dim=8,
        rope_theta=500000.0, no_rope_layers=[], use_qk_norm=False)),
    released("phi3-4x-longrope", "Phi3ForCausalLM", "phi3", small(
        original_max_position_embeddings=8, sliding_window=None, rope_theta=10000.0,
        rope_scaling=dict(LONG, type="longrope"))),
    released("deepseek_v2-4x", "DeepseekV2ForCausalLM", "deepseek_v2", small(
        **LATENT | dict(q_lora_rank=None), kv=4, topk_method="greedy", rope_theta=10000,
        rope_scaling=dict(YARN, mscale=0.707, mscale_all_dim=0.707))),
    released("deepseek_v3-4x", "DeepseekV3ForCausalLM", "deepseek_v3", small(
        **LATENT, kv=4, rope_theta=10000, rope_scaling=dict(
            YARN, mscale=1.0, mscale_all_dim=1.0))),
    released("gpt_neox-4x", "GPTNeoXForCausalLM", "gpt_neox", small(
        dim=16, heads=2, rotary_pct=0.25, rotary_emb_base=10000)),
    released("phi-4x", "PhiForCausalLM", "phi", small(
        dim=16, heads=2, kv=2, rope_theta=10000.0, partial_rotary_factor=0.4)),
    released("stablelm-4x", "StableLmForCausalLM", "stablelm", small(
        dim=16, heads=2, kv=2, rope_theta=10000, partial_rotary_factor=0.25)),
    released("glm4_moe-4x", "Glm4MoeForCausalLM", "glm4_moe", small(
        **GLM_MOE, head_dim=8, rope_theta=1000000, partial_rotary_factor=0.5,
        use_qk_norm=False)),
    released("hunyuan_v1_dense-4x", "HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", small(
        head_dim=8, rope_theta=10000.0, rope_scaling=dict(
            alpha=1000.0, beta_fast=32, beta_slow=1, factor=1.0, mscale=1.0,
            mscale_all_dim=1.0, type="dynamic"))),
    released("minimax_m2-4x", "MiniMaxM2ForCausalLM", "minimax_m2", small(
        heads=2, kv=1, **MOE, head_dim=16, rotary_dim=8, rope_theta=5000000,
        use_qk_norm=True)),
    released("minicpm3-4x", "MiniCPM3ForCausalLM", "minicpm3", small(
        **LATENT, kv=4, rope_theta=10000.0, rope_scaling=dict(
            LONG, type="longrope", original_max_position_embeddings=64))),
    released("qwen3_next-4x", "Qwen3NextForCausalLM", "qwen3_next", small(
        layers=4, **EXPERTS, head_dim=16, shared_expert_intermediate_size=8,
        linear_num_value_heads=2, linear_num_key_heads=2, linear_key_head_dim=8,
        linear_value_head_dim=8, rope_theta=10000000, partial_rotary_factor=0.25,
        full_attention_interval=4)),
    released("modernbert-4x", "ModernBertForMaskedLM", "modernbert", small(
        layers=3, heads=3, local_attention=6, global_attn_every_n_layers=3,
        global_rope_theta=160000.0, local_rope_theta=10000.0, cls_token_id=1, sep_token_id=2)),
    released("falcon-4x", "FalconForCausalLM", "falcon", dict(
        vocab_size=40, hidden_size=32, num_attention_heads=4, num_hidden_layers=2, alibi=False,
        multi_query=True, parallel_attn=True, new_decoder_architecture=False, bias=False,
        bos_token_id=1, eos_token_id=2)),
    released("qwen2_vl-4x-axes", "Qwen2VLForConditionalGeneration", "qwen2_vl", small(
        dim=16, heads=2, kv=1, rope_theta=1000000.0, vision_config=VISION,
        rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]}), inputs=axes_inputs,
        only="language_model", part=""),
    released("granite-4x", "GraniteForCausalLM", "granite", small(
        rope_theta=10000.0, attention_multiplier=0.2, embedding_multiplier=1.0)),
    released("step3p5-4x", "Step3p7ForConditionalGeneration", "step3p7", {
        "text_config": {"model_type": "step3p5", "vocab_size": 40, "hidden_size": 32,
                        "intermediate_size": 24, "num_hidden_layers": 2, "head_dim": 8,
                        "num_attention_heads": 4, "num_attention_groups": 2,
                        "moe_layers_enum": "", "share_expert_dim": 8, "pad_token_id": 0,
                        "layer_types": ["full_attention", "sliding_attention"],
                        "rope_theta": [5000000.0, 10000.0],
                        "partial_rotary_factors": [0.5, 1.0], "sliding_window": 5,
                        "max_position_embeddings": 64,
                        "attention_other_setting": {
                            "attention_type": "sliding_attention",
                            "num_attention_heads": 6, "num_attention_groups": 2,
                            "head_dim": 8, "true_head_dim": 8}},
        "vision_config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                          "intermediate_size": 16, "image_size": 8, "patch_size": 2}},
        only="language_model", part="text_config"),
]
