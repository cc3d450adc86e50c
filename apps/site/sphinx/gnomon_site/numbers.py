"""Numbers in prose: `46.8<!-- swap-words.product -->` gets the value of numbers.json."""

from __future__ import annotations

import json
import re
from pathlib import Path

MARKER = re.compile(
    r"(?P<number>[-−+]?\d[\d.,/]*(?:e[-+−]?\d+)?%?)?"
    r"<!--\s*(?P<key>[\w-]+\.[\w.-]+)\s*-->"
)


class Numbers:
    """values: None if they were not computed: the pages keep the numbers that they have."""

    def __init__(self, values: dict[str, str] | None) -> None:
        self.values = values

    @staticmethod
    def read(path: Path | None) -> Numbers:
        return Numbers(json.loads(path.read_text(encoding="utf-8")) if path else None)

    def insert(self, page: str, text: str) -> str:
        def one(match: re.Match[str]) -> str:
            line = text.count("\n", 0, match.start()) + 1
            if not match["number"]:
                raise ValueError(f"{page}:{line}: no number before {match[0]}")
            if self.values is None:
                return match["number"]
            if match["key"] not in self.values:
                raise ValueError(f"{page}:{line}: no figure gives the number {match['key']}")
            return self.values[match["key"]]

        return MARKER.sub(one, text)
