"""Keys of a tiny model of each architecture of llama.cpp that has attention.

The keys that an architecture requires are those of llama.cpp's src/models, as in its
tests/test-llama-archs.cpp.
"""

from __future__ import annotations

from typing import Any

LAYERS, WIDTH, HEADS, KEY_HEADS, LENGTH = 4, 64, 4, 2, 256
WINDOW = 12

BASE: dict[str, Any] = {
    "vocab_size": 128, "context_length": LENGTH, "embedding_length": WIDTH,
    "block_count": LAYERS, "feed_forward_length": 96,
    "attention.head_count": HEADS, "attention.head_count_kv": KEY_HEADS,
    "attention.layer_norm_epsilon": 1e-5, "attention.layer_norm_rms_epsilon": 1e-5,
}
MOE = {
    "expert_count": 2, "expert_used_count": 2, "expert_feed_forward_length": 32,
    "expert_shared_count": 1, "expert_shared_feed_forward_length": 32, "expert_gating_func": 2,
    "expert_group_scale": 1.0, "experts_per_group": 1, "leading_dense_block_count": 1,
    "expert_weights_scale": 1.0, "interleave_moe_layer_step": 2, "moe_every_n_layers": 2,
}
SLIDING = {"attention.sliding_window": WINDOW}
SECTIONS = {"rope.dimension_sections": [2, 3, 3, 0]}
INTERLEAVED = {"rope.dimension_sections": [3, 3, 2, 0]}
EQUAL = {"attention.head_count_kv": HEADS}
SSM = {
    "ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 32, "ssm.time_step_rank": 4,
    "ssm.group_count": 2,
}
# Layers 1 and 3 have attention.
HYBRID = {"attention.head_count_kv": [0, 2, 0, 2]}
MLA = {
    "attention.q_lora_rank": 32, "attention.kv_lora_rank": 32, "attention.key_length": 48,
    "attention.value_length": 32, "attention.key_length_mla": 32,
    "attention.value_length_mla": 24, "rope.dimension_count": 16, "attention.head_count_kv": 1,
}
DIRECT_MLA = {"attention.q_lora_rank": 32, "attention.kv_lora_rank": 32,
              "attention.key_length": 32, "attention.value_length": 24,
              "rope.dimension_count": 16, "attention.head_count_kv": 4}
INDEXER = {"attention.indexer.head_count": 4, "attention.indexer.key_length": 64,
           "attention.indexer.top_k": 131072, "attention.indexer.block_size": 4,
           "attention.indexer.local_blocks": 1, "attention.indexer.kpool": 4,
           "attention.indexer.types": [1, 0, 1, 0]}
KDA = {"kda.head_dim": 16, "ssm.conv_kernel": 4, "kda.gate_lower_bound": -5.0,
       "kda.safe_gate": True, "attn_res.block_size": 12, "activation.situ_beta": 4.0,
       "activation.situ_linear_beta": 25.0}
MLA_HYBRID = {"attention.head_count_kv": [0, 1, 0, 1]}
TOKEN_TYPES = {"/tokenizer.ggml.token_type_count": 2}
XIELU = {"/xielu.alpha_n": 1.0, "/xielu.alpha_p": 1.0, "/xielu.beta": 1.0, "/xielu.eps": 1e-7}
EVERY_SECOND = {"attention.sliding_window_pattern": [1, 0, 1, 0]}
HYPER = {"hyper_connection.count": 4, "hyper_connection.sinkhorn_iterations": 2,
         "hyper_connection.epsilon": 1e-6, "hyper_connection.low_rank": 8,
         "hyper_connection.magnitude": 2.0}

PLAIN = ("llama deci falcon gpt2 mpt starcoder refact neo-bert eurobert bloom stablelm "
         "qwen qwen2 qwen3 phi2 phi3 plamo plamo3 codeshell orion internlm2 minicpm gemma gemma2 "
         "gemma3 starcoder2 xverse command-r olmo olmo2 openelm chatglm glm4 bitnet jais jais2 "
         "nemotron exaone exaone4 arcee ernie4_5 hunyuan-dense hunyuan_vl smollm3 dream llada "
         "seed_oss cogvlm pangu-embedded mistral3 llama-embed maincoder nanbeige "
         "pockettts modern-bert").split()
WITH_EXPERTS = ("grok qwen2moe qwen3moe phimoe arctic deepseek glm4moe bailingmoe "
                "bailingmoe2 ernie4_5-moe hunyuan-moe hy_v3 smallthinker llada-moe grovemoe "
                "rnd1 minimax-m2").split()

# The keys of an architecture beside BASE.
KEYS: dict[str, dict[str, Any]] = {name: {} for name in PLAIN}
KEYS |= {name: MOE for name in WITH_EXPERTS}
KEYS |= {
    "baichuan": {"block_count": 32},  # the number of layers selects the encoding
    "llama4": MOE | {"attention.key_length": 16},
    "gptneox": EQUAL | {"use_parallel_residual": True},
    "bert": TOKEN_TYPES, "nomic-bert": TOKEN_TYPES, "jina-bert-v3": TOKEN_TYPES,
    "nomic-bert-moe": TOKEN_TYPES | MOE,
    "jina-bert-v2": TOKEN_TYPES | EQUAL | {"attention.max_alibi_bias": 8.0},
    "olmoe": MOE | EQUAL, "dots1": MOE | EQUAL, "deepseek2-ocr": MOE | EQUAL,
    "chameleon": EQUAL | {"vocab_size": 10240}, "paddleocr": SECTIONS,
    "qwen2vl": SECTIONS, "qwen3vl": INTERLEAVED, "qwen3vlmoe": INTERLEAVED | MOE,
    "qwen3tts": INTERLEAVED | {"vocab_size": 3072},
    "qwen3next": SSM | MOE | {"full_attention_interval": 2},
    "qwen35": SSM | INTERLEAVED | {"full_attention_interval": 2},
    "qwen35moe": SSM | INTERLEAVED | MOE | {"full_attention_interval": 2},
    "qwen4exp": SSM | INTERLEAVED | MOE | HYPER | INDEXER | {"full_attention_interval": 2},
    "plamo2": SSM | {"attention.head_count": [4, 0, 4, 0], "ssm.group_count": 0,
                     "attention.head_count_kv": [2, 0, 2, 0]},
    "minicpm3": DIRECT_MLA,
    "plm": DIRECT_MLA,
    "gemma3n": SLIDING | {"attention.sliding_window_pattern": [1, 1, 1, 1, 0] * 4 + [1, 0],
                          "block_count": 22, "embedding_length_per_layer_input": 16},
    "gemma4": SLIDING | {
        "attention.sliding_window_pattern": [True, True, False, True], "block_count": 4,
        "attention.shared_kv_layers": 0, "embedding_length_per_layer_input": 16,
        "attention.key_length": 32, "attention.value_length": 32,
        "attention.key_length_swa": 16, "attention.value_length_swa": 16,
        "rope.freq_base_swa": 10000.0, "rope.dimension_count": 32,
        "rope.dimension_count_swa": 16},
    "gemma-embedding2": SLIDING | {"block_count": 6, "embedding_length_per_layer_input": 16},
    "k2-horizon": {},
    "gemma-embedding": SLIDING | {"block_count": 6},
    "maple": SLIDING | MOE | EVERY_SECOND | {"swiglu_clamp_exp": 7.0},
    "jamba": SSM | HYBRID | MOE, "falcon-h1": SSM,
    "cohere2": SLIDING | {"logit_scale": 1.0},
    "cohere2moe": SLIDING | MOE | EVERY_SECOND | {"logit_scale": 1.0},
    "dbrx": MOE | {"attention.clamp_kqv": 8.0},
    "muse-glimmer": SLIDING | EVERY_SECOND | {"logit_scale": 1.0},
    "deepseek2": MLA | MOE, "mistral4": MLA | MOE,
    "deepseek32": MLA | MOE | INDEXER, "glm-dsa": MLA | MOE | INDEXER,
    "deepseek4": MOE | SLIDING | HYPER | INDEXER | {
        "attention.head_count_kv": 1, "attention.key_length": 16, "attention.value_length": 16,
        "rope.dimension_count": 8, "attention.q_lora_rank": 32, "expert_gating_func": 4,
        "attention.output_group_count": 4, "attention.output_lora_rank": 8,
        "attention.compress_ratios": [0, 0, 4, 128],
        "attention.compress_rope_freq_base": 160000.0, "hash_layer_count": 0,
        "swiglu_clamp_exp": 10.0, "expert_weights_norm": True},
    "t5": EQUAL | {"attention.relative_buckets_count": 8},
    "t5encoder": EQUAL | {"attention.relative_buckets_count": 8},
    "nemotron_h": SSM | HYBRID | {"feed_forward_length": [0, 0, 96, 0]},
    "nemotron_h_moe": SSM | HYBRID | MOE | {"feed_forward_length": [0, 0, 96, 0]},
    "exaone-moe": SLIDING | MOE,
    "granite": {"logit_scale": 1.0}, "granitemoe": MOE | {"logit_scale": 1.0},
    "granitehybrid": SSM | HYBRID | {"logit_scale": 1.0},
    "graniteswitch": {"logit_scale": 1.0, "adapters.count": 1, "adapters.lora_rank": 4,
                      "adapters.token_ids_activate": [5],
                      "adapters.token_ids_substitute": [6]},
    "granite_swa": SLIDING | EVERY_SECOND | {"logit_scale": 1.0},
    "bailingmoe3": MLA | MOE | KDA | SSM | MLA_HYBRID,
    "dots3note": MLA | MOE | SLIDING | INDEXER | EVERY_SECOND | {
        "attention.kv_lora_rank_swa": 32, "attention.key_length_swa": 48,
        "attention.value_length_swa": 32, "attention.key_length_mla_swa": 32,
        "attention.value_length_mla_swa": 24, "rope.freq_base_swa": 10000.0,
        "attention.indexer.types": [0, 1, 0, 1]},
    "afmoe": SLIDING | MOE, "laguna": SLIDING | MOE,
    "hy_v4": MLA | MOE | INDEXER | HYPER,
    "gpt-oss": SLIDING | MOE,
    "lfm2": HYBRID | {"shortconv.l_cache": 3}, "lfm2moe": HYBRID | MOE | {"shortconv.l_cache": 3},
    "apertus": XIELU,
    "minimax-01": MOE | {"residual_scale": 3.5, "full_attention_interval": 2},
    "minimax-m3": MOE | INDEXER | {"rope.dimension_count": 8},
    "hrm_text": {"hrm.layers_per_stack": 1, "hrm.h_cycles": 2, "hrm.l_cycles": 2,
                 "block_count": 6},
    "mimo2": SLIDING | MOE | EVERY_SECOND, "step35": SLIDING | MOE | EVERY_SECOND,
    "spark2_5": SLIDING | EVERY_SECOND,
    "kimi-linear": MLA | MOE | KDA | MLA_HYBRID, "kimi-k3": MLA | MOE | KDA | MLA_HYBRID,
    "glm5-next": MLA | MOE | KDA | MLA_HYBRID | HYPER | INDEXER | {
        "rope.dimension_count": 0, "attention.key_length": 32,
        "attention.indexer.types": [1, 1, 1, 1]},
    "talkie": {"logit_scale": 1.0}, "mellum": SLIDING | MOE,
}
# Tensors beside those of `tiny_gguf.optional`: needed ones, and ones that llama.cpp creates but neither
# reads nor finds in released files.
NEEDED = {"gemma4": ("rope_freqs",), "graniteswitch": (".lora_",)}
ABSENT = {"apertus": ("attn_q_norm.bias", "attn_k_norm.bias"),
          "t5": (".1.attn_rel_b", ".2.attn_rel_b", ".3.attn_rel_b"),
          "t5encoder": (".1.attn_rel_b", ".2.attn_rel_b", ".3.attn_rel_b")}
# No model can be made or run from keys.
IMPOSSIBLE = {
    "clip": "an image tower, which llama.cpp reads with another library",
    "gptj": "llama.cpp has no graph for it",
    "mamba": "no attention", "mamba2": "no attention", "rwkv6": "no attention",
    "rwkv6qwen2": "no attention", "rwkv7": "no attention", "arwkv7": "no attention",
    "wavtokenizer-dec": "no language model",
    "eagle3": "a part of another model", "dflash": "a part of another model",
    "gemma4-assistant": "a part of another model",
}


def keys(architecture: str) -> dict[str, Any]:
    return BASE | KEYS.get(architecture, {})
