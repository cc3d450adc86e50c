"""Gnomon, called through ctypes as a peer is called from Python; and the roofs."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from ctypes import POINTER, Structure, byref, c_double, c_int64, c_void_p

import numpy as np

from arrays import Inputs, from_storage
from attention import BUCKETS, CHECKED_HEADS
from cases import ATTENTION_HEADS, BASE, KEY_HEADS, QUERY_HEADS, Case
from contender import Contender, Peer, Run

Kernel = Callable[..., int]
DTYPES = {"f32": 1, "f16": 2, "bf16": 3}


class Heads(Structure):
    _fields_ = [
        ("q", c_void_p),
        ("k", c_void_p),
        ("dtype", c_int64),
        ("heads_outside", c_int64),
        ("batch", c_int64),
        ("tokens", c_int64),
        ("query_heads", c_int64),
        ("key_heads", c_int64),
        ("size", c_int64),
    ]


class Attention(Structure):
    _fields_ = [(name, c_void_p) for name in ("q", "k", "v", "out", "lse")]
    _fields_ += [(name, c_int64) for name in ("tokens", "heads", "size")]
    _fields_ += [
        (name, c_void_p)
        for name in ("table", "out_grad", "q_grad", "k_grad", "v_grad", "table_grad")
    ]


def load() -> ctypes.CDLL:
    bridge = ctypes.CDLL(os.environ["GNOMON_BRIDGE"])
    i, p = c_int64, c_void_p
    signatures = {
        "gnomon_set_threads": (None, [i]),
        "gnomon_rotary_table": (p, [i, i, c_double, i, i]),
        "gnomon_free_table": (None, [p]),
        "gnomon_table_values": (p, [p]),
        "gnomon_rotate": (i, [POINTER(Heads), p, i, i]),
        "gnomon_sinusoidal": (i, [p, i, i, i, i]),
        "gnomon_cos_sin": (i, [p, p, i, i, c_double, i, i]),
        "gnomon_add_table": (i, [p, p, i, i, i, i]),
        "gnomon_attention": (i, [POINTER(Attention), i]),
        "gnomon_touch": (i, [p, i, i]),
        "gnomon_fill": (i, [p, i, i]),
        "gnomon_isa": (ctypes.c_char_p, []),
        "gnomon_version": (ctypes.c_char_p, []),
        "gnomon_compiler": (ctypes.c_char_p, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(bridge, name)
        function.restype, function.argtypes = result, arguments
    return bridge


class Table:
    """A RotaryTable, freed with its last reader."""

    def __init__(self, bridge: ctypes.CDLL, case: Case) -> None:
        self.bridge = bridge
        self.address = bridge.gnomon_rotary_table(
            case.size, case.pairing == "adjacent", BASE, case.start, case.tokens
        )

    def __del__(self) -> None:
        self.bridge.gnomon_free_table(self.address)


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
    )
    own_table = True
    is_peer = False

    def __init__(self, bridge: ctypes.CDLL) -> None:
        self.bridge = bridge

    def prepare(self, inputs: Inputs) -> Run:
        """Each kernel of the bridge takes a number of calls to make, last."""
        if inputs.case.attends:
            return self.prepare_attention(inputs)
        return getattr(self, "prepare_" + inputs.case.work.removesuffix("_backward"))(inputs)

    def prepare_rotate(self, inputs: Inputs) -> Run:
        case, bridge = inputs.case, self.bridge
        arrays = [stored.copy() for stored in inputs.stored]
        table = Table(bridge, case)
        heads = Heads(
            arrays[0].ctypes.data,
            arrays[1].ctypes.data,
            DTYPES[case.dtype],
            case.layout == "HTD",
            1,
            case.tokens,
            QUERY_HEADS,
            KEY_HEADS,
            case.size,
        )
        arguments = (byref(heads), table.address, int(case.work == "rotate_backward"))
        rotate = bridge.gnomon_rotate

        def reset() -> None:
            for array, stored in zip(arrays, inputs.stored, strict=True):
                np.copyto(array, stored)

        def results(rows: list[int]) -> list[np.ndarray]:
            assert table.address
            return [from_storage(inputs.tokens_of(array, rows), case.dtype) for array in arrays]

        return Run(
            lambda: rotate(*arguments, 1), results, reset, loop=self.loop(rotate, arguments)
        )

    def prepare_sinusoidal_table(self, inputs: Inputs) -> Run:
        case = inputs.case
        out = np.empty((case.tokens, case.size), np.float32)
        arguments = (out.ctypes.data, case.tokens, case.size, case.start)
        fill = self.bridge.gnomon_sinusoidal
        return Run(lambda: fill(*arguments, 1), lambda rows: [out[rows]])

    def prepare_rotary_table(self, inputs: Inputs) -> Run:
        case = inputs.case
        cosines, sines = (np.empty((case.tokens, case.size // 2), np.float32) for _ in "cs")
        fill = self.bridge.gnomon_cos_sin
        arguments = (cosines.ctypes.data, sines.ctypes.data, case.tokens, case.size, BASE)
        return Run(
            lambda: fill(*arguments, case.start, 1), lambda rows: [cosines[rows], sines[rows]]
        )

    def prepare_add_table(self, inputs: Inputs) -> Run:
        case, table = inputs.case, inputs.table
        assert table is not None
        x = inputs.stored[0].copy()
        arguments = (x.ctypes.data, table.ctypes.data, case.batch, case.tokens, case.size)
        add = self.bridge.gnomon_add_table
        return Run(
            lambda: add(*arguments, 1),
            lambda rows: [x[0][rows]],
            lambda: np.copyto(x, inputs.stored[0]),
        )

    def prepare_attention(self, inputs: Inputs) -> Run:
        case = inputs.case
        arrays = [np.ascontiguousarray(stored) for stored in inputs.stored]
        out, q_grad, k_grad, v_grad = (np.zeros_like(arrays[0]) for _ in range(4))
        lse = np.zeros((ATTENTION_HEADS, case.tokens), np.float32)
        table_grad = np.zeros((BUCKETS, ATTENTION_HEADS), np.float32)
        kept = [*arrays, out, lse, q_grad, k_grad, v_grad, table_grad, inputs.table]
        call = Attention(
            *(array.ctypes.data for array in (*arrays[:3], out, lse)),
            case.tokens,
            ATTENTION_HEADS,
            case.size,
        )
        if inputs.table is not None:
            gradients = (arrays[3], q_grad, k_grad, v_grad, table_grad)
            call.table = inputs.table.ctypes.data
            call.out_grad, call.q_grad, call.k_grad, call.v_grad, call.table_grad = (
                array.ctypes.data for array in gradients
            )
        attend = self.bridge.gnomon_attention

        def results(rows: list[int]) -> list[np.ndarray]:
            assert kept
            if inputs.table is None:
                return [out[0][rows]]
            return [out[0][rows], q_grad[0][rows], table_grad[:, CHECKED_HEADS]]

        return Run(lambda: attend(byref(call), 1), results)

    def loop(self, function: Kernel, arguments: tuple) -> Callable[[int], int] | None:
        return None


class GnomonLoop(Gnomon):
    name = "Gnomon, called from C++"

    def takes(self, case: Case) -> bool:
        return case.rotates and case.tokens <= 16 and super().takes(case)

    def loop(self, function: Kernel, arguments: tuple) -> Callable[[int], int] | None:
        return lambda count: function(*arguments, count)


class NewTable(Contender):
    name = "Gnomon, RotaryTable with its memory"
    works = ("rotary_table",)
    dtypes = ("f32",)
    is_peer = False

    def __init__(self, bridge: ctypes.CDLL) -> None:
        self.bridge = bridge

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        kept = [Table(self.bridge, case)]

        def call() -> None:
            kept[0] = Table(self.bridge, case)

        def results(rows: list[int]) -> list[np.ndarray]:
            shape = (2, case.tokens, case.size // 2)
            address = self.bridge.gnomon_table_values(kept[0].address)
            floats = ctypes.cast(address, POINTER(ctypes.c_float))
            values = np.ctypeslib.as_array(floats, shape)
            return [values[0][rows].copy(), values[1][rows].copy()]

        return Run(call, results)


class Roof(Contender):
    """The same bytes read and written in place; of a table, only written."""

    name = "roof"
    works = Gnomon.works[:5]
    is_peer = False

    def __init__(self, bridge: ctypes.CDLL) -> None:
        self.bridge = bridge

    def prepare(self, inputs: Inputs) -> Run:
        words = inputs.case.bytes // 4
        data = np.ones(words, np.float32)
        writes = inputs.case.work in ("rotary_table", "sinusoidal_table")
        touch = self.bridge.gnomon_fill if writes else self.bridge.gnomon_touch
        return Run(
            lambda: touch(data.ctypes.data, words, 1),
            None,
            loop=lambda count: touch(data.ctypes.data, words, count),
        )


class Sgemm(Contender):
    """As many operations as attention has, at the rate of numpy's OpenBLAS."""

    name = "roof"
    works = ("attention", "attention_training")
    is_peer = False

    def prepare(self, inputs: Inputs) -> Run:
        a, b, c = (np.ones((2048, 2048), np.float32) for _ in "abc")
        operations = inputs.case.operations

        def nanoseconds(count: int) -> int:
            times = max(1, round(count * operations / (2 * 2048**3)))
            start = time.perf_counter_ns()
            for _ in range(times):
                np.matmul(a, b, out=c)
            spent = time.perf_counter_ns() - start
            return round(spent * count * operations / (times * 2 * 2048**3))

        return Run(lambda: nanoseconds(1), None, loop=nanoseconds)


class GnomonPeer(Peer):
    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.bridge = load()
        self.bridge.gnomon_set_threads(threads)

    def contenders(self) -> list[Contender]:
        ours = [contender(self.bridge) for contender in (Gnomon, GnomonLoop, NewTable, Roof)]
        return [*ours, Sgemm()]

    def versions(self) -> dict[str, str]:
        return {
            "Gnomon": self.bridge.gnomon_version().decode(),
            "kernels": self.bridge.gnomon_isa().decode(),
            "compiler": self.bridge.gnomon_compiler().decode(),
        }


peer = GnomonPeer
