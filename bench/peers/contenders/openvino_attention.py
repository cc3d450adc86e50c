"""OpenVINO's ScaledDotProductAttention with ALiBi as an additive mask."""

from __future__ import annotations

import numpy as np
import openvino
from openvino import opset13 as ops

from arrays import Inputs
from contender import Contender, Run
from contenders.dense_bias import alibi, heads_first, refuse_beyond_memory


class OpenVinoAttention(Contender):
    name = "OpenVINO, SDPA"
    works = ("attention",)
    dtypes = ("f32",)

    def __init__(self, threads: int) -> None:
        self.core = openvino.Core()
        self.threads = threads

    def prepare(self, inputs: Inputs) -> Run:
        refuse_beyond_memory(inputs.case, 2)
        arrays = [*map(heads_first, inputs.stored), alibi(inputs.case)]
        parameters = [ops.parameter(list(x.shape), openvino.Type.f32) for x in arrays]
        q, k, v, bias = parameters
        out = ops.scaled_dot_product_attention(q, k, v, attention_mask=bias)
        compiled = self.core.compile_model(
            openvino.Model([out], parameters),
            "CPU",
            {
                "INFERENCE_NUM_THREADS": self.threads,
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_PRECISION_HINT": openvino.Type.f32,
            },
        )
        request = compiled.create_infer_request()
        kept = [openvino.Tensor(array, shared_memory=True) for array in arrays]
        for index, value in enumerate(kept):
            request.set_input_tensor(index, value)

        def results(rows: list[int]) -> list[np.ndarray]:
            assert arrays
            assert kept
            return [request.get_output_tensor(0).data[0][:, rows].swapaxes(0, 1)]

        return Run(request.infer, results)
