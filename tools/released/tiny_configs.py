#!/usr/bin/env python3
"""Makes tests/model/tiny_configs.json: a small config of each family without another fixture.

    python tools/released/tiny_configs.py            # records all families of the file again
    python tools/released/tiny_configs.py NAME...    # adds or records these families
    python tools/released/tiny_configs.py --check    # writes nothing; exit 1 on changes

The family's own configuration class of transformers makes the config from tiny_sizes.py, and
the expected values come from the modules of the family's own model without memory for weights,
as in expectations.py. If the model cannot be created, the values are those of the config; the
source of the entry says so. OUTSIDE and HAND_WRITTEN of tiny_sizes.py are the families
outside transformers. `defaults` are the values of the class without arguments, for a config of
only a model_type. Groups of layers are in the format of tests/model/released. `differences` are
values that the library reads otherwise, with the reason.
"""

import argparse
import importlib
import inspect
import json
import pathlib
import re
import sys

import transformers
from transformers import PretrainedConfig

import attention
import rotary
from expectations import bias, learned
from models import model_of, modeling
from tiny_sizes import (
    ALIASES, ALIKE, DIFFERENCES, DROPPED, EXTRA, HAND_WRITTEN, NOISE, OUTSIDE, PATCHES, SIZES,
    SPECIAL, TABLES, UNKNOWN, WITHOUT_DEFAULTS)

FILE = pathlib.Path(__file__).resolve().parents[2] / "tests" / "model" / "tiny_configs.json"
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "encoder_layers")
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
           "max_target_positions")


def classes():
    """Returns the configuration class of each model type."""
    found = {}
    root = pathlib.Path(transformers.__file__).parent / "models"
    for path in sorted(root.glob("*/configuration_*.py")):
        module = importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}")
        for one in vars(module).values():
            if inspect.isclass(one) and issubclass(one, PretrainedConfig) and \
                    one.__module__ == module.__name__:
                found[one.model_type] = one
    return found


def first_of(config, keys):
    """Returns the first of the attributes that is an integer."""
    for key in keys:
        try:
            value = getattr(config, key, None)
        except RuntimeError:  # differs between layers
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def small_ropes(rope, pairs):
    """Returns rope parameters with other bases and small lengths, for one or each layer type.
    `pairs`: pairs of a head that M-RoPE divides among three axes, or None."""
    if any(isinstance(one, dict) for one in rope.values()):
        return {key: one and small_ropes(one, pairs) for key, one in rope.items()}
    rope = dict(rope)
    if rope.get("rope_theta"):
        rope["rope_theta"] = 2 * rope["rope_theta"]
    if "original_max_position_embeddings" in rope:
        rope["original_max_position_embeddings"] = 80
    if "max_position_embeddings" in rope:
        rope["max_position_embeddings"] = SIZES["max_position_embeddings"]
    if rope.get("factor"):
        rope["factor"] = 4.0
    if pairs:
        third = pairs // 3
        rope["mrope_section"] = [pairs - 2 * third, third, third]
    return rope


def has_sections(config):
    try:
        return "mrope_section" in inspect.getsource(modeling(config))
    except ModuleNotFoundError:
        return False


def small_keys(kind, of):
    """Returns the arguments of a class for a small config."""
    default, special = of(), SPECIAL.get(kind, {})
    own = default.to_dict()
    keys = {key: value for key, value in SIZES.items() if own.get(key) is not None}
    if "qk_rope_head_dim" in keys:
        keys.pop("head_dim", None)  # some classes write qk_rope_head_dim into it
    keys = {key: value for key, value in {**keys, **special}.items() if value is not None}
    rope = getattr(default, "rope_parameters", None)
    if rope and "rope_parameters" not in special:
        pairs = None
        if has_sections(default):
            head = keys.get("head_dim") or keys["hidden_size"] // keys["num_attention_heads"]
            pairs = int(head * rope.get("partial_rotary_factor", 1)) // 2
        keys["rope_parameters"] = small_ropes(rope, pairs)
    return keys


def saved(kind, of, keys):
    """Returns config.json of a class with these arguments, without keys that have no effect."""
    config = of(**{**keys, **EXTRA.get(kind, {})}).to_diff_dict()
    kept = {key: value for key, value in config.items()
            if value is not None and not re.search(NOISE, key)}
    return {**kept, "model_type": kind}


def config_of(kind, of, keys):
    keys = {**json.loads(json.dumps(keys)), **EXTRA.get(kind, {})}
    keys.pop("model_type", None)
    return of.from_dict(keys)


def projection(module, *names):
    """Returns the number of rows of the weight of the first linear module of these names."""
    for name in names:
        weight = getattr(getattr(module, name, None), "weight", None)
        if weight is not None and weight.dim() == 2:
            return weight.shape[0]
    return None


def heads_of(module, config, part):
    """Returns the numbers of query and key heads: rows of the projections / head dimension,
    otherwise the attributes of the module or the config."""
    dim = attention.head_dim(module)
    names = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")
    count = first_of(module, names) or first_of(
        config, ((f"{part}_attention_heads",) if part else ()) + names)
    query = projection(module, "q_proj", "query", "q_lin", "q", "q_layer")
    key = projection(module, "k_proj", "key", "k_lin", "k", "k_layer")
    if query and key and dim and count and query == count * dim:
        return count, key // dim
    if "num_key_value_heads" not in config.to_dict():  # one projection for q, k and v
        return count, count
    own, groups = (getattr(module, key, None) for key in
                   ("num_key_value_heads", "num_key_value_groups"))
    if isinstance(own, int) or not count:
        return count, own
    return count, count // groups if isinstance(groups, int) else None


def window_of(module, config, layer):
    """Returns the window of a layer with a sliding window, or None."""
    source = inspect.getsource(inspect.getmodule(type(module)))
    types = getattr(config, "layer_types", None)
    sliding = types[layer] == "sliding_attention" if types else (
        getattr(config, "use_sliding_window", True) and "sliding_window" in source)
    size = first_of(module, ("sliding_window",)) or first_of(config, ("sliding_window",))
    if not sliding or not size:
        return None
    if getattr(module, "is_causal", True) or "Merged" in type(module).__name__:
        return {"left": size - 1, "right": None}
    size = first_of(config, ("sliding_window",))  # that of modules may have 1 more
    if "create_bidirectional_sliding_window_mask" in source:
        return {"left": size, "right": size}
    return {"left": (size + 1) // 2 - 1, "right": size // 2}  # T5Gemma 2


def has_ropes(model):
    return any(rotary.has_frequencies(one) for one in model.modules())


def table_of(model, config, kind, part):
    """Returns the rows, width and first row of the learned table of absolute positions, or the
    kind of a fixed table."""
    if any("Sinusoid" in type(one).__name__ for one in model.modules()):
        return {"kind": "sinusoidal"}
    prefix = TABLES.get(kind, part)
    found = attention.tables(model, part=prefix or None)
    if prefix is None or not found:
        return {}
    name, shape = found[0]
    holder = model.get_submodule(name.rsplit(".", 1)[0] if "." in name else "")
    facts = {"kind": "learned", **learned(model, config, {"part": prefix} if prefix else {})}
    if "create_position_ids_from" not in inspect.getsource(modeling(config)) and \
            getattr(holder, "offset", None) is None:
        facts["offset"] = 0  # padding_idx alone does not move the positions
    first = [int(one.min()) for label, one in model.named_buffers()
             if label.endswith("position_ids") and not one.is_meta and one.numel()]
    if first and first[0] > 0:  # positions are counted from there
        facts["offset"] = first[0]
    return facts


def layer_facts(model, config, kind, layer, part, length, table):
    """Returns the values of one layer of transformers' own modules."""
    module = attention.attention_of(model, config, layer, part or None)
    label = rotary.layer_type_of(config, layer) or ""
    if module is None or "linear" in label or "conv" in label:
        return {"kind": "none"}
    facts = {"head_dim": attention.head_dim(module)}
    facts["heads"], facts["key_heads"] = heads_of(module, config, part)
    try:
        facts["softmax_scale"] = attention.softmax_scale(module, config)
        exact = facts["head_dim"] ** -0.5
        if abs(facts["softmax_scale"] - exact) < 5e-5 * exact:
            facts["softmax_scale"] = exact  # measured scales are those of float32
    except Exception:  # a module that cannot run alone
        pass
    facts["window"] = window_of(module, config, layer)
    if not has_ropes(model):
        return {**facts, **table}
    if kind in PATCHES:
        facts.update(kind="rotary", **rotary.vision(model, config, {"layers": [layer]}))
        facts["scaling"] = {"type": "none"}
        return {**facts, "pairing": rotary.pairing(config, facts["rotary_dim"], True)}
    if not getattr(module, "use_rope", True) or \
            rotary.rotates(model, config, layer) is False:
        return {**facts, "kind": "none"}
    facts.update(kind="rotary", **rotary.text(model, config, layer, length))
    return {**facts, "pairing": rotary.pairing(config, facts["rotary_dim"])}


def written(value):
    if isinstance(value, float):
        return float("%.9g" % value)
    if isinstance(value, list):
        return [written(one) for one in value]
    if isinstance(value, dict):
        return {key: written(one) for key, one in value.items()}
    return value


def stacks_of(config):
    """Returns the number of layers of each part."""
    for encoder, decoder in (("encoder_layers", "decoder_layers"),
                             ("num_layers", "num_decoder_layers")):
        layers = first_of(config, (encoder,)), first_of(config, (decoder,))
        if None not in layers:
            return dict(zip(("encoder", "decoder"), layers))
    return {"": first_of(config, LAYERS) or 0}


def stages(config):
    """Returns the layers of Swin, counted through all stages."""
    groups, first = [], 0
    for stage, (depth, heads) in enumerate(zip(config.depths, config.num_heads)):
        groups.append({"layers": list(range(first, first + depth)), "kind": "swin",
                       "head_dim": config.embed_dim * 2 ** stage // heads,
                       "heads": heads, "key_heads": heads})
        first += depth
    return groups


def groups_of(model, config, kind, short):
    """Returns the layers of the model, grouped by their values. `short`: without frequencies,
    unless they are scaled."""
    scaled = '"factor"' in json.dumps(getattr(config, "rope_parameters", None) or {})
    if getattr(config, "depths", None) and kind not in ALIKE:
        return stages(config)
    groups = []
    for part, layers in stacks_of(config).items():
        length = first_of(config, LENGTHS) or 64
        table = table_of(model, config, kind, part)
        if any(getattr(one, "has_relative_attention_bias", None) is True and hasattr(
                one, "relative_attention_num_buckets") for one in model.modules()):
            table = {"kind": "t5", **bias(model, config, {"kind": "t5", "part": part}, None)}
        found = {}
        for layer in [0] if kind in ALIKE else range(layers):
            facts = layer_facts(model, config, kind, layer, part, length, table)
            facts = {key: written(one) for key, one in facts.items()
                     if one is not None and key not in UNKNOWN.get(kind, ())}
            if short and not scaled:
                facts.pop("inv_freq", None)
            found.setdefault(json.dumps(facts), []).append(layer)
        windows = [layer for layer in range(layers)
                   if "rel_pos_h" in attention.relative_tables(model, layer)]
        for layer in windows:  # SAM
            facts = bias(model, config, {"kind": "decomposed"}, layer)
            found.setdefault(json.dumps({"kind": "decomposed", **facts}), []).append(layer)
        for facts, rows in found.items():
            group = {"part": part} if part else {}
            if len(found) > 1:
                group["layers"] = rows
            groups.append({**group, **json.loads(facts)})
    return groups


def of_config(config):
    """Returns the values of a config whose model cannot be created."""
    heads = first_of(config, ("num_attention_heads", "n_heads", "num_heads"))
    hidden = first_of(config, ("hidden_size", "d_model"))
    if not heads or not hidden:
        return []
    group = {"heads": heads,
             "head_dim": first_of(config, ("head_dim",)) or hidden // heads}
    group["key_heads"] = first_of(config, ("num_key_value_heads",)) or heads
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "default":
        dim = int(group["head_dim"] * rope.get("partial_rotary_factor", 1))
        base = float(rope["rope_theta"])
        group.update(kind="rotary", rotary_dim=dim, base=base, inv_freq=written(
            [base ** (-2 * i / dim) for i in range(dim // 2)]))
    return [group]


def expected(kind, config, short):
    """Returns the expected values, and where they come from."""
    facts = {"layers": ALIKE.get(kind, lambda one: first_of(one, LAYERS))(config)}
    if getattr(config, "depths", None):
        facts["layers"] = sum(config.depths)
    facts["length"] = first_of(config, LENGTHS)
    try:
        model = model_of(config)
        for name in DROPPED.get(type(config).__name__, ()):
            setattr(model, name, None)
        facts["groups"] = groups_of(model, config, kind, short)
        source = "modules"
    except Exception as error:
        print("  %s: values of the config alone: %s" % (kind, repr(error)[:160]))
        facts["groups"] = of_config(config)
        source = "config"
    table = next((one for one in facts["groups"] if "rows" in one), None)
    if table and facts["length"]:
        facts["length"] = table["rows"] - table["offset"]
    return {key: one for key, one in facts.items() if one is not None}, source


def record(kind, known):
    of = known[ALIASES.get(kind, OUTSIDE.get(kind, (kind,))[0])]
    keys = saved(kind, of, small_keys(kind, of))
    if kind in OUTSIDE and "rope_parameters" in keys:  # the spelling of transformers 4
        base = keys.pop("rope_parameters")["rope_theta"]
        keys.update({"rope_theta": base} if base != 10000 else {})
    wanted, source = expected(kind, config_of(kind, of, keys), False)
    entry = {"source": f"transformers {transformers.__version__}: {source} of {of.__name__}",
             "config": keys, "expected": wanted}
    if kind in OUTSIDE:
        entry["source"] += ", as " + OUTSIDE[kind][1]
    elif kind not in WITHOUT_DEFAULTS:
        entry["defaults"], _ = expected(kind, of(**EXTRA.get(kind, {})), True)
    if kind in DIFFERENCES:
        entry["differences"] = DIFFERENCES[kind]
    return entry


def text_of(entries):
    lines = ["%s: %s" % (json.dumps(kind), json.dumps(one, separators=(",", ":")))
             for kind, one in sorted(entries.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="model types; all of the file by default")
    parser.add_argument("--check", action="store_true", help="write nothing")
    asked = parser.parse_args()
    entries = json.loads(FILE.read_text()) if FILE.exists() else {}
    known, failed, changed = classes(), [], []
    for kind in asked.names or sorted(entries):
        try:
            new = HAND_WRITTEN[kind] if kind in HAND_WRITTEN else record(kind, known)
        except Exception as error:
            failed.append(kind)
            print("  %s: not recorded: %s" % (kind, repr(error)[-300:]))
            continue
        new = json.loads(json.dumps(new))
        old = {**entries.get(kind, {}), "source": new["source"]}
        if new != old:  # an entry that another release confirms keeps its source
            entries[kind] = new
            changed.append(kind)
    print("%d families; changed: %s" % (len(entries), " ".join(changed) or "none"))
    if not asked.check:
        FILE.write_text(text_of(entries))
    sys.exit(bool(failed or asked.check and changed))


if __name__ == "__main__":
    main()
