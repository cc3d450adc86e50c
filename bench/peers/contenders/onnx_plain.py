"""ONNX Runtime's Attention (opset 23) and GroupQueryAttention (com.microsoft) without a bias."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import aligned
import plain_attention
from arrays import Inputs
from cases import Case
from contender import Contender, Run
from contenders.dense_bias import heads_first

KINDS = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.int8): TensorProto.INT8,
}


class OnnxPlain(Contender):
    works = ("attention_prompt", "attention_decode")
    dtypes = ("f32", "f16")

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def takes(self, case: Case) -> bool:
        return super().takes(case) and not case.cache and not case.page

    def session(
        self,
        node: Any,
        domain: str,
        inputs: dict[str, np.ndarray],
        outputs: dict[str, np.ndarray],
        in_place: dict[str, str],
    ) -> tuple[Callable[[], object], dict[str, Any]]:
        """The call of a model with one node, and its arrays. `in_place`: the outputs that have
        the memory of an input."""
        infos = [
            [
                helper.make_tensor_value_info(name, KINDS[x.dtype], x.shape)
                for name, x in arrays.items()
            ]
            for arrays in (inputs, outputs)
        ]
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        graph = helper.make_graph([node], "attention", *infos)
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, ["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        kept = {name: onnxruntime.OrtValue.ortvalue_from_numpy(x) for name, x in inputs.items()}
        for name, value in kept.items():
            binding.bind_ortvalue_input(name, value)
        for name, x in outputs.items():
            made = kept.get(in_place.get(name, ""))
            kept[name] = made or onnxruntime.OrtValue.ortvalue_from_numpy(x)
            binding.bind_ortvalue_output(name, kept[name])
        return lambda: session.run_with_iobinding(binding), kept


class OnnxAttention(OnnxPlain):
    """The operator aligns its causal mask at the first key, so that queries after a cache need a
    mask."""

    name = "ONNX Runtime, Attention"

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        arrays = dict(zip("qkv", map(heads_first, inputs.stored), strict=True))
        if case.queries > 1:
            hidden = plain_attention.hidden(case)
            arrays["mask"] = np.where(hidden, -np.inf, 0).astype(arrays["q"].dtype)
        out = {"out": aligned.zeros_like(arrays["q"])}
        node = helper.make_node(
            "Attention", list(arrays), ["out"], is_causal=int(not case.queries)
        )
        call, kept = self.session(node, "", arrays, out, {})

        def results(rows: list[int]) -> list[np.ndarray]:
            return [plain_attention.picked_heads_first(kept["out"].numpy(), rows)]

        return Run(call, results)


class OnnxGroupQuery(OnnxPlain):
    """Stores the rows of the new tokens in the cache, in place, and attends to it. An int8 cache
    has one scale for k and one for v."""

    name = "ONNX Runtime, GroupQueryAttention"

    def takes(self, case: Case) -> bool:
        return super().takes(dataclasses.replace(case, cache="")) and case.cache != "e4m3"

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        q, k, v = inputs.stored
        new = case.queries or case.tokens
        arrays = {
            "q": q.reshape(*q.shape[:2], -1),
            "k": np.ascontiguousarray(k[:, -new:]).reshape(case.batch, new, -1),
            "v": np.ascontiguousarray(v[:, -new:]).reshape(case.batch, new, -1),
            "past_k": heads_first(k),
            "past_v": heads_first(v),
            "last": np.full((case.batch,), case.tokens - 1, np.int32),
            "total": np.array([case.tokens], np.int32),
        }
        options: dict[str, Any] = {}
        names = list(arrays)
        if case.cache == "int8":
            scale = np.float32(1 / 127)  # of values in [-1, 1]
            for name in ("past_k", "past_v"):
                arrays[name] = np.rint(arrays[name] / scale).astype(np.int8)
            names += [*[""] * 5, "k_scale", "v_scale"]
            arrays["k_scale"] = arrays["v_scale"] = np.array([scale])
            options = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}
            options["kv_cache_bit_width"] = 8
        outputs = {
            "out": aligned.zeros_like(arrays["q"]),
            "present_k": arrays["past_k"],
            "present_v": arrays["past_v"],
        }
        heads, key_heads = case.heads
        node = helper.make_node(
            "GroupQueryAttention",
            names,
            list(outputs),
            domain="com.microsoft",
            num_heads=heads,
            kv_num_heads=key_heads,
            **options,
        )
        in_place = {"present_k": "past_k", "present_v": "past_v"}
        call, kept = self.session(node, "com.microsoft", arrays, outputs, in_place)

        def results(rows: list[int]) -> list[np.ndarray]:
            return [plain_attention.picked(kept["out"].numpy().reshape(q.shape), rows)]

        return Run(call, results)
