"""The base of all specs: plain values that convert to and from the library's JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
import typing
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from . import _core
from ._list import entry_of

if TYPE_CHECKING:
    from ._typing import Visibility

# The classes of gnomon.specs by their names in JSON. A class enters when it is defined.
KINDS: dict[str, type[Encoding]] = {}
SCALINGS: dict[str, type[Scaling]] = {}


class Parameter(NamedTuple):
    """A trained matrix of an encoding, [rows, columns], and its initial normal distribution.

    initial: initial values, row by row, in place of random ones.
    """

    name: str
    rows: int
    columns: int
    initial_mean: float
    initial_deviation: float
    initial: tuple[float, ...] | None = None


def plain(value: Any) -> Any:
    """Returns a field as JSON values. Fields that are None are left out."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        named: dict[str, Any] = {"type": value.type} if isinstance(value, Scaling) else {}
        return named | {name: one for name, one in fields.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def hashable(name: str, value: Any) -> Any:
    """Returns a field as Python numbers, strings, parts of specs, and tuples of them.

    Numbers and arrays of NumPy and PyTorch become Python numbers, lists become tuples, so that
    specs can be hashed, compared and written as JSON.
    """
    if getattr(value, "requires_grad", False):
        raise ValueError(f"[encoding] {name} must not require a gradient, since a spec contains "
                         "numbers (gnomon.torch.LearnedRotary trains frequencies), got a tensor "
                         "that does")
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple, range)):
        return tuple(hashable(name, one) for one in value)
    if value is None or isinstance(value, (bool, int, float, str, Value)):
        return value
    raise ValueError(f"[encoding] {name} must be a number, a string, a part of a spec, as "
                     f"gnomon.NoScaling(), or a tuple of them, got {type(value).__name__}")


class Value:
    """A part of a spec."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = hashable(field.name, getattr(self, field.name))
            if value is None and "None" not in str(field.type):
                raise ValueError(f"[encoding] {field.name} must be given, got None")
            object.__setattr__(self, field.name, value)

    # Here and not by dataclass, which would compile them for each class at import.
    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name)
                     for field in dataclasses.fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        names = (field.name for field in dataclasses.fields(self))  # type: ignore[arg-type]
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({fields})"


class Scaling(Value):
    """A context extension of a rotary encoding."""

    type: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "type" in vars(cls):
            SCALINGS[cls.type] = cls


_ROTARY = "rotary", "rotary-scaled", "rotary-axial"  # with a check that needs no tokens


class Encoding(Value):
    """A position encoding as a paper or a config states it. A plain, immutable value.

    Specs are compared with ==, hashed, pickled, copied with dataclasses.replace, and written as
    JSON. `gnomon.lower` and `gnomon.RotaryTable` resolve them for known tokens.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    def __post_init__(self) -> None:
        super().__post_init__()
        # Kept, since caches of gnomon.torch look up tables by it at each call. Not a field.
        object.__setattr__(self, "_json", json.dumps({"kind": self.kind} | plain(self)))
        _core.complete(self)  # refuses wrong types and names
        if self.kind in _ROTARY:
            _core.rotary_frequencies(self)  # refuses values out of bounds

    def to_json(self) -> str:
        """Returns the spec as JSON: '{"kind": "rotary", "rotary_dim": 64, ...}'."""
        return self._json  # type: ignore[attr-defined]

    @staticmethod
    def from_json(text: str) -> Encoding:
        """Returns the spec of a JSON text.

        Raises ValueError if the kind or a key is unknown, or a required choice is missing.
        """
        fields = json.loads(_core.complete(text))
        try:
            return _from_plain(KINDS[fields["kind"]], fields)
        except TypeError as error:  # "... missing 1 required keyword-only argument: 'pairing'"
            missing = str(error).rpartition(": ")[2]
            raise ValueError(f"[encoding] {missing} must be given, got {text}") from error

    @property
    def title(self) -> str:
        """The usual name, as 'Rotary (RoPE)'."""
        return entry_of(self.to_json()).title

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


# Values for sizes that are not given. The second shows which fields depend on a size.
_SIZES: dict[str, tuple[int, ...]] = {"width": (512, 1024), "heads": (4, 8), "length": (1024, 4096)}


def usual(name: str, *, width: int | None = None, heads: int | None = None,
          length: int | None = None, reads: Visibility = "causal", **fields: Any) -> Encoding:
    """Returns an encoding at its usual settings for a Transformer of these sizes.

    width: C, the width of the embeddings; the head dimension is width / heads.
    length: the training length in tokens.
    reads: 'causal' or 'bidirectional'; a bias by distance then also has values for later keys.
    fields: fields of the spec, in place of the usual ones.

    Only sizes that the encoding depends on are required. A field that depends on a size that is
    not given has the default of its spec. Raises ValueError with the size if there is none.
    """
    given = {"width": width, "heads": heads, "length": length}
    for size, n in given.items():
        if n is not None and not hasattr(n, "__index__"):
            raise TypeError(f"[usual] {size} must be an integer, got {type(n).__name__}")
    options = dict(_SIZES)
    if width is None and heads is not None:
        options["width"] = (64 * heads, 128 * heads)
    if heads is None and width is not None:
        options["heads"] = tuple(n for n in (1, 2) if width % n == 0)
    sizes = {one: options[one][0] if n is None else n for one, n in given.items()}
    spec = _usual(name, sizes, reads)
    known = {one.name: one for one in dataclasses.fields(spec)}  # type: ignore[arg-type]
    for field in fields:
        if field not in known:
            raise ValueError(f"[encoding] fields must be among {', '.join(known)}, got {field}")
    result = dict(fields)
    for size in (one for one, n in given.items() if n is None):
        other = _usual(name, {**sizes, size: options[size][-1]}, reads)
        for field, declared in known.items():
            if field in result or getattr(spec, field) == getattr(other, field):
                continue
            if declared.default is dataclasses.MISSING or not declared.default:
                raise ValueError(f"[encoding] {size} must be given for {name}, got None")
            result[field] = declared.default
    return dataclasses.replace(spec, **result)  # type: ignore[type-var]


def _usual(name: str, sizes: dict[str, int], reads: Visibility) -> Encoding:
    return Encoding.from_json(_core.usual(name, sizes["width"], sizes["heads"], sizes["length"],
                                          reads))


def lowered(encodings: list[str], queries: Any, keys: Any, options: dict[str, Any]) -> _core.Plan:
    """Returns the plan of a pickle. Pickle finds it by its name."""
    return _core.lower([Encoding.from_json(one) for one in encodings], queries, keys, **options)


_types = functools.cache(typing.get_type_hints)


def _from_plain(kind: Any, value: Any) -> Any:
    """Returns a field of a type, or a spec, from JSON values: the inverse of `plain`."""
    if isinstance(value, list):
        element = typing.get_args(kind)[0]
        return tuple(_from_plain(element, one) for one in value)
    if not isinstance(value, dict):
        return value
    kind = SCALINGS[value["type"]] if kind is Scaling else kind
    types = _types(kind)
    return kind(**{name: _from_plain(types[name], one) for name, one in value.items()
                   if name not in ("kind", "type")})
