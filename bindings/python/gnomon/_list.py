"""The list of encodings by name."""

from __future__ import annotations

import functools
import json
from typing import Any, NamedTuple

from . import _core


class EncodingInfo(NamedTuple):
    """An entry of the list of encodings: a named setting of a spec."""

    name: str
    title: str
    enters: str
    sharing: str
    causal: bool  # defined for causal attention only
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


def entry_of(spec: str) -> EncodingInfo:
    """Returns the entry of the list of encodings that is nearest to a spec, given as JSON.

    Several entries can have one type: Kerple is 'kerple' or 'kerple-power', by its kernel. The
    nearest entry is that whose usual settings differ from the spec in the fewest fields.
    """
    fields = json.loads(spec)

    def differences(entry: tuple[EncodingInfo, dict[str, Any]]) -> int:
        return sum(entry[1].get(name) != fields.get(name) for name in entry[1] | fields)

    return min((one for one in _usual_fields() if one[1]["kind"] == fields["kind"]),
               key=differences)[0]


@functools.cache
def _usual_fields() -> list[tuple[EncodingInfo, dict[str, Any]]]:
    return [(one, json.loads(_core.usual(one.name, 64, 4, 16, "causal"))) for one in encodings()]
