"""Reads softmax scales, head dimensions, biases and tables from the modules of a model."""

import inspect

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from models import modeling, real

SCALES = ("scaling", "scale", "softmax_scale", "inv_norm_factor", "scale_attn")
HEAD_DIMS = ("qk_head_dim", "head_dim", "attention_head_size", "key_value_proj_dim", "d_head",
             "head_size")


def in_layer(name, layer):
    return f".{layer}." in f".{name}."


def attentions(model, part=None):
    """Returns the modules with a softmax scale or a head dimension, with their names."""
    found = {}
    for name, one in model.named_modules():
        kind = type(one).__name__
        if "Attention" not in kind and "MLA" not in kind:
            continue
        if part and not name.startswith(part):
            continue
        if any(isinstance(getattr(one, key, None), (int, float)) for key in HEAD_DIMS + SCALES):
            found[name] = one
    return found


def attention_of(model, config, layer, part=None):
    """Returns the self-attention of a layer, or the first one if the layers have no names."""
    found = attentions(model, part)
    never = ("MultiScale", "Lightning", "DeltaAttention")
    for words in (never + ("Cross", "Decoder"), never + ("Cross",), never):
        kept = {name: one for name, one in found.items()
                if not any(word in type(one).__name__ for word in words)
                and "encoder_attn" not in name and "mask_decoder" not in name
                and "predictor" not in name}
        here = [one for name, one in kept.items() if layer is not None and in_layer(name, layer)]
        if here:
            return here[0]
    return None


def head_dim(module):
    for key in HEAD_DIMS:
        value = getattr(module, key, None)
        if isinstance(value, int):
            return value
    heads = getattr(module, "num_attention_heads", None)
    query = getattr(module, "qkv", None)
    return query.out_features // 3 // heads if heads and query is not None else None


# Classes whose scale attribute is not the whole scale: ESM scales its queries before the rotation.
MEASURED = {"EsmSelfAttention"}


def softmax_scale(module, config):
    for key in () if type(module).__name__ in MEASURED else SCALES:
        value = getattr(module, key, None)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return 1 / float(value) if key == "scale_attn" else float(value)
    return measured_scale(module, config)


class Scores(TorchFunctionMode):
    """Records the input of the first softmax, or the scale of a fused attention."""

    scores = scale = None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "scaled_dot_product_attention":
            self.scale = kwargs.get("scale") or args[0].shape[-1] ** -0.5
        if getattr(func, "__name__", "") == "softmax" and self.scores is None:
            self.scores = (args[0] if args else kwargs["input"]).double()
        return func(*args, **kwargs)


def measured_scale(module, config):
    """Measures the scale of a module without a scale attribute: the score of one token with
    itself, divided by the product of its query and key, in one layer without biases."""
    kind, products = type(module), {}
    config = type(config).from_dict(config.to_dict())
    config._attn_implementation = "eager"
    extra = {"layer_idx": 0, "layer_id": 0, "attention_type": "global"}
    wanted = inspect.signature(kind.__init__).parameters
    one = real(lambda: kind(config, **{k: v for k, v in extra.items() if k in wanted}))

    def keep(name):
        def hook(_, __, out):
            products.setdefault(name.rsplit(".", 1)[-1], out.detach().double())
        return hook

    for name, child in one.named_modules():
        if isinstance(child, nn.Linear):
            if child.bias is not None:
                nn.init.zeros_(child.bias)
            child.register_forward_hook(keep(name))
    for name, value in one.named_parameters():  # DeBERTa has additional biases
        if name.endswith("_bias"):
            nn.init.zeros_(value)
    size = head_dim(one)
    width = next(child for child in one.modules() if isinstance(child, nn.Linear)).in_features
    relative = getattr(one, "pos_ebd_size", 0) or getattr(one, "max_relative_positions", 0)
    given = {"attention_mask": torch.zeros(1, 1, 1, 1),
             "position_embeddings": (torch.ones(1, 1, size), torch.zeros(1, 1, size)),
             "rel_embeddings": torch.zeros(2 * relative, width)}
    if "rel_embeddings" in inspect.signature(one.forward).parameters:
        given["attention_mask"] = torch.ones(1, 1, 1, 1)
    given = {key: value for key, value in given.items()
             if key in inspect.signature(one.forward).parameters}
    with torch.no_grad(), Scores() as seen:
        one(torch.randn(1, 1, width), **given)
    if seen.scale is not None:
        return float(seen.scale)
    first = lambda *keys: next((products[key] for key in keys if key in products), None)
    both = first("Wqkv", "in_proj")
    if both is None:
        query = first("query", "q_proj", "query_proj").reshape(-1, size)
        key = first("key", "k_proj", "key_proj").reshape(-1, size)
    elif "Wqkv" in products:  # [3, heads, size]
        query, key, _ = both.reshape(3, -1, size)
    else:  # DeBERTa: [heads, 3, size]
        query, key, _ = both.reshape(-1, 3, size).transpose(0, 1)
    return float((seen.scores.reshape(-1) / (query * key).sum(-1)).median())


def slopes(config, model):
    """Returns ALiBi's bias at distance 1, from the function that forward calls."""
    module = modeling(config)
    if config.model_type == "mpt":
        bias = module.build_mpt_alibi_tensor(config.n_heads, 2, config.attn_config.alibi_bias_max)
        bias = bias.reshape(config.n_heads, -1)
    else:
        heads = config.num_attention_heads
        bias = module.build_alibi_tensor(torch.ones(1, 2), heads, torch.float32).reshape(heads, -1)
    return (bias[:, -1] - bias[:, -2]).double().tolist()


def tables(model, dim=None, part=None):
    """Returns (name, shape) of the learned tables of absolute positions."""
    found = []
    for name, one in list(model.named_parameters()):
        last = name.lower()
        if part and not last.startswith((part, "query_pos") if part == "decoder" else part):
            continue
        if ("pos" in last or "wpe" in last) and "rel" not in last and "post" not in last \
                and "proj" not in last and "norm" not in last and one.dim() >= 2:
            found.append((name, tuple(one.shape)))
    return found


def relative_tables(model, layer):
    """Returns the relative_position_bias_table of a layer, or its rel_pos_h and rel_pos_w."""
    found = {name: tuple(one.shape) for name, one in model.named_parameters()
             if "relative_position_bias_table" in name or "rel_pos_" in name}
    own = {name: shape for name, shape in found.items() if in_layer(name, layer)}
    return {name.rsplit(".", 1)[-1]: shape for name, shape in (own or found).items()}


def query_scale(model, config, module):
    """Returns the query temperature if the modeling file has one, checked at some positions."""
    if getattr(module, "attn_temperature_tuning", False) and not getattr(module, "use_rope", True):
        return {"type": "temperature", "beta": module.attn_scale,
                "length": module.floor_scale, "shift": 1}
    rope = getattr(config, "rope_parameters", None) or {}
    function = getattr(modeling(config), "get_llama_4_attn_scale", None)
    beta = rope.get("llama_4_scaling_beta")
    if not function or not beta:
        return None
    length = rope["original_max_position_embeddings"]
    at = torch.tensor([[0, length - 1, length, 5 * length]])
    wanted = 1 + beta * torch.log(torch.tensor([1.0, 1.0, 2.0, 6.0]))
    if not torch.allclose(function(at, beta, length).reshape(-1), wanted, rtol=1e-6):
        return None
    return {"type": "temperature", "beta": beta, "length": length, "shift": 0}


def sine_table(model, config):
    """Returns the fixed tables: sines and cosines of one axis or of a grid, and of DETR."""
    module = modeling(config)
    for one in model.modules():
        if hasattr(one, "temperature") and hasattr(one, "normalize"):  # DETR: a half for each axis
            half = getattr(one, "num_position_features", None) or one.embedding_dim
            return {"width": 2 * half, "temperature": one.temperature, "turn": one.scale}
    if hasattr(module, "get_sinusoid_encoding_table"):
        rows = next(one.position_embeddings for one in model.modules()
                    if torch.is_tensor(getattr(one, "position_embeddings", None)))[0].double()
        order = "interleaved" if rows[0, 1] == 1 else "halves"
        dim = rows.shape[1]
        return {"recipe": order, "rows": rows.shape[0], "width": dim,
                "base": fitted_base(torch.atan2(rows[1, ::2], rows[1, 1::2]).tolist(), dim)}
    if hasattr(module, "build_2d_sinusoidal_position_embedding"):
        side = config.image_size // config.patch_size
        dim = config.hidden_size
        build = module.build_2d_sinusoidal_position_embedding
        step = build(side, side, embed_dim=dim, dtype=torch.float64)[side]  # row 1, column 0
        angles = torch.atan2(step[:dim // 4], step[dim // 4:dim // 2]).tolist()
        given = attention_rows(model)
        return {"width": dim, "grid": [side, side],
                "class_tokens": 0 if given is None else given - side * side,
                "base": fitted_base(angles, dim // 2)}
    return {}


def attention_rows(model):
    found = [one for one in tables(model) if len(one[1]) == 3]
    return found[0][1][1] if found else None


def fitted_base(inv_freq, dim):
    """Returns the base of frequencies base^(-2i/dim), from the lowest frequency."""
    last = len(inv_freq) - 1
    base = inv_freq[last] ** (-dim / (2 * last))
    near = round(base)
    return float(near) if abs(base - near) < 1e-4 * near else base
