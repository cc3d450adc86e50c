"""Released models: the position encodings and attention rules of each layer.

    import gnomon.model

    llama = gnomon.model.from_pretrained("Llama-3.1-8B")      # folder, config.json or GGUF
    print(llama.describe())
    llama.layers[0].position                                  # (ScaledRotary(...),)
    plan = llama.lower(0, queries=512)                        # for 512 tokens
    gnomon.prepare(q, k, v, plan)                             # norms and rotation, in place
    out = gnomon.attention(q, k, v, plan)
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from . import _core, _html
from ._program import run
from ._spec import Encoding, Parameter

if TYPE_CHECKING:
    from ._typing import Pairing, Visibility, YarnFactor

__all__ = ["Layer", "Model", "from_pretrained"]


@dataclass(frozen=True)
class Layer:
    """Position encodings and attention rules of one layer.

    position: the encodings; empty for a layer without position (NoPE).
    heads, key_heads: query and key heads; 0 for a layer without attention.
    head_dim, value_dim: D of queries and keys, and of values.
    left, right: window limits in rows; `sliding_window` w of a causal layer is left = w - 1.
    softmax_scale: the scale of q . k before a factor of the encoding.
    unsupported: the feature that `Model.lower` does not support, or ''.
    """

    index: int
    part: str
    position: tuple[Encoding, ...]
    heads: int
    key_heads: int
    head_dim: int
    value_dim: int
    visibility: Visibility
    left: int | None
    right: int | None
    softmax_scale: float
    softcap: float | None
    unsupported: str


class Model:
    """The description of a released model. Made by `from_pretrained`."""

    def __init__(self, description: _core.ModelDescription, config: str | None = None,
                 path: str | None = None, options: Sequence[str] = ()) -> None:
        self._description = description
        self._config, self._path, self._options = config, path, list(options)
        self._layers: tuple[Layer, ...] | None = None

    @property
    def model_type(self) -> str:
        """`model_type` of the config, or the architecture of a GGUF file."""
        return self._description.model_type

    @property
    def length(self) -> int:
        """The training length in tokens; 0 if it is unknown."""
        return self._description.length

    @property
    def width(self) -> int:
        """C, the width of the embeddings; 0 if it is unknown."""
        return self._description.width

    @property
    def notes(self) -> list[str]:
        """Assumptions, likely mistakes in the file, and unknown keys."""
        return self._description.notes

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in order; those of an encoder before those of a decoder."""
        if self._layers is None:
            found = []
            for group in self._description.groups():
                rules = {key: group[key] for key in Layer.__dataclass_fields__
                         if key in group and key != "part"}
                position = tuple(Encoding.from_json(one) for one in group["encodings"])
                found += [Layer(index=index, part=group["part"], position=position, **rules)
                          for index in group["layers"]]
            parts = list(dict.fromkeys(layer.part for layer in found))
            self._layers = tuple(sorted(found, key=lambda one: (parts.index(one.part), one.index)))
        return self._layers

    def frequencies(self, layer: int = 0, length: int = 0,
                    part: str = "") -> _core.RotaryFrequencies:
        """Returns the rotary frequencies of a layer at a declared context length.

        length: in tokens; 0: the training length. Raises ValueError if the layer has no rotation.
        """
        for one in self._layer(layer, part).position:
            if "queries and keys" in one.enters:
                return _core.rotary_frequencies(one, length or self.length)
        raise ValueError(f"[model] layer must have a rotary encoding, got {layer}")

    def parameters(self, layer: int = 0, part: str = "") -> tuple[Parameter, ...]:
        """Returns the trained matrices that `lower` requires for a layer, in their order."""
        return tuple(Parameter(*one) for one in self._description.parameters(layer, part))

    def lower(self, layer: int, queries: Any = None, keys: Any = None, *, part: str = "",
              parameters: Sequence[Any] = (), cached: int = 0, rotated: bool = True,
              length: int = 0, image: Sequence[int] | None = None) -> _core.Plan:
        """Lowers a layer for known tokens: for `gnomon.prepare` and `gnomon.attention`.

        queries: a number T of new tokens after the cached ones, positions [T] or [B, T],
            Positions, or a tuple of them, one for each position axis (M-RoPE: t, h, w).
        keys: positions of all S keys; default: `cached` tokens, then the queries.
        parameters: float32 matrices in the order of `parameters()`.
        cached: tokens in the KV cache. rotated: whether its keys are rotated.
        length: declared context length for dynamic NTK and LongRoPE; 0: the training length.
        image: (height, width) or (frames, height, width) in patches, for image towers.
        Raises ValueError if the layer has a feature that is not supported.
        """
        arguments = (layer, queries, keys, part, parameters, cached, rotated, length, image)
        plan = self._description.lower_layer(*arguments)
        # For pickle. Copies, since arrays may change.
        plan._origin = (  # type: ignore[attr-defined]
            _lowered, (self, *map(_kept, arguments)))
        return plan

    def terms(self, layer: int, hidden: Any, plan: _core.Plan, *, part: str = "",
              ) -> dict[str, Any]:
        """Returns the terms of the tokens of a layer, for the argument `terms` of attention.

        hidden: [B, T, C] float32, the input of the layer, for the tokens of the plan. plan: of
            `lower` for this layer, with its parameters. Empty: the layer has none.
        Relative queries include the query scale of the plan (Inkling).
        """
        return self._description.compute_terms(layer, part, plan, hidden)

    def to_json(self, length: int | None = None) -> str:
        """Returns all numbers as JSON, as `gnomon inspect --json` prints them."""
        return self._description.to_json(length)

    def describe(self, length: int | None = None) -> str:
        """Returns the text that `gnomon inspect` prints.

        length: context length for which scaled frequencies are resolved; default: training length.
        """
        options = [*self._options, *(["--length", str(length)] if length is not None else [])]
        if self._path is not None:
            return run("inspect", self._path, *options)
        return run("inspect", "-", *options, stdin=self._config)

    def __reduce__(self) -> tuple[Any, ...]:
        """A model is read again: from the config, or from the file at its path."""
        names = (name.removeprefix("--").replace("-", "_") for name in self._options[::2])
        options: dict[str, Any] = dict(zip(names, self._options[1::2]))
        read = functools.partial(from_pretrained, **options)
        return read, (self._path if self._config is None else json.loads(self._config),)

    def __repr__(self) -> str:
        layers = self._description.layers
        return f"Model({self.model_type!r}, {layers} layers, length {self.length})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The groups of layers with equal position and attention rules."""
        groups: dict[tuple[Any, ...], list[Layer]] = {}
        for layer in self.layers:
            values = astuple(replace(layer, index=0, position=()))
            groups.setdefault((*values, layer.position), []).append(layer)
        rows = []
        for layers in groups.values():
            one = layers[0]
            window = "" if one.left is None else f", window left {one.left}"
            numbers = _ranges([each.index for each in layers])
            rows.append([" ".join(filter(None, [one.part, numbers])),
                         "\n".join(map(repr, one.position)) or "no position",
                         f"{one.heads} / {one.key_heads}", str(one.head_dim),
                         one.visibility + window, one.unsupported])
        columns = ["layers", "position", "heads / key heads", "head_dim", "attention",
                   "unsupported"]
        if not any(row[-1] for row in rows):
            columns, rows = columns[:-1], [row[:-1] for row in rows]
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        html = _html.table(repr(self), columns, rows) + (f"<ul>{notes}</ul>" if notes else "")
        return _html.bundle(repr(self), html)

    def _layer(self, layer: int, part: str) -> Layer:
        for one in self.layers:
            if one.index == layer and one.part == part:
                return one
        raise ValueError(f"[model] layer must be one of the model (part {part!r}), got {layer}")


def from_pretrained(source: Any, *, part: str = "", yarn_factor: YarnFactor = "as-written",
                    assume_pairing: Pairing | None = None) -> Model:
    """Reads the position encodings and attention rules of a released model. Reads no weights.

    source: a folder with config.json, the file itself, a GGUF file, a config as a dict, or a
        `transformers` config object.
    part: the nested config of a model with several: 'vision_config', 'text_config', ...
    yarn_factor: for a config with both a factor and two lengths, 'as-written' (transformers in
        2026) or 'by-lengths' (transformers in 2025).
    assume_pairing: 'halves' or 'adjacent': the pairing of a family that is not known.
    Raises FormatError, a ValueError, if a size is missing or a value is out of range.
    """
    options = (["--part", part] if part else []) + (
        ["--yarn-factor", yarn_factor] if yarn_factor != "as-written" else []) + (
        ["--assume-pairing", assume_pairing] if assume_pairing is not None else [])
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if not path or not pathlib.Path(path).exists():
            raise ValueError(f"[model] source must be a folder or a file, got {path}")
        return Model(_core.ModelDescription.from_path(path, part, yarn_factor, assume_pairing),
                     path=path, options=options)
    if hasattr(source, "to_dict"):
        source = source.to_dict()
    if not isinstance(source, Mapping):
        raise ValueError("[model] source must be a path, a dict or a transformers config, "
                         f"got {type(source).__name__}")
    config = json.dumps(source, default=str)
    return Model(_core.ModelDescription.from_config(config, part, yarn_factor, assume_pairing),
                 config=config, options=options)


def _kept(value: Any) -> Any:
    """Returns a copy of an argument of `Model.lower` that no later change reaches."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_kept, value))
    import numpy as np

    return np.array(value) if hasattr(value, "__dlpack__") else value


def _lowered(model: Model, layer: int, queries: Any, keys: Any, part: str, parameters: Any,
             cached: int, rotated: bool, length: int, image: Any) -> _core.Plan:
    """Returns the plan of a pickle. Pickle finds it by its name."""
    return model.lower(layer, queries, keys, part=part, parameters=parameters, cached=cached,
                       rotated=rotated, length=length, image=image)


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in ascending order as '0-3, 5, 7-31'."""
    runs: list[list[int]] = []
    for one in numbers:
        if runs and one == runs[-1][-1] + 1:
            runs[-1][1:] = [one]
        else:
            runs.append([one])
    return ", ".join("-".join(map(str, run)) for run in runs)
