"""ggml_flash_attn_ext, with ALiBi from a mask of distances in f16. The graph is built once."""

from __future__ import annotations

import math

import ggml
import numpy as np

from arrays import Inputs
from contender import Contender, Run
from contenders.dense_bias import heads_first
from contenders.ggml_memory import Memory

MAX_BIAS = 8.0  # the slopes of ALiBi: 2^(-8 h / H)


class GgmlAttention(Contender):
    name = "ggml, flash_attn_ext"
    works = ("attention",)
    dtypes = ("f32",)

    def __init__(self, backend: object) -> None:
        self.backend = backend

    def prepare(self, inputs: Inputs) -> Run:
        arrays = [heads_first(stored)[0] for stored in inputs.stored]
        heads, tokens, size = arrays[0].shape
        memory = Memory(4 * arrays[0].nbytes + 2 * tokens**2 + (1 << 20))
        context = memory.context
        tensors = []
        for values in arrays:
            x = ggml.ggml_new_tensor_3d(context, ggml.GGML_TYPE_F32, size, tokens, heads)
            memory.array(x, values)[...] = values
            tensors.append(x)
        ids = np.arange(tokens, dtype=np.float32)
        distances = ids[None, :] - ids[:, None]
        distances[distances > 0] = -np.inf
        halves = distances.astype(np.float16)
        mask = ggml.ggml_new_tensor_2d(context, ggml.GGML_TYPE_F16, tokens, tokens)
        memory.array(mask, halves)[...] = halves
        scale = 1 / math.sqrt(size)
        y = ggml.ggml_flash_attn_ext(context, *tensors, mask, scale, MAX_BIAS, 0.0)
        ggml.ggml_flash_attn_ext_set_prec(y, ggml.GGML_PREC_F32)
        graph = ggml.ggml_new_graph(context)
        ggml.ggml_build_forward_expand(graph, y)
        out = memory.array(y, inputs.stored[0])  # [1, T, H, D]

        def results(rows: list[int]) -> list[np.ndarray]:
            assert memory.context
            return [out[0][rows].copy()]

        return Run(
            lambda: ggml.ggml_backend_graph_compute(self.backend, graph),
            results,
            note="distances beyond 2048 are rounded to f16",
        )
