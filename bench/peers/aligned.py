"""Arrays that begin at a cache line, as those of frameworks do.

Large arrays of NumPy begin 16 bytes after one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE = 64  # bytes


def zeros(shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.zeros(size + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + size].view(dtype).reshape(shape)


def zeros_like(array: NDArray) -> NDArray:
    return zeros(array.shape, array.dtype)


def copied(array: NDArray) -> NDArray:
    out = zeros_like(array)
    np.copyto(out, array)
    return out
