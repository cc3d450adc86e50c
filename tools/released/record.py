"""Records the inputs and outputs of attention layers, and checks the record."""

import re
import sys

import projections
import torch

# Modules that do not use transformers' attention interface: their head dimension, and the child
# whose input is the output of attention ("" if the module returns it).
EAGER = ("eager_attention_forward", "vision_eager_attention_forward")
DIRECT = {
    "GPTJAttention": (projections.head_dim, "out_proj"),
    "CodeGenAttention": (projections.head_dim, "out_proj"),
    "GPTNeoSelfAttention": (projections.head_dim, "out_proj"),
    "BloomAttention": (projections.head_dim, "dense"),
    "FalconAttention": (projections.head_dim, "dense"),
    "MptAttention": (projections.head_dim, "out_proj"),
    "XGLMAttention": (projections.head_dim, "out_proj"),
    "SpeechT5Attention": (projections.head_dim, "out_proj"),
    "MPNetSelfAttention": (lambda m: m.attention_head_size, "o"),
    "DisentangledSelfAttention": (lambda m: m.attention_head_size, ""),
    "LayoutLMv3SelfAttention": (lambda m: m.attention_head_size, ""),
    "Swinv2SelfAttention": (lambda m: m.attention_head_size, ""),
    "SamVisionAttention": (lambda m: None, "proj"),
    "RoFormerSelfAttention": (lambda m: m.attention_head_size, ""),
}


class Recorder:
    """Hooks of one model. `layers` is a list of dicts, in the order of the layers."""

    def __init__(self, case, model):
        self.case, self.model = case, model
        self.names = {module: name for name, module in model.named_modules()}
        self.outputs, self.inputs, self.layers, self.tensors = {}, {}, [], {}
        for module, name in self.names.items():
            module.register_forward_hook(self.keep, with_kwargs=True)
            direct = DIRECT.get(type(module).__name__)
            if direct and self.wanted(name):
                self.hook_direct(module, *direct)
        self.patched = []
        for name, source in list(sys.modules.items()):
            if name.startswith("transformers.models.") and ".modeling_" in name:
                for attribute in EAGER:
                    function = vars(source).get(attribute)
                    if function:
                        self.patched.append((source, attribute, function))
                        setattr(source, attribute, self.wrap(function))

    def close(self):
        for source, attribute, function in self.patched:
            setattr(source, attribute, function)

    def wanted(self, name):
        if self.case.only:
            return bool(re.search(self.case.only, name))
        return not re.search(r"encoder_attn|EncDec|cross", name)

    def keep(self, module, arguments, named, output):
        """Keeps the first call. DeBERTa projects embeddings of distances in a second."""
        self.inputs.setdefault(module, (arguments, named))
        self.outputs.setdefault(module, output)

    def of(self, module):
        kept = self.outputs[module]
        return [x.detach() for x in kept] if isinstance(kept, tuple) else kept.detach()

    def place(self, module):
        """Returns the part and number of a layer."""
        name = self.names[module]
        part = "layers"
        if self.case.split:
            part = "decoder" if re.search(r"(^|\.)decoder\.", name) else "encoder"
        if self.case.running:
            return part, sum(layer["part"] == part for layer in self.layers)
        number = getattr(module, "layer_idx", None)
        if number is None:
            number = int(re.search(r"\.(\d+)(\.|$)", name).group(1))
        return part, number

    def add(self, module, q, k, v, out, **more):
        part, number = self.place(module)
        layer = {"module": module, "part": part, "number": number, "q": q, "k": k, "v": v}
        self.layers.append(layer | {"out": out} | more)

    def hook_direct(self, module, head_size, child):
        def record(out):
            dim = head_size(module)
            q, k, v = projections.split(module, self.of, dim, dim)
            out = out.reshape(*q.shape[:3], v.shape[-1])
            self.add(module, q, k, v, out.detach())

        if child:
            target = getattr(module, child)
            target.register_forward_pre_hook(lambda m, arguments: record(arguments[0]))
        else:
            module.register_forward_hook(lambda m, a, output: record(output[0]))

    def wrap(self, function):
        def attention(module, query, key, value, *arguments, **named):
            out, weights = function(module, query, key, value, *arguments, **named)
            if module not in self.names or not self.wanted(self.names[module]):
                return out, weights
            q, k, v = projections.split(module, self.of, query.shape[-1], value.shape[-1])
            named |= dict(zip(("attention_mask", "scaling"), arguments))
            mask = named.get("attention_mask")
            if self.layers and self.layers[-1]["module"] is module:  # DiffLlama calls it twice
                last = self.layers[-1]
                last["out"] = torch.cat([last["out"], out.detach()], -1)
                last["given"] = (query, key, torch.cat([last["given"][2], value], -1))
                return out, weights
            layer = dict(given=(query, key, value), mask=mask, named=named, weights=weights)
            self.add(module, q, k, v, out.detach(), **layer)
            return out, weights

        return attention


def find(recorder, suffix):
    """Returns the module or parameter with this name, or the only one with this ending."""
    everything = {name: module for module, name in recorder.names.items()}
    everything |= dict(recorder.model.named_parameters())
    found = [n for n in everything if n == suffix or n.endswith("." + suffix)]
    assert len(found) == 1, f"{suffix}: {found}"
    return everything[found[0]]


def embedding(recorder, part, position, total):
    """Embeddings before and after positions are added to them.

    `position` names the module or the parameter of positions, or "<" and the module that gives
    embeddings without them; `total` the module that is given the sum, or "" if the first one
    returns it."""
    first = find(recorder, position.removeprefix("<"))
    arguments, named = recorder.inputs[find(recorder, total) if total else first]
    given = arguments[0] if arguments else named["hidden_states"]
    if not total:
        before, after = given, recorder.of(first)
    elif position.startswith("<"):
        before, after = recorder.of(first), given
    else:
        added = first.detach() if isinstance(first, torch.nn.Parameter) else recorder.of(first)
        before, after = given - added, given
    width = after.shape[-1]
    if before.ndim == 4 and before.shape[1] == width:  # a convolution's grid
        before = before.flatten(2).mT
    batch = after.shape[0] if after.ndim > 2 else 1
    before, after = before.reshape(batch, -1, width), after.reshape(batch, -1, width)
    assert before.shape == after.shape and not close(before, after, 1e-2)
    return {f"@{part}.embed.in": before, f"@{part}.embed.out": after}


def close(a, b, tolerance=1e-6):
    return a.shape == b.shape and (a - b).abs().max() <= tolerance * b.abs().max()


def grouped(x, count):
    return x.repeat_interleave(count // x.shape[1], dim=1)


def attend(layer, visible=True, sinks=True):
    """Returns softmax attention [B, T, H, D] of the inputs of a layer's attention function."""
    query, key, value = layer["given"]
    named, module = layer["named"], layer["module"]
    key, value = grouped(key, query.shape[1]), grouped(value, query.shape[1])
    scaling = named.get("scaling")
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if named.get("softcap"):
        scores = torch.tanh(scores / named["softcap"]) * named["softcap"]
    if named.get("position_bias") is not None:
        scores = scores + named["position_bias"]
    mask = layer["mask"] if visible is True else visible
    if mask is not None:
        mask = mask[..., : scores.shape[-1]]
        scores = scores.masked_fill(~mask, -1e30) if mask.dtype == torch.bool else scores + mask
    sink = getattr(module, "sinks", None)
    if isinstance(sink, torch.Tensor) and sinks:
        sink = sink.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sink], -1)
    weights = scores.double().softmax(-1)[..., : key.shape[2]]
    return (weights @ value.double()).transpose(1, 2)


def visibility(layer):
    """Returns the visible keys as text. Asserts that the limits change the result."""
    mask, query = layer["mask"], layer["given"][0]
    sink = isinstance(getattr(layer["module"], "sinks", None), torch.Tensor)
    assert not sink or not close(layer["out"], attend(layer, sinks=False), 1e-3), "sinks"
    words = " sinks" if sink else ""
    length = query.shape[2]
    if mask is None:
        return "all" + words
    sees = mask if mask.dtype == torch.bool else mask > -50
    sees = sees[-1, 0]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    if sees.shape[0] == 1 or bool(sees.all()):
        return "all" + words
    if bool((sees == causal).all()):
        return "causal" + words
    full = causal if bool((sees <= causal).all()) else torch.ones_like(causal)
    free = torch.zeros(length, length, dtype=mask.dtype if mask.is_floating_point() else float)
    free = free.masked_fill(~full, -1e30)
    assert not close(layer["out"][-1:], attend(layer, visible=free)[-1:], 1e-3), "window"
    limits = [(int(r.nonzero()[0]), int(r.nonzero()[-1])) for r in sees]
    kind = "causal" if full is causal else "both"
    return f"{kind} {[f'{a}-{b}' for a, b in limits[-3:]]}" + words


def shape_of(x):
    """Vectors by their direction only, and whatever the order of elements."""
    return (x / x.norm(dim=-1, keepdim=True)).abs().sort(-1).values


def candidates(module, x, names):
    """Returns x after each norm or scale that the module may apply."""
    yield x
    if hasattr(module, "v_scale") and names == NORMS["v"]:
        yield x * module.v_scale
    for name in names:
        norm = getattr(module, name, None)
        if not isinstance(norm, torch.nn.Module):
            continue
        for shape in (x, x.flatten(2)):
            try:
                yield norm(shape).reshape(x.shape)
            except (RuntimeError, IndexError, ValueError):
                pass
        try:
            yield norm(x.transpose(1, 2)).transpose(1, 2)
        except (RuntimeError, IndexError, ValueError):
            pass


NORMS = {
    "q": ("q_norm", "q_layernorm", "qk_norm", "query_layernorm"),
    "k": ("k_norm", "k_layernorm", "qk_norm", "key_layernorm"),
    "v": ("v_norm",),
}


def check(case, layer, positions):
    """Asserts that the record explains the layer's output."""
    for key in "qkv":
        assert layer[key].ndim == 4, key
    for key in ("q", "k", "v", "out"):
        assert bool(torch.isfinite(layer[key]).all()), f"{key} is not finite"
    if "given" not in layer:
        return "not checked"
    module, (query, key, value) = layer["module"], layer["given"]
    real = slice(-1, None) if case.padded else slice(None)
    assert close(layer["out"][real], attend(layer)[real]), "attention is not what was recorded"
    value = value.transpose(1, 2)
    found = [close(v, value) for v in candidates(module, layer["v"], NORMS["v"])]
    assert any(found), "values are not what was recorded"
    if case.check == "none":
        return visibility(layer)
    for name, given in (("q", query), ("k", key)):
        given, matched = given.transpose(1, 2), False
        for x in candidates(module, layer[name], NORMS[name]):
            a, b = (x, given)
            if case.check == "zero":
                first = (positions == 0).all(0).to(torch.bool)
                a, b = a[first], b[first]
                matched |= close(shape_of(a), shape_of(b), 1e-5)
            else:
                a, b = a.norm(dim=-1), b.norm(dim=-1)
                matched |= close(a / a.norm(), b / b.norm(), 1e-5)
        assert matched, f"{name} is not what was recorded"
    return visibility(layer)
