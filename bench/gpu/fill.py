"""Tables of cos and sin, filled on the device."""

from __future__ import annotations

from typing import Any

import torch
from cases import HEAD_DIM, Case
from contender import OURS, PEER, ROOF, Contender, Work, some_rows, stream_of
from rotate import cos_sin, frequencies, in_place, inv_freq
from torch import Tensor


def work_of(case: Case, module: Any, device: torch.device) -> Work:
    shape = case.tokens, HEAD_DIM // 2
    there = frequencies(module, case.pairing, HEAD_DIM, 0, device)
    single = inv_freq(HEAD_DIM).float().to(device)
    at = torch.arange(case.tokens, dtype=torch.float32, device=device)
    rows = some_rows(case.tokens, device)
    tables = [one[rows] for one in cos_sin(case.tokens, HEAD_DIM, device)]
    both = torch.empty(2, *shape, device=device)
    work = Work(list(both), both.nbytes, wanted=tables, rows=[rows] * 2)

    def fill(cos: Tensor, sin: Tensor) -> None:
        module.fill_cos_sin(there, 0, None, cos, sin, stream_of(cos))

    def formula() -> tuple[Tensor, Tensor]:
        angle = torch.outer(at, single)
        return angle.cos(), angle.sin()

    def eager(*_: Tensor) -> tuple[Tensor, Tensor]:
        return formula()

    compiled = torch.compile(formula, dynamic=False,
                             backend="inductor" if device.type == "cuda" else "eager")
    work.contenders += [
        Contender("Gnomon", OURS, fill, results=in_place),
        Contender("zero_() of the same bytes", ROOF, lambda x: x.zero_(),
                  lambda *_: [torch.empty_like(both)]),
        Contender("PyTorch, angles in float32", PEER, eager, results=lambda out, *_: out),
        Contender("torch.compile, angles in float32", PEER, lambda *_: compiled(),
                  results=lambda out, *_: out),
    ]
    return work
