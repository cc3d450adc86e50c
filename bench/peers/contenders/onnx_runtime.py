"""ONNX Runtime's two RotaryEmbedding operators, with inputs and outputs bound to memory."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import aligned
from arrays import Inputs, table_of
from cases import KEY_HEADS, QUERY_HEADS, Case
from contender import Contender, Run
from contenders import onnx_plain
from contenders.onnx_attention import OnnxAttention

TYPES = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16}


def model(case: Case, domain: str) -> onnx.ModelProto:
    """One operator for q and one for k. The tables are constants, as in exported models."""
    kind, t = TYPES[case.dtype], case.tokens
    tables = [
        helper.make_tensor(name, kind, part.shape, part.astype(np.float16).tobytes(), raw=True)
        if case.dtype == "f16"
        else helper.make_tensor(name, kind, part.shape, part.tobytes(), raw=True)
        for name, part in zip(("cos", "sin"), table_of(case), strict=True)
    ]
    ids = helper.make_tensor("ids", TensorProto.INT64, (1, t), np.arange(t).tobytes(), raw=True)
    nodes, values = [], []
    for name, heads in (("q", QUERY_HEADS), ("k", KEY_HEADS)):
        shape = (1, heads, t, case.size) if case.layout == "HTD" else (1, t, heads * case.size)
        order = ["cos", "sin", "ids"] if domain == "" else ["ids", "cos", "sin"]
        nodes.append(
            helper.make_node(
                "RotaryEmbedding",
                [name, *order],
                [name + "_out"],
                domain=domain,
                interleaved=int(case.pairing == "adjacent"),
                num_heads=heads,
            )
        )
        values.append((name, helper.make_tensor_value_info(name, kind, shape)))
        values.append(
            (name + "_out", helper.make_tensor_value_info(name + "_out", kind, shape))
        )
    graph = helper.make_graph(
        nodes,
        "rope",
        [value for name, value in values if "_" not in name],
        [value for name, value in values if "_" in name],
        [*tables, ids],
    )
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


class OnnxRuntime(Contender):
    dtypes = ("f32", "f16")

    def __init__(self, name: str, domain: str, threads: int) -> None:
        self.name, self.domain, self.threads = name, domain, threads

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = onnxruntime.InferenceSession(
            model(case, self.domain).SerializeToString(), options, ["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        outputs = []
        for name, stored in zip("qk", inputs.stored, strict=True):
            x = stored if case.layout == "HTD" else stored.reshape(1, case.tokens, -1)
            value = onnxruntime.OrtValue.ortvalue_from_numpy(x)
            out = onnxruntime.OrtValue.ortvalue_from_numpy(aligned.zeros_like(x))
            binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output(name + "_out", out)
            outputs.append((value, out, stored.shape))

        def results(rows: list[int]) -> list[np.ndarray]:
            return [
                inputs.tokens_of(out.numpy().reshape(shape), rows) for _, out, shape in outputs
            ]

        return Run(lambda: session.run_with_iobinding(binding), results)


def contenders(threads: int) -> list[Contender]:
    return [
        OnnxRuntime("ONNX Runtime, com.microsoft", "com.microsoft", threads),
        OnnxRuntime("ONNX Runtime, opset 23", "", threads),
        OnnxAttention(threads),
        onnx_plain.OnnxAttention(threads),
        onnx_plain.OnnxGroupQuery(threads),
    ]


def versions() -> dict[str, str]:
    return {"onnxruntime": onnxruntime.__version__}
