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
from text_cases import rope, small

FOLDER = layers.FOLDER.parent / "engine"
PROMPT, STEPS = 12, 8
SLIDING = ["sliding_attention"] * 3 + ["full_attention"]


def tiny(**more):
    return small(layers=4, heads=2, kv=1, dim=8, **dict(intermediate_size=32) | more)


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
]


def run(case):
    """Returns config.json, the tensors by name, and the expected values."""
    case.double = False
    model, config, rng = build.build(case)
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
