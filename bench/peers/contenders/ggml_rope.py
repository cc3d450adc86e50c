"""ggml_rope_ext of ggml, the library of llama.cpp. The graph is built once."""

from __future__ import annotations

import ctypes
import importlib.metadata

import ggml
import numpy as np

from arrays import Inputs, from_storage
from cases import BASE
from contender import Contender, Run
from contenders.ggml_attention import GgmlAttention
from contenders.ggml_memory import Memory
from contenders.ggml_plain import GgmlPlain

TYPES = {"f32": ggml.GGML_TYPE_F32, "f16": ggml.GGML_TYPE_F16}


class Ggml(Contender):
    name = "ggml (llama.cpp)"
    works = ("rotate", "rotate_backward")
    dtypes = ("f32", "f16")
    layouts = ("THD",)
    own_table = True

    def __init__(self, threads: int) -> None:
        self.backend = ggml.ggml_backend_cpu_init()
        ggml.ggml_backend_cpu_set_n_threads(self.backend, threads)
        pool = ggml.ggml_threadpool_params_default(threads)
        self.pool = ggml.ggml_threadpool_new(ctypes.byref(pool))
        ggml.ggml_backend_cpu_set_threadpool(self.backend, self.pool)

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        backward = case.work == "rotate_backward"  # not in place
        size = sum(stored.nbytes for stored in inputs.stored) * (1 + backward)
        memory = Memory(size + 8 * case.tokens + (1 << 20))
        context = memory.context
        adjacent = case.pairing == "adjacent"
        mode = ggml.GGML_ROPE_TYPE_NORMAL if adjacent else ggml.GGML_ROPE_TYPE_NEOX

        def filled(tensor: ctypes.Structure, values: np.ndarray) -> np.ndarray:
            array = memory.array(tensor, values)
            array[...] = values
            return array

        ids = ggml.ggml_new_tensor_1d(context, ggml.GGML_TYPE_I32, case.tokens)
        filled(ids, np.arange(case.start, case.start + case.tokens, dtype=np.int32))
        rope = ggml.ggml_rope_ext_back if backward else ggml.ggml_rope_ext_inplace
        graph = ggml.ggml_new_graph(context)
        arrays, outputs = [], []
        for stored in inputs.stored:
            _, tokens, heads, d = stored.shape
            x = ggml.ggml_new_tensor_3d(context, TYPES[case.dtype], d, heads, tokens)
            arrays.append(filled(x, stored))
            y = rope(context, x, ids, None, d, mode, 0, BASE, 1.0, 0.0, 1.0, 0.0, 0.0)
            ggml.ggml_build_forward_expand(graph, y)
            outputs.append((y, stored))

        def results(rows: list[int]) -> list[np.ndarray]:
            turned = [memory.array(y, stored) for y, stored in outputs] if backward else arrays
            return [from_storage(array[0][rows], case.dtype) for array in turned]

        return Run(
            lambda: ggml.ggml_backend_graph_compute(self.backend, graph),
            results,  # keeps the memory alive
            lambda: inputs.restore(arrays),
            note="computes cos and sin in each call",
        )


def contenders(threads: int) -> list[Contender]:
    rope = Ggml(threads)
    return [rope, GgmlAttention(rope.backend), GgmlPlain(rope.backend)]


def versions() -> dict[str, str]:
    return {"ggml-python": importlib.metadata.version("ggml-python")}
