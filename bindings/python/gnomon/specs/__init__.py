"""Specs of all position encodings, in modules by the place where position enters."""

from __future__ import annotations

from typing import Any

from .._spec import Encoding, Scaling, Value
from . import bias, embedding, relative, rotary
from .bias import *  # noqa: F403
from .embedding import *  # noqa: F403
from .relative import *  # noqa: F403
from .rotary import *  # noqa: F403

_ROOMS = (embedding, rotary, bias, relative)
_classes: list[type[Value]] = [getattr(room, name) for room in _ROOMS for name in room.__all__]
SCALINGS = {one.type: one for one in _classes if issubclass(one, Scaling)}
KINDS = {one.kind: one for one in _classes if issubclass(one, Encoding)}


def from_fields(fields: dict[str, Any]) -> Encoding:
    """Returns the spec of the fields of a JSON object, with its "kind"."""
    values = {name: value for name, value in fields.items() if name != "kind"}
    kind = KINDS[fields["kind"]]
    if kind is rotary.ScaledRotary:
        scaling = dict(values["scaling"])
        values["scaling"] = SCALINGS[scaling.pop("type")](**scaling)
    elif kind is rotary.AxialRotary:
        values["parts"] = tuple(rotary.AxialPart(**part) for part in values["parts"])
    elif kind is embedding.SinusoidalGrid:
        values["axes"] = tuple(map(_axis, values["axes"]))
    elif kind is embedding.CrossModal:
        values["text"] = embedding.Sinusoidal(**values["text"])
        values["patches"] = from_fields({"kind": "sinusoidal-grid"} | values["patches"])
    return kind(**values)


def _axis(fields: dict[str, Any]) -> embedding.GridAxis:
    sinusoidal = embedding.Sinusoidal(**fields["sinusoidal"])
    return embedding.GridAxis(column=fields["column"], sinusoidal=sinusoidal)
