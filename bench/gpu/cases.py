"""The timed cases and the targets of the project. No case needs PyTorch to be named.

Letters: T tokens, H heads, D head dimension, R rotary dimension, C width, N rows of a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

QUERY_HEADS, KEY_HEADS, HEAD_DIM = 32, 8, 128
BASE = 500000.0
TABLE_TOKENS = 131072
BLOCK = 16  # entries of a block of a paged cache
PREFILL = 32768
GROUPS = {
    "rotate": "Rotation of q and k",
    "append": "Rotation into a paged cache",
    "table": "Tables of cos and sin",
    "embedding": "Tables of embeddings",
    "bias": "Gradient of a trained bias",
}


@dataclass(frozen=True)
class Case:
    group: str  # a key of GROUPS
    work: str  # rotate, positions, slice; prefill, decode; fill; add, gather, scatter; t5
    tokens: int
    dtype: str = "bf16"  # f32, f16, bf16; of the cache: f8
    pairing: str = "halves"
    requires: str = "rotate"  # the function of gnomon._cuda

    @property
    def key(self) -> str:
        return f"{self.group}/{self.work}/{self.tokens}/{self.dtype}/{self.pairing}"

    @property
    def graph(self) -> bool:
        """Whether calls are captured into a CUDA graph, which hides the time of the host."""
        return self.group in ("rotate", "append") and self.tokens <= 1024

    @property
    def title(self) -> str:
        count = "1 token" if self.tokens == 1 else f"{self.tokens} tokens"
        if self.group == "rotate":
            kind = {"rotate": "", "positions": ", by positions",
                    "slice": ", 64 of 192 elements of q"}[self.work]
            return f"rotation, {count}, {self.dtype}, {self.pairing}{kind}"
        if self.group == "append":
            number = count if self.work == "prefill" else f"batch {self.tokens}"
            return f"{self.work}, {number}, cache of {self.dtype}"
        if self.group == "table":
            return f"cos and sin of {self.tokens} positions"
        if self.group == "embedding":
            kind = {"add": "addition of rows", "gather": "gather of rows",
                    "scatter": "scatter-add of gradients"}[self.work]
            return f"{kind}, {count}, {self.dtype}"
        return f"T5 bias, backward, {count}, {self.dtype}"


def rotations() -> Iterator[Case]:
    for tokens in (1, 64, 1024, 8192, 32768):
        yield Case("rotate", "rotate", tokens)
    for tokens in (1, 32768):
        yield Case("rotate", "rotate", tokens, pairing="adjacent")
        yield Case("rotate", "positions", tokens, requires="rotate_at")
        yield Case("rotate", "slice", tokens, pairing="adjacent")
        yield Case("rotate", "rotate", tokens, "f16")
        yield Case("rotate", "rotate", tokens, "f32")


def appends() -> Iterator[Case]:
    for dtype in ("bf16", "f8"):
        yield Case("append", "prefill", PREFILL, dtype, requires="rotate_append")
        for batch in (1, 64, 256):
            yield Case("append", "decode", batch, dtype, requires="rotate_append")


def others() -> Iterator[Case]:
    yield Case("table", "fill", TABLE_TOKENS, "f32", requires="fill_cos_sin")
    yield Case("embedding", "add", 32768, requires="add_table")
    yield Case("embedding", "gather", 32768, requires="gather_rows")
    yield Case("embedding", "scatter", 32768, requires="add_table_backward")
    yield Case("bias", "t5", 4096, requires="bias_gradient")


def all_cases() -> list[Case]:
    return [*rotations(), *appends(), *others()]


@dataclass(frozen=True)
class Target:
    """A number that the project promises for an NVIDIA H200.

    kind "share": at least `limit` of the roof. "seconds": at most `limit`, judged on an H200
    only. "over empty": at most `limit` seconds more than a launch of an empty kernel. "ratio":
    at most `limit` times the time of the baseline.
    """

    case: Case
    kind: str
    limit: float


def targets() -> list[Target]:
    long = Case("rotate", "rotate", 32768)
    found = [Target(long, "share", 0.93), Target(long, "seconds", 172e-6),
             Target(Case("rotate", "rotate", 1), "over empty", 0.5e-6)]
    for case in appends():
        if case.work == "prefill":
            found.append(Target(case, "share", 0.75))
        else:
            found.append(Target(case, "seconds", 9e-6))
    for case in others():
        if case.group == "table":
            found.append(Target(case, "share", 0.8))
        elif case.group == "embedding":
            found.append(Target(case, "share", 0.9))
        else:
            found.append(Target(case, "ratio", 1.4))
    return found
