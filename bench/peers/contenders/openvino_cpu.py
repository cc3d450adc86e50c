"""OpenVINO's CPU plug-in with the graph of an exported model. It fuses some graphs."""

from __future__ import annotations

import numpy as np
import openvino
from openvino import opset13 as ops

from arrays import Inputs, from_storage, table_of, to_storage
from contender import Contender, Run
from contenders.openvino_attention import OpenVinoAttention
from contenders.openvino_plain import OpenVinoPlain

TYPES = {"f32": openvino.Type.f32, "f16": openvino.Type.f16, "bf16": openvino.Type.bf16}


def whole(values: list[int]) -> openvino.Node:
    return ops.constant(np.array(values, np.int64))


def last_axis(x: openvino.Node, begin: int, end: int, step: int) -> openvino.Node:
    return ops.slice(x, whole([begin]), whole([end]), whole([step]), whole([3]))


def turned_halves(x: openvino.Node, size: int, minus: openvino.Node) -> openvino.Node:
    end = np.iinfo(np.int32).max
    second = ops.multiply(last_axis(x, size // 2, end, 1), minus)
    return ops.concat([second, last_axis(x, 0, size // 2, 1)], -1)


def turned_adjacent(
    x: openvino.Node, size: int, minus: openvino.Node, heads: int
) -> openvino.Node:
    pairs = ops.reshape(x, whole([0, heads, 0, -1, 2]), True)
    first, second = ops.split(pairs, ops.constant(-1, openvino.Type.i64), 2).outputs()
    turned = ops.concat([ops.multiply(second, minus), first], -1)
    return ops.reshape(turned, whole([0, heads, 0, size]), True)


class OpenVino(Contender):
    name = "OpenVINO"

    def __init__(self, threads: int) -> None:
        self.core = openvino.Core()
        self.threads = threads

    def graph(self, inputs: Inputs) -> openvino.Model:
        """[B, H, T, D] for the rotation, as in exported models of Hugging Face."""
        case, kind = inputs.case, TYPES[inputs.case.dtype]
        halves = case.pairing == "halves"
        minus = ops.constant(-1.0, kind)
        table = [
            np.concatenate((part, part), -1) if halves else np.repeat(part, 2, -1)
            for part in table_of(case)
        ]
        cosines, sines = (
            ops.parameter([1, 1, case.tokens, case.size], kind, name) for name in ("cos", "sin")
        )
        self.table = [part[None, None] for part in table]
        parameters, outputs = [], []
        for stored in inputs.stored:
            parameter = ops.parameter(list(stored.shape), kind)
            parameters.append(parameter)
            x = parameter
            if case.layout == "THD":
                x = ops.transpose(x, whole([0, 2, 1, 3]))
            heads = stored.shape[1 if case.layout == "HTD" else 2]
            turned = (
                turned_halves(x, case.size, minus)
                if halves
                else turned_adjacent(x, case.size, minus, heads)
            )
            outputs.append(ops.add(ops.multiply(x, cosines), ops.multiply(turned, sines)))
        return openvino.Model(outputs, [*parameters, cosines, sines])

    def prepare(self, inputs: Inputs) -> Run:
        case, kind = inputs.case, TYPES[inputs.case.dtype]
        compiled = self.core.compile_model(
            self.graph(inputs),
            "CPU",
            {
                "INFERENCE_NUM_THREADS": self.threads,
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_PRECISION_HINT": kind,
            },
        )
        request = compiled.create_infer_request()

        def tensor(stored: np.ndarray) -> openvino.Tensor:
            value = openvino.Tensor(kind, openvino.Shape(stored.shape))
            np.copyto(value.data.view(stored.dtype), stored)
            return value

        bound = [tensor(stored) for stored in inputs.stored]
        bound += [
            tensor(to_storage(np.ascontiguousarray(part), case.dtype)) for part in self.table
        ]
        for index, value in enumerate(bound):
            request.set_input_tensor(index, value)
        kinds = {
            node.get_rt_info()["layerType"].astype(str)
            for node in compiled.get_runtime_model().get_ops()
        }

        def results(rows: list[int]) -> list[np.ndarray]:
            out = []
            for index in range(2):
                data = request.get_output_tensor(index).data[0][:, rows].swapaxes(0, 1)
                stored = data.view(np.uint16) if case.dtype == "bf16" else data
                out.append(from_storage(np.ascontiguousarray(stored), case.dtype))
            return out

        note = "fused" if "RoPE" in kinds else "not fused"
        return Run(request.infer, results, note=note)


def contenders(threads: int) -> list[Contender]:
    return [OpenVino(threads), OpenVinoAttention(threads), OpenVinoPlain(threads)]


def versions() -> dict[str, str]:
    return {"openvino": openvino.__version__}
