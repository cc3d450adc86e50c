"""Objects that lie: DLPack capsules with false contents, and methods that raise or change things.

A capsule is made with ctypes. Its pointers are true or null: no reader can tell a false one.
"""

from __future__ import annotations

import collections
import ctypes
import random
from typing import Any

import numpy as np


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

DEVICES = [0, 2, 3, 7, 10, 13, 99, -1, 2**31 - 1]
MOST = 2**63 - 1
TYPES = {"f": 2, "i": 0, "u": 1, "c": 5, "b": 6}
KINDS = [
    "true", "true", "null strides", "device", "device id", "lanes", "bits", "code", "offset",
    "misaligned", "ndim 0", "large ndim", "negative ndim", "null shape", "null data",
    "negative extent", "large extent", "large stride", "zero stride", "negative stride",
    "overlap", "used name", "other name", "no name", "read-only", "version 9",
    "copied flag", "no deleter", "device method",
]  # fmt: skip


class Capsule:
    """An array x as an object with __dlpack__, of which one fact is false."""

    made: collections.deque[Capsule] = collections.deque(maxlen=4096)  # owns the memory

    def __init__(self, x: np.ndarray, kind: str, versioned: bool, once: bool) -> None:
        self.x, self.kind, self.versioned, self.once = x, kind, versioned, once
        self.parts: list[Any] = []
        self.deleted: collections.Counter[int] = collections.Counter()
        self.given: Any = None
        self.skip = 0  # bytes of byte_offset
        Capsule.made.append(self)

    @property
    def is_true(self) -> bool:
        """Whether the result must be that of x."""
        return self.kind in ("true", "null strides", "copied flag", "no deleter") and (
            self.kind != "null strides" or self.x.flags.c_contiguous
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.kind == "device":
            return DEVICES[len(self.parts) % len(DEVICES)], 0
        if self.kind == "device method":
            raise RuntimeError("no device")
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        if self.once and self.given is not None:
            return self.given
        versioned = self.versioned and "max_version" in options
        managed = Versioned() if versioned else Managed()
        if versioned:
            managed.major, managed.minor = (9 if self.kind == "version 9" else 1), 0
            managed.flags = {"read-only": 1, "copied flag": 2}.get(self.kind, 0)
        self._fill(managed.tensor)
        number = len(self.parts)

        def deleted(_: int) -> None:
            self.deleted[number] += 1

        if self.kind != "no deleter":
            managed.deleter = Deleter(deleted)
        name = b"dltensor_versioned" if versioned else b"dltensor"
        name = {"used name": b"used_" + name, "other name": b"tensor", "no name": None}.get(
            self.kind, name
        )
        self.parts.append((managed, name))
        self.given = new_capsule(ctypes.addressof(managed), name, None)
        return self.given

    def _fill(self, t: DLTensor) -> None:
        x, kind, n = self.x, self.kind, self.x.ndim
        size = x.itemsize
        shape, strides = list(x.shape), [one // size for one in x.strides]
        t.data, t.device_type, t.ndim = x.ctypes.data, 1, n
        t.code, t.bits, t.lanes = TYPES.get(x.dtype.kind, 3), 8 * size, 1
        t.data, t.byte_offset = t.data - self.skip, self.skip
        if kind == "device":
            t.device_type = DEVICES[len(self.parts) % len(DEVICES)]
        elif kind == "device id":
            t.device_id = 7
        elif kind == "lanes":
            t.lanes = [0, 2, 4, 65535][n % 4]
        elif kind == "bits":
            t.bits = [0, 1, 4, 24, 128, 255][sum(shape) % 6]
        elif kind == "code":
            t.code = [3, 5, 7, 17, 255][sum(shape) % 5]
        elif kind == "offset":
            t.byte_offset = 2**63 + 2**62
            t.data = t.data - (2**63 + 2**62) if t.data > 2**63 + 2**62 else None
        elif kind == "misaligned":
            t.byte_offset = 1
            shape = [max(one - 1, 0) for one in shape]
        elif kind == "ndim 0":
            t.ndim = 0
        elif kind == "large ndim":
            t.ndim = 65 + 4000 * (sum(shape) % 2)
            shape, strides = [1] * t.ndim, [1] * t.ndim
        elif kind == "negative ndim":
            t.ndim = -1 - 2**31 * (sum(shape) % 2)
        elif kind == "null data":
            t.data = None
        elif kind == "negative extent":
            shape = [-one for one in shape]
        elif kind == "large extent":
            shape = [[MOST, 2**62, 2**32 + 1][sum(shape) % 3]] * n
        elif kind == "large stride":
            strides = [[MOST, -MOST - 1, 2**60][sum(shape) % 3]] * n
        elif kind == "zero stride":
            strides = [0] * n
        elif kind == "negative stride":
            strides = [-one for one in strides]
            t.data = t.data + size * sum(
                -s * max(e - 1, 0) for s, e in zip(strides, shape, strict=True)
            )
        elif kind == "overlap":
            strides = [1] * n
        numbers = ctypes.c_int64 * max(len(shape), 1)
        t.shape = numbers(*shape)
        t.strides = numbers(*strides)
        if kind == "null shape":
            t.shape = None
        if kind == "null strides":
            t.strides = None


def check_deleters() -> int:
    """Returns the number of capsules, none of which was deleted twice."""
    for one in Capsule.made:
        assert all(count == 1 for count in one.deleted.values()), (one.kind, one.deleted)
    return len(Capsule.made)


class Raises:
    """All conversions raise."""

    def __init__(self, error: type[BaseException] = ValueError) -> None:
        self.error = error

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise self.error("raised by an argument")

    __dlpack__ = __dlpack_device__ = __array__ = __index__ = __int__ = __float__ = _raise
    __len__ = __iter__ = __getitem__ = __bool__ = __buffer__ = __fspath__ = _raise


class RaisesText(str):
    def __eq__(self, other: object) -> bool:
        raise ValueError("raised by an argument")

    __hash__ = str.__hash__


class WrongArray(np.ndarray):
    """An array whose __dlpack__ gives no capsule."""

    def __dlpack__(self, **_: Any) -> Any:
        return [1, 2]


class Index:
    """An integer that does other calls meanwhile."""

    def __init__(self, value: Any, meanwhile: Any) -> None:
        self.value, self.meanwhile = value, meanwhile

    def __index__(self) -> Any:
        self.meanwhile()
        return self.value


class Shrinks(list):  # type: ignore[type-arg]
    """A list that is shorter at each reading."""

    def __getitem__(self, at: Any) -> Any:
        value = super().__getitem__(at)
        del self[len(self) // 2 :]
        return value

    def __iter__(self) -> Any:
        for at in range(len(self) * 2):
            yield self[at] if at < len(self) else 0


class Falls(np.ndarray):
    """An array that falls into another shape while its capsule is made."""

    def __dlpack__(self, **options: Any) -> Any:
        try:
            self.shape = (self.size,)
        except (AttributeError, ValueError):
            pass
        return np.asarray(self).__dlpack__(**options)


def liar(x: np.ndarray, of: random.Random) -> Any:
    kind = of.randrange(40)
    if kind == 0:
        return Raises(of.choice([ValueError, TypeError, MemoryError, OverflowError]))
    if kind == 1:
        return x.view(WrongArray)
    if kind == 2:
        return x.view(Falls)
    if kind == 3 and x.flags.writeable:
        return x.__dlpack__()
    if kind == 4:
        return memoryview(x) if x.dtype != object else None
    if kind == 5:
        return bytearray(x.tobytes())
    return Capsule(x, of.choice(KINDS), of.randrange(2) == 0, of.randrange(4) == 0)
