"""Types of the arguments of the extension module, for type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, Union


CacheType: TypeAlias = Literal["float32", "float16", "bfloat16"]
PagedCacheType: TypeAlias = Literal["float32", "float16", "bfloat16", "int8", "float8_e4m3fn"]
MemoryType: TypeAlias = Literal["float32", "float16", "bfloat16", "float64"]
DegreeBeyond: TypeAlias = Literal["capped", "refused"]
EdgeKind: TypeAlias = Literal["undirected", "directed"]
LaplacianKind: TypeAlias = Literal["combinatorial", "symmetric"]
LaplacianSigns: TypeAlias = Literal["fixed", "random", "absolute"]
LaplacianZeros: TypeAlias = Literal["skip_one", "skip_all"]
Resize: TypeAlias = Literal["vit", "deit", "clip", "dinov2", "glm4v", "dinov2-original",
                            "dinov2-registers", "siglip2", "qwen3-vl", "linear"]
ResizeCorners: TypeAlias = Literal["half-pixel", "aligned"]
ResizeKernel: TypeAlias = Literal["linear", "cubic"]
Switch: TypeAlias = Literal["off", "on"]
Angles: TypeAlias = Literal["exact", "float32"]
Direction: TypeAlias = Literal["forward", "inverse"]
Layout: TypeAlias = Literal["tokens_heads", "heads_tokens"]
Pairing: TypeAlias = Literal["halves", "adjacent"]
TapOrder: TypeAlias = Literal["oldest_first", "newest_first"]
Visibility: TypeAlias = Literal["causal", "bidirectional"]
YarnFactor: TypeAlias = Literal["as-written", "by-lengths"]


class Array(Protocol):
    """An array that supports DLPack: NumPy, PyTorch, JAX, CuPy."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __dlpack_device__(self) -> Any: ...


#: Integers [T] or [B, T].
IntegerArray: TypeAlias = Union[Array, Sequence[int]]


class Segment(NamedTuple):
    """The keys and values that the queries of a segment attend to (gnomon.SegmentMemory).

    keys, values: read-only views [B, offset + T, Hk, D or Dv], valid until the next call.
    offset: rows of memory before the segment. first: position of row 0 in the text.
    """

    keys: Any
    values: Any
    offset: int
    first: int


class LaplacianVectors(NamedTuple):
    """Eigenvectors of a graph (gnomon.Graph.laplacian_vectors).

    eigenvalues: float64 [K], ascending. vectors: float64 [N, K]. Columns after `found` are zero.
    """

    eigenvalues: Any
    vectors: Any
    found: int


class Encoding(Protocol):
    """A spec, gnomon.Encoding: the extension module reads its JSON."""

    def to_json(self) -> str: ...
