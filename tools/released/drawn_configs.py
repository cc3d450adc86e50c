#!/usr/bin/env python3
"""Draws configs of the families of transformers, with the values of transformers' own modules.

    python tools/released/drawn_configs.py COUNT FILE [--seed N] [NAME...]

A family (or one of NAMEs) and the sizes, bases, scalings and windows of its config are drawn, as a
change of the small config of tiny_configs.py. FILE is a list of {"family", "config", "expected"}
in the format of tests/model/tiny_configs.json, for the test DrawnConfigs (GNOMON_DRAWN_CONFIGS).
Configs that transformers itself refuses, or whose values are not read from modules, are drawn again.
"""

import argparse
import collections
import contextlib
import io
import json
import random
import sys

import tiny_configs
from tiny_sizes import DIFFERENCES, HAND_WRITTEN, OUTSIDE

HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
         "decoder_attention_heads")
WIDTHS = ("hidden_size", "n_embd", "d_model", "dim", "embed_dim")
HEAD_SIZES = ("head_dim", "d_kv", "kv_channels")
ROTARY = {"rotary", "none"}
# Families whose values tiny_configs.py does not read from modules, tests/model/layers has them; and
# those whose drawn configs contradict themselves.
UNREAD = {"blt_local_decoder": "a head_dim that its attention ignores",
          "blt_local_encoder": "the same", "blt_global_transformer": "the same",
          "blt_patcher": "the same",
          "detr": "its table is made in each forward pass",
          "falcon": "the projection of key heads depends on three keys",
          "longcat_flash": "two attention modules in a layer"}
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len")


def scaling(draw, theta, length, pairs, by_type):
    """Returns rope parameters of a drawn type. by_type: of one type of layer, for which
    transformers does not read `truncate`."""
    original = max(8, length // draw.choice((1, 2, 4, 7)))
    factor = round(draw.uniform(1, 16), draw.choice((0, 1, 3)))
    kind = draw.choice(("default", "linear", "dynamic", "yarn", "llama3", "longrope"))
    found = {"rope_type": kind, "rope_theta": theta}
    if kind != "default":
        found["factor"] = factor
    if kind == "dynamic" and draw.random() < 0.5:
        found["original_max_position_embeddings"] = original
    if kind == "llama3":
        low = round(draw.uniform(0.5, 2), 2)
        found |= {"low_freq_factor": low, "high_freq_factor": low + draw.choice((0.5, 1, 3)),
                  "original_max_position_embeddings": original}
    if kind == "yarn":
        found["original_max_position_embeddings"] = original
        optional = {"beta_fast": draw.choice((16, 32, 48)), "beta_slow": draw.choice((1, 2)),
                    "attention_factor": round(draw.uniform(0.5, 2), 2),
                    "mscale": round(draw.uniform(0.5, 1.5), 3), "mscale_all_dim": 0.8,
                    "truncate": draw.random() < 0.5}
        found |= {key: value for key, value in optional.items() if draw.random() < 0.3}
        if by_type:
            found.pop("truncate", None)
        if "mscale_all_dim" in found:
            found.setdefault("mscale", 1.0)
    if kind == "longrope":
        rows = [[round(draw.uniform(1, 30), 3) for _ in range(pairs)] for _ in range(2)]
        found |= {"short_factor": rows[0], "long_factor": rows[1],
                  "original_max_position_embeddings": original}
        if draw.random() < 0.5:
            found["attention_factor"] = round(draw.uniform(0.8, 1.6), 3)
    return found


def drawn_rope(draw, rope, length, pairs, scaled, latent, by_type=False):
    """latent: the rotated part of a head has a size of its own."""
    if any(isinstance(one, dict) for one in rope.values()):  # for each type of layer
        return {key: one and drawn_rope(draw, one, length, pairs, scaled, latent, True)
                for key, one in rope.items()}
    rope = dict(rope)
    if not rope.get("rope_theta"):
        return rope
    theta = float(round(10 ** draw.uniform(2, 7), draw.choice((0, 2))))
    if "mrope_section" in rope or not scaled or rope.get("rope_type") != "default":
        if latent:
            rope.pop("partial_rotary_factor", None)
        return {**rope, "rope_theta": theta}
    part = {}
    if "partial_rotary_factor" in rope and not latent:
        share = draw.choice((rope["partial_rotary_factor"], 0.25, 0.5, 0.75, 1.0))
        if int(2 * pairs * share) % 2:
            share = 1.0
        part, pairs = {"partial_rotary_factor": share}, int(2 * pairs * share) // 2
    return {**scaling(draw, theta, length, pairs, by_type), **part}


def drawn(draw, config):
    """Returns a config with other numbers."""
    config = json.loads(json.dumps(config))
    sections = "mrope_section" in json.dumps(config)
    heads = draw.choice((1, 2, 3, 4, 5, 6, 8, 12))
    sized = any(key in config for key in HEAD_SIZES)
    if not sections and draw.random() < 0.9:
        size = 4 * draw.randint(2, 20)
        for key in config:
            if key in HEADS:
                config[key] = heads
            if key in WIDTHS:
                config[key] = heads * size if not sized or draw.random() < 0.5 else \
                    heads * 8 * draw.randint(1, 6)
            if key in HEAD_SIZES:
                config[key] = size
            if key == "num_key_value_heads":
                config[key] = draw.choice([n for n in range(1, heads + 1) if heads % n == 0])
    length = draw.choice((16, 77, 128, 320, 512, 1000, 4096))
    for key in config:
        if key in LENGTHS and draw.random() < 0.8:
            config[key] = length
        if key == "sliding_window" and isinstance(config[key], int):
            config[key] = draw.randint(1, 300)
        if key in ("qk_rope_head_dim", "qk_nope_head_dim"):
            config[key] = 2 * draw.randint(1, 24)
    rope = config.get("rope_parameters")
    if rope:
        head = config.get("qk_rope_head_dim") or config.get("head_dim") or max(
            (config[key] for key in WIDTHS if key in config), default=0) // max(
            (config[key] for key in HEADS if key in config), default=1)
        config["rope_parameters"] = drawn_rope(
            draw, rope, next((config[key] for key in LENGTHS if key in config), length),
            head // 2, draw.random() < 0.7, "qk_rope_head_dim" in config)
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("count", type=int)
    parser.add_argument("file")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    known = tiny_configs.classes()
    recorded = json.loads(tiny_configs.FILE.read_text())
    layers = (tiny_configs.FILE.parent / "layers").glob("*.json")
    families = {json.loads(path.read_text())["config"]["model_type"] for path in layers}
    families |= {kind for kind, one in recorded.items() if ": modules of" in one["source"]}
    families -= {*HAND_WRITTEN, *OUTSIDE, *DIFFERENCES, *UNREAD}
    names = sorted(set(asked.names) or {kind for kind in families & set(known)
                                        if kind in recorded or not known[kind].sub_configs})
    base, found, refused = {}, [], collections.Counter()
    kept = collections.Counter()
    while len(found) < asked.count and names:
        kind = draw.choice(names)
        try:
            if kind not in base:
                base[kind] = tiny_configs.small_keys(kind, known[kind])
            config = tiny_configs.saved(kind, known[kind], drawn(draw, base[kind]))
            made = tiny_configs.config_of(kind, known[kind], config)
            with contextlib.redirect_stdout(io.StringIO()):  # why no model was made
                expected, source = tiny_configs.expected(kind, made, False)
            if source != "modules":
                raise ValueError("transformers makes no model of this config")
            if kind not in recorded and {one.get("kind") for one in expected["groups"]} - ROTARY:
                raise ValueError("only rotary encodings of these families are read from modules")
        except Exception as error:
            refused[kind] += 1
            if refused[kind] > 20 + 4 * kept[kind]:
                names.remove(kind)
                print(f"  {kind}: given up: {repr(error)[:200]}", flush=True)
            continue
        for group in expected["groups"]:
            if group.get("rotary_dim") == 2:  # both pairings are the same
                group.pop("pairing", None)
        kept[kind] += 1
        found.append({"family": kind, "config": config, "expected": expected})
    lines = [json.dumps(one, separators=(",", ":")) for one in found]
    with open(asked.file, "w") as file:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(found)} configs of {len(kept)} families; {sum(refused.values())} drawn again")
    return 0 if len(found) == asked.count else 1


if __name__ == "__main__":
    sys.exit(main())
