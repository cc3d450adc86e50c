"""The input arrays of all contenders, and the oracle for their results.

numpy has no bfloat16. Such arrays contain the 16 bits of each element.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import aligned
import attention
import plain_attention
from cases import BASE, KEY_HEADS, QUERY_HEADS, Case

Floats = NDArray[np.float32]


def to_storage(values: Floats, dtype: str) -> NDArray:
    """Rounds to nearest, ties to even."""
    if dtype == "f32":
        return values
    if dtype == "e4m3":
        return to_e4m3(values)
    if dtype == "f16":
        return values.astype(np.float16)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_storage(stored: NDArray, dtype: str) -> Floats:
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if dtype == "e4m3":
        values = E4M3[stored & 0x7F]
        return np.where(stored & 0x80, -values, values)
    return stored.astype(np.float32)


def e4m3_magnitudes() -> Floats:
    """The magnitudes of the bytes 0 to 126 of float8_e4m3fn. 127 is NaN."""
    exponents, fractions = np.divmod(np.arange(127), 8)
    normal = np.ldexp(1 + fractions / 8, exponents - 7)
    return np.where(exponents == 0, np.ldexp(fractions / 8, -6), normal).astype(np.float32)


E4M3 = np.append(e4m3_magnitudes(), np.float32(np.nan))


def to_e4m3(values: Floats) -> NDArray[np.uint8]:
    """Rounds to nearest, of magnitudes up to 448. A tie, which random values do not have, goes
    away from 0."""
    bounds = (E4M3[:126] + E4M3[1:127]) / 2
    bits = np.searchsorted(bounds, np.abs(values), side="right").astype(np.uint8)
    return bits | np.signbit(values).astype(np.uint8) << 7


def sample_tokens(tokens: int) -> list[int]:
    """The tokens whose results are checked: the first, the last and five others."""
    return sorted({t % tokens for t in (0, 1, 13, tokens // 3, tokens // 2, -2, -1)})


@dataclass
class Inputs:
    case: Case
    stored: list[NDArray]  # q, k, v [1, T, H, D], or [1, H, T, D]; or x [B, T, C]
    table: Floats | None = None  # of add_table; of T5
    exact: list[NDArray[np.float64]] | None = None  # of the checked tokens

    @staticmethod
    def make(case: Case) -> Inputs:
        random = np.random.default_rng(5)

        def uniform(*shape: int, limit: float = 1, dtype: str = case.dtype) -> NDArray:
            values = random.random(shape, np.float32)
            values *= 2
            values -= 1
            values *= limit
            return aligned.copied(to_storage(values, dtype))

        if case.rotates:
            t, d = case.tokens, case.size
            shape = (
                (lambda h: (1, t, h, d)) if case.layout == "THD" else (lambda h: (1, h, t, d))
            )
            return Inputs(case, [uniform(*shape(h)) for h in (QUERY_HEADS, KEY_HEADS)])
        if case.plain:
            return Inputs(case, plain_attention.make(case, uniform))
        if case.attends:
            return Inputs(case, *attention.make(case, uniform))
        if case.work == "add_table":
            x = uniform(case.batch, case.tokens, case.size)
            return Inputs(case, [x], uniform(case.tokens, case.size))
        return Inputs(case, [])

    @property
    def checksum(self) -> int:
        return sum(crc32(array.reshape(-1)[:65536].tobytes()) for array in self.stored)

    def restore(self, arrays: list[NDArray]) -> None:
        """Copies the inputs to arrays that a call has overwritten."""
        for array, stored in zip(arrays, self.stored, strict=True):
            np.copyto(array, stored)

    def tokens_of(self, array: NDArray, rows: list[int]) -> NDArray:
        """The rows of these tokens, as [rows, H, D]."""
        if self.case.layout == "HTD" and self.case.rotates:
            return array[0][:, rows].swapaxes(0, 1)
        return array[0][rows]


def angles(case: Case, rows: list[int]) -> NDArray[np.longdouble]:
    """Position x frequency, [rows, D/2], in extended precision."""
    pairs = np.arange(case.size // 2, dtype=np.longdouble)
    frequencies = np.power(np.longdouble(BASE), -2 * pairs / case.size)
    return (np.array(rows, np.longdouble) + case.start)[:, None] * frequencies


def cos_sin(case: Case, rows: list[int]) -> tuple[NDArray, NDArray]:
    turns = angles(case, rows)
    return np.cos(turns).astype(np.float64), np.sin(turns).astype(np.float64)


def table_of(case: Case) -> tuple[Floats, Floats]:
    """Exact cos and sin, [T, D/2], for contenders that accept a table."""
    cosines, sines = cos_sin(case, list(range(case.tokens)))
    return cosines.astype(np.float32), sines.astype(np.float32)


def rotated(case: Case, x: NDArray, rows: list[int]) -> NDArray[np.float64]:
    """x: [rows, H, D] in double. Rotated forward, or inversely for the gradient."""
    cosines, sines = (part[:, None, :] for part in cos_sin(case, rows))
    if case.work == "rotate_backward":
        sines = -sines
    out = np.empty_like(x)
    half = case.size // 2
    first, second = (
        (np.s_[..., :half], np.s_[..., half:])
        if case.pairing == "halves"
        else (np.s_[..., 0::2], np.s_[..., 1::2])
    )
    out[first] = x[first] * cosines - x[second] * sines
    out[second] = x[first] * sines + x[second] * cosines
    return out


def expected(inputs: Inputs, rows: list[int]) -> list[NDArray[np.float64]]:
    """The exact results for these tokens."""
    case = inputs.case
    if case.plain:
        return [plain_attention.expected(case, inputs.stored, rows, from_storage)]
    if case.attends:
        return attention.expected(case, inputs.stored, inputs.table, rows)
    if case.rotates:
        parts = [inputs.tokens_of(stored, rows) for stored in inputs.stored]
        return [
            rotated(case, from_storage(part, case.dtype).astype(np.float64), rows)
            for part in parts
        ]
    if case.work == "add_table":
        assert inputs.table is not None
        return [inputs.stored[0][0][rows].astype(np.float64) + inputs.table[rows]]
    cosines, sines = cos_sin(case, rows)
    if case.work == "rotary_table":
        return [cosines, sines]
    out = np.empty((len(rows), case.size))
    out[:, 0::2], out[:, 1::2] = sines, cosines
    return [out]


def worst_error(inputs: Inputs, rows: list[int], results: list[NDArray]) -> float:
    if inputs.exact is None:
        inputs.exact = expected(inputs, rows)
    exact = inputs.exact
    assert len(exact) == len(results), "a result is missing"
    worst = 0.0
    for right, result in zip(exact, results, strict=True):
        assert right.shape == result.shape, f"{result.shape} instead of {right.shape}"
        worst = max(worst, float(np.max(np.abs(right - result.astype(np.float64)))))
    return worst


def allowed_error(inputs: Inputs) -> float:
    """The largest error of a result that counts as right. Must follow worst_error."""
    if not inputs.case.plain:
        # 2^-7: an ulp of bfloat16 near 1. Textbook tables are off by 1e-2 at large positions.
        return 0.1
    assert inputs.exact is not None
    greatest = float(max(np.max(np.abs(part)) for part in inputs.exact))
    return plain_attention.tolerance(inputs.case) * greatest
