"""ggml graphs with the operators of Gnomon, from Python: ggml-python, and the library of
bindings/ggml by ctypes."""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

import ggml
import numpy as np

LIBRARY = ctypes.CDLL(os.environ["GNOMON_GGML"])
TYPES = {np.dtype(np.float32): ggml.GGML_TYPE_F32, np.dtype(np.float16): ggml.GGML_TYPE_F16,
         np.dtype(np.int32): ggml.GGML_TYPE_I32}
NODE = POINTER(ggml.ggml_tensor)
CAUSAL, BIDIRECTIONAL = 1, 2


class Tensor(ctypes.Structure):
    """gnomon_tensor."""

    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]

    @classmethod
    def of(cls, array: np.ndarray) -> Tensor:
        shape = (c_int64 * array.ndim)(*array.shape)
        made = cls(array.ctypes.data, 1, 0, array.ndim, 2, 8 * array.itemsize, 1, shape, None, 0)
        made.owned = (array, shape)
        return made


class RotarySpec(ctypes.Structure):
    """gnomon_rotary_spec."""

    _fields_ = [("size", c_size_t), ("rotary_dim", c_int64), ("pairing", c_int32),
                ("base", c_double), ("head_offset", c_int64)]


class LayerSpec(ctypes.Structure):
    """gnomon_ggml_spec."""

    _fields_ = [("size", c_size_t), ("frequencies", c_void_p), ("visibility", c_int32),
                ("left", c_int64), ("right", c_int64), ("scale", c_double), ("cap", c_double),
                ("sinks", POINTER(Tensor)), ("slopes", POINTER(Tensor))]


def declare(name: str, result: Any, *arguments: Any) -> None:
    function = getattr(LIBRARY, name)
    function.restype, function.argtypes = result, arguments


declare("gnomon_error_message", c_char_p)
declare("gnomon_model_open", c_int32, c_char_p, POINTER(c_void_p))
declare("gnomon_model_destroy", None, c_void_p)
declare("gnomon_frequencies_create", c_int32, POINTER(RotarySpec), POINTER(c_void_p))
declare("gnomon_frequencies_destroy", None, c_void_p)
declare("gnomon_ggml_layer_from_model", c_int32, c_void_p, c_int64, POINTER(POINTER(Tensor)),
        c_int64, c_int64, POINTER(c_void_p))
declare("gnomon_ggml_layer_create", c_int32, POINTER(LayerSpec), POINTER(c_void_p))
declare("gnomon_ggml_layer_destroy", None, c_void_p)
declare("gnomon_ggml_layer_error", c_char_p, c_void_p)
declare("gnomon_ggml_tokens", NODE, c_void_p, c_void_p, NODE, NODE)
declare("gnomon_ggml_prepare_queries", NODE, c_void_p, c_void_p, NODE, NODE)
declare("gnomon_ggml_prepare_keys", NODE, c_void_p, c_void_p, NODE, NODE)
declare("gnomon_ggml_attend", NODE, c_void_p, c_void_p, NODE, NODE, NODE, NODE)


def succeed(status: int) -> None:
    if status:
        raise ValueError(LIBRARY.gnomon_error_message().decode() or f"status {status}")


class Layer:
    """gnomon_ggml_layer, of a GGUF file or of settings."""

    def __init__(self, path: pathlib.Path | None = None, index: int = 0,
                 values: tuple[np.ndarray, ...] = (), length: int = 0, **spec: Any) -> None:
        self.handle, self.model, self.frequencies = c_void_p(), c_void_p(), c_void_p()
        self.tensors = [Tensor.of(np.ascontiguousarray(value, np.float32)) for value in values]
        if path:
            succeed(LIBRARY.gnomon_model_open(str(path).encode(), ctypes.byref(self.model)))
            self.values = (POINTER(Tensor) * len(values))(*map(ctypes.pointer, self.tensors))
            succeed(LIBRARY.gnomon_ggml_layer_from_model(
                self.model, index, self.values, len(values), length, ctypes.byref(self.handle)))
            return
        rotary = spec.pop("rotary", None)
        if rotary:
            settings = RotarySpec(size=ctypes.sizeof(RotarySpec), **rotary)
            succeed(LIBRARY.gnomon_frequencies_create(ctypes.byref(settings),
                                                      ctypes.byref(self.frequencies)))
        of_heads = {name: np.ascontiguousarray(spec.pop(name), np.float64)
                    for name in ("sinks", "slopes") if name in spec}
        self.of_heads = {name: ctypes.pointer(Tensor.of(array))
                         for name, array in of_heads.items()}
        self.arrays = of_heads
        self.spec = LayerSpec(**{"size": ctypes.sizeof(LayerSpec), "visibility": CAUSAL,
                                 "left": -1, "right": -1, "frequencies": self.frequencies.value,
                                 **self.of_heads, **spec})
        succeed(LIBRARY.gnomon_ggml_layer_create(ctypes.byref(self.spec),
                                                 ctypes.byref(self.handle)))

    def error(self) -> str | None:
        message = LIBRARY.gnomon_ggml_layer_error(self.handle)
        return message.decode() if message else None

    def __del__(self) -> None:
        LIBRARY.gnomon_ggml_layer_destroy(self.handle)
        LIBRARY.gnomon_model_destroy(self.model)
        LIBRARY.gnomon_frequencies_destroy(self.frequencies)


class Graph:
    """A context of ggml with one graph. Arrays have the axes of numpy, outermost first."""

    def __init__(self, size: int = 1 << 26, threads: int = 2) -> None:
        self.context = ggml.ggml_init(ggml.ggml_init_params(size, None, False))
        self.graph = ggml.ggml_new_graph(self.context)
        self.backend = ggml.ggml_backend_cpu_init()
        ggml.ggml_backend_cpu_set_n_threads(self.backend, threads)

    def new(self, values: np.ndarray) -> Any:
        """A tensor with a copy of an array of up to 4 axes."""
        node = ggml.ggml_new_tensor(self.context, TYPES[values.dtype], values.ndim,
                                    (c_int64 * values.ndim)(*reversed(values.shape)))
        self.array(node, values.dtype, values.shape)[...] = values
        return node

    @staticmethod
    def array(node: Any, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        """The elements of a contiguous tensor, without a copy."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        raw = (ctypes.c_char * size).from_address(ggml.ggml_get_data(node))
        return np.frombuffer(raw, dtype).reshape(shape)

    def add(self, node: Any) -> Any:
        ggml.ggml_build_forward_expand(self.graph, node)
        return node

    def tokens(self, layer: Layer, positions: Any, cached: Any = None) -> Any:
        return self.made(layer, LIBRARY.gnomon_ggml_tokens(
            self.context, layer.handle, positions, cached))

    def prepare(self, layer: Layer, x: Any, tokens: Any, is_keys: bool = False) -> Any:
        name = "gnomon_ggml_prepare_" + ("keys" if is_keys else "queries")
        return self.made(layer, getattr(LIBRARY, name)(self.context, layer.handle, x, tokens))

    def attend(self, layer: Layer, q: Any, k: Any, v: Any, tokens: Any) -> Any:
        return self.made(layer, LIBRARY.gnomon_ggml_attend(
            self.context, layer.handle, q, k, v, tokens))

    @staticmethod
    def made(layer: Layer, node: Any) -> Any:
        if not node:
            raise ValueError(layer.error())
        return node

    def heads_first(self, x: Any) -> Any:
        """[D, H, T, B] as [D, T, H, B], without a copy, as llama.cpp does for attention."""
        return ggml.ggml_permute(self.context, x, 0, 2, 1, 3)

    def compute(self) -> None:
        assert ggml.ggml_backend_graph_compute(self.backend, self.graph) == 0

    def __del__(self) -> None:
        ggml.ggml_backend_free(self.backend)
        ggml.ggml_free(self.context)
