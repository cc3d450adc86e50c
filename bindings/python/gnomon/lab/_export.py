"""Trained models of the lab in the form of Hugging Face, for other programs.

transformers computes the model of the lab exactly with two of its architectures, with biases of 0
where it has biases and the lab has none:

  GPT-NeoX with `use_parallel_residual` false   no position, rotary
  GPT-2 with GELU and `head` not tied           encodings that add a table to the embeddings

Other encodings are refused: docs/lab/outputs.md says what differs.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .. import _core
from .._spec import Encoding
from ..specs.rotary import Rotary, ScaledRotary
from ..specs.scaling import YarnScaling
from . import _export_tokens
from ._table import field

_LARGEST_CONFIG = 64 << 20  # bytes
_TASKS = ("text", "copy", "reverse", "addition", "recall")  # of a causal Transformer on tokens
Tensors = dict[str, Any]


def export_model(folder: str | os.PathLike[str], out: str | os.PathLike[str], *,
                 positions: int | None = None) -> pathlib.Path:
    """Writes a trained model as `transformers.AutoModelForCausalLM` and `AutoTokenizer` read it.

    folder: DIR/models/NAME-seedN of the lab. out: a new or empty folder, which gets config.json,
    model.safetensors, tokenizer.json and tokenizer_config.json, without code.
    positions: the longest context in tokens, at most the rows of a learned table. Default: the
    longest length that the lab tested; required if lengths do not count tokens (`--task copy`).

    Requires safetensors, and sentencepiece for a model with `--tokens bpe:N`. Raises ValueError
    for a model that no architecture of transformers computes exactly (ALiBi, T5, ...).
    """
    folder, out = pathlib.Path(folder), pathlib.Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"[lab] out must be a new or empty folder, got {out}")
    config = _read_config(folder / "config.json")
    settings = field(config, "settings", dict, "config.json")
    encoding = _encoding(config)
    weights = _read_weights(folder / "model.safetensors", settings)
    if positions is None:
        if settings["task"] != "text":
            raise ValueError("[lab] positions, the longest context in tokens, must be given for "
                             f"--task {settings['task']}, got None")
        positions = max(field(settings, "eval_lengths", list, "settings"))
    if not isinstance(positions, int) or not 1 <= positions <= 1 << 20:
        raise ValueError(f"[lab] positions must be 1 to {1 << 20}, got {positions!r}")
    if encoding.kind in ("none", "rotary", "rotary-scaled"):
        hub, tensors = _neox(weights, settings, encoding, positions)
    else:
        hub, tensors = _gpt2(weights, settings, encoding, positions)
    tokens = str(settings.get("tokens", "bytes"))
    tokenizer = (_export_tokens.of_bytes() if tokens == "bytes"
                 else _export_tokens.of_sentencepiece(folder / "tokenizer.model"))
    size = len(tokenizer["model"]["vocab"])
    if size != hub["vocab_size"]:
        raise ValueError(f"[lab] the tokenizer must have {hub['vocab_size']} tokens, got {size}")
    hub |= {"tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None,
            "dtype": "float32",
            "gnomon": {key: config.get(key) for key in ("gnomon", "encoding", "seed")}}

    from safetensors.numpy import save_file

    out.mkdir(parents=True, exist_ok=True)
    _write_json(out / "config.json", hub)
    _write_json(out / "tokenizer.json", tokenizer)
    _write_json(out / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
        "model_max_length": hub.get("n_positions") or hub["max_position_embeddings"]})
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out


def _write_json(path: pathlib.Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_config(path: pathlib.Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            raise ValueError(f"[lab] {path} must have at most {_LARGEST_CONFIG} bytes, got "
                             f"{path.stat().st_size}")
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"[lab] folder must be a model of the lab, got {path.parent}: {error}"
                         ) from error
    kind = config.get("model_type") if isinstance(config, dict) else type(config).__name__
    if kind != "gnomon-lab":
        raise ValueError("[lab] model_type in config.json must be gnomon-lab, a causal "
                         f"Transformer on bytes or tokens, got {str(kind)[:60]}")
    settings = field(config, "settings", dict, "config.json")
    if (task := settings.get("task")) not in _TASKS:
        raise ValueError(f"[lab] the task of an exported model must be one of {', '.join(_TASKS)}, "
                         f"got {str(task)[:60]}")
    return config  # type: ignore[no-any-return]


def _encoding(config: Mapping[str, Any]) -> Any:
    """The spec that every layer has alone. Raises ValueError unless it can be exported."""
    name = field(config, "encoding", str, "config.json")
    _, at, suffix = name.partition("@")
    layers = field(field(config, "position", dict, "config.json"), "layers", list, "position")
    if (at and suffix != "random") or not layers or any(
            not isinstance(one, list) or len(one) != 1 or one != layers[0] for one in layers):
        _refuse(name)
    encoding = Encoding.from_json(json.dumps(layers[0][0]))
    if encoding.kind not in ("none", "rotary", "rotary-scaled") and encoding.enters != "embeddings":
        _refuse(name)
    return encoding


def _refuse(name: str) -> NoReturn:
    raise ValueError(
        "[lab] the encoding of an exported model must be one that transformers computes exactly "
        "(none, rotary, rotary-scaled with YaRN, or a table that is added to the embeddings), in "
        f"every layer, got {name[:100]}")


def _read_weights(path: pathlib.Path, settings: Mapping[str, Any]) -> Tensors:
    """The tensors of docs/lab/models.md, with these names and shapes and no others."""
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError as error:
        raise ImportError("[lab] models must be written by safetensors (pip install "
                          "gnomon[export]), got no such package") from error
    try:
        weights: Tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"[lab] folder must have the weights of a model, got {path}: {error}"
                         ) from error
    layers, width, heads = (field(settings, key, int, "settings")
                            for key in ("layers", "width", "heads"))
    tokens = re.fullmatch(r"bytes|bpe:(\d{1,5})", str(settings.get("tokens", "bytes")))
    if tokens is None:
        raise ValueError("[lab] tokens in config.json must be bytes or bpe:N, got "
                         + str(settings["tokens"])[:60])
    size = int(tokens[1] or 256)
    shapes = {"embedding.weight": (size, width), "head.weight": (size, width),
              "norm.weight": (width,), "norm.bias": (width,)}
    for layer in range(min(layers, len(weights))):
        block = f"block{layer}."
        shapes |= {block + norm: (width,) for norm in (
            "attention_norm.weight", "attention_norm.bias", "feed_norm.weight", "feed_norm.bias")}
        shapes |= {block + "qkv.weight": (3 * width, width),
                   block + "attention_out.weight": (width, width),
                   block + "feed_in.weight": (4 * width, width),
                   block + "feed_out.weight": (width, 4 * width)}
    got = {name: one.shape for name, one in weights.items() if not name.startswith("position.")}
    if got != shapes or heads < 1 or width % heads:
        wrong = sorted(set(got.items()) ^ set(shapes.items()))[:1]
        raise ValueError(f"[lab] {path} must have the tensors of {layers} layers of width {width} "
                         f"with {heads} heads, got {wrong or heads}")
    return weights


def _neox(weights: Tensors, settings: Mapping[str, Any], encoding: Any, positions: int
          ) -> tuple[dict[str, Any], Tensors]:
    import numpy as np

    layers, width, heads = settings["layers"], settings["width"], settings["heads"]
    head_dim = width // heads
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": 10000.0,
                            "partial_rotary_factor": 0.0}
    if encoding.kind != "none":
        share = encoding.rotary_dim / head_dim
        usual: Any = Rotary(rotary_dim=encoding.rotary_dim, pairing="halves", base=encoding.base)
        rope |= {"rope_theta": encoding.base, "partial_rotary_factor": share}
        if encoding.kind == "rotary-scaled" and isinstance(
                yarn := encoding.scaling, YarnScaling):
            known = {key: getattr(yarn, key) for key in (
                "factor", "original_length", "beta_fast", "beta_slow")}
            usual = ScaledRotary(rotary_dim=encoding.rotary_dim, pairing="halves",
                                 base=encoding.base, length=encoding.length,
                                 scaling=YarnScaling(**known))
            rope |= {"rope_type": "yarn", **known}
            rope["original_max_position_embeddings"] = rope.pop("original_length")
        if encoding != usual or share > 1 or int(head_dim * share) != encoding.rotary_dim:
            _refuse(str(encoding))
    config = {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox",
              "vocab_size": len(weights["embedding.weight"]), "hidden_size": width,
              "num_hidden_layers": layers, "num_attention_heads": heads,
              "intermediate_size": 4 * width, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
              "max_position_embeddings": positions, "use_parallel_residual": False,
              "attention_bias": False, "rope_parameters": rope}
    tensors = {"gpt_neox.embed_in.weight": weights["embedding.weight"],
               "gpt_neox.final_layer_norm.weight": weights["norm.weight"],
               "gpt_neox.final_layer_norm.bias": weights["norm.bias"],
               "embed_out.weight": weights["head.weight"]}
    for layer in range(layers):
        own, block = f"gpt_neox.layers.{layer}.", f"block{layer}."
        for theirs, ours in (("input_layernorm", "attention_norm"),
                             ("post_attention_layernorm", "feed_norm")):
            for part in ("weight", "bias"):
                tensors[f"{own}{theirs}.{part}"] = weights[f"{block}{ours}.{part}"]
        # Rows: q, k and v of each head, instead of all heads of q, then k, then v.
        qkv = weights[block + "qkv.weight"].reshape(3, heads, head_dim, width)
        tensors[own + "attention.query_key_value.weight"] = np.ascontiguousarray(
            qkv.transpose(1, 0, 2, 3)).reshape(3 * width, width)
        tensors[own + "attention.dense.weight"] = weights[block + "attention_out.weight"]
        for theirs, ours in (("dense_h_to_4h", "feed_in"), ("dense_4h_to_h", "feed_out")):
            matrix = weights[f"{block}{ours}.weight"]
            tensors[f"{own}mlp.{theirs}.weight"] = matrix
            tensors[f"{own}mlp.{theirs}.bias"] = np.zeros(len(matrix), np.float32)
    return config, tensors


def _gpt2(weights: Tensors, settings: Mapping[str, Any], encoding: Any, positions: int
          ) -> tuple[dict[str, Any], Tensors]:
    import numpy as np

    table = _table(weights, encoding, positions)
    layers, width = settings["layers"], settings["width"]
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
              "vocab_size": len(weights["embedding.weight"]), "n_positions": len(table),
              "n_embd": width, "n_layer": layers, "n_head": settings["heads"],
              "n_inner": 4 * width, "activation_function": "gelu", "layer_norm_epsilon": 1e-5}
    tensors = {"transformer.wte.weight": weights["embedding.weight"],
               "transformer.wpe.weight": table,
               "transformer.ln_f.weight": weights["norm.weight"],
               "transformer.ln_f.bias": weights["norm.bias"],
               "lm_head.weight": weights["head.weight"]}
    for layer in range(layers):
        own, block = f"transformer.h.{layer}.", f"block{layer}."
        for theirs, ours in (("ln_1", "attention_norm"), ("ln_2", "feed_norm")):
            for part in ("weight", "bias"):
                tensors[f"{own}{theirs}.{part}"] = weights[f"{block}{ours}.{part}"]
        for theirs, ours in (("attn.c_attn", "qkv"), ("attn.c_proj", "attention_out"),
                             ("mlp.c_fc", "feed_in"), ("mlp.c_proj", "feed_out")):
            matrix = weights[f"{block}{ours}.weight"]
            tensors[f"{own}{theirs}.weight"] = np.ascontiguousarray(matrix.T)  # [inputs, outputs]
            tensors[f"{own}{theirs}.bias"] = np.zeros(len(matrix), np.float32)
    return config, tensors


def _table(weights: Tensors, encoding: Any, positions: int) -> Any:
    """The vectors that the encoding adds to the embeddings at positions 0, 1, ..., [P, C]."""
    import numpy as np

    if (rows := encoding.capacity()) is not None:
        positions = min(positions, rows)
    parameters = _parameters(weights, encoding)

    def added(count: int) -> Any:
        x = np.zeros((1, count, weights["embedding.weight"].shape[1]), np.float32)
        _core.add_position(x, _core.lower(encoding, count, parameters=parameters,
                                          visibility="causal"))
        return x[0]

    table = added(positions)
    for count in {1, (positions + 1) // 2}:
        if not np.array_equal(added(count), table[:count]):  # a vector depends on the length
            _refuse(str(encoding))
    return table


def _parameters(weights: Tensors, encoding: Any) -> Sequence[Any]:
    """The trained matrices of the encoding, from the tensors `position.table...`."""
    given = {name.rpartition(".")[2]: one for name, one in weights.items()
             if name.startswith("position.")}
    wanted = encoding.parameters()
    if sorted(given) != sorted(one.name for one in wanted):
        raise ValueError("[lab] model.safetensors must have the parameters "
                         f"{[one.name for one in wanted]} of the encoding, got {sorted(given)}")
    for one in wanted:
        if given[one.name].size != one.rows * one.columns:
            raise ValueError(f"[lab] {one.name} in model.safetensors must have {one.rows} x "
                             f"{one.columns} numbers, got {given[one.name].shape}")
    return [given[one.name].reshape(one.rows, one.columns) for one in wanted]
