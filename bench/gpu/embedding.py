"""Tables of embeddings: addition of rows, gather, and the gradient of the table.

The calls of gnomon._cuda are in `add`, `gather` and `scatter`.
"""

from __future__ import annotations

from typing import Any

import torch
from cases import Case
from contender import (DTYPES, OURS, PEER, Contender, Work, copy_roof, numbers, some_rows,
                       stream_of)
from torch import Tensor

WIDTH = 2048
# Rows of the table: positions, a vocabulary, and a vocabulary with few tokens in each row.
TABLE_ROWS = {"add": 4096, "gather": 131072, "scatter": 32768}
BATCH = 8


def work_of(case: Case, module: Any, device: torch.device) -> Work:
    dry = device.type != "cuda"
    dtype, count = DTYPES[case.dtype], TABLE_ROWS[case.work] // (1024 if dry else 1)
    width = 64 if dry else WIDTH
    table = numbers(count, width, dtype=dtype, device=device, seed=1)
    generator = torch.Generator(device=device).manual_seed(0)
    if case.work == "add":  # positions of a batch
        at = torch.arange(case.tokens, device=device).reshape(BATCH, -1) % count
    else:
        at = torch.randint(count, (BATCH, case.tokens // BATCH), generator=generator,
                           device=device)
    x = numbers(*at.shape, width, dtype=dtype, device=device)
    work = {"add": add, "gather": gather, "scatter": scatter}[case.work](module, x, table, at)
    work.contenders.append(copy_roof(work.bytes, device))
    return work


def add(module: Any, x: Tensor, table: Tensor, at: Tensor) -> Work:
    rows = some_rows(len(x), x.device)
    wanted = x[rows].double() + table[at[rows]].double()
    work = Work([x], 2 * x.nbytes + table.nbytes, wanted=[wanted], rows=[rows])

    def ours(x: Tensor) -> None:
        module.add_table(x, table, at, stream_of(x))

    work.contenders += [
        Contender("Gnomon", OURS, ours, results=lambda _, x: [x]),
        Contender("PyTorch, x += embedding(rows)", PEER,
                  lambda x: x.add_(torch.nn.functional.embedding(at, table)),
                  results=lambda out, *_: [out], note="two launches"),
    ]
    return work


def gather(module: Any, x: Tensor, table: Tensor, at: Tensor) -> Work:
    rows = some_rows(len(x), x.device)
    work = Work([x], 2 * x.nbytes, wanted=[table[at[rows]].double()], rows=[rows])

    def ours(out: Tensor) -> None:
        module.gather_rows(table, at, out, stream_of(out))

    work.contenders += [
        Contender("Gnomon", OURS, ours, results=lambda _, out: [out]),
        Contender("PyTorch, embedding(rows)", PEER,
                  lambda out: torch.nn.functional.embedding(at, table),
                  results=lambda out, *_: [out], note="writes a new array"),
    ]
    return work


def scatter(module: Any, grad: Tensor, table: Tensor, at: Tensor) -> Work:
    """The gradient [N, C] in float32 of the gradients of tokens."""
    sums = torch.zeros(table.shape, device=grad.device)
    wanted = torch.zeros(table.shape, dtype=torch.float64, device=grad.device)
    wanted.index_add_(0, at.flatten(), grad.flatten(0, 1).double())
    rows = some_rows(len(sums), grad.device)
    touched = at.unique().numel() * table.shape[1] * 4
    work = Work([sums], grad.nbytes + 2 * touched, wanted=[wanted[rows]], rows=[rows])
    size = module.add_rows_backward_workspace(at.numel(), len(table))
    workspace = torch.empty(size, dtype=torch.uint8, device=grad.device)
    flat, numbers_of = at.flatten(), grad.flatten(0, 1)

    def ours(sums: Tensor) -> None:
        module.add_table_backward(grad, at, sums, workspace, stream_of(sums))

    def dense(_: Tensor) -> Tensor:
        return torch.ops.aten.embedding_dense_backward(grad, at, len(table), -1, False)

    work.contenders += [
        Contender("Gnomon", OURS, ours, results=lambda _, sums: [sums]),
        Contender("PyTorch, index_add_", PEER,
                  lambda sums: sums.index_add_(0, flat, numbers_of.float()),
                  results=lambda out, *_: [out], note="atomics; converts the gradient first"),
        Contender("PyTorch, embedding backward", PEER, dense, results=lambda out, *_: [out],
                  note="result in the type of the gradient"),
    ]
    return work
