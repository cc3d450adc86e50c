"""OpenVINO's ScaledDotProductAttention without a bias."""

from __future__ import annotations

import numpy as np
import openvino
from openvino import opset13 as ops

import plain_attention
from arrays import Inputs, from_storage
from contender import Contender, Run
from contenders.dense_bias import heads_first

TYPES = {"f32": openvino.Type.f32, "f16": openvino.Type.f16, "bf16": openvino.Type.bf16}


class OpenVinoPlain(Contender):
    name = "OpenVINO, SDPA"
    works = ("attention_prompt",)

    def __init__(self, threads: int) -> None:
        self.core = openvino.Core()
        self.threads = threads

    def prepare(self, inputs: Inputs) -> Run:
        kind = TYPES[inputs.case.dtype]
        arrays = [heads_first(stored) for stored in inputs.stored]
        parameters = [ops.parameter(list(x.shape), kind) for x in arrays]
        out = ops.scaled_dot_product_attention(*parameters, causal=True)
        compiled = self.core.compile_model(
            openvino.Model([out], parameters),
            "CPU",
            {
                "INFERENCE_NUM_THREADS": self.threads,
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_PRECISION_HINT": kind,
            },
        )
        request = compiled.create_infer_request()
        for index, array in enumerate(arrays):
            value = openvino.Tensor(kind, openvino.Shape(array.shape))
            np.copyto(value.data.view(array.dtype), array)
            request.set_input_tensor(index, value)

        def results(rows: list[int]) -> list[np.ndarray]:
            data = request.get_output_tensor(0).data
            stored = data.view(np.uint16) if inputs.case.dtype == "bf16" else data
            chosen = plain_attention.picked_heads_first(stored, rows)
            return [from_storage(chosen, inputs.case.dtype)]

        return Run(request.infer, results)
