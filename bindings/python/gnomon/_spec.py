"""The base of all specs: plain values that convert to and from the library's JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, ClassVar, NamedTuple

from . import _core


class Parameter(NamedTuple):
    """A trained matrix of an encoding, [rows, columns], and its initial normal distribution."""

    name: str
    rows: int
    columns: int
    initial_mean: float
    initial_deviation: float


def plain(value: Any) -> Any:
    """Returns a field as JSON values. Fields that are None are left out."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        named: dict[str, Any] = {"type": value.type} if isinstance(value, Scaling) else {}
        return named | {name: one for name, one in fields.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


class Value:
    """A part of a spec."""

    def __post_init__(self) -> None:
        # Lists become tuples, so that specs can be hashed and compared.
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))


class Scaling(Value):
    """A context extension of a rotary encoding."""

    type: ClassVar[str]


class Encoding(Value):
    """A position encoding as a paper or a config states it. A plain, immutable value.

    Specs are compared with ==, hashed, pickled, copied with dataclasses.replace, and written as
    JSON. `gnomon.lower` and `gnomon.RotaryTable` resolve them for known tokens.
    """

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        _core.complete(self)  # refuses wrong types and names

    def to_json(self) -> str:
        """Returns the spec as JSON: '{"kind": "rotary", "rotary_dim": 64, ...}'."""
        return json.dumps({"kind": self.kind} | plain(self))

    @staticmethod
    def from_json(text: str) -> Encoding:
        """Returns the spec of a JSON text. Raises ValueError if it has an unknown kind or key."""
        from . import specs

        return specs.from_fields(json.loads(_core.complete(text)))

    @property
    def title(self) -> str:
        """The usual name, as 'Rotary (RoPE)'."""
        return _core.info(self)["title"]

    @property
    def enters(self) -> str:
        """Where position enters the Transformer: 'embeddings', 'queries and keys', 'scores', ..."""
        return _core.enters(self)

    def parameters(self) -> tuple[Parameter, ...]:
        """Returns the trained matrices of the encoding, in the order that `lower` expects."""
        return tuple(Parameter(*one) for one in _core.parameters(self))

    def capacity(self) -> int | None:
        """Returns the number n of supported positions, 0 to n - 1; None if there is no limit."""
        return _core.capacity(self)
