"""Builds small models of released families. Random weights depend on the case's name only."""

import dataclasses
import json
import re
import tempfile
import zlib

import numpy
import safetensors.torch
import torch
import transformers


@dataclasses.dataclass
class Case:
    """A fixture: a model class, its configuration, and the values that are stored."""

    name: str
    cls: str
    config: dict  # keys that differ from the defaults
    literal: bool = False  # config is a complete config.json, with the key names of its release
    length: int = 15
    padded: bool = False  # two rows, the first one padded on the left
    part: str = ""  # of a composite configuration
    inputs: object = None  # function of (case, config, rng): arguments, positions
    tensors: str = ""  # regular expression of further checkpoint tensors to store
    split: bool = False  # PART is encoder or decoder
    only: str = ""  # regular expression of the attention modules to store
    running: bool = False  # layers are counted, not named
    image: dict = None
    check: str = "zero"  # how q and k are compared with the inputs of attention
    embed: list = ()  # of (PART, module of positions, module that is given the sum)
    gain: float = 1.5
    extra: object = None  # function of (recorder, model) that hooks further tensors
    precision: str = "float32"  # the eager softmax of most models computes in float32
    tolerance: float = 1e-5
    implementation: str = "eager"
    double: bool = True  # False if the model mixes precisions
    entry: str = ""  # the module that is called, if not the model


# Tensors that determine positions and the numerics of attention, with the names of all families.
TENSORS = (
    r"(q_norm|k_norm|v_norm|q_layernorm|k_layernorm|query_layernorm|key_layernorm|norm_q|norm_k"
    r"|q_ln|k_ln|sinks|sink_bias|relative_attention_bias|position_embed|embed_positions"
    r"|\.wpe\.|pos_embed|rel_pos|relative_position_bias_table|positional_embedding)"
)


def generator(*names):
    return numpy.random.default_rng(zlib.crc32(" ".join(names).encode()))


def draw(case, name, tensor):
    """Returns random values of a tensor. The seed depends on the names of case and tensor."""
    rng = generator(case.name, name)
    first = float(tensor.flatten()[0])
    if "logit_scale" in name:
        return first + 0.5 * rng.standard_normal(tensor.shape)
    if tensor.ndim < 2 or name.endswith("_norm.weight"):  # near the 1 or 0 of norms and biases
        constant = bool((tensor == first).all()) and 1e-6 < abs(first) < 100
        return (first if constant else 0) + 0.3 * rng.uniform(-1, 1, tensor.shape)
    noise = rng.standard_normal(tensor.shape)
    if re.search(r"embed|wte|wpe|bias_table|rel_pos|position|pos_bias", name):
        return noise
    transposed = name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight"))
    fan_in = tensor.shape[0] if transposed else tensor[0].numel()
    return noise * case.gain / fan_in**0.5


def randomise(model, case):
    """Draws parameters and saved buffers, but keeps tables that are not trained."""
    fixed = {name for name, p in model.named_parameters() if not p.requires_grad}
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point() or tensor.numel() == 0 or name in fixed:
            continue
        if not re.search(r"inv_freq|coords", name):
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(numpy.asarray(draw(case, name, tensor))))


def build(case):
    """Returns the model in float64, its config.json, and the random generator."""
    cls = getattr(transformers, case.cls)
    saved = case.config
    if not case.literal:
        saved = json.loads(cls.config_class(**saved).to_json_string(use_diff=True))
        for key in ("transformers_version", "architectures", "dtype", "torch_dtype"):
            saved.pop(key, None)
    config = cls.config_class.from_dict(json.loads(json.dumps(saved)))
    config._attn_implementation = case.implementation
    config._experts_implementation = "eager"
    torch.manual_seed(0)
    model = cls(config).eval()
    # The float64 mask of a row of padding is -inf in a float32 softmax.
    if case.double and not case.padded:
        model = model.double()
    randomise(model, case)
    return model, saved, generator(case.name)


def checkpoint(model):
    """Returns the tensors by the names that save_pretrained uses."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tensors = safetensors.torch.load_file(folder + "/model.safetensors")
    return tensors


def of_position(case, tensors):
    wanted = re.compile(TENSORS + (f"|{case.tensors}" if case.tensors else ""))
    names = [name for name in tensors if wanted.search(name)]
    other = {
        "text_config": "visual|vision",
        "vision_config": "language|text|mask_decoder|prompt|shared_image|predictor",
    }.get(case.part)
    if other:
        names = [name for name in names if not re.search(other, name)]
    return {name: tensors[name] for name in names}


def text_inputs(case, config, rng):
    """Returns token ids, the mask of real tokens, and positions as generate() computes them."""
    text = config.get_text_config()
    batch = 2 if case.padded else 1
    ids = rng.integers(3, text.vocab_size, (batch, case.length))
    mask = numpy.ones_like(ids)
    if case.padded:
        mask[0, :4] = 0
        ids[mask == 0] = text.pad_token_id or 0
    positions = numpy.where(mask, mask.cumsum(1) - 1, 0)
    ids, mask, positions = (torch.from_numpy(x) for x in (ids, mask, positions))
    arguments = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
    return arguments | {"use_cache": False}, positions[None]
