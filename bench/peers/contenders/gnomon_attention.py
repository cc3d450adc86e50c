"""Gnomon's attention without a bias, from any cache."""

from __future__ import annotations

from ctypes import byref

import numpy as np

import aligned
import plain_attention
from arrays import Inputs, from_storage
from c_api import CAUSAL, AttentionInput, Library, RaggedBatch, Tensor
from cases import Case
from contender import Contender, Run


def cache_tensors(inputs: Inputs) -> tuple[dict[str, Tensor], np.ndarray | None]:
    """k, v and their scales, and the table of blocks of a paged cache."""
    case = inputs.case
    tensors: dict[str, Tensor] = {}
    table = None
    for name, stored in zip("kv", inputs.stored[1:], strict=True):
        array = stored
        if case.cache == "int8":
            array, scales = plain_attention.int8_rows(stored)
            tensors[name + "_scales"] = Tensor(scales)
        elif case.cache == "e4m3":
            tensors[name + "_scales"] = Tensor(np.ones(1, np.float32))
        if case.page:
            array, table = plain_attention.pages(stored, case.page)
        tensors[name] = Tensor(array, case.dtype if not case.cache else None)
    return tensors, table


def attention_run(library: Library, inputs: Inputs, rounds_weights: bool = True) -> Run:
    case = inputs.case
    given, table = cache_tensors(inputs)
    given["q"] = Tensor(inputs.stored[0], case.dtype)
    out = Tensor(aligned.zeros_like(inputs.stored[0]), case.dtype)
    plan = library.make("layer_plan", "layer_plan_create")
    library.call("layer_plan_round_weights", plan, int(rounds_weights))
    # In a ragged batch, the lengths of a sequence give its offset.
    offset = -1 if case.page else case.tokens - (case.queries or case.tokens)
    library.call("layer_plan_set_mask", plan, CAUSAL, offset, -1, -1)
    to = AttentionInput(**given)
    if table is None:
        attend, arguments = "attention", (byref(to), plan, byref(out), None)
    else:
        lengths = np.array([case.tokens])
        batch = RaggedBatch(key_lengths=Tensor(lengths), block_table=Tensor(table))
        attend, arguments = "attention_ragged", (byref(to), byref(batch), plan, byref(out), None)

    def results(rows: list[int]) -> list[np.ndarray]:
        assert given  # keeps the arrays alive
        return [from_storage(plain_attention.picked(out.array, rows), case.dtype)]

    return Run(lambda: library.call(attend, *arguments), results)


class FloatWeights(Contender):
    """Does not round the weights of the softmax, which it otherwise does if all is bf16."""

    name = "Gnomon, weights in f32"
    works = ("attention_prompt", "attention_decode")
    dtypes = ("bf16",)
    is_peer = False

    def __init__(self, library: Library) -> None:
        self.library = library

    def takes(self, case: Case) -> bool:
        return super().takes(case) and not case.cache

    def prepare(self, inputs: Inputs) -> Run:
        return attention_run(self.library, inputs, rounds_weights=False)
