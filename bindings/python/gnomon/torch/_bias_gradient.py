"""The gradient of a trained bias beside FlexAttention, deterministic, on CUDA devices.

FlexAttention adds the gradients of a table that score_mod reads with atomic additions. Here
score_mod reads the numbers of the bias without a gradient, and `attach` computes their gradient
from the inputs and the result of attention: the same bits in each run, in memory that grows with
T + S.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _device
from ._lowering import Form, Grid, PiecewiseLog, Slope, Strip


class Mask(NamedTuple):
    """The mask and the softmax of a call, as gnomon/cuda/bias_gradient.h."""

    visibility: str
    offset: int
    left: int | None
    right: int | None
    softmax_scale: float
    cap: float | None


def numbers_of(form: Form | None) -> list[Tensor]:
    """Returns the tensors of a form that have a gradient; empty for forms without a kernel."""
    if isinstance(form, Slope):
        return [form.slopes]
    if isinstance(form, (Strip, Grid)):
        return [form.values]
    if isinstance(form, PiecewiseLog):
        return [form.offsets, form.slopes, form.c, form.threshold]
    return []


def detached(form: Form) -> Form:
    """Returns the form without gradients."""
    return dataclasses.replace(form, **{  # type: ignore[type-var]
        field.name: value.detach() for field in dataclasses.fields(form)  # type: ignore[arg-type]
        if isinstance(value := getattr(form, field.name), Tensor)})


def available(form: Form | None, q: Tensor, v: Tensor) -> bool:
    """Whether the kernel computes the gradient of the form for these heads."""
    module = _device.kernels(q)
    if torch.compiler.is_compiling():
        return False
    wanted = torch.is_grad_enabled() and any(one.requires_grad for one in numbers_of(form))
    return bool(wanted and hasattr(module, "bias_gradient") and q.shape[-1] % 8 == 0
                and v.shape[-1] % 8 == 0 and max(q.shape[-1], v.shape[-1]) <= 256)


def attach(form: Form, mask: Mask, out: Tensor, lse: Tensor, q: Tensor, k: Tensor,
           v: Tensor) -> Tensor:
    """Returns out, with a gradient for the numbers of the form.

    q, k, v, out: [B, H, T, D] as attention read and wrote them; lse: [B, H, T].
    """
    return _Attach.apply(form, mask, out, lse.detach(), q.detach(), k.detach(), v.detach(),
                         *numbers_of(form))


def _aligned(x: Tensor) -> Tensor:
    """Returns x, or a copy whose rows begin at multiples of 16 bytes."""
    size = x.element_size()
    good = x.stride(-1) == 1 and x.data_ptr() % 16 == 0 and all(
        step * size % 16 == 0 for step in x.stride()[:-1])
    return x if good else x.clone(memory_format=torch.contiguous_format)


def _described(form: Form) -> tuple[str, list[Tensor], list[int], list[float]]:
    """Returns the kind of a form, its arrays, its integers and its numbers, for the kernel."""
    if isinstance(form, Slope):
        return "slope", [form.slopes], [], []
    if isinstance(form, Strip):
        return "strip", [form.values], [form.min_distance], []
    if isinstance(form, Grid):
        return "grid", [form.values], [form.height, form.width, form.leading], []
    assert isinstance(form, PiecewiseLog)
    # The kernel takes c and the threshold by value: the host waits for them.
    pair = torch.stack([form.c[0], form.threshold[0]]).tolist()
    return "piecewise_log", [form.knots, form.offsets, form.slopes], [], [*pair, form.epsilon]


class _Attach(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, form: Form, mask: Mask, out: Tensor, lse: Tensor, q: Tensor, k: Tensor,
                v: Tensor, *numbers: Tensor) -> Tensor:
        ctx.form, ctx.mask = detached(form), mask
        ctx.save_for_backward(out.detach(), lse, q, k, v)
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        out, lse, q, k, v = ctx.saved_tensors
        form, mask = ctx.form, ctx.mask
        kind, arrays, integers, floats = _described(form)
        arrays = [one.float().contiguous() for one in arrays]
        heads = q.shape[1]
        size = {"slope": 1, "piecewise_log": 2 * arrays[0].shape[-1] + 2}.get(
            kind, arrays[0].shape[-1])
        sums = torch.empty(heads, size, dtype=torch.float32, device=q.device)
        given = [_aligned(one) for one in (q, k, v, out)]
        rest = (kind, arrays, integers, floats, mask.visibility, mask.offset, mask.left,
                mask.right, mask.softmax_scale, mask.cap)
        inputs = (*given, lse.float(), _aligned(grad.to(q.dtype)))
        module = _device.kernels(q)
        space = torch.empty(module.bias_gradient_workspace(*inputs, *rest), dtype=torch.uint8,
                            device=q.device)
        module.bias_gradient(*inputs, *rest, sums, space, _device.stream(q))
        return None, None, grad, None, None, None, None, *_parts(form, sums)


def _parts(form: Form, sums: Tensor) -> list[Tensor]:
    """Returns the gradients of numbers_of(form) from the rows of the kernel."""
    if isinstance(form, PiecewiseLog):
        pieces = form.knots.shape[0]
        parts = sums.split([pieces, pieces, 1, 1], 1)
        parts = (*parts[:2], parts[2][:, 0], parts[3][:, 0])
    else:
        parts = (sums[:, 0] if isinstance(form, Slope) else sums,)
    return [part.to(of.dtype) for part, of in zip(parts, numbers_of(form))]
