"""The replaced parts of a model, and what restores them."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from . import rotary

_ABSENT = "absent"  # a copy of a model keeps its identity


class Replaced(nn.Module):
    """Mixed into the classes of replaced modules, which can be copied but not pickled."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        new = memo[id(self)] = type(self).__new__(type(self))
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return new

    def __reduce_ex__(self, protocol: Any) -> Any:
        refuse_pickle()


def refuse_pickle() -> None:
    raise ValueError("[patch] the model must not be patched when it is pickled: call "
                     "gnomon.torch.unpatch first, and patch after loading")


class Change:
    """The replaced parts of a model.

    replaced: name and change of each part. left: name of each part that stays as it is, and why.
    """

    def __init__(self) -> None:
        self.replaced: list[tuple[str, str]] = []
        self.left: list[tuple[str, str]] = []
        self._before: list[tuple[Any, ...]] = []  # plain values, so that a copy undoes its own

    def set(self, target: Any, name: str, value: Any) -> None:
        """Sets an attribute of an object."""
        self._before.append((target, name, vars(target).get(name, _ABSENT)))
        object.__setattr__(target, name, value)

    def set_class(self, name: str, module: nn.Module, cls: type, **attributes: Any) -> None:
        """Changes the class of a module to a subclass."""
        self.replaced.append((name, f"{type(module).__name__} -> {cls.__name__}"))
        for key, value in attributes.items():
            self.set(module, key, value)
        self._before.append((module, "__class__", type(module)))
        module.__class__ = cls

    def install(self, file: str, name: str) -> None:
        """Replaces a function of a file of transformers."""
        rotary.install(file, name)
        self._before.append((file, name, None))
        if (file, f"{name} -> rotation by exact tables") not in self.replaced:
            self.replaced.append((file, f"{name} -> rotation by exact tables"))

    def undo(self) -> None:
        while self._before:
            target, name, before = self._before.pop()
            if isinstance(target, str):
                rotary.uninstall(target, name)
            elif before is _ABSENT:
                object.__delattr__(target, name)
            else:
                object.__setattr__(target, name, before)

    def __reduce_ex__(self, protocol: Any) -> Any:
        refuse_pickle()

    def __deepcopy__(self, memo: dict[int, Any]) -> Change:
        new = memo[id(self)] = Change()
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return new
