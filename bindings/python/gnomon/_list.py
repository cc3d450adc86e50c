"""The list of encodings by name."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

from . import _core
from ._spec import Encoding


class EncodingInfo(NamedTuple):
    """An entry of the list of encodings: a named setting of a spec."""

    name: str
    title: str
    enters: str
    sharing: str
    summary: str
    source: str
    page: str


def encodings() -> list[EncodingInfo]:
    """Returns the list of encodings, in the order of `gnomon list`."""
    return [EncodingInfo(**one) for one in _core.encodings()]


def find_encoding(name: str) -> EncodingInfo:
    """Returns the encoding with a name, a title or a common synonym: 'rotary', 'RoPE', 'T5 bias'.

    Raises ValueError with the nearest names if there is none.
    """
    return EncodingInfo(**_core.find_encoding(name))


def usual(name: str, *, width: int, heads: int, length: int, reads: str = "causal") -> Encoding:
    """Returns an encoding at its usual settings for a Transformer of these sizes.

    width: C, the width of the embeddings; the head dimension is width / heads.
    length: the training length in tokens.
    reads: 'causal' or 'bidirectional'; a bias by distance then also has values for later keys.
    """
    return Encoding.from_json(_core.usual(name, width, heads, length, reads))


def entry_of(encoding: Encoding) -> EncodingInfo:
    """The entry of the list of encodings that is nearest to a spec.

    Several entries can have one type: Kerple is 'kerple' or 'kerple-power', by its kernel. It is
    the entry whose usual settings have the most fields in common with the spec.
    """
    names = [field.name for field in dataclasses.fields(encoding)]  # type: ignore[arg-type]

    def common(entry: tuple[EncodingInfo, Encoding]) -> int:
        return sum(getattr(entry[1], name) == getattr(encoding, name) for name in names)

    return max((one for one in _entries() if type(one[1]) is type(encoding)), key=common)[0]


@functools.cache
def _entries() -> list[tuple[EncodingInfo, Encoding]]:
    return [(one, usual(one.name, width=64, heads=4, length=16)) for one in encodings()]
