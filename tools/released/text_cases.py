"""Cases of decoders and encoder-decoders of text."""

import torch
from build import Case, text_inputs


def small(layers=2, heads=4, kv=2, dim=8, **more):
    """Keys that most decoders share; dim is the head size if head_dim is not given."""
    config = dict(
        vocab_size=40,
        hidden_size=heads * dim,
        intermediate_size=24,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return config | more


def without(config, *keys):
    return {key: value for key, value in config.items() if key not in keys}


def yarn(**more):
    rope = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0)
    return rope | dict(original_max_position_embeddings=16) | more


def t5_inputs(case, config, rng):
    arguments, positions = text_inputs(case, config, rng)
    ids, mask = arguments["input_ids"], arguments["attention_mask"]
    return {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": ids}, positions


def unnumbered(case, config, rng):
    """Inputs of models that compute positions themselves."""
    arguments, positions = text_inputs(case, config, rng)
    del arguments["position_ids"]
    return arguments, positions


def moonshine_inputs(case, config, rng):
    """Inputs of Moonshine: 6271 samples become 15 frames."""
    arguments, positions = text_inputs(case, config, rng)
    samples = torch.from_numpy(rng.standard_normal((1, 6271)))
    return {"input_values": samples, "decoder_input_ids": arguments["input_ids"]}, positions


def axes_inputs(case, config, rng):
    """Positions t, h, w of four tokens of text, an image of 2 x 3 and text after it."""
    arguments, _ = text_inputs(case, config, rng)
    axes = [(p, p, p) for p in range(4)]
    axes += [(4, 4 + row, 4 + column) for row in range(2) for column in range(3)]
    axes += [(p, p, p) for p in range(7, 7 + case.length - len(axes))]
    positions = torch.tensor(axes).T[:, None]
    return arguments | {"position_ids": positions}, positions


MOE = dict(num_experts_per_tok=2, num_local_experts=3)
EXPERTS = dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=8)
LATENT = dict(
    q_lora_rank=16,
    kv_lora_rank=12,
    qk_nope_head_dim=8,
    qk_rope_head_dim=8,
    v_head_dim=6,
    n_routed_experts=4,
    num_experts_per_tok=2,
    moe_intermediate_size=8,
    n_group=1,
    topk_group=1,
    first_k_dense_replace=1,
    n_shared_experts=1,
)
GLM_MOE = {key: LATENT[key] for key in list(LATENT)[5:]}
T5 = dict(vocab_size=40, d_model=24, d_kv=8, num_heads=3, d_ff=24, num_layers=2)
T5 |= dict(num_decoder_layers=2, relative_attention_num_buckets=8, pad_token_id=0)
T5 |= dict(relative_attention_max_distance=10, decoder_start_token_id=0)
MAMBA = dict(mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_n_groups=1)
MAMBA |= dict(time_step_limit=[0.0, 10.0])
SLIDING = ["sliding_attention", "full_attention"]
GPT = dict(vocab_size=40, n_positions=32, n_embd=24, n_layer=2, n_head=3)
GPT |= dict(bos_token_id=1, eos_token_id=2)
VISION = dict(depth=1, hidden_size=16, num_heads=2, intermediate_size=16, out_hidden_size=32)


def rope(**more):
    return {"rope_type": "default", "rope_theta": 10000.0} | more


def causal_lm(family):
    return family + "ForCausalLM"


def axes(name, cls, text, vision, positions=axes_inputs):
    return Case(name, cls, {"text_config": text, "vision_config": vision},
                part="text_config", inputs=positions, only="language_model")


CASES = [
    Case("llama", "LlamaForCausalLM", small()),
    Case("llama-yarn", "LlamaForCausalLM", small(rope_parameters=yarn())),
    Case("llama-llama3", "LlamaForCausalLM", small(rope_parameters=rope(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32))),
    Case("llama-linear", "LlamaForCausalLM", small(rope_parameters=rope(
        rope_type="linear", factor=4.0))),
    Case("llama-dynamic", "LlamaForCausalLM", small(
        max_position_embeddings=8, rope_parameters=rope(rope_type="dynamic", factor=2.0))),
    Case("llama-left-padding", "LlamaForCausalLM", small(), padded=True, length=13),
    Case("mistral", "MistralForCausalLM", small(sliding_window=5)),
    Case("mistral-left-padding", "MistralForCausalLM", small(sliding_window=5), padded=True,
         length=13),
    Case("ministral", "MinistralForCausalLM", small(
        head_dim=8, sliding_window=5, layer_types=SLIDING)),
    Case("mixtral", "MixtralForCausalLM", small(**MOE, sliding_window=5)),
    Case("qwen2", "Qwen2ForCausalLM", small(
        layers=3, use_sliding_window=True, sliding_window=5, max_window_layers=2)),
    Case("qwen3", "Qwen3ForCausalLM", small(
        head_dim=12, use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    Case("qwen3_moe", "Qwen3MoeForCausalLM", small(**EXPERTS, head_dim=8)),
    Case("qwen3_next", "Qwen3NextForCausalLM", small(
        **EXPERTS, head_dim=16, shared_expert_intermediate_size=8, linear_num_value_heads=2,
        linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"])),
    Case("gemma", "GemmaForCausalLM", small(head_dim=8)),
    Case("gemma2", "Gemma2ForCausalLM", small(
        head_dim=8, sliding_window=5, query_pre_attn_scalar=24, attn_logit_softcapping=3.0,
        layer_types=SLIDING)),
    Case("gemma3_text", "Gemma3ForCausalLM", small(
        head_dim=8, sliding_window=5, query_pre_attn_scalar=12, layer_types=SLIDING,
        rope_parameters={"full_attention": rope(rope_type="linear", factor=8.0,
                                                rope_theta=1000000.0),
                         "sliding_attention": rope()})),
    Case("gemma3n_text", "Gemma3nForCausalLM", small(
        head_dim=8, sliding_window=5, layer_types=SLIDING, num_kv_shared_layers=0,
        hidden_size_per_layer_input=8, vocab_size_per_layer_input=40, laurel_rank=4,
        altup_num_inputs=2, activation_sparsity_pattern=[0.0, 0.0])),
    Case("gemma4_text", "Gemma4ForCausalLM", small(
        head_dim=8, global_head_dim=16, sliding_window=5, layer_types=SLIDING,
        num_kv_shared_layers=0, hidden_size_per_layer_input=8, vocab_size_per_layer_input=40)),
    Case("gpt_oss", "GptOssForCausalLM", small(
        **MOE, head_dim=16, hidden_size=32, sliding_window=5, layer_types=SLIDING,
        rope_parameters=yarn(rope_theta=150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0,
                             truncate=False))),
    Case("gpt_oss-left-padding", "GptOssForCausalLM", small(
        **MOE, head_dim=8, sliding_window=5, layer_types=SLIDING), padded=True, length=13),
    Case("llama4_text", "Llama4ForCausalLM", small(
        layers=4, **MOE, intermediate_size_mlp=24, attention_chunk_size=6, floor_scale=4,
        attn_scale=0.5, head_dim=8, no_rope_layers=[1, 1, 1, 0])),
    Case("llama4_text-left-padding", "Llama4ForCausalLM", small(
        layers=2, heads=2, kv=1, **MOE, intermediate_size_mlp=24, attention_chunk_size=6,
        floor_scale=4, attn_scale=0.5, head_dim=8, no_rope_layers=[1, 0]), padded=True,
        length=13),
    Case("deepseek_v2", "DeepseekV2ForCausalLM", small(
        **LATENT, kv=4, topk_method="greedy", rope_parameters=yarn(
            mscale=0.707, mscale_all_dim=0.707))),
    Case("deepseek_v3", "DeepseekV3ForCausalLM", small(
        **LATENT, kv=4, rope_parameters=yarn(mscale=1.0, mscale_all_dim=1.0))),
    Case("phi", "PhiForCausalLM", small(partial_rotary_factor=0.5, qk_layernorm=True)),
    Case("phi3-longrope-within", "Phi3ForCausalLM", small(
        sliding_window=5, original_max_position_embeddings=16, rope_parameters=rope(
            rope_type="longrope", short_factor=[1.0, 1.1, 1.3, 1.6],
            long_factor=[1.2, 2.0, 4.0, 8.0]))),
    Case("phi3-longrope-beyond", "Phi3ForCausalLM", small(
        sliding_window=None, original_max_position_embeddings=8, rope_parameters=rope(
            rope_type="longrope", short_factor=[1.0, 1.1, 1.3, 1.6],
            long_factor=[1.2, 2.0, 4.0, 8.0]))),
    Case("gpt_neox", "GPTNeoXForCausalLM", small(dim=16, heads=2)),
    Case("gptj", "GPTJForCausalLM", GPT | dict(n_embd=32, n_head=2, rotary_dim=8)),
    Case("codegen", "CodeGenForCausalLM", GPT | dict(
        n_embd=48, n_head=4, rotary_dim=8, n_ctx=32)),
    Case("gpt2", "GPT2LMHeadModel", GPT, embed=[("layers", "wpe", "transformer.drop")]),
    Case("gpt2-inverse-layer", "GPT2LMHeadModel", GPT | dict(
        scale_attn_by_inverse_layer_idx=True), embed=[("layers", "wpe", "transformer.drop")]),
    Case("gpt_neo", "GPTNeoForCausalLM", dict(
        vocab_size=40, max_position_embeddings=32, hidden_size=24, num_heads=3, num_layers=2,
        attention_types=[[["global", "local"], 1]], window_size=5, bos_token_id=1,
        eos_token_id=2), embed=[("layers", "wpe", "transformer.drop")], gain=0.9),
    Case("gpt_bigcode", "GPTBigCodeForCausalLM", GPT,
         embed=[("layers", "wpe", "transformer.drop")]),
    Case("opt", "OPTForCausalLM", dict(
        vocab_size=40, hidden_size=24, ffn_dim=24, num_hidden_layers=2, num_attention_heads=3,
        max_position_embeddings=32, word_embed_proj_dim=24, pad_token_id=1),
        embed=[("layers", "embed_positions", "decoder.layers.0")]),
    Case("opt-left-padding", "OPTForCausalLM", dict(
        vocab_size=40, hidden_size=16, ffn_dim=24, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=32, word_embed_proj_dim=16, pad_token_id=1), padded=True,
        length=13, embed=[("layers", "embed_positions", "decoder.layers.0")]),
    Case("bloom", "BloomForCausalLM", dict(
        vocab_size=40, hidden_size=24, n_layer=2, n_head=3, bos_token_id=1, eos_token_id=2,
        pad_token_id=0), inputs=unnumbered),
    Case("bloom-left-padding", "BloomForCausalLM", dict(
        vocab_size=40, hidden_size=24, n_layer=2, n_head=3, bos_token_id=1, eos_token_id=2,
        pad_token_id=0), padded=True, length=13, inputs=unnumbered),
    Case("falcon-alibi", "FalconForCausalLM", small(
        heads=3, alibi=True, multi_query=False, parallel_attn=False, bias=True,
        new_decoder_architecture=False), implementation="sdpa"),
    Case("falcon-rotary", "FalconForCausalLM", small(
        multi_query=True, parallel_attn=True, alibi=False)),
    Case("falcon-groups", "FalconForCausalLM", small(
        num_kv_heads=2, new_decoder_architecture=True, alibi=False)),
    Case("mpt", "MptForCausalLM", dict(
        d_model=40, n_heads=5, n_layers=2, expansion_ratio=1, max_seq_len=32, vocab_size=40),
        inputs=unnumbered),
    Case("t5", "T5ForConditionalGeneration", T5, inputs=t5_inputs, split=True,
         gain=0.9),
    Case("umt5", "UMT5ForConditionalGeneration", T5, inputs=t5_inputs, split=True,
         gain=0.9),
    Case("granite", "GraniteForCausalLM", small(attention_multiplier=0.2)),
    Case("granitemoehybrid", "GraniteMoeHybridForCausalLM", small(
        **MOE, layer_types=["mamba", "attention"], attention_multiplier=0.2,
        position_embedding_type="rope", shared_intermediate_size=8, **MAMBA)),
    Case("smollm3", "SmolLM3ForCausalLM", small(no_rope_layers=[1, 0])),
    Case("cohere", "CohereForCausalLM", small(use_qk_norm=True)),
    Case("cohere2", "Cohere2ForCausalLM", small(sliding_window=5, layer_types=SLIDING)),
    Case("olmo2", "Olmo2ForCausalLM", small()),
    Case("olmo3", "Olmo3ForCausalLM", small(
        sliding_window=5, layer_types=SLIDING, rope_parameters=yarn())),
    Case("stablelm", "StableLmForCausalLM", small(
        dim=16, heads=2, kv=1, qk_layernorm=True, use_qkv_bias=True)),
    Case("nemotron", "NemotronForCausalLM", small(dim=8), gain=0.8),
    Case("persimmon", "PersimmonForCausalLM", small(dim=8, qk_layernorm=True)),
    Case("glm", "GlmForCausalLM", small(head_dim=8)),
    Case("glm4", "Glm4ForCausalLM", small(head_dim=8)),
    Case("glm4_moe", "Glm4MoeForCausalLM", small(**GLM_MOE, head_dim=8, use_qk_norm=True)),
    Case("exaone4", "Exaone4ForCausalLM", small(sliding_window=5, layer_types=SLIDING)),
    Case("ministral3", "Ministral3ForCausalLM", small(
        head_dim=8, rope_parameters=yarn(
            original_max_position_embeddings=4, llama_4_scaling_beta=0.5, beta_fast=32.0,
            beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0))),
    Case("mistral4", "Mistral4ForCausalLM", small(
        **LATENT, kv=4, rope_parameters=yarn(
            original_max_position_embeddings=4, llama_4_scaling_beta=0.5, beta_fast=32.0,
            beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0))),
    Case("mistral_large4_text", "MistralLarge4TextModel", small(
        **without(LATENT, "q_lora_rank"), layers=4, kv=4, index_topk=16, index_head_dim=16,
        index_n_heads=2, rope_parameters=yarn(
            original_max_position_embeddings=4, beta_fast=32.0, beta_slow=1.0,
            attention_factor=1.0)),
        tensors=r"rotary_emb\.alpha|attention\.ssmax_scaling", check="none"),
    Case("beam", "BeamForCausalLM", small(
        **EXPERTS, head_dim=8, sliding_window=5, layer_types=SLIDING, n_group=1, topk_group=1,
        mlp_layer_types=["dense", "dense"]), check="none"),
    Case("zaya", "ZayaForCausalLM", small(
        head_dim=8, sliding_window=5, layer_types=["hybrid", "hybrid_sliding"], num_experts=2,
        router_hidden_size=16, moe_intermediate_size=8), tensors=r"qk_norm\.temp",
        check="none"),
    Case("diffllama", "DiffLlamaForCausalLM", small(kv=2)),
    Case("minimax", "MiniMaxForCausalLM", small(
        **MOE, head_dim=8, layer_types=["linear_attention", "full_attention"])),
    Case("minimax_m2", "MiniMaxM2ForCausalLM", small(**MOE, head_dim=16, rotary_dim=8)),
    Case("moonshine", "MoonshineForConditionalGeneration", dict(
        vocab_size=40, hidden_size=32, intermediate_size=24, encoder_num_hidden_layers=1,
        decoder_num_hidden_layers=1, encoder_num_attention_heads=4,
        decoder_num_attention_heads=4, encoder_num_key_value_heads=4,
        decoder_num_key_value_heads=4, max_position_embeddings=64,
        pad_head_dim_to_multiple_of=8), inputs=moonshine_inputs, split=True),
    Case("bamba", "BambaForCausalLM", small(
        attn_layer_indices=[1], **MAMBA)),
    Case("jamba", "JambaForCausalLM", small(
        num_experts=2, num_experts_per_tok=1, attn_layer_period=2, attn_layer_offset=1,
        mamba_d_state=4, mamba_dt_rank=4, use_mamba_kernels=False)),
    Case("lfm2", "Lfm2ForCausalLM", small(layer_types=["conv", "full_attention"])),
    axes("qwen2_vl-axes", "Qwen2VLForConditionalGeneration", small(
        dim=16, heads=2, kv=1, rope_parameters=rope(mrope_section=[2, 3, 3])),
        dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2)),
    axes("qwen2_vl", "Qwen2VLForConditionalGeneration", small(
        dim=16, heads=2, kv=1, rope_parameters=rope(mrope_section=[2, 3, 3])),
        dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2), text_inputs),
    axes("qwen2_5_vl-axes", "Qwen2_5_VLForConditionalGeneration", small(
        dim=16, heads=2, kv=1, rope_parameters=rope(mrope_section=[2, 3, 3])), VISION),
    axes("qwen3_vl-axes", "Qwen3VLForConditionalGeneration", small(
        dim=16, heads=2, kv=1, head_dim=16, rope_parameters=rope(
            mrope_section=[4, 2, 2], mrope_interleaved=True)),
        VISION | dict(deepstack_visual_indexes=[0])),
    axes("qwen3_5-axes", "Qwen3_5ForConditionalGeneration", small(
        dim=16, heads=2, kv=1, head_dim=32, linear_num_value_heads=2, linear_num_key_heads=2,
        linear_key_head_dim=8, linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"], rope_parameters=rope(
            mrope_section=[2, 1, 1], mrope_interleaved=True, partial_rotary_factor=0.25)),
        VISION),
    axes("glm4v-axes", "Glm4vForConditionalGeneration", small(
        dim=16, heads=2, kv=1, rope_parameters=rope(
            mrope_section=[2, 1, 1], partial_rotary_factor=0.5)), VISION),
    axes("ernie4_5_vl-axes", "Ernie4_5_VLMoeForConditionalGeneration", small(
        dim=16, heads=2, kv=1, moe_intermediate_size=[8, 8], moe_num_experts=2, moe_k=1,
        rope_parameters=rope(rope_theta=500000.0, mrope_section=[3, 3, 2])),
        dict(depth=1, hidden_size=16, num_heads=2, intermediate_size=16)),
    Case("ernie4_5", "Ernie4_5ForCausalLM", small(head_dim=8)),
    Case("helium", "HeliumForCausalLM", small(head_dim=8)),
    Case("nanochat", "NanoChatForCausalLM", small()),
    Case("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", small(
        head_dim=8, rope_parameters=rope(rope_type="dynamic", factor=1.0, alpha=1000.0))),
    Case("seed_oss", "SeedOssForCausalLM", small(head_dim=8)),
    Case("apertus", "ApertusForCausalLM", small(rope_parameters=rope(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32, rope_theta=12000000.0))),
    Case("arcee", "ArceeForCausalLM", small(rope_parameters=yarn())),
    Case("dots1", "Dots1ForCausalLM", small(
        **GLM_MOE, head_dim=8, sliding_window=5, layer_types=SLIDING)),
    Case("laguna", "LagunaForCausalLM", small(
        **EXPERTS, head_dim=16, sliding_window=5, layer_types=SLIDING,
        num_attention_heads_per_layer=[4, 2], shared_expert_intermediate_size=8,
        rope_parameters={"full_attention": yarn(partial_rotary_factor=0.5),
                         "sliding_attention": rope(partial_rotary_factor=1.0)}),
        check="none"),
    Case("mimo_v2_flash", "MiMoV2FlashForCausalLM", small(
        **LATENT | dict(v_head_dim=4), kv=1, head_dim=12, sliding_window=5,
        attention_value_scale=0.7, layer_types=SLIDING)),
    Case("minicpm3", "MiniCPM3ForCausalLM", small(**LATENT, kv=4)),
    Case("longcat_flash", "LongcatFlashForCausalLM", small(
        layers=2, kv=4, q_lora_rank=16, kv_lora_rank=12, qk_nope_head_dim=8,
        qk_rope_head_dim=8, v_head_dim=6, head_dim=8, qk_head_dim=16, ffn_hidden_size=16,
        expert_ffn_hidden_size=8, n_routed_experts=4, moe_topk=2, zero_expert_num=1)),
    Case("starcoder2", "Starcoder2ForCausalLM", small(sliding_window=5)),
    Case("phimoe", "PhimoeForCausalLM", small(**MOE, sliding_window=5)),
    Case("afmoe", "AfmoeForCausalLM", small(
        **EXPERTS, head_dim=8, sliding_window=5, layer_types=SLIDING, num_dense_layers=2)),
    Case("granite_swa", "GraniteSWAForCausalLM", small(
        sliding_window=5, layer_types=SLIDING, attention_multiplier=0.2,
        position_embedding_type="rope")),
    Case("falcon_h1", "FalconH1ForCausalLM", small(
        layers=1, **MAMBA, mamba_d_ssm=64, key_multiplier=0.7, head_dim=8)),
    Case("step3p5", "Step3p7ForConditionalGeneration", {"text_config": small(
        head_dim=8, sliding_window=5, layer_types=SLIDING, num_sliding_attention_heads=6,
        share_expert_dim=8, mlp_layer_types=["dense", "dense"], rope_parameters={
            "full_attention": rope(rope_theta=500000.0, partial_rotary_factor=0.5),
            "sliding_attention": rope(partial_rotary_factor=1.0)}),
        "vision_config": dict(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
            image_size=8, patch_size=2)}, part="text_config", only="language_model"),
    Case("olmoe", "OlmoeForCausalLM", small(num_experts=3, num_experts_per_tok=2)),
]
