"""Types of the arguments of the extension module, for type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, Union


Angles: TypeAlias = Literal["exact", "float32"]
Direction: TypeAlias = Literal["forward", "inverse"]
Layout: TypeAlias = Literal["tokens_heads", "heads_tokens"]
Pairing: TypeAlias = Literal["halves", "adjacent"]
Visibility: TypeAlias = Literal["causal", "bidirectional"]
YarnFactor: TypeAlias = Literal["as-written", "by-lengths"]


class Array(Protocol):
    """An array that supports DLPack: NumPy, PyTorch, JAX, CuPy."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __dlpack_device__(self) -> Any: ...


#: Integers [T] or [B, T].
IntegerArray: TypeAlias = Union[Array, Sequence[int]]


class Encoding(Protocol):
    """A spec, gnomon.Encoding: the extension module reads its JSON."""

    def to_json(self) -> str: ...
