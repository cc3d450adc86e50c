"""Numbers and tables of the page. bench/gpu has a link to this file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable


def seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= 0.9995 * scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.0f} ns"


def times(ratio: float) -> str:
    return f"{ratio:.2f}×" if ratio < 9.95 else f"{ratio:.0f}×"


def power(error: float | None, decimals: int = 0) -> str:
    if error is None:
        return ""
    if error == 0:
        return "0"
    digits, exponent = f"{error:.{decimals}e}".split("e")
    return f"{digits}e{int(exponent)}"


def table(head: list[str], body: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in body]
    return "\n".join(lines) + "\n"


def bullet(text: str) -> str:
    return textwrap.fill(text, 98, initial_indent="- ", subsequent_indent="  ")
