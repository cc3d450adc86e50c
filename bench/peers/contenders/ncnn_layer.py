"""ncnn's RotaryEmbed layer, with the layout [H, T, D] of ncnn."""

from __future__ import annotations

import ncnn
import numpy as np

from arrays import Inputs, table_of
from contender import Contender, Run

# A blob has one reader, so the tables have a different name for each layer.
NETWORK = """7767517
8 8
Input q 0 1 q
Input k 0 1 k
Input q_cos 0 1 q_cos
Input q_sin 0 1 q_sin
Input k_cos 0 1 k_cos
Input k_sin 0 1 k_sin
RotaryEmbed rope_q 3 1 q q_cos q_sin q_out 0={adjacent}
RotaryEmbed rope_k 3 1 k k_cos k_sin k_out 0={adjacent}
"""


class Ncnn(Contender):
    name = "ncnn"
    dtypes = ("f32",)
    layouts = ("HTD",)

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        network = ncnn.Net()
        network.opt.num_threads = self.threads
        network.load_param_mem(NETWORK.format(adjacent=int(case.pairing == "adjacent")))
        network.load_model_mem(b"")
        q, k = (stored[0] for stored in inputs.stored)
        arrays = (q, *table_of(case)), (k, *table_of(case))
        values = {
            name + part: ncnn.Mat(array).clone()
            for name, parts in zip("qk", arrays, strict=True)
            for part, array in zip(("", "_cos", "_sin"), parts, strict=True)
        }

        def compute() -> list[ncnn.Mat]:
            extractor = network.create_extractor()
            for name, value in values.items():
                extractor.input(name, value)
            return [extractor.extract(name)[1] for name in ("q_out", "k_out")]

        return Run.keeping(
            compute, lambda out, rows: [np.array(x)[:, rows].swapaxes(0, 1) for x in out]
        )


def contenders(threads: int) -> list[Contender]:
    return [Ncnn(threads)]


def versions() -> dict[str, str]:
    return {"ncnn": ncnn.__version__}
