"""MLX on the CPU: mx.fast.rope, which computes cos and sin in each call."""

from __future__ import annotations

import importlib.metadata

import mlx.core as mx
import numpy as np

from arrays import Inputs
from cases import BASE
from contender import Contender, Run


class Mlx(Contender):
    name = "MLX, mx.fast.rope"
    own_table = True

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        arrays = []
        for stored in inputs.stored:
            x = mx.array(stored)
            if case.dtype == "bf16":
                x = x.view(mx.bfloat16)
            arrays.append(x if case.layout == "HTD" else x.transpose(0, 2, 1, 3))
        mx.eval(arrays)
        traditional = case.pairing == "adjacent"

        def compute() -> list[mx.array]:
            options = {"traditional": traditional, "base": BASE, "scale": 1.0}
            out = [mx.fast.rope(x, case.size, offset=case.start, **options) for x in arrays]
            mx.eval(out)
            return out

        return Run.keeping(
            compute,
            lambda out, rows: [
                np.array(x.astype(mx.float32))[0][:, rows].swapaxes(0, 1) for x in out
            ],
            note="computes cos and sin in each call",
        )


def contenders(threads: int) -> list[Contender]:
    mx.set_default_device(mx.cpu)
    return [Mlx()]


def versions() -> dict[str, str]:
    return {"mlx": importlib.metadata.version("mlx")}
