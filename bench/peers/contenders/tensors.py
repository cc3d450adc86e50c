"""Common functions of contenders that run on PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

import aligned
from arrays import Inputs
from cases import Case
from contender import Run

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
Rotation = Callable[[torch.Tensor, torch.Tensor], Sequence[torch.Tensor]]


def tensors(inputs: Inputs) -> list[torch.Tensor]:
    """Copies of q and k in the layout of the case."""
    copies = [torch.from_numpy(aligned.copied(stored)) for stored in inputs.stored]
    if inputs.case.dtype == "bf16":
        return [copy.view(torch.bfloat16) for copy in copies]
    return copies


def restoring(arrays: list[torch.Tensor]) -> Callable[[], None]:
    """Returns a function that restores the present elements."""
    copies = [array.clone() for array in arrays]

    def restore() -> None:
        for array, copy in zip(arrays, copies, strict=True):
            array.copy_(copy)

    return restore


def heads_first(inputs: Inputs, x: torch.Tensor) -> torch.Tensor:
    """[B, H, T, D], as in attention of Hugging Face. A view if the memory is [B, T, H, D]."""
    return x if inputs.case.layout == "HTD" else x.transpose(1, 2)


def tokens_first(inputs: Inputs, x: torch.Tensor) -> torch.Tensor:
    """[B, T, H, D]. A view if the memory is [B, H, T, D]."""
    return x if inputs.case.layout == "THD" else x.transpose(1, 2)


def floats(inputs: Inputs, x: torch.Tensor, rows: list[int], heads_outside: bool) -> np.ndarray:
    """[rows, H, D] of [B, H, T, D] or [B, T, H, D]."""
    x = x.detach()[0]
    return (x[:, rows].transpose(0, 1) if heads_outside else x[rows]).float().numpy()


def rotation_run(inputs: Inputs, rotate: Rotation, heads_outside: bool) -> Run:
    """Not in place. In the backward pass, the incoming gradients have the layout of q and k."""
    view = heads_first if heads_outside else tokens_first
    q, k = (view(inputs, x) for x in tensors(inputs))
    compute = lambda: rotate(q, k)  # noqa: E731
    if inputs.case.work == "rotate_backward":
        leaves = [x.detach().clone().requires_grad_() for x in (q, k)]
        outputs = rotate(*leaves)
        compute = lambda: torch.autograd.grad(outputs, leaves, (q, k), retain_graph=True)  # noqa: E731
    return Run.keeping(
        compute, lambda out, rows: [floats(inputs, x, rows, heads_outside) for x in out]
    )


def frequencies(size: int) -> torch.Tensor:
    """As in the packages, in float32."""
    return 1.0 / (10000.0 ** (torch.arange(0, size, 2, dtype=torch.float32) / size))


def positions(case: Case) -> torch.Tensor:
    return torch.arange(case.start, case.start + case.tokens)
