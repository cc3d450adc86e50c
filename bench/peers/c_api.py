"""gnomon.h through ctypes. NumPy arrays are passed as DLPack tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint64,
    c_void_p,
)
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

CPU = 1
CODES = {"i": 0, "u": 1, "f": 2}  # DLPack's codes by NumPy's dtype.kind
BFLOAT = 4
HALVES, ADJACENT = 1, 2
FORWARD, INVERSE = 1, 2
INTERLEAVED = 1
CAUSAL = 1


class Tensor(Structure):
    """A DLTensor that borrows an array with any strides. dtype "bf16": the array has the 16 bits
    of each element."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),  # in elements
        ("byte_offset", c_uint64),
    ]

    def __init__(self, array: NDArray, dtype: str | None = None) -> None:
        axes = c_int64 * array.ndim
        super().__init__(
            data=array.ctypes.data,
            device_type=CPU,
            ndim=array.ndim,
            code=BFLOAT if dtype == "bf16" else CODES[array.dtype.kind],
            bits=8 * array.itemsize,
            lanes=1,
            shape=axes(*array.shape),
            strides=axes(*(stride // array.itemsize for stride in array.strides)),
        )
        self.array = array  # keeps the array alive


class Sized(Structure):
    """A struct of arguments, whose first member is its size."""

    def __init__(self, **members: object) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **members)


class RotarySpec(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("rotary_dim", c_int64),
        ("pairing", c_int32),
        ("base", c_double),
        ("head_offset", c_int64),
    ]


class Tensors(Sized):
    """A struct of pointers to tensors. Most of them may be NULL."""

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__(**{name: ctypes.pointer(one) for name, one in tensors.items()})


class AttentionInput(Tensors):
    _fields_ = [
        ("size", c_size_t),
        *(
            (name, POINTER(Tensor))
            for name in ("q", "k", "v", "k_scales", "v_scales", "gates")
        ),
        ("terms", c_void_p),
    ]


class RaggedBatch(Tensors):
    _fields_ = [
        ("size", c_size_t),
        *(
            (name, POINTER(Tensor))
            for name in (
                "query_starts",
                "query_lengths",
                "key_starts",
                "key_lengths",
                "offsets",
                "block_table",
            )
        ),
    ]


class AttentionGradient(Tensors):
    _fields_ = [
        ("size", c_size_t),
        *((name, POINTER(Tensor)) for name in ("q", "k", "v")),
        ("plan", c_void_p),
        *((name, POINTER(Tensor)) for name in ("dense", "gates", "sinks")),
    ]


i32, i64, f32, f64, handle = c_int32, c_int64, ctypes.c_float, c_double, c_void_p
tensor, tensors, out = POINTER(Tensor), POINTER(POINTER(Tensor)), POINTER(c_void_p)
attention_input, attention_gradient = POINTER(AttentionInput), POINTER(AttentionGradient)

# The argument types of functions that return a status. A destructor has one handle.
FUNCTIONS = {
    "set_threads": [i32],
    "frequencies_create": [POINTER(RotarySpec), out],
    "rotary_table_create": [handle, tensor, out],
    "rotary_table_get": [handle, tensor, tensor],
    "cos_sin": [tensor, handle, tensor, tensor],
    "rotate": [tensor, tensor, handle, i32],
    "sinusoidal": [tensor, i32, f64, tensor],
    "add_table": [tensor, tensor, f32],
    "alibi_slopes": [i64, i64, tensor],
    "layer_plan_create": [out],
    "layer_plan_set_mask": [handle, i32, i64, i64, i64],
    "layer_plan_round_weights": [handle, i32],
    "layer_plan_set_slopes": [handle, tensor],
    "layer_plan_set_softmax": [handle, f64, f64, tensor],
    "attention": [attention_input, handle, tensor, tensor],
    "attention_ragged": [attention_input, POINTER(RaggedBatch), handle, tensor, tensor],
    "attention_backward": [attention_input, handle, *[tensor] * 3, attention_gradient],
    "plan_gradient_create": [out],
    "encoding_from_json": [c_char_p, out],
    "encoding_lower": [handle, tensors, i64, i64, i64, out],
    "encoding_lower_backward": [handle, tensors, i64, i64, i64, handle, tensor, tensors],
}
HANDLES = ("frequencies", "rotary_table", "layer_plan", "plan_gradient", "encoding")
# Functions of roof.cc, which return the nanoseconds of `count` calls, or -1.
LOOPS = {
    "peers_touch": [c_void_p, i64, i64],
    "peers_fill": [c_void_p, i64, i64],
    "peers_read": [c_void_p, i64, i64],
    "peers_multiply": [f64, i64],
    "peers_rotate": [tensor, tensor, handle, i32, i64],
}
TEXTS = ("gnomon_error_message", "gnomon_version", "gnomon_isa", "peers_compiler")


class Library:
    """The functions of gnomon.h and roof.cc. `call` raises if a function returns an error
    status. Timed code tests the status directly: `function(...) and fail()`."""

    def __init__(self, path: str) -> None:
        self.functions = ctypes.CDLL(path)
        self.declare({f"gnomon_{name}": types for name, types in FUNCTIONS.items()}, i32)
        self.declare({f"gnomon_{kind}_destroy": [handle] for kind in HANDLES}, None)
        self.declare(LOOPS, i64)
        self.declare({name: [] for name in TEXTS}, c_char_p)

    def declare(self, signatures: dict[str, list], result: type | None) -> None:
        for name, arguments in signatures.items():
            function = getattr(self.functions, name)
            function.restype, function.argtypes = result, arguments

    def text(self, name: str) -> str:
        return getattr(self.functions, name)().decode()

    def fail(self) -> NoReturn:
        raise ValueError(self.text("gnomon_error_message"))

    def call(self, name: str, *arguments: object) -> None:
        if getattr(self.functions, f"gnomon_{name}")(*arguments):
            self.fail()

    def make(self, kind: str, function: str, *arguments: object) -> Handle:
        """Returns the handle that a function writes to its last argument."""
        made = Handle(getattr(self.functions, f"gnomon_{kind}_destroy"))
        self.call(function, *arguments, byref(made))
        return made


class Handle(c_void_p):
    """An object of the library, destroyed with its last reference."""

    def __init__(self, destroy: Callable[[c_void_p], None]) -> None:
        super().__init__()
        self.destroy = destroy

    def __del__(self) -> None:
        self.destroy(self)


def pointers(*some: Tensor) -> ctypes.Array:
    """const gnomon_tensor* const*"""
    return (POINTER(Tensor) * len(some))(*map(ctypes.pointer, some))


def positions(start: int, count: int) -> Tensor:
    return Tensor(np.arange(start, start + count, dtype=np.int64))
