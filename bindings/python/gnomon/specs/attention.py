"""Specs of weights that are not those of a softmax.

Written by tools/python/write_specs.py from the library; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .._spec import Encoding

__all__ = [
    "StickBreaking",
]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class StickBreaking(Encoding):
    """Stick-breaking attention: each query gives keys parts of a stick, the nearest key first,
    instead of a softmax.

    Source: Tan et al. 2024, arXiv:2410.17980.

    own_key: whether the key at the row of the query counts
    """

    kind = "stick-breaking"
    own_key: Literal["excluded", "included"] = "excluded"
