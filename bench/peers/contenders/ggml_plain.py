"""ggml_flash_attn_ext without a bias: queries in f32, keys and values in the type of the cache."""

from __future__ import annotations

import ctypes
import math

import ggml
import numpy as np

import plain_attention
from arrays import Inputs, from_storage
from cases import Case
from contender import Contender, Run
from contenders.dense_bias import heads_first
from contenders.ggml_memory import Memory

TYPES = {
    "f32": ggml.GGML_TYPE_F32,
    "f16": ggml.GGML_TYPE_F16,
    "bf16": ggml.GGML_TYPE_BF16,
    "int8": ggml.GGML_TYPE_Q8_0,
}
MASK_ROWS = 64  # releases differ in whether the rows of a mask must be a multiple of this


def quantised(array: np.ndarray) -> np.ndarray:
    """The bytes of Q8_0: for 32 elements their scale in f16 and 32 int8."""
    rows, size = array.size // array.shape[-1], array.shape[-1]
    out = np.empty(array.size // 32 * 34, np.uint8)
    floats = np.ascontiguousarray(array, np.float32)
    ggml.ggml_quantize_chunk(
        ggml.GGML_TYPE_Q8_0,
        floats.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
        out.ctypes.data_as(ctypes.c_void_p),
        0,
        rows,
        size,
        None,
    )
    return out


class GgmlPlain(Contender):
    name = "ggml, flash_attn_ext"
    works = ("attention_prompt", "attention_decode")

    def __init__(self, backend: object) -> None:
        self.backend = backend

    def takes(self, case: Case) -> bool:
        return super().takes(case) and case.cache != "e4m3" and not case.page

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        q, k, v = (heads_first(stored) for stored in inputs.stored)
        queries = np.ascontiguousarray(from_storage(q, case.dtype))
        like = np.empty_like(from_storage(inputs.stored[0], case.dtype))
        padded = -(-q.shape[2] // MASK_ROWS) * MASK_ROWS
        bytes_of_mask = 2 * padded * case.tokens
        size = 2 * queries.nbytes + k.nbytes + v.nbytes + bytes_of_mask
        memory = Memory(size + (1 << 21))
        context = memory.context

        def added(kind: int, array: np.ndarray, values: np.ndarray) -> ctypes.Structure:
            x = ggml.ggml_new_tensor_4d(context, kind, *reversed(array.shape))
            memory.array(x, values)[...] = values
            return x

        cache = case.cache or case.dtype
        tensors = [added(TYPES["f32"], q, queries)]
        for array in (k, v):
            values = quantised(array) if case.cache else array
            tensors.append(added(TYPES[cache], array, values))
        mask = None
        if q.shape[2] > 1:
            halves = np.full((padded, case.tokens), -np.inf, np.float16)
            halves[: q.shape[2]][~plain_attention.hidden(case)] = 0
            mask = ggml.ggml_new_tensor_2d(context, TYPES["f16"], case.tokens, padded)
            memory.array(mask, halves)[...] = halves
        scale = 1 / math.sqrt(case.size)
        y = ggml.ggml_flash_attn_ext(context, *tensors, mask, scale, 0.0, 0.0)
        ggml.ggml_flash_attn_ext_set_prec(y, ggml.GGML_PREC_F32)
        graph = ggml.ggml_new_graph(context)
        ggml.ggml_build_forward_expand(graph, y)
        out = memory.array(y, like)  # [B, Q, H, D]

        def results(rows: list[int]) -> list[np.ndarray]:
            assert memory.context
            return [plain_attention.picked(out, rows).copy()]

        name = "Q8_0" if case.cache else cache
        return Run(
            lambda: ggml.ggml_backend_graph_compute(self.backend, graph),
            results,
            note="" if cache == "f32" else f"k and v in {name}, q and the result in f32",
        )
