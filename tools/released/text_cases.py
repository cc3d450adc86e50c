"""Cases of decoders and encoder-decoders of text."""

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


MOE = dict(num_experts_per_tok=2, num_local_experts=3)
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
T5 = dict(vocab_size=40, d_model=24, d_kv=8, num_heads=3, d_ff=24, num_layers=2)
T5 |= dict(num_decoder_layers=2, relative_attention_num_buckets=8, pad_token_id=0)
T5 |= dict(relative_attention_max_distance=10, decoder_start_token_id=0)

CASES = [
    Case("llama", "LlamaForCausalLM", small()),
    Case("gemma2", "Gemma2ForCausalLM", small(
        head_dim=8, sliding_window=5, query_pre_attn_scalar=24, attn_logit_softcapping=3.0)),
    Case("gpt_oss", "GptOssForCausalLM", small(
        **MOE, head_dim=16, hidden_size=32, sliding_window=5,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters=yarn(rope_theta=150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0,
                             truncate=False))),
    Case("llama4_text", "Llama4ForCausalLM", small(
        layers=4, **MOE, intermediate_size_mlp=24, attention_chunk_size=6, floor_scale=4,
        attn_scale=0.5, head_dim=8, no_rope_layers=[1, 1, 1, 0])),
    Case("deepseek_v3", "DeepseekV3ForCausalLM", small(
        **LATENT, kv=4, rope_parameters=yarn(mscale=1.0, mscale_all_dim=1.0))),
    Case("t5", "T5ForConditionalGeneration", T5, inputs=t5_inputs, split=True),
]
