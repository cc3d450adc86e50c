"""Calls of every public callable of gnomon with arguments that are drawn from its signature.

A new callable is called without a change here. A new type in a signature raises KeyError.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

from attack_capsules import Index, Raises, RaisesText, Shrinks, liar
from attack_values import NUMBERS, Draw

import gnomon
import gnomon.model
from gnomon import _core, _typing

# These start the program `gnomon`: test_package.py, test_model.py. gnomon.plot and gnomon.lab do
# so too.
STARTS_A_PROGRAM = {"check", "Model.describe"}
BASES = {"Encoding", "Scaling"}  # their methods are called on specs
SPECIAL = {"__init__", "__setstate__", "__eq__", "__hash__", "__repr__", "__copy__",
           "__deepcopy__", "__getstate__", "__reduce__"}


@dataclasses.dataclass
class Signature:
    """A callable; owner: the class of its first argument, or None."""

    function: Callable[..., Any]
    parameters: list[inspect.Parameter]
    owner: type | None = None


def _of_nanobind(function: Any) -> inspect.Signature:
    text, _, defaults = function.__nb_signature__[0]
    text = re.sub(r"\\(\d+)", lambda found: repr(defaults[int(found[1])]), text)
    made: dict[str, Any] = {}
    exec(f"from __future__ import annotations\n{text}: ...", made)
    return inspect.signature(next(x for x in made.values() if inspect.isfunction(x)))


def _members(cls: type) -> dict[str, Signature]:
    """The methods, constructors and properties of a class; a static method has no owner."""
    found = {}
    for name, member in vars(cls).items():
        if name[0] == "_" and name not in SPECIAL:
            continue
        title, kind = f"{cls.__name__}.{name}", type(member).__name__
        if isinstance(member, property):
            found[title] = Signature(lambda self, name=name: getattr(self, name), [], cls)
        elif kind == "nb_func":
            found[title] = Signature(member, list(_of_nanobind(member).parameters.values()))
        elif kind in ("nb_method", "function"):
            of = _of_nanobind(member) if kind == "nb_method" else inspect.signature(member)
            rest = list(of.parameters.values())[1:]
            if name == "__init__":
                found[cls.__name__] = Signature(cls, rest)
            elif name == "__setstate__":
                made = lambda state, cls=cls: _with_state(cls, state)  # noqa: E731
                found[title] = Signature(made, rest)
            else:
                found[title] = Signature(member, rest, cls)
    return found


def _with_state(cls: type, state: Any) -> Any:
    made = cls.__new__(cls)
    made.__setstate__(state)
    return made


def signatures() -> dict[str, Signature]:
    found: dict[str, Signature] = {}
    for name, one in vars(_core).items():
        if type(one).__name__ == "nb_func":
            found[name] = Signature(one, list(_of_nanobind(one).parameters.values()))
        elif isinstance(one, type) and not issubclass(one, Exception):
            found |= _members(one)
    for name in [*gnomon.__all__, *gnomon.model.__all__]:
        one = getattr(gnomon, name, None) or getattr(gnomon.model, name)
        title = name if name not in found else f"gnomon.{name}"
        if getattr(one, "__module__", "").startswith("gnomon._core") or one is getattr(
            _core, name, None
        ):
            continue
        found[title] = Signature(one, list(inspect.signature(one).parameters.values()))
        if name in ("Model", "Encoding"):
            members = _members(one)
            found |= {key: each for key, each in members.items() if key not in found}
    left_out = STARTS_A_PROGRAM | BASES
    return {name: one for name, one in found.items() if name not in left_out}


def bad(d: Draw) -> Any:
    """A value that hardly any parameter takes."""
    meanwhile = lambda: d.of(d.caches + d.paged + d.memories).clear()  # noqa: E731
    return d.random.choice(
        [None, 1.5, float("nan"), float("inf"), "", "?", "\0", "\ud800", b"x", True, [], (), {},
         10**30, -(10**30), 2**63, object(), int, len, np.float32(3), np.array(3), np.zeros(0),
         np.array([None]), Raises(), Raises(KeyError), RaisesText("halves"), Index(2, meanwhile),
         Index("x", meanwhile), Shrinks([1, 2, 3]), Shrinks([np.zeros((8, 8), "f4")] * 3),
         range(3), iter([1]), 1j, NotImplemented, ..., d.plans, d.tables[0], d.positions[0]]
    )  # fmt: skip


def _array(d: Draw) -> Any:
    shape = d.random.choice(
        [(1, 3, 2, 4)] * 6
        + [(3, 2, 4), (1, 3, 8), (8, 8), (1, 2, 3), (3,), (9, 2), (4, 2), (2,), (3, 2)]
    )
    x = d.array(*shape)
    if isinstance(x, np.ndarray) and x.size < 10**6 and x.dtype.kind in "fiuc" and d.one_in(4):
        return liar(x, d.random)
    return x


def _integers(d: Draw) -> Any:
    x = d.ids(d.random.choice([2, 3]))
    return liar(x, d.random) if isinstance(x, np.ndarray) and x.size < 99 and d.one_in(5) else x


def _many(make: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
    def draw(d: Draw) -> Any:
        made = [make(d) for _ in range(d.random.randrange(4))]
        return d.random.choice([list, tuple, Shrinks] if d.one_in(9) else [list])(made)

    return draw


def _state(d: Draw) -> Any:
    kind = d.random.randrange(4)
    if kind == 0:
        return d.state_of_positions()
    if kind == 1:
        return d.of(d.frequencies).__getstate__()
    if kind == 2:
        return (d.of(d.frequencies), _array(d), _array(d))
    return tuple(bad(d) for _ in range(d.random.randrange(8)))


def _pool(name: str) -> Callable[[Draw], Any]:
    return lambda d: d.of(getattr(d, name))


POOLS = {"Plan": "plans", "RotaryTable": "tables", "Positions": "positions",
         "RotaryFrequencies": "frequencies", "KvCache": "caches", "PagedKvCache": "paged",
         "SegmentMemory": "memories", "Graph": "graphs", "ModelDescription": "models",
         "CompressedKeys": "compressed", "Model": "released"}  # fmt: skip

RULES: dict[str, Callable[[Draw], Any]] = {
    "int": lambda d: d.random.choice(NUMBERS) if d.one_in(6) else d.random.randrange(5),
    "float": Draw.number,
    "bool": lambda d: d.one_in(2),
    "str": lambda d: d.text("alibi", "rotary", "", "shaw", "{}", '{"kind": "rotary"}'),
    "None": lambda d: None,
    "object": lambda d: d.random.choice([None, 3, [0, 1, 2], (), d.positions[0]]),
    "Any": lambda d: d.random.choice([None, 3, (), _array(d), {"model_type": "llama"}]),
    "Array": _array,
    "IntegerArray": _integers,
    "PositionsLike": Draw.tokens,
    "Encoding": Draw.spec,
    "Sequence[Encoding]": lambda d: [d.spec() for _ in range(d.random.randrange(3))],
    "Sequence[Encoding | str]": lambda d: [d.spec() for _ in range(d.random.randrange(3))],
    "Sequence[int]": _many(lambda d: d.random.choice([0, 1, 2, d.integer()])),
    "Sequence[float]": _many(Draw.number),
    "Sequence[Array]": _many(_array),
    "Sequence[Any]": _many(_array),
    "Sequence[str]": _many(lambda d: d.text("alibi")),
    "Mapping[str, Array]": lambda d: {d.text("gates", "sinks"): _array(d)},
    "tuple[Any, ...]": _state,
    "tuple[int, int, list[int], list[int]]": Draw.state_of_positions,
    "tuple[int, ...]": _many(lambda d: d.random.choice([1, 2, d.integer()])),
    "tuple[float, ...]": _many(Draw.number),
    "tuple[AxialPart, ...]": _many(lambda d: gnomon.AxialPart(axis=0, rotary_dim=2)),
    "tuple[GridAxis, ...]": _many(lambda d: gnomon.GridAxis(rows=3, width=4)),
    "Scaling": lambda d: d.random.choice([gnomon.NoScaling(), gnomon.LinearScaling(factor=2.0)]),
    "Sinusoidal": lambda d: gnomon.Sinusoidal(width=8, recipe="interleaved"),
    "SinusoidalGrid": lambda d: gnomon.usual("sinusoidal-grid", width=8, length=16),
} | {name: _pool(pool) for name, pool in POOLS.items()}  # fmt: skip


def _choice(*words: str) -> Callable[[Draw], Any]:
    return lambda d: d.text(*words)


RULES |= {
    name: _choice(*typing.get_args(one))
    for name, one in vars(_typing).items()
    if typing.get_origin(one) is typing.Literal
}


def value(d: Draw, annotation: Any) -> Any:
    """A value for an annotation. Raises KeyError for a type without a rule."""
    text = re.sub(r"ForwardRef\('(.*?)'(, .*?)?\)", r"\1", str(annotation))
    text = re.sub(r"(collections\.abc|gnomon\._core|_core|gnomon\.specs\.\w+)\.", "", text)
    kinds = re.split(r" \| (?![^\[]*\])", text)
    if "None" in kinds and len(kinds) > 1 and d.random.randrange(2):
        return None
    kind = d.random.choice([one for one in kinds if one != "None"])
    if kind.startswith("Literal["):
        return d.text(*re.findall(r"'([^']*)'", kind))
    return RULES[kind](d)


# The tuples of results are made by Python alone.
RESULTS = {"Check", "EncodingInfo", "Parameter", "Layer"}


def draw_call(d: Draw, name: str, one: Signature) -> Callable[[], Any] | None:
    """A call with drawn arguments. None: there is no object of the class yet."""
    first = []
    if one.owner is not None:
        if one.owner is gnomon.Encoding:
            first = [d.random.choice([x for x in d.specs if isinstance(x, gnomon.Encoding)])]
        else:
            pool = getattr(d, POOLS[one.owner.__name__])
            if not pool:
                return None
            first = [d.random.choice(pool)]
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in one.parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is not parameter.empty and d.random.randrange(2):
            continue
        untyped = parameter.annotation is parameter.empty or name in RESULTS
        drawn = (bad(d) if untyped or d.one_in(12) else value(d, parameter.annotation))
        if parameter.kind is parameter.POSITIONAL_ONLY or (
            parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY
        ):
            positional.append(drawn)
        else:
            named[parameter.name] = drawn
    if d.one_in(30):
        positional.append(bad(d))
    if d.one_in(30):
        named["surplus"] = bad(d)
    if d.one_in(30) and positional:
        positional.pop()
    return lambda: one.function(*first, *positional, **named)


def keep(d: Draw, result: Any) -> None:
    pool = POOLS.get(type(result).__name__)
    if pool:
        d.keep(getattr(d, pool), result)
    elif isinstance(result, types.GeneratorType):
        raise AssertionError("a generator")
    else:
        repr(result)
