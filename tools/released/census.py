#!/usr/bin/env python3
"""Counts the model types of transformers that are read, and writes docs/model/census.md.

    python tools/released/census.py            # writes the page
    python tools/released/census.py --check    # writes nothing; exit 1 if the page differs

For each model type of transformers' CONFIG_MAPPING, the config of its class without arguments is
read. The answer is one of ANSWERS. A config of several models without a language model is read
part by part. Requires the package gnomon.
"""

import argparse
import json
import pathlib
import re
import sys

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

import gnomon.model

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "model" / "census.md"
ANSWERS = {
    "read": "its layers are described and can be lowered",
    "positions": "its positions are described; its layers are refused, with the reason",
    "parts": "it has no language model: its parts are read one by one",
    "refused": "refused by name, with the reason",
    "unknown": "the answer does not know the type",
}
# Numbers of answers of an earlier state, of 804 types of transformers 5.23.
BEFORE = {"read": 449, "positions": 56, "parts": 40, "refused": 0, "unknown": 259}
# Keys that a class without arguments lacks, or whose defaults do not fit each other.
KEYS = {
    "nougat": {"encoder": {"model_type": "donut-swin"}, "decoder": {
        "model_type": "mbart", "d_model": 1024, "encoder_layers": 12, "decoder_layers": 10,
        "encoder_attention_heads": 16, "decoder_attention_heads": 16}},
    "perceiver": {"architectures": ["PerceiverForMaskedLM"]},
    "qwen3_omni_moe": {"thinker_config": {"model_type": "qwen3_omni_moe_thinker", "text_config": {
        "model_type": "qwen3_omni_moe_text", "head_dim": 128}}},
    "qwen3_omni_moe_text": {"head_dim": 128},
    "qwen3_omni_moe_thinker": {"text_config": {"model_type": "qwen3_omni_moe_text",
                                               "head_dim": 128}},
}


def config_of(kind):
    """Returns the config of a class without arguments, as a dictionary."""
    try:
        keys = CONFIG_MAPPING[kind]().to_dict()
    except Exception:  # classes that require the configs of their parts
        keys = {}
    keys = json.loads(json.dumps(keys, default=str))
    return {**keys, **KEYS.get(kind, {}), "model_type": kind}


def has_layers(config, path):
    """Whether the part of a config is that of layers. A long list of parts ends in dots."""
    for name in path.split("."):
        config = config.get(name) or {}
    return any(re.fullmatch(r"num_layers|n_layers?|num_hidden_layers|encoder_layers|depth", key)
               for key in config)


def answer_of(config, part=""):
    """Returns one of ANSWERS, and the reason of a refusal."""
    try:
        model = gnomon.model.from_pretrained(config, part=part)
        reasons = sorted({one.unsupported for one in model.layers} - {""})
    except ValueError as error:
        text = str(error)
        if found := re.search(r"is not read: (.*?)(?:; its parts: .*)?, at byte", text):
            return "refused", found[1]
        if found := re.search(r"has no language model(?:; its parts: (.*))?, at byte", text):
            parts = [] if part else (found[1] or "").split(", ")
            unknown = [one for one in parts
                       if has_layers(config, one) and answer_of(config, one)[0] == "unknown"]
            return ("unknown", f"its parts {unknown}") if unknown else ("parts", "")
        return "unknown", text
    if any("the family" in note and "is unknown" in note for note in model.notes):
        return "unknown", "read from its keys"
    return ("positions", "; ".join(reasons)) if reasons else ("read", "")


def census():
    """Returns (answer, reason) of each model type."""
    transformers.logging.set_verbosity_error()
    return {kind: answer_of(config_of(kind)) for kind in sorted(CONFIG_MAPPING_NAMES)}


def page_of(answers):
    count = {one: sum(kind == one for kind, _ in answers.values()) for one in ANSWERS}
    lines = [
        "# Model types of transformers", "",
        f"The {len(answers)} model types of transformers {transformers.__version__}, each with "
        "the config of its class without arguments. `tools/released/census.py` writes this page, "
        "and a test of the Python suite fails for a type that is unknown.", "",
        "| answer | meaning | before | now |", "|---|---|---:|---:|"]
    lines += [f"| {one} | {text} | {BEFORE[one]} | {count[one]} |"
              for one, text in ANSWERS.items()]
    for title, answer in (("Layers that are refused", "positions"),
                          ("Types that are refused", "refused")):
        lines += ["", f"## {title}", "", "| reason | types |", "|---|---|"]
        reasons = {}
        for kind, (one, reason) in answers.items():
            if one == answer:
                reasons.setdefault(reason, []).append(f"`{kind}`")
        lines += [f"| {reason} | {', '.join(kinds)} |" for reason, kinds in sorted(
            reasons.items())]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    asked = parser.parse_args()
    answers = census()
    unknown = {kind: reason for kind, (one, reason) in answers.items() if one == "unknown"}
    for kind, reason in unknown.items():
        print(f"unknown: {kind}: {reason[:120]}")
    page = page_of(answers)
    differs = not PAGE.exists() or PAGE.read_text() != page
    if differs and not asked.check:
        PAGE.write_text(page)
    sys.exit(bool(unknown or asked.check and differs))


if __name__ == "__main__":
    main()
