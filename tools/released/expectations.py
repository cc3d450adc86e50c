#!/usr/bin/env python3
"""Recomputes the expected values of tests/model/released with the code of transformers.

    python tools/released/expectations.py [--check] [NAME...]

For each file, the class of transformers for the config (and its part) computes the values of the
group: frequencies by its rotary module at the length of the group, softmax scales and head
dimensions by its attention modules, slopes by its ALiBi function, rows of tables by the shapes of
its weights. Nothing is downloaded, and weights use no memory. A file is written only if a value
differs by more than 2e-6 relative (inv_freq, slopes) or 1e-6 (other numbers), or if the group has
null: a new file has a config and groups of nulls. KEPT lists values for which the release and
transformers differ; they are kept. --check writes nothing, and exits with 1 if a value differs
that is not in KEPT. Layers are checked, too: whether their attention uses the given cos and sin.
"""

import argparse
import json
import pathlib
import sys

import transformers

import attention
import rotary
from models import NotInTransformers, Refused, config_of, model_of

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "model" / "released"
LISTS = {"inv_freq", "slopes"}
# Keys that are not expected values: how a group is found, and choices of the file itself.
NOT_VALUES = {"layers", "kind", "part", "head_offset", "length"}
KEPT = {
    ("dbrx-4x", 0, "base"): "attn_config.rope_theta, which 5.x no longer reads",
    ("dbrx-4x", 0, "inv_freq"): "attn_config.rope_theta, which 5.x no longer reads",
    ("llama-5x-scaling-and-parameters", 0, "base"): "the base of rope_parameters stays",
    ("llama-5x-scaling-and-parameters", 0, "inv_freq"): "the base of rope_parameters stays",
    ("olmo-3-5x-nested-yarn-truncate", 0, "inv_freq"): "truncate of an entry counts",
    ("longcat-flash", 0, "softmax_scale"): "with the scale of queries by their rank",
    ("muse-glimmer-5x-defaults", 0, "softmax_scale"): "with qk_scale_factor",
    ("muse-spark-5x-bases", 0, "softmax_scale"): "with qk_scale_factor",
    ("openai-privacy-filter-5x-defaults", 0, "softmax_scale"): "half of it on q, half on k",
    ("falcon-rw-1b", 0, "slopes"): "the same slopes, rounded to bfloat16 by Falcon's code",
}


def layers_of(config):
    for key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
                "depth"):
        value = getattr(config, key, None)
        if isinstance(value, int):
            return value
    return 1


def trained_length(config):
    for key in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
        value = getattr(config, key, None)
        if isinstance(value, int):
            return value
    return 2048


def learned(model, config, group):
    """Returns the rows, width and first row of a learned table."""
    found = attention.tables(model, part=group.get("part"))
    if not found:
        return {}
    name, shape = found[0]
    rows = 1
    for one in shape[:-1]:
        rows *= one
    facts = {"rows": rows, "width": shape[-1]}
    holder = model
    for key in name.split(".")[:-1]:
        holder = getattr(holder, key)
    facts["offset"] = getattr(holder, "offset", None)
    if facts["offset"] is None:  # RoBERTa counts from padding_idx + 1
        padding = getattr(holder, "padding_idx", None)
        facts["offset"] = 0 if padding is None else padding + 1
    return facts


def rows_and_columns(model):
    found = attention.tables(model)
    if len(found) == 1 and len(found[0][1]) == 3:
        shape = found[0][1]
        return {"rows": [shape[1], shape[1]], "widths": [shape[-1], shape[-1]]}
    shapes = [shape for name, shape in found if "row" in name or "column" in name]
    if len(shapes) < 2:
        shapes = [tuple(one.shape) for name, one in model.named_parameters()
                  if "row_embed" in name or "column_embed" in name]
    if len(shapes) < 2:
        return {}
    return {"rows": [one[0] for one in shapes[:2]], "widths": [one[-1] for one in shapes[:2]]}


def bias(model, config, group, layer):
    """Returns the values of the encodings other than rotary."""
    kind = group["kind"]
    if kind == "alibi":
        # Falcon multiplies the sum of scores and bias by its scale; the others only the scores.
        scaled = config.model_type == "falcon"
        module = attention.attention_of(model, config, layer)
        return {"slopes": attention.slopes(config, model),
                "bias_scale": module.inv_norm_factor if scaled else 1.0}
    if kind == "learned":
        return learned(model, config, group)
    if kind == "rows_and_columns":
        return rows_and_columns(model)
    if kind in ("swin", "decomposed"):
        found = attention.relative_tables(model, layer)
        if "relative_position_bias_table" in found:
            one = next(one for one in model.modules()
                       if hasattr(one, "relative_position_bias_table"))
            high, wide = one.window_size
            rows = found["relative_position_bias_table"][0]
            class_rows = rows - (2 * high - 1) * (2 * wide - 1)
            return {"rows": rows, "height": high, "width": wide,
                    "class_tokens": {0: 0, 3: 1}[class_rows]}
        if "rel_pos_h" in found:
            high, wide = found["rel_pos_h"][0], found["rel_pos_w"][0]
            return {"height_rows": high, "width_rows": wide,
                    "height": (high + 1) // 2, "width": (wide + 1) // 2}
    if kind in ("detr", "grid_sinusoidal", "sinusoidal"):
        return attention.sine_table(model, config)
    if kind == "t5":
        one = next(one for name, one in model.named_modules()
                   if getattr(one, "has_relative_attention_bias", False)
                   and name.startswith(group.get("part", "")))
        return {"buckets": one.relative_attention_num_buckets,
                "max_distance": one.relative_attention_max_distance,
                "direction": "causal" if one.is_decoder else "bidirectional"}
    if kind == "deberta":
        one = next(one for one in model.modules() if hasattr(one, "max_relative_positions"))
        size = one.max_relative_positions
        return {"max_distance": size, **({"span": one.position_buckets}
                if getattr(one, "position_buckets", -1) > 0 else {})}
    if kind == "vjepa2":
        one = next(one for one in model.modules() if hasattr(one, "d_dim"))
        return {"block": one.d_dim} if one.d_dim == one.h_dim == one.w_dim else {}
    return {}


def facts_of(model, config, sample, group):
    """Returns all values of a group that transformers defines."""
    layer = group.get("layers", [None])[0]
    kind = group.get("kind", "rotary")
    turning = layer
    if layer is None:  # all layers; the first that attends
        layer = next((i for i in range(layers_of(config))
                      if attention.attention_of(model, config, i, group.get("part"))), 0)
        turning = layer
    facts = {}
    if kind == "rotary":
        if group.get("axes") and ("head_offset" in group):
            facts.update(rotary.vision(model, config, group))
        else:
            length = group.get("length", trained_length(config))
            facts.update(rotary.text(model, config, turning, length))
        if facts.get("rotary_dim"):
            patches = "head_offset" in group
            facts.setdefault("pairing", rotary.pairing(config, facts["rotary_dim"], patches))
    else:
        facts.update(bias(model, config, group, layer))
    module = attention.attention_of(model, config, layer, group.get("part"))
    if module is not None and "softmax_scale" in group:
        facts["head_dim"] = attention.head_dim(module)
        facts["softmax_scale"] = attention.softmax_scale(module, config)
        facts["query_scale"] = attention.query_scale(model, config, module)
    return {key: value for key, value in facts.items() if value is not None}


def wrong_layers(model, config, group):
    """Returns the layers that rotate although their group does not, or the reverse."""
    kind = group.get("kind", "rotary")
    if kind not in ("rotary", "none") or "head_offset" in group:
        return []
    return [layer for layer in group["layers"]
            if rotary.rotates(model, config, layer) is (kind == "none")]


def same(key, ours, theirs):
    if key in LISTS:
        return len(ours) == len(theirs) and all(
            abs(a - b) <= 2e-6 * abs(b) for a, b in zip(ours, theirs))
    if isinstance(ours, bool) or isinstance(theirs, bool) or not isinstance(
            theirs, (int, float)) or not isinstance(ours, (int, float)):
        return ours == theirs
    return abs(ours - theirs) <= 1e-6 * abs(theirs)


def written(value):
    """Formats lists with nine digits, which distinguish any two float32 values."""
    if isinstance(value, list) and value and isinstance(value[0], float):
        return [float("%.9g" % one) for one in value]
    return value


def shown(value):
    if isinstance(value, list):
        return "[%s, ...%d]" % (", ".join("%.8g" % one for one in value[:4]), len(value))
    return "%.10g" % value if isinstance(value, float) else str(value)


class Report:
    def __init__(self):
        self.checked = self.confirmed = self.values = 0
        self.differences, self.absent, self.refused, self.unchecked = [], [], [], []


def check(path, report, write):
    sample = json.loads(path.read_text())
    name = path.stem
    report.checked += 1
    try:
        config = config_of(sample)
        model = model_of(config)
    except NotInTransformers as error:
        report.absent.append("%s (%s)" % (name, error))
        return
    except Refused as error:
        report.refused.append("%s: %s" % (name, error))
        return
    differs, missing, changed = False, [], False
    for index, group in enumerate(sample["expected"]):
        facts = facts_of(model, config, sample, group)
        if "layers" in group and not group.get("part") and not sample.get("part"):
            wrong = wrong_layers(model, config, group)
            report.values += 1
            if wrong:
                differs = True
                report.differences.append((name, index, "layers", shown(group["layers"]),
                                           "otherwise for %s" % wrong, None))
        for key, old in group.items():
            if key in NOT_VALUES:
                continue
            if key == "axes" and old is None and key not in facts:  # one position for all pairs
                continue
            if key not in facts:
                missing.append("%d.%s" % (index, key))
                continue
            report.values += 1
            if old is None:
                group[key], changed = written(facts[key]), True
                continue
            if same(key, facts[key], old):
                continue
            kept = KEPT.get((name, index, key))
            report.differences.append((name, index, key, shown(old), shown(facts[key]), kept))
            if not kept:
                differs = changed = True
                group[key] = written(facts[key])
    if missing:
        report.unchecked.append((name, missing))
    if not differs and not missing:
        report.confirmed += 1
    if changed and write:
        path.write_text(json.dumps(sample, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="files without .json; all by default")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on differences")
    asked = parser.parse_args()
    names = asked.names or sorted(path.stem for path in FOLDER.glob("*.json"))
    report = Report()
    for name in names:
        try:
            check(FOLDER / (name + ".json"), report, not asked.check)
        except Exception as error:
            report.refused.append("%s: error in this script: %r" % (name, error))
            if len(names) == 1:
                raise
    print("%d files, %d values checked; all values of %d files confirmed by transformers %s" % (
        report.checked, report.values, report.confirmed, transformers.__version__))
    for name, keys in report.unchecked:
        print("  no value in transformers: %s: %s" % (name, " ".join(keys)))
    for one in report.refused:
        print("  refused by transformers: " + one)
    for one in report.absent:
        print("  not in transformers: " + one)
    for name, index, key, old, new, kept in report.differences:
        print("  differs%s: %s, group %d, %s: %s here, %s in transformers" % (
            " (kept: %s)" % kept if kept else "", name, index, key, old, new))
    sys.exit(1 if asked.check and any(not one[-1] for one in report.differences) else 0)


if __name__ == "__main__":
    main()
