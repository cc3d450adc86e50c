"""Intel Extension for PyTorch: its operator, not in place, with one call for q and one for k."""

from __future__ import annotations

import intel_extension_for_pytorch
import numpy as np
import torch

from arrays import Inputs, table_of
from cases import KEY_HEADS, QUERY_HEADS
from contender import Contender, Peer, Run
from contenders.tensors import floats, tensors


class Ipex(Contender):
    name = "Intel Extension for PyTorch"
    layouts = ("THD",)

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        cosines, sines = table_of(case)
        table = torch.from_numpy(np.concatenate((sines, cosines), axis=-1))
        ids = torch.arange(case.tokens)[None]
        offset = case.size // 2 if case.pairing == "halves" else 1
        q, k = tensors(inputs)
        rotate = torch.ops.torch_ipex.rotary_position_embedding
        kept: list = [None]

        def call() -> None:
            kept[0] = (
                rotate(q, table, ids, QUERY_HEADS, case.size, offset, case.size)[0],
                rotate(k, table, ids, KEY_HEADS, case.size, offset, case.size)[0],
            )

        return Run(call, lambda rows: [floats(inputs, x, rows, False) for x in kept[0]])


class IpexPeer(Peer):
    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        torch.set_num_threads(threads)

    def contenders(self) -> list[Contender]:
        return [Ipex()]

    def versions(self) -> dict[str, str]:
        version = intel_extension_for_pytorch.__version__
        return {"intel-extension-for-pytorch": f"{version} (with torch {torch.__version__})"}


peer = IpexPeer
