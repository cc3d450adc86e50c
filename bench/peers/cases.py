"""The timed cases. One Case is one operation with its sizes, the same for every contender.

Letters: T tokens, H heads, D head dimension, C width.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

QUERY_HEADS, KEY_HEADS = 32, 8
ATTENTION_HEADS = 8
BASE = 10000.0


@dataclass(frozen=True)
class Case:
    # rotate, rotate_backward, rotary_table, sinusoidal_table, add_table, attention (ALiBi) or
    # attention_training (T5, forward and backward; both causal)
    work: str
    tokens: int
    dtype: str = "f32"  # f32, f16 or bf16
    pairing: str = "halves"  # halves or adjacent
    size: int = 128  # D; C of a table
    layout: str = "THD"  # order in memory: THD or HTD
    start: int = 0  # the first position
    batch: int = 1  # of add_table only

    @property
    def key(self) -> str:
        name = f"{self.work}/{self.tokens}x{self.size}/{self.dtype}"
        if self.rotates:
            name += f"/{self.pairing}/{self.layout}"
        return name + (f"/from {self.start}" if self.start else "")

    @property
    def rotates(self) -> bool:
        return self.work.startswith("rotate")

    @property
    def attends(self) -> bool:
        return self.work.startswith("attention")

    @property
    def trains(self) -> bool:
        return self.work == "attention_training"

    @property
    def operations(self) -> float:
        """Operations of attention: two for each multiply-add of the visible pairs, with two
        products forward, five backward."""
        pairs = self.tokens * (self.tokens + 1) / 2
        products = 7 if self.trains else 2
        return 2.0 * products * ATTENTION_HEADS * pairs * self.size

    @property
    def elements(self) -> int:
        """Elements that are read and written; for a table, elements that are written."""
        if self.attends:
            arrays = 7 if self.trains else 4
            return arrays * self.tokens * ATTENTION_HEADS * self.size
        if self.rotates:
            return self.tokens * (QUERY_HEADS + KEY_HEADS) * self.size
        return self.batch * self.tokens * self.size

    @property
    def bytes(self) -> int:
        return self.elements * (4 if self.dtype == "f32" else 2)

    def as_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self)


def rotations() -> Iterator[Case]:
    for dtype in ("f32", "bf16", "f16"):
        for tokens in (1, 16, 512, 4096):
            yield Case("rotate", tokens, dtype)
    for dtype in ("f32", "bf16", "f16"):
        for tokens in (1, 512, 4096):
            yield Case("rotate", tokens, dtype, "adjacent")
    for size in (64, 80, 96, 256):
        yield Case("rotate", 4096, "f32", size=size)
    yield Case("rotate", 4096, "bf16", size=80)
    for dtype in ("f32", "bf16"):
        yield Case("rotate", 4096, dtype, layout="HTD")
    yield Case("rotate", 4096, "f32", "adjacent", layout="HTD")
    for pairing in ("halves", "adjacent"):
        for dtype in ("f32", "bf16"):
            yield Case("rotate_backward", 4096, dtype, pairing)


def long_rotations() -> Iterator[Case]:
    """Cases for contenders that are fast enough at 4096 tokens: 0.7 GB of f32 for each array."""
    for dtype in ("f32", "bf16"):
        yield Case("rotate", 32768, dtype)


def tables() -> Iterator[Case]:
    yield Case("rotary_table", 131072)
    yield Case("sinusoidal_table", 131072)
    yield Case("add_table", 2048, size=1024, batch=8)


def attentions() -> Iterator[Case]:
    for tokens in (1024, 4096, 8192):
        yield Case("attention", tokens, size=64)
    for tokens in (1024, 4096):
        yield Case("attention_training", tokens, size=64)


def far_cases() -> Iterator[Case]:
    """Errors at large positions, of contenders that compute cos and sin. Not timed."""
    for pairing in ("halves", "adjacent"):
        yield Case("rotate", 512, "f32", pairing, start=100000)


def quick() -> Iterator[Case]:
    for dtype in ("f32", "bf16", "f16"):
        for tokens in (1, 512, 4096):
            yield Case("rotate", tokens, dtype)
    yield Case("rotate", 4096, "f32", "adjacent")
    yield Case("rotate", 4096, "f32", layout="HTD")
    yield Case("rotate", 4096, "f32", size=80)
    yield Case("rotate_backward", 4096, "f32")
    yield from tables()
    yield Case("attention", 4096, size=64)
    yield Case("attention_training", 1024, size=64)
