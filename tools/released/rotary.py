"""Reads rotary encodings from the modules of a model: frequencies, axes, scale, pairing."""

import copy
import inspect
import math

import torch
from torch.overrides import TorchFunctionMode

from attention import attention_of, fitted_base, head_dim
from models import modeling, real

# Towers whose position_ids hold (x, y), so that axis 0 of the module is the width. Read in their
# modeling files: sam3*, sam2_video and edgetam_video stack (wpos_ids, hpos_ids); muse_* and step3p7
# flip the last dimension of get_vision_position_ids; gemma4 has pixel_position_ids (x, y).
WIDTH_FIRST = {"sam3_vit_model", "sam3_tracker_video", "sam2_video", "edgetam_video",
               "gemma4_vision", "muse_glimmer_vision", "muse_spark_vision"}
THREE_AXES = {"minimax_m3_vl_vision"}


def has_frequencies(module):
    return any(name.endswith("inv_freq") for name, _ in module.named_buffers(recurse=False))


def layer_type_of(config, layer):
    types = getattr(config, "layer_types", None)
    return types[layer] if types and layer < len(types) else None


def module_for(model, config, layer):
    """Returns the rotary module of a layer, or that of the model."""
    found = {name: one for name, one in model.named_modules() if has_frequencies(one)}
    if config.model_type == "granite_swa":  # one for each base that is not 0
        return next(one for name, one in found.items() if name.startswith("rotary_embs")
                    and one.config.rope_parameters["rope_theta"] == config.layer_rope_theta[layer])
    own = [one for name, one in found.items() if f".{layer}." in f".{name}."
           and not name.startswith("rotary_emb")]
    shared = [one for name, one in found.items()
              if not any(part.isdigit() for part in name.split("."))]
    return (own or shared or [None])[0]


def label_of(model, module, config, layer):
    """Which frequencies of a module that has several, by layer type; None where it has one."""
    labels = [name[:-len("_inv_freq")] for name, _ in module.named_buffers(recurse=False)
              if name.endswith("_inv_freq") and not name.endswith("original_inv_freq")]
    labels = [one for one in labels if one]
    if not labels:
        return None
    attention = attention_of(model, config, layer)
    kind = getattr(attention, "rope_layer_type", None) or layer_type_of(config, layer)
    if kind in labels:
        return kind
    types = getattr(module, "layer_types", None) or labels
    return labels[0] if len(set(labels)) == 1 else next(one for one in labels if one in types)


def call(module, positions, label):
    x = torch.zeros(1, 1, 4)
    names = inspect.signature(module.forward).parameters
    extra = {"layer_type": label} if label is not None and "layer_type" in names else {}
    table = module(x, positions, **extra)
    if torch.is_tensor(table) and table.is_complex():
        return table.real, table.imag
    return table


def at_length(module, label, length):
    """Lets the module choose its frequencies for a sequence of `length`, as its forward does. The
    scale is that of cos and sin, which need not be attention_scaling (PhiMoE)."""
    cos, sin = (one.double().reshape(-1) for one in
                call(module, torch.tensor([[length - 1]]), label))
    name = "inv_freq" if label is None else f"{label}_inv_freq"
    scale = getattr(module, "attention_scaling", None)
    if label is not None:
        scale = getattr(module, f"{label}_attention_scaling", scale)
    seen = float(torch.hypot(cos[0], sin[0]))
    scale = seen if scale is None or abs(scale - seen) > 1e-6 * seen else float(scale)
    return getattr(module, name).double().tolist(), round(scale, 6) if scale == seen else scale


def angles(table, count):
    """Of tables [..., R] or [..., R/2] at one position, the angle of each of `count` pairs."""
    cos, sin = (one.double().reshape(-1) for one in table)
    angle = torch.atan2(sin, cos)
    if angle.numel() == count:
        return angle.tolist()
    halves = torch.allclose(angle[:count], angle[count:], rtol=1e-5, atol=0)
    return (angle[:count] if halves else angle[::2]).tolist()


def text(model, config, layer, length):
    """Returns the values of a rotary encoding of tokens."""
    module = module_for(model, config, layer)
    if module is None:
        return legacy(model, config)
    label = label_of(model, module, config, layer)
    inv_freq, scale = at_length(module, label, length)
    if config.model_type == "nanochat":  # rotates by minus the angle
        inv_freq = [-one for one in inv_freq]
    rope = getattr(config, "rope_parameters", None)
    rope = rope if isinstance(rope, dict) else {}
    if config.model_type == "granite_swa":
        rope = module.config.rope_parameters
    rope = rope.get(label, rope) if label else rope
    facts = {"inv_freq": inv_freq, "table_scale": scale, "rotary_dim": 2 * len(inv_freq)}
    if rope.get("rope_theta") is not None:
        facts["base"] = float(rope["rope_theta"])
        share = rope.get("partial_rotary_factor", 1)
        if share < 1 and rope.get("rope_type") in ("default", "linear", "llama3", "longrope"):
            dim = int((head_dim(attention_of(model, config, layer)) or 0) * share)
            # If dim is odd, dim + 1 elements rotate by rope_theta^(-2i / dim).
            if dim % 2 and dim + 1 == 2 * len(inv_freq):
                facts["base"] **= (dim + 1) / dim
    elif rope.get("rope_type", "default") == "default":
        facts["base"] = fitted_base(inv_freq, 2 * len(inv_freq))
    facts.update(text_axes(module, label, inv_freq, scale))
    return facts


def text_axes(module, label, inv_freq, scale):
    """Returns the axis of each pair of M-RoPE, in the module's order of frequencies."""
    try:
        tables = []
        for axis in range(3):
            position = torch.zeros(3, 1, 1, dtype=torch.long)
            position[axis] = 1
            cos, sin = call(module, position, label)
            assert cos.reshape(-1).numel() in (len(inv_freq), 2 * len(inv_freq))
            tables.append(angles((cos, sin), len(inv_freq)))
    except (AssertionError, RuntimeError, IndexError, ValueError, TypeError):
        return {}
    turned = [[table[i] for table in tables] for i in range(len(inv_freq))]
    axes = [max(range(3), key=lambda axis: abs(one[axis])) for one in turned]
    return {"axes": axes, "inv_freq": [one[axis] for one, axis in zip(turned, axes)]}


def vision(model, config, group):
    """Returns the values of a rotary encoding of patches: tables at a step along each axis."""
    layers = group.get("layers", [0])
    module = module_for(model, config, layers[0])
    if module is None or config.model_type == "dinov3_vit":
        return vision_legacy(model, config)
    count = 3 if config.model_type in THREE_AXES else 2
    tables, scale = [], getattr(module, "attention_scaling", 1.0)
    step = step_of(model, layers[0])
    for axis in range(count):
        position = torch.zeros(1, count)
        position[0, axis] = step
        batched = config.model_type == "gemma4_vision"  # [batch, patches, axes]
        table = call(module, position[None] if batched else position, None)
        cos, sin = (one.reshape(-1) for one in table)
        if config.model_type == "gemma4_vision":  # two rotations, each of half of the head
            half = cos.numel() // 2
            part = slice(group["head_offset"], group["head_offset"] + half)
            cos, sin = cos[part], sin[part]
        width = cos.numel()
        tables.append(angles((cos, sin), width // 2))
    pairs = range(len(tables[0]))
    axes = [max(range(count), key=lambda axis: abs(tables[axis][i])) for i in pairs]
    facts = {"inv_freq": [tables[axes[i]][i] for i in pairs], "table_scale": float(scale),
             "rotary_dim": 2 * len(axes)}
    if config.model_type in WIDTH_FIRST:
        axes = [1 - axis for axis in axes]
    rope = config.rope_parameters
    facts["base"] = float(rope["rope_theta"])
    if rope["rope_type"] in ("default", "axial"):
        facts["scaling"] = {"type": "none"}
    return {**facts, "axes": axes}


def step_of(model, layer):
    """SAM 3 stores the positions of a layer; they are finer in layers of global attention."""
    for name, one in model.named_modules():
        stored = one._buffers.get("position_ids")
        if f"layers.{layer}." in name + "." and stored is not None and stored.shape[-1] == 2:
            return float(stored.unique()[1])
    return 1.0


def legacy(model, config):
    """GPT-J, CodeGen: a table [sin, cos] in each attention layer. RoFormer: one for all layers."""
    if config.model_type == "roformer":
        from transformers.models.roformer.modeling_roformer import (
            RoFormerSinusoidalPositionalEmbedding as Table)
        size = config.hidden_size // config.num_attention_heads
        rows = real(lambda: Table(2, size)).create_weight()
    else:
        rows = next((one.embed_positions for one in model.modules()
                     if torch.is_tensor(getattr(one, "embed_positions", None))), None)
        if rows is None:
            return {}
        if rows.is_meta:
            return {}
    count = rows.shape[1] // 2
    sin, cos = rows[1, :count].double(), rows[1, count:].double()
    inv_freq = torch.atan2(sin, cos).tolist()
    return {"inv_freq": inv_freq, "table_scale": 1.0, "rotary_dim": rows.shape[1],
            "base": fitted_base(inv_freq, rows.shape[1]), "pairing": "adjacent"}


def vision_legacy(model, config):
    if config.model_type == "dinov3_vit":  # positions are -1 to 1, angles 2 pi times that
        module = next(one for one in model.modules() if has_frequencies(one))
        quarter = [2 * math.pi * one for one in module.inv_freq.double().tolist()]
        return {"inv_freq": quarter * 2, "axes": [0] * len(quarter) + [1] * len(quarter),
                "rotary_dim": 4 * len(quarter), "table_scale": 1.0,
                "base": float(config.rope_theta), "scaling": {"type": "none"}}
    if config.model_type == "llama4_vision_model":
        rows = next(one.freqs_ci for one in model.modules()
                    if torch.is_tensor(getattr(one, "freqs_ci", None)))
        side = config.image_size // config.patch_size
        rows = rows.reshape(rows.shape[0], -1)
        here, right, below = (torch.view_as_real(rows[i]).double() for i in (0, 1, side))
        turn = lambda one: torch.atan2(one[:, 1], one[:, 0])
        steps = [(turn(there) - turn(here)).tolist() for there in (below, right)]
        axes = [max((0, 1), key=lambda axis: abs(steps[axis][i])) for i in range(len(steps[0]))]
        return {"inv_freq": [steps[axis][i] for i, axis in enumerate(axes)], "axes": axes,
                "rotary_dim": 2 * len(axes), "table_scale": 1.0,
                "base": float(config.rope_parameters["rope_theta"]),
                "scaling": {"type": "none"}}
    return {}


def pairing(config, dim, patches=False):
    """The partner of element 0, by the modeling file's own rotation of a vector 1, 2, ..., dim by
    90 degrees. Rotations of complex numbers pair adjacent elements; so does rope_interleave."""
    module = modeling(config)
    if not patches and hasattr(module, "apply_rotary_pos_emb_interleave"):
        return "adjacent" if getattr(config, "rope_interleave", True) else "halves"
    names = [name for name in vars(module) if name.startswith("apply_rotary_pos_emb")]
    names.sort(key=lambda name: (("vision" in name or "2d" in name) != patches, len(name)))
    for name in names:
        function = getattr(module, name)
        asked = list(inspect.signature(function).parameters)
        for width in (dim, dim // 2):
            x = torch.arange(1.0, dim + 1)[None, None, None]
            turns = {"cos": torch.zeros(1, 1, width), "sin": torch.ones(1, 1, width)}
            if "num_k_exclude_rope" in asked:
                turns = {key: value[0] for key, value in turns.items()}
            states = [x.clone() for key in asked if key not in turns][:asked.index("cos")]
            try:
                moved = function(*states, **turns)
            except (RuntimeError, TypeError, ValueError, IndexError):
                continue
            moved = moved[0] if isinstance(moved, tuple) else moved
            found = {2: "adjacent", dim // 2 + 1: "halves"}.get(
                round(abs(float(moved.reshape(-1)[0]))))
            if found:
                return found
    return "adjacent" if "view_as_complex" in inspect.getsource(module) else None


class Uses(TorchFunctionMode):
    """Records whether any function is called with one of the tensors."""

    def __init__(self, tensors):
        super().__init__()
        self.tensors, self.seen = tensors, False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        for one in (*args, *(kwargs or {}).values()):
            self.seen = self.seen or any(one is tensor for tensor in self.tensors)
        return func(*args, **(kwargs or {}))


def rotates(model, config, layer):
    """Whether the attention of a layer uses the cos and sin that it is given, or the complex
    numbers; None where it cannot be called this way. False where the layer does not attend."""
    if config.model_type == "granite_swa":  # the model passes no tables to layers of base 0
        return config.layer_rope_theta[layer] != 0
    kind, nested = layer_type_of(config, layer), getattr(config, "rope_parameters", None) or {}
    if kind in nested and nested[kind] is None:  # nor to layer types whose entry is null
        return False
    module = attention_of(model, config, layer)
    if module is None:
        return False
    asked = inspect.signature(module.forward).parameters
    if "position_embeddings" not in asked:
        return None if has_own(module) else False
    module = copy.deepcopy(module).to("meta")
    size = 2 * sum(one.numel() for name, one in model.named_buffers()
                   if name.endswith("inv_freq") and "original" not in name) or 64
    for width in {size, size // 2, getattr(module, "head_dim", size) or size}:
        cos, sin = torch.empty(1, 2, width, device="meta"), torch.empty(1, 2, width, device="meta")
        turns = torch.empty(1, 2, width // 2, device="meta", dtype=torch.complex64)
        for tables in ((cos, sin), turns):
            with torch.no_grad(), Uses([cos, sin, turns]) as uses:
                try:
                    module(hidden_states=torch.empty(1, 2, config.hidden_size, device="meta"),
                           position_embeddings=tables, attention_mask=None)
                except Exception:
                    if not uses.seen:
                        continue
            return uses.seen
    return None


def has_own(module):
    """Whether the attention contains a rotary module, as in RecurrentGemma."""
    return any(has_frequencies(one) for one in module.modules())
