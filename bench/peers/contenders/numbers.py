"""Code of numpy tutorials, and the plain loop compiled by Numba."""

from __future__ import annotations

import numba
import numpy as np

import aligned
from arrays import Inputs
from cases import Case
from contender import Contender, Run


def table(case: Case) -> tuple[np.ndarray, np.ndarray]:
    frequencies = 1.0 / 10000.0 ** (np.arange(0, case.size, 2, dtype=np.float32) / case.size)
    ids = np.arange(case.start, case.start + case.tokens, dtype=np.float32)
    turns = np.outer(ids, frequencies.astype(np.float32))
    return np.cos(turns), np.sin(turns)


def sinusoidal(case: Case) -> tuple[np.ndarray]:
    cosines, sines = table(case)
    out = np.zeros((case.tokens, case.size), np.float32)
    out[:, 0::2] = sines
    out[:, 1::2] = cosines
    return (out,)


def rotate_halves(x: np.ndarray, cosines: np.ndarray, sines: np.ndarray) -> np.ndarray:
    half = x.shape[-1] // 2
    return x * cosines + np.concatenate((-x[..., half:], x[..., :half]), axis=-1) * sines


def rotate_adjacent(x: np.ndarray, cosines: np.ndarray, sines: np.ndarray) -> np.ndarray:
    turned = np.stack((-x[..., 1::2], x[..., 0::2]), axis=-1).reshape(x.shape)
    return x * cosines + turned * sines


class Numpy(Contender):
    name = "numpy, textbook"
    works = ("rotate", "rotary_table", "sinusoidal_table", "add_table")
    dtypes = ("f32",)
    own_table = True

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        if case.rotates:
            halves = case.pairing == "halves"
            rotate = rotate_halves if halves else rotate_adjacent
            parts = [
                np.concatenate((part, part), axis=-1) if halves else np.repeat(part, 2, axis=-1)
                for part in table(case)
            ]
            if case.layout == "THD":
                parts = [part[:, None] for part in parts]
            q, k = inputs.stored
            return Run.keeping(
                lambda: (rotate(q, *parts), rotate(k, *parts)),
                lambda both, rows: [inputs.tokens_of(x, rows) for x in both],
            )
        if case.work == "add_table":
            x = aligned.copied(inputs.stored[0])
            return Run(
                lambda: np.add(x, inputs.table, out=x),
                lambda rows: [x[0][rows]],
                lambda: inputs.restore([x]),
            )
        make = table if case.work == "rotary_table" else sinusoidal
        return Run.keeping(
            lambda: make(case), lambda parts, rows: [part[rows] for part in parts]
        )


@numba.njit(parallel=True, fastmath=True, error_model="numpy")
def loop_halves(x: np.ndarray, cosines: np.ndarray, sines: np.ndarray) -> None:
    tokens, heads, size = x.shape
    half = size // 2
    for t in numba.prange(tokens):
        for h in range(heads):
            for i in range(half):
                a, b = x[t, h, i], x[t, h, i + half]
                x[t, h, i] = a * cosines[t, i] - b * sines[t, i]
                x[t, h, i + half] = a * sines[t, i] + b * cosines[t, i]


@numba.njit(parallel=True, fastmath=True, error_model="numpy")
def loop_adjacent(x: np.ndarray, cosines: np.ndarray, sines: np.ndarray) -> None:
    tokens, heads, size = x.shape
    for t in numba.prange(tokens):
        for h in range(heads):
            for i in range(size // 2):
                a, b = x[t, h, 2 * i], x[t, h, 2 * i + 1]
                x[t, h, 2 * i] = a * cosines[t, i] - b * sines[t, i]
                x[t, h, 2 * i + 1] = a * sines[t, i] + b * cosines[t, i]


@numba.njit(parallel=True, fastmath=True, error_model="numpy")
def loop_add(x: np.ndarray, added: np.ndarray) -> None:
    batch, tokens, channels = x.shape
    for row in numba.prange(batch * tokens):
        for c in range(channels):
            x[row // tokens, row % tokens, c] += added[row % tokens, c]


class Numba(Contender):
    name = "Numba, the plain loop in place"
    works = ("rotate", "add_table")
    dtypes = ("f32",)
    layouts = ("THD",)
    own_table = True

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        arrays = [aligned.copied(stored) for stored in inputs.stored]
        reset = lambda: inputs.restore(arrays)  # noqa: E731
        if case.work == "add_table":
            call = lambda: loop_add(arrays[0], inputs.table)  # noqa: E731
            return Run(call, lambda rows: [arrays[0][0][rows]], reset)
        cosines, sines = table(case)
        rotate = loop_halves if case.pairing == "halves" else loop_adjacent
        q, k = (array[0] for array in arrays)

        def both() -> None:
            rotate(q, cosines, sines)
            rotate(k, cosines, sines)

        return Run(both, lambda rows: [q[rows], k[rows]], reset)


def contenders(threads: int) -> list[Contender]:
    numba.set_num_threads(threads)
    return [Numpy(), Numba()]


def versions() -> dict[str, str]:
    return {"numpy": np.__version__, "numba": numba.__version__}
