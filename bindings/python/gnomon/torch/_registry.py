"""The table of the operators torch.ops.gnomon.*, and their registration with PyTorch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

_library = torch.library.Library("gnomon", "DEF")
_ops = torch.ops.gnomon


def _no_result(*_: Any) -> None:
    """The fake kernel of an operator that only changes its arguments."""


@dataclass(frozen=True)
class Operator:
    """The declaration of an operator.

    schema: "rotate(Tensor x, ...) -> Tensor". Its name is that of the operator.
    kernel: computes the operator, on all devices.
    fake: returns empty results. The default is for operators that only change their arguments.
    setup_context, backward: keep what the gradient needs, and compute it, as in
        torch.library.register_autograd. None: the operator has no gradient.
    vmap: the rule of torch.vmap, `joined(...)` or `each`. None: the operator has no rule.
    composed: computes the operator by operators of PyTorch, for export to ONNX.
    """

    schema: str
    kernel: Callable[..., Any]
    fake: Callable[..., Any] = _no_result
    setup_context: Callable[..., None] | None = None
    backward: Callable[..., Any] | None = None
    vmap: Callable[..., Any] | None = None
    composed: Callable[..., Any] | None = None


OPERATORS: dict[str, Operator] = {}


def register(operator: Operator) -> None:
    """Adds an operator to torch.ops.gnomon."""
    name = operator.schema.partition("(")[0]
    qualified = f"gnomon::{name}"
    OPERATORS[name] = operator
    _library.define(operator.schema, tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(name, operator.kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(qualified, operator.fake, lib=_library)
    if operator.backward is not None:
        torch.library.register_autograd(qualified, operator.backward, lib=_library,
                                        setup_context=operator.setup_context)
    if operator.vmap is not None:
        torch.library.register_vmap(qualified, _vmap_rule(name), lib=_library)


# -- graphs without operators of Gnomon --------------------------------------------------------


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Returns the table for `ExportedProgram.run_decompositions` that replaces torch.ops.gnomon.*.

    It contains the default table of torch.export. torch.onnx.export(dynamo=True) of a module needs
    no table.
    """
    table = torch.export.default_decompositions()
    table.update({getattr(_ops, name).default: one.composed
                  for name, one in OPERATORS.items() if one.composed is not None})
    return table


def _to_onnx() -> bool:
    onnx = sys.modules.get("torch.onnx")
    return onnx is not None and onnx.is_in_onnx_export()


# -- vmap --------------------------------------------------------------------------------------


def _vmap_rule(name: str) -> Callable[..., Any]:
    return functools.partial(OPERATORS[name].vmap, getattr(_ops, name).default)


def _element(value: Any, axes: Any, index: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_element(one, axis, index) for one, axis in zip(value, _axes(axes, value))]
    return value.select(axes, index) if axes is not None else value


def _axes(axes: Any, values: Sequence[Any]) -> Sequence[Any]:
    return axes if isinstance(axes, (list, tuple)) else [axes] * len(values)


def _mapped(axes: Any) -> bool:
    return any(one is not None for one in (axes if isinstance(axes, (list, tuple)) else [axes]))


def each(op: Any, info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
    """The vmap rule that calls the operator once for each element of the mapped axis."""
    results = [op(*[_element(one, axes, i) for one, axes in zip(args, in_dims)])
               for i in range(info.batch_size)]
    stacked = _pytree.tree_map(lambda *ones: torch.stack(ones), *results)
    return stacked, _pytree.tree_map(lambda _: 0, stacked)


def joined(batched: int, shared: Mapping[int, int]) -> Callable[..., Any]:
    """Returns the vmap rule that makes the mapped axis a part of the batch.

    batched: the first arguments, tensors [B, ...], of which any can be mapped. If another argument
        is mapped, the rule is `each`.
    shared: arguments [B or 1, ...], or lists of them, by index, with their number of axes. They
        are repeated if they have a row for each row of the batch.
    """
    def repeated(one: Any, size: int, rank: int) -> Any:
        if isinstance(one, (list, tuple)):
            return [repeated(each, size, rank) for each in one]
        if one is None or one.dim() < rank or one.shape[0] == 1:
            return one
        return one.repeat(size, *[1] * (one.dim() - 1))

    def rule(op: Any, info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
        size = info.batch_size
        if any(map(_mapped, in_dims[batched:])):
            return each(op, info, in_dims, *args)
        flat = [one.expand(size, *one.shape) if axis is None else one.movedim(axis, 0)
                for one, axis in zip(args[:batched], in_dims)]
        rest = [repeated(one, size, shared[i]) if i in shared else one
                for i, one in enumerate(args[batched:], batched)]
        results = op(*[one.flatten(0, 1) for one in flat], *rest)
        return (_pytree.tree_map(lambda one: one.unflatten(0, (size, -1)), results),
                _pytree.tree_map(lambda _: 0, results))

    return rule


# -- torch.func --------------------------------------------------------------------------------


class _Transformed(torch.autograd.Function):
    """An operator with its gradient and its vmap rule, for nested transforms of torch.func.

    The gradient that torch.library registers cannot run inside vmap.
    """

    @staticmethod
    def forward(name: str, spec: Any, *flat: Any) -> Any:
        results = getattr(_ops, name)(*_pytree.tree_unflatten(flat, spec))
        return tuple(results) if isinstance(results, list) else results

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.name, spec, *flat = inputs
        if (setup := OPERATORS[ctx.name].setup_context) is not None:
            setup(ctx, _pytree.tree_unflatten(flat, spec), output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return None, None, *_pytree.tree_leaves(OPERATORS[ctx.name].backward(ctx, *grads))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], name: str, spec: Any, *flat: Any) -> Any:
        results, axes = _vmap_rule(name)(info, _pytree.tree_unflatten(in_dims[2:], spec),
                                         *_pytree.tree_unflatten(flat, spec))
        return (tuple(results), tuple(axes)) if isinstance(results, list) else (results, axes)


def _check_meta(name: str, args: tuple[Any, ...]) -> None:
    """Refuses tensors on the device meta beside others: the result would have no values."""
    if args[0].is_meta:
        return
    for one in _pytree.tree_leaves(args):
        if isinstance(one, Tensor) and one.is_meta:
            raise ValueError(f"[{name.removesuffix('_backward')}] all tensors must be on the "
                             f"device of the first, {args[0].device}, got a tensor on meta")


def call(name: str, *args: Any) -> Any:
    """Calls an operator that has a gradient, also inside transforms of torch.func."""
    if not torch.compiler.is_dynamo_compiling():
        _check_meta(name, args)
    if not torch.compiler.is_dynamo_compiling() and _to_onnx():
        composed = OPERATORS[name].composed
        if composed is not None:
            return composed(*args)
    if torch.compiler.is_dynamo_compiling() or not torch._C._are_functorch_transforms_active():
        return getattr(_ops, name)(*args)
    flat, spec = _pytree.tree_flatten(args)
    return _Transformed.apply(name, spec, *flat)
