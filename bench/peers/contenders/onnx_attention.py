"""ONNX Runtime's Attention operator with ALiBi as an additive mask."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import aligned
from arrays import Inputs
from contender import Contender, Run
from contenders.dense_bias import alibi, heads_first, refuse_beyond_memory


class OnnxAttention(Contender):
    name = "ONNX Runtime, Attention"
    works = ("attention",)
    dtypes = ("f32",)

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def prepare(self, inputs: Inputs) -> Run:
        refuse_beyond_memory(inputs.case, 3)
        arrays = dict(zip("qkv", map(heads_first, inputs.stored), strict=True))
        arrays["bias"] = alibi(inputs.case)
        shapes = {name: array.shape for name, array in arrays.items()}
        values = {
            name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in {**shapes, "out": shapes["q"]}.items()
        }
        node = helper.make_node("Attention", ["q", "k", "v", "bias"], ["out"])
        out_value = values.pop("out")
        graph = helper.make_graph([node], "attention", list(values.values()), [out_value])
        opset = helper.make_opsetid("", 23)
        model: onnx.ModelProto = helper.make_model(graph, opset_imports=[opset], ir_version=10)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, ["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        kept = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array)
            for name, array in arrays.items()
        }
        out = onnxruntime.OrtValue.ortvalue_from_numpy(aligned.zeros_like(arrays["q"]))
        for name, value in kept.items():
            binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output("out", out)

        def results(rows: list[int]) -> list[np.ndarray]:
            assert kept
            return [out.numpy()[0][:, rows].swapaxes(0, 1)]

        return Run(lambda: session.run_with_iobinding(binding), results)
