"""Errors of calls whose arguments do not fit the signature of a function of gnomon._core."""

from __future__ import annotations

import inspect
import operator
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _core, _typing


def check(owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises TypeError with one sentence unless the arguments fit the signature.

    owner: the module gnomon._core, or the class of a method, whose args are without `self`.
    """
    text, _, defaults = getattr(owner, name).__nb_signature__[0]
    title = name
    if not isinstance(owner, types.ModuleType):
        title = owner.__name__ + ("" if name == "__init__" else f".{name}")
    text = re.sub(r"\\(\d+)", lambda found: repr(defaults[int(found[1])]), text)
    made: dict[str, Any] = {}
    exec(f"from __future__ import annotations\n{text}: ...", made)
    all_of = inspect.signature(made[name]).parameters
    signature = inspect.Signature([one for one in all_of.values() if one.name != "self"])
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        plain = [one.replace(annotation=inspect.Parameter.empty)
                 for one in signature.parameters.values()]
        raise TypeError(f"[{title}] {error}; the call is "
                        f"{title}{inspect.Signature(plain)}") from None
    for name, value in given.items():
        kinds = re.split(r" \| (?![^\[]*\])",
                         re.sub(r"(collections\.abc|gnomon\._core)\.", "",
                                all_of[name].annotation))
        if value is None and ("None" in kinds or kinds == ["object"]):
            continue
        rules = [_RULES[kind] for kind in kinds if kind != "None"]
        if value is None or not any(fits(value) for _, fits in rules):
            words = " or ".join(words for words, _ in rules)
            raise TypeError(f"[{title}] {name} must be {words}, got {type(value).__name__}"
                            + (f" {value}" if isinstance(value, (int, float)) else ""))


def _is_integer(value: Any) -> bool:
    try:
        return -(2**63) <= operator.index(value) < 2**63
    except TypeError:
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or hasattr(value, "__float__")


def _each(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def all_fit(value: Any) -> bool:
        is_sequence = isinstance(value, Sequence) or hasattr(value, "__getitem__")
        return is_sequence and not isinstance(value, (str, dict)) and all(map(fits, value))

    return all_fit


def _any(value: Any) -> bool:
    return True


# The words of each type of the signatures, and its test. The extension module itself refuses
# objects that are no arrays, specs or positions.
_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a string", lambda value: isinstance(value, str)),
    "int": ("an integer of 64 bits", _is_integer),
    "float": ("a number", _is_number),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "Sequence[int]": ("a sequence of integers of 64 bits", _each(_is_integer)),
    "Sequence[float]": ("a sequence of numbers", _each(_is_number)),
    "Sequence[Array]": ("a sequence of arrays", _any),
    "Mapping[str, Array]": ("a mapping of names to arrays",
                            lambda value: isinstance(value, Mapping)),
    "Array": ("an array that supports DLPack (NumPy, PyTorch, JAX, CuPy)", _any),
    "IntegerArray": ("integers, [T] or [B, T]", _any),
    "PositionsLike": ("a number of tokens, integers [T] or [B, T], or gnomon.Positions", _any),
    "Encoding": ("a spec, as gnomon.Rotary(...)", _any),
    "Sequence[Encoding]": ("several specs", _any),
    "Sequence[Encoding | str]": ("several specs", _any),
    "object": ("given", _any),
} | {name: ("a string, one of " + ", ".join(typing.get_args(one)), lambda x: isinstance(x, str))
     for name, one in vars(_typing).items() if typing.get_origin(one) is typing.Literal
} | {one.__name__: (f"a gnomon.{one.__name__}", lambda value, one=one: isinstance(value, one))
     for one in vars(_core).values() if isinstance(one, type)}
