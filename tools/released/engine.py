"""Whole models of released families, with the logits of transformers' own code.

    python tools/released/engine.py              # all models
    python tools/released/engine.py bloom

Writes tests/model/engine/NAME: config.json, model.safetensors and expected.json, of small models
in float32 with random weights that depend on NAME only. A folder is kept if nothing in it differs
by more than rounding. The format is described in tests/model/engine/README.md.
"""

import json
import sys

import numpy
import safetensors.numpy
import torch
import transformers

import build
import layers
from text_cases import rope, small, yarn

FOLDER = layers.FOLDER.parent / "engine"
PROMPT, STEPS = 12, 8
SLIDING = ["sliding_attention"] * 3 + ["full_attention"]


def tiny(**more):
    return small(layers=4, heads=2, kv=1, dim=8, **dict(intermediate_size=32) | more)


# Latent attention and mixtures of experts.
LATENT = dict(kv_lora_rank=10, q_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4,
              v_head_dim=5)
EXPERTS = dict(num_experts_per_tok=2, moe_intermediate_size=6)
GROUPS = dict(n_group=3, topk_group=2, routed_scaling_factor=1.7)
MSCALE = yarn(mscale=1.0, mscale_all_dim=0.7)


def mixture(kv=1, **more):
    """Keys of two layers with small mixtures. The first layer is often without a mixture."""
    return small(layers=2, heads=2, kv=kv, dim=8, **dict(
        vocab_size=24, intermediate_size=12, rms_norm_eps=1e-5) | EXPERTS | more)


def latent(**more):
    return mixture(kv=2, **LATENT | more)


CASES = [
    # Two bases, windows in three of four layers, norms of queries and keys.
    build.Case("gemma3_text", "Gemma3ForCausalLM", tiny(
        head_dim=8, sliding_window=5, query_pre_attn_scalar=12, layer_types=SLIDING,
        rope_parameters={"full_attention": rope(rope_type="linear", factor=8.0,
                                                rope_theta=1000000.0),
                         "sliding_attention": rope()})),
    # ALiBi of a number of heads that is no power of two, LayerNorm, fused projections.
    build.Case("bloom", "BloomForCausalLM", dict(
        vocab_size=40, hidden_size=18, n_layer=3, n_head=3, bos_token_id=1, eos_token_id=2,
        pad_token_id=0), gain=2.5),
    # Frequencies that change while tokens are decoded, a window, fused projections.
    build.Case("phi3-longrope", "Phi3ForCausalLM", tiny(
        sliding_window=6, original_max_position_embeddings=16, rope_parameters=rope(
            rope_type="longrope", short_factor=[1.0, 1.1, 1.3, 1.6],
            long_factor=[1.2, 2.0, 4.0, 8.0]))),
    # Latent attention: queries from a latent, YaRN with both factors; the best groups of experts.
    build.Case("deepseek_v2", "DeepseekV2ForCausalLM", latent(
        rope_parameters=MSCALE, first_k_dense_replace=1, n_routed_experts=6, n_shared_experts=1,
        topk_method="group_limited_greedy", **GROUPS)),
    # Queries without a latent, no groups.
    build.Case("deepseek_v2-lite", "DeepseekV2ForCausalLM", latent(
        q_lora_rank=None, first_k_dense_replace=1, n_routed_experts=5, n_shared_experts=2)),
    # Sigmoids of scores with a bias, groups, a layer that predicts further tokens.
    build.Case("deepseek_v3", "DeepseekV3ForCausalLM", latent(
        rope_parameters=MSCALE, first_k_dense_replace=1, n_routed_experts=9,
        num_nextn_predict_layers=1, **GROUPS)),
    # Pairs of halves, shares that do not sum to 1, biases.
    build.Case("deepseek_v3-halves", "DeepseekV3ForCausalLM", latent(
        rope_interleave=False, first_k_dense_replace=0, n_routed_experts=4, n_group=1,
        topk_group=1, norm_topk_prob=False, attention_bias=True)),
    build.Case("glm4_moe_lite", "Glm4MoeLiteForCausalLM", latent(n_routed_experts=4)),
    # Scales of embeddings, residuals and logits.
    build.Case("minicpm3", "MiniCPM3ForCausalLM", latent(dim_model_base=4, scale_depth=1.2)),
    # Experts that are the identity, in parallel to two layers.
    build.Case("longcat_flash", "LongcatFlashForCausalLM", dict(
        vocab_size=24, hidden_size=16, num_layers=2, num_attention_heads=2, ffn_hidden_size=12,
        expert_ffn_hidden_size=6, n_routed_experts=3, zero_expert_num=2, moe_topk=2,
        routed_scaling_factor=1.5, max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
        num_key_value_heads=2, head_dim=4,
        **LATENT)),
    # Query scales by position.
    build.Case("mistral4", "Mistral4ForCausalLM", latent(
        n_routed_experts=6, rope_parameters=MSCALE | dict(llama_4_scaling_beta=0.4), **GROUPS)),
    # A norm after the mixture.
    build.Case("axk1", "AXK1ForCausalLM", latent(n_routed_experts=9, **GROUPS)),
    build.Case("youtu", "YoutuForCausalLM", latent()),
    build.Case("mixtral", "MixtralForCausalLM", mixture(num_local_experts=4)),
    build.Case("minimax_m2", "MiniMaxM2ForCausalLM", mixture(num_local_experts=4, head_dim=8)),
    # A shared expert with a gate, shares of all experts.
    build.Case("qwen2_moe", "Qwen2MoeForCausalLM", mixture(
        num_experts=4, shared_expert_intermediate_size=8)),
    build.Case("qwen3_moe", "Qwen3MoeForCausalLM", mixture(
        num_experts=4, norm_topk_prob=True, head_dim=8)),
    build.Case("olmoe", "OlmoeForCausalLM", mixture(kv=2, num_experts=4)),
    build.Case("flex_olmo", "FlexOlmoForCausalLM", mixture(kv=2, num_experts=4)),
    # Fused experts with biases, sinks.
    build.Case("gpt_oss", "GptOssForCausalLM", mixture(
        num_local_experts=4, head_dim=8, sliding_window=5)),
    build.Case("glm4_moe", "Glm4MoeForCausalLM", mixture(
        n_routed_experts=6, head_dim=8, use_qk_norm=True, **GROUPS)),
    build.Case("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", mixture(
        moe_num_experts=4, moe_k=2, moe_num_shared_experts=1)),
    build.Case("granitemoe", "GraniteMoeForCausalLM", mixture(
        num_local_experts=4, embedding_multiplier=2.0, residual_multiplier=0.5,
        attention_multiplier=0.3)),
    build.Case("granitemoeshared", "GraniteMoeSharedForCausalLM", mixture(
        num_local_experts=4, shared_intermediate_size=8)),
    build.Case("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", mixture(
        num_experts=4, moe_topk=2, head_dim=8)),
    build.Case("dots1", "Dots1ForCausalLM", mixture(
        n_routed_experts=4, n_shared_experts=1, head_dim=8, first_k_dense_replace=1)),
    build.Case("exaone_moe", "ExaoneMoeForCausalLM", mixture(
        num_experts=4, num_shared_experts=1, n_group=2, topk_group=1, head_dim=8)),
    build.Case("solar_open", "SolarOpenForCausalLM", mixture(n_routed_experts=4, head_dim=8)),
    build.Case("mellum", "MellumForCausalLM", mixture(num_experts=4, head_dim=8)),
    build.Case("hy_v3", "HYV3ForCausalLM", mixture(num_experts=4, head_dim=8)),
]


def run(case):
    """Returns config.json, the tensors by name, and the expected values."""
    case.double = False
    model, config, rng = build.build(case)
    for name, bias in model.named_parameters():
        if name.endswith("e_score_correction_bias"):  # build does not draw what is not trained
            drawn = torch.from_numpy(build.draw(case, name, bias.data.flatten()))
            bias.data.copy_(drawn.view_as(bias))
    prompt = rng.integers(3, config["vocab_size"], PROMPT).tolist()
    steps, rows, ids, cache = [], [], prompt, None
    with torch.no_grad():
        while True:
            out = model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True)
            rows.append(out.logits[0])
            if len(steps) == STEPS:
                break
            cache, ids = out.past_key_values, [int(rows[-1][-1].argmax())]
            steps += ids
    logits = torch.cat(rows).double().tolist()
    expected = {"transformers": transformers.__version__, "class": case.cls}
    expected |= {"prompt": prompt, "steps": steps}
    expected["logits"] = [[float(f"{x:.9g}") for x in row] for row in logits]
    tensors = {name: layers.array(t) for name, t in build.checkpoint(model).items()}
    if config.get("num_nextn_predict_layers"):
        tensors["model.layers.2.eh_proj.weight"] = numpy.ones((2, 2), dtype=numpy.float32)
    return config, tensors, expected


def lines(values):
    texts = []
    for key, value in values.items():
        text = json.dumps(value)
        if key == "logits":
            text = "[\n  " + ",\n  ".join(json.dumps(row) for row in value) + "]"
        texts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(texts) + "\n}\n"


def write(case, config, tensors, expected):
    """Writes files that are new or differ by more than rounding. Returns the result as text."""
    folder = FOLDER / case.name
    text, weights = folder / "expected.json", folder / "model.safetensors"
    exists, worst = text.exists(), float("inf")
    if exists:
        old = json.loads(text.read_text())
        same = all(old[key] == expected[key] for key in ("class", "prompt", "steps"))
        same &= json.loads((folder / "config.json").read_text()) == config
        logits = [{"": numpy.array(one["logits"])} for one in (old, expected)]
        worst = max(layers.difference(*logits),
                    layers.difference(safetensors.numpy.load_file(weights), tensors))
        if same and worst <= layers.ROUNDING:
            return "kept"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(lines(config))
    text.write_text(lines(expected))
    safetensors.numpy.save_file(tensors, weights)
    weights.chmod(0o644)
    return f"changed by {worst:.1e}" if exists else "new"


def main(names):
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        sys.exit(f"no such models: {' '.join(sorted(unknown))}")
    for case in CASES:
        if not names or case.name in names:
            config, tensors, expected = run(case)
            size = sum(t.nbytes for t in tensors.values())
            print(f"{case.name}: {write(case, config, tensors, expected)}, {size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
