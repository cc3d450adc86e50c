"""Expected outcomes of the cases that do not agree.

Patterns of the architecture and of the case, and the beginning of the sentence. The first row that
matches a case applies; the others must agree.
"""

from __future__ import annotations

import re
from typing import Any

# llama.cpp refuses the keys or aborts.
NOT_RUN: list[tuple[str, str, str]] = [
]
# Gnomon refuses the file.
REFUSED: list[tuple[str, str, str]] = [
]


def outcome(case: Any) -> tuple[str, str]:
    """Returns the expected outcome of a case, and the beginning of its sentence."""
    for name, rows in (("not run", NOT_RUN), ("refused", REFUSED)):
        for architecture, change, text in rows:
            if re.fullmatch(architecture, case.architecture) and re.fullmatch(change, case.name):
                return name, text
    return "agree", ""
