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
    # rotate, rotate_backward, rotary_table, sinusoidal_table, add_table, attention (ALiBi),
    # attention_training (T5, forward and backward), attention_prompt or attention_decode (both
    # without a bias; all causal)
    work: str
    tokens: int  # of attention_decode: in the cache
    dtype: str = "f32"  # f32, f16 or bf16
    pairing: str = "halves"  # halves or adjacent
    size: int = 128  # D; C of a table
    layout: str = "THD"  # order in memory: THD or HTD
    start: int = 0  # the first position
    batch: int = 1  # of add_table and attention_prompt
    # Of attention_decode:
    queries: int = 0  # the last of the tokens
    cache: str = ""  # int8 or e4m3; "": the type of q
    page: int = 0  # tokens; 0: contiguous

    @property
    def key(self) -> str:
        name = f"{self.work}/{self.tokens}x{self.size}/{self.dtype}"
        if self.rotates:
            name += f"/{self.pairing}/{self.layout}"
        if self.plain:
            name += f"/batch {self.batch}" if self.batch > 1 else ""
            name += f"/queries {self.queries}" if self.queries else ""
            name += f"/{self.cache}" if self.cache else ""
            name += f"/page {self.page}" if self.page else ""
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
    def plain(self) -> bool:
        """Attention without a bias."""
        return self.work in ("attention_prompt", "attention_decode")

    @property
    def heads(self) -> tuple[int, int]:
        """The heads of q and of k in attention."""
        decodes = self.work == "attention_decode"
        return (QUERY_HEADS, KEY_HEADS) if decodes else (ATTENTION_HEADS, ATTENTION_HEADS)

    @property
    def results(self) -> int:
        """Rows of the result."""
        return self.queries or (self.batch * self.tokens if self.plain else self.tokens)

    @property
    def operations(self) -> float:
        """Operations of attention: two for each multiply-add of the visible pairs, with two
        products forward, five backward."""
        pairs = self.tokens * (self.tokens + 1) / 2
        products = 7 if self.trains else 2
        return 2.0 * products * self.batch * ATTENTION_HEADS * pairs * self.size

    @property
    def elements(self) -> int:
        """Elements that are read and written; for a table, elements that are written."""
        if self.attends:
            arrays = 7 if self.trains else 4
            return arrays * self.batch * self.tokens * ATTENTION_HEADS * self.size
        if self.rotates:
            return self.tokens * (QUERY_HEADS + KEY_HEADS) * self.size
        return self.batch * self.tokens * self.size

    @property
    def cache_bytes(self) -> int:
        """Keys and values of attention_decode, with the scales of int8 for each row of a head."""
        of_element = 1 if self.cache else 4 if self.dtype == "f32" else 2
        of_scale = 4 if self.cache == "int8" else 0
        return 2 * self.tokens * KEY_HEADS * (self.size * of_element + of_scale)

    @property
    def bytes(self) -> int:
        if self.work == "attention_decode":
            return self.cache_bytes
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


def prompts() -> Iterator[Case]:
    for dtype in ("f32", "bf16", "f16"):
        for tokens, size in ((2048, 64), (4096, 128)):
            yield Case("attention_prompt", tokens, dtype, size=size)


def short_prompts() -> Iterator[Case]:
    for dtype in ("f32", "bf16"):
        for batch, tokens in ((64, 128), (1024, 32)):
            yield Case("attention_prompt", tokens, dtype, size=64, batch=batch)


def decoding() -> Iterator[Case]:
    for dtype in ("f32", "bf16", "f16"):
        for queries in (1, 4, 16):
            yield Case("attention_decode", 32768, dtype, queries=queries)


def compact_caches() -> Iterator[Case]:
    for dtype, cache in (("f32", "int8"), ("bf16", "e4m3")):
        for queries in (1, 4, 16):
            yield Case("attention_decode", 32768, dtype, queries=queries, cache=cache)


def paged_caches() -> Iterator[Case]:
    for dtype in ("f32", "bf16"):
        for queries in (1, 16):
            yield Case("attention_decode", 32768, dtype, queries=queries, page=16)


def short_caches() -> Iterator[Case]:
    """So little work that the cost of the call is visible."""
    for dtype in ("f32", "bf16"):
        yield Case("attention_decode", 512, dtype, queries=1)


def plain_attentions() -> Iterator[Case]:
    for listed in (
        prompts,
        short_prompts,
        decoding,
        compact_caches,
        paged_caches,
        short_caches,
    ):
        yield from listed()


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
    for dtype in ("f32", "bf16", "f16"):
        yield Case("attention_prompt", 2048, dtype, size=64)
        yield Case("attention_decode", 32768, dtype, queries=1)
    yield Case("attention_prompt", 32, "bf16", size=64, batch=1024)
    yield Case("attention_decode", 32768, "bf16", queries=16)
    for case in (*compact_caches(), *paged_caches(), *short_caches()):
        if case.queries == 1:
            yield case
