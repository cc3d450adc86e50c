"""Intel Extension for PyTorch: its operator, not in place, with one call for q and one for k."""

from __future__ import annotations

import intel_extension_for_pytorch
import numpy as np
import torch

from arrays import Inputs, table_of
from cases import KEY_HEADS, QUERY_HEADS
from contender import Contender, Run
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
        return Run.keeping(
            lambda: (
                rotate(q, table, ids, QUERY_HEADS, case.size, offset, case.size)[0],
                rotate(k, table, ids, KEY_HEADS, case.size, offset, case.size)[0],
            ),
            lambda out, rows: [floats(inputs, x, rows, False) for x in out],
        )


def contenders(threads: int) -> list[Contender]:
    torch.set_num_threads(threads)
    return [Ipex()]


def versions() -> dict[str, str]:
    version = intel_extension_for_pytorch.__version__
    return {"intel-extension-for-pytorch": f"{version} (with torch {torch.__version__})"}
