"""Gnomon, called from Python through ctypes, and the roofs."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from ctypes import byref

import numpy as np

import aligned
from arrays import Inputs, from_storage
from attention import BUCKETS, CHECKED_HEADS, MAX_DISTANCE
from c_api import (
    ADJACENT,
    CAUSAL,
    FORWARD,
    HALVES,
    INTERLEAVED,
    INVERSE,
    AttentionGradient,
    AttentionInput,
    Handle,
    Library,
    RotarySpec,
    Tensor,
    pointers,
    positions,
)
from cases import ATTENTION_HEADS, BASE, Case
from contender import Contender, Run
from contenders.gnomon_attention import FloatWeights, attention_run

T5 = {
    "kind": "t5",
    "heads": ATTENTION_HEADS,
    "direction": "causal",
    "buckets": BUCKETS,
    "max_distance": MAX_DISTANCE,
}


def frequencies(library: Library, case: Case) -> Handle:
    pairing = ADJACENT if case.pairing == "adjacent" else HALVES
    spec = RotarySpec(rotary_dim=case.size, pairing=pairing, base=BASE)
    return library.make("frequencies", "frequencies_create", byref(spec))


def rotary_table(library: Library, of: Handle, ids: Tensor) -> Handle:
    return library.make("rotary_table", "rotary_table_create", of, byref(ids))


class Gnomon(Contender):
    name = "Gnomon"
    works = (
        "rotate",
        "rotate_backward",
        "rotary_table",
        "sinusoidal_table",
        "add_table",
        "attention",
        "attention_training",
        "attention_prompt",
        "attention_decode",
    )
    own_table = True
    is_peer = False

    def __init__(self, library: Library) -> None:
        self.library = library

    def prepare(self, inputs: Inputs) -> Run:
        if inputs.case.plain:
            return attention_run(self.library, inputs)
        return getattr(self, "prepare_" + inputs.case.work.removesuffix("_backward"))(inputs)

    def prepare_rotate(self, inputs: Inputs) -> Run:
        case, library = inputs.case, self.library
        arrays = [aligned.copied(stored) for stored in inputs.stored]
        tokens_first = (
            arrays if case.layout == "THD" else [array.swapaxes(1, 2) for array in arrays]
        )
        q, k = (Tensor(array, case.dtype) for array in tokens_first)
        ids = positions(case.start, case.tokens)
        table = rotary_table(library, frequencies(library, case), ids)
        direction = INVERSE if case.work == "rotate_backward" else FORWARD
        arguments = (byref(q), byref(k), table, direction)
        rotate, fail = library.functions.gnomon_rotate, library.fail

        def results(rows: list[int]) -> list[np.ndarray]:
            return [from_storage(inputs.tokens_of(array, rows), case.dtype) for array in arrays]

        return Run(
            lambda: rotate(*arguments) and fail(),
            results,
            lambda: inputs.restore(arrays),
            loop=self.loop(*arguments),
        )

    def loop(self, *arguments: object) -> Callable[[int], int] | None:
        return None

    def prepare_sinusoidal_table(self, inputs: Inputs) -> Run:
        case, library = inputs.case, self.library
        ids = positions(case.start, case.tokens)
        out = Tensor(aligned.zeros((case.tokens, case.size)))
        arguments = (byref(ids), INTERLEAVED, BASE, byref(out))
        return Run(
            lambda: library.call("sinusoidal", *arguments), lambda rows: [out.array[rows]]
        )

    def prepare_rotary_table(self, inputs: Inputs) -> Run:
        case, library = inputs.case, self.library
        ids, of = positions(case.start, case.tokens), frequencies(library, case)
        parts = [Tensor(aligned.zeros((case.tokens, case.size // 2))) for _ in "cs"]
        arguments = (byref(ids), of, *map(byref, parts))
        return Run(
            lambda: library.call("cos_sin", *arguments),
            lambda rows: [part.array[rows] for part in parts],
        )

    def prepare_add_table(self, inputs: Inputs) -> Run:
        library = self.library
        assert inputs.table is not None
        x, table = Tensor(aligned.copied(inputs.stored[0])), Tensor(inputs.table)
        arguments = (byref(x), byref(table), 1.0)
        return Run(
            lambda: library.call("add_table", *arguments),
            lambda rows: [x.array[0][rows]],
            lambda: inputs.restore([x.array]),
        )

    def prepare_attention(self, inputs: Inputs) -> Run:
        """ALiBi."""
        library, arrays = self.library, inputs.stored
        q, k, v = (Tensor(array) for array in arrays)
        out = Tensor(aligned.zeros_like(arrays[0]))
        slopes = Tensor(np.empty(ATTENTION_HEADS))
        library.call("alibi_slopes", ATTENTION_HEADS, 0, byref(slopes))
        plan = library.make("layer_plan", "layer_plan_create")
        library.call("layer_plan_set_mask", plan, CAUSAL, 0, -1, -1)
        library.call("layer_plan_set_slopes", plan, byref(slopes))
        given = AttentionInput(q=q, k=k, v=v)
        arguments = (byref(given), plan, byref(out), None)
        return Run(
            lambda: library.call("attention", *arguments), lambda rows: [out.array[0][rows]]
        )

    def prepare_attention_training(self, inputs: Inputs) -> Run:
        """T5: a new plan from the trained table, both passes, and the gradient of the table."""
        case, library, arrays = inputs.case, self.library, inputs.stored
        assert inputs.table is not None
        q, k, v, out_grad = (Tensor(array) for array in arrays)
        out, *input_grads = (Tensor(aligned.zeros_like(arrays[0])) for _ in range(4))
        lse = Tensor(np.zeros((1, ATTENTION_HEADS, case.tokens), np.float32))
        table, table_grad = Tensor(inputs.table), Tensor(np.zeros_like(inputs.table))
        given = AttentionInput(q=q, k=k, v=v)
        t5 = library.make("encoding", "encoding_from_json", json.dumps(T5).encode())
        of_table = (t5, pointers(table), 1, case.tokens, case.tokens)

        def train() -> None:
            plan = library.make("layer_plan", "encoding_lower", *of_table)
            library.call("layer_plan_set_mask", plan, CAUSAL, 0, -1, -1)
            passes = (byref(given), plan, byref(out), byref(lse))
            library.call("layer_plan_set_softmax", plan, math.nan, 0, None)
            library.call("attention", *passes)
            of_plan = library.make("plan_gradient", "plan_gradient_create")
            grads = AttentionGradient(**dict(zip("qkv", input_grads, strict=True)))
            grads.plan = of_plan
            library.call("attention_backward", *passes, byref(out_grad), byref(grads))
            table_grad.array[:] = 0
            library.call(
                "encoding_lower_backward",
                *of_table,
                of_plan,
                None,
                pointers(table_grad),
            )

        def results(rows: list[int]) -> list[np.ndarray]:
            of_q = input_grads[0].array
            return [out.array[0][rows], of_q[0][rows], table_grad.array[:, CHECKED_HEADS]]

        return Run(train, results)


class GnomonLoop(Gnomon):
    name = "Gnomon, called from C++"

    def takes(self, case: Case) -> bool:
        return case.rotates and case.tokens <= 16 and super().takes(case)

    def loop(self, *arguments: object) -> Callable[[int], int] | None:
        rotate = self.library.functions.peers_rotate
        return lambda count: nanoseconds(rotate(*arguments, count))


class NewTable(Contender):
    name = "Gnomon, RotaryTable with its memory"
    works = ("rotary_table",)
    dtypes = ("f32",)
    is_peer = False

    def __init__(self, library: Library) -> None:
        self.library = library

    def prepare(self, inputs: Inputs) -> Run:
        case, library = inputs.case, self.library
        ids, of = positions(case.start, case.tokens), frequencies(library, case)

        def results(made: Handle, rows: list[int]) -> list[np.ndarray]:
            shape = (1, case.tokens, case.size // 2)
            parts = [Tensor(aligned.zeros(shape)) for _ in "cs"]
            library.call("rotary_table_get", made, *map(byref, parts))
            return [part.array[0][rows] for part in parts]

        return Run.keeping(lambda: rotary_table(library, of, ids), results)


def nanoseconds(answer: int) -> int:
    if answer < 0:
        raise ValueError("a call in a loop failed")
    return answer


class Roof(Contender):
    """The same bytes read and written in place; for a table, only written; for decoding, only
    read; for other attention, the same number of operations by sgemm."""

    name = "roof"
    works = Gnomon.works
    is_peer = False

    def __init__(self, library: Library) -> None:
        self.functions = library.functions

    def prepare(self, inputs: Inputs) -> Run:
        multiplies = inputs.case.attends and not inputs.case.queries
        loop = (self.sgemm if multiplies else self.memory)(inputs.case)
        return Run(lambda: loop(1), None, loop=loop)

    def memory(self, case: Case) -> Callable[[int], int]:
        data = np.ones(case.bytes // 4, np.float32)
        functions = self.functions
        pass_over = {
            "rotary_table": functions.peers_fill,
            "sinusoidal_table": functions.peers_fill,
            "attention_decode": functions.peers_read,
        }.get(case.work, functions.peers_touch)
        return lambda count: nanoseconds(pass_over(data.ctypes.data, data.nbytes, count))

    def sgemm(self, case: Case) -> Callable[[int], int]:
        return lambda count: self.functions.peers_multiply(case.operations, count)


CONTENDERS = (Gnomon, GnomonLoop, NewTable, FloatWeights, Roof)
LIBRARY = Library(os.environ["GNOMON_LIBRARY"])


def contenders(threads: int) -> list[Contender]:
    LIBRARY.call("set_threads", threads)
    return [contender(LIBRARY) for contender in CONTENDERS]


def versions() -> dict[str, str]:
    return {
        "Gnomon": LIBRARY.text("gnomon_version"),
        "kernels": LIBRARY.text("gnomon_isa"),
        "compiler": LIBRARY.text("peers_compiler"),
    }
