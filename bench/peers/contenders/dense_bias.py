"""Common functions in numpy of contenders that take ALiBi as a matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import attention
from cases import Case


def alibi(case: Case) -> np.ndarray:
    """[1, H, T, T] f32, with minus infinity for keys after the query."""
    ids = np.arange(case.tokens, dtype=np.float32)
    back = ids[:, None] - ids[None, :]
    back[back < 0] = np.inf
    bias = np.empty((1, attention.HEADS, case.tokens, case.tokens), np.float32)
    for head, slope in enumerate(attention.slopes()):
        np.multiply(back, np.float32(-slope), out=bias[0, head])
    return bias


def heads_first(array: np.ndarray) -> np.ndarray:
    """[1, H, T, D], contiguous."""
    return np.ascontiguousarray(array.swapaxes(1, 2))


def refuse_beyond_memory(case: Case, matrices: float) -> None:
    """Raises if `matrices` matrices [H, T, T] take more than 12 GB."""
    wanted = attention.gigabytes(case, matrices)
    free = Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]
    if wanted > min(12.0, float(free) * 1.024e-6 - 1):
        raise MemoryError(f"requires {wanted:.0f} GB of free memory")
