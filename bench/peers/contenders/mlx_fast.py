"""MLX on the CPU: mx.fast.rope, which computes cos and sin in each call."""

from __future__ import annotations

import importlib.metadata

import mlx.core as mx
import numpy as np

from arrays import Inputs
from cases import BASE
from contender import Contender, Peer, Run


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
        kept: list = [None]

        def call() -> None:
            kept[0] = [
                mx.fast.rope(
                    x,
                    case.size,
                    traditional=traditional,
                    base=BASE,
                    scale=1.0,
                    offset=case.start,
                )
                for x in arrays
            ]
            mx.eval(kept[0])

        def results(rows: list[int]) -> list[np.ndarray]:
            return [np.array(x.astype(mx.float32))[0][:, rows].swapaxes(0, 1) for x in kept[0]]

        return Run(call, results, note="computes cos and sin in each call")


class MlxPeer(Peer):
    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        mx.set_default_device(mx.cpu)

    def contenders(self) -> list[Contender]:
        return [Mlx()]

    def versions(self) -> dict[str, str]:
        return {"mlx": importlib.metadata.version("mlx")}


peer = MlxPeer
