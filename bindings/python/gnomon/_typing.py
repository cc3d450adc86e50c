"""Types of arguments, for type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, Union

from ._core import Positions


class Array(Protocol):
    """An array that supports DLPack: NumPy, PyTorch, JAX, CuPy."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __dlpack_device__(self) -> Any: ...


#: Integers [T] or [B, T].
IntegerArray: TypeAlias = Union[Array, Sequence[int]]
#: A number T of tokens (positions 0 to T - 1), integers [T] or [B, T], or Positions; where several
#: position axes are allowed, also a tuple of them.
PositionsLike: TypeAlias = Union[int, Array, Sequence[int], Positions, "tuple[PositionsLike, ...]"]
