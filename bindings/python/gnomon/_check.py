"""The properties claimed for position encodings, measured: `gnomon check`."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ._spec import Encoding


class Verdict(NamedTuple):
    """A word, 'yes', 'no', 'most', 'trained', ..., its number as text or '', and a sentence."""

    word: str
    number: str
    sentence: str


class Promise(NamedTuple):
    """A property that the definition of an encoding guarantees, and its measured value."""

    what: str
    value: float
    bound: float
    kept: bool


class Check(NamedTuple):
    """The properties of one encoding.

    encoding: the spec that was measured.
    verdicts: by property: 'unique', 'distance', 'beyond', 'nearer', 'order', 'sides', 'cache'.
    promises: the properties that its definition guarantees.
    numbers: all measured numbers, as `gnomon check --json` prints them.
    """

    encoding: Encoding
    verdicts: dict[str, Verdict]
    promises: list[Promise]
    numbers: dict[str, Any]


def check(*names: str, width: int = 128, heads: int = 4, trained: int = 128,
          length: int = 512) -> list[Check]:
    """Measures the properties claimed for encodings, each at its usual settings.

    names: of `gnomon.encodings()`; none: all of them.
    width, heads: C and H. trained: the training length; positions up to length - 1 are tested.

    Runs the program `gnomon`. Cost: O(length^2 width) for each encoding, about 0.1 s at the
    defaults. A promise that is not kept is a defect of the library: look at `promises`.
    """
    from ._program import run  # imports subprocess

    sizes = {"--width": width, "--heads": heads, "--trained": trained, "--length": length}
    options = [text for name, size in sizes.items() for text in (name, str(size))]
    found = json.loads(run("check", *(names or ("--all",)), "--json", *options, statuses=(0, 1)))
    return [Check(Encoding.from_json(json.dumps(one["specification"])),
                  {name: Verdict(**verdict) for name, verdict in one["verdicts"].items()},
                  [Promise(**promise) for promise in one["promises"]],
                  {name: value for name, value in one.items()
                   if name not in ("kind", "specification", "verdicts", "promises")})
            for one in found["encodings"]]
