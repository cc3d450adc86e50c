"""The operators torch.ops.gnomon.*: schemas, kernels, fake kernels, gradients and vmap.

Schemas use tensors, strings, numbers and flags only, so that a C++ extension can define the same
operators. `encoding` is the JSON of a spec (rotate) or a JSON array of specs (attention,
add_position). Operators that end in `_` change x in place and have no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from . import _append, _device, _kernels
from ._kernels import Call

_ROTATE = ("str encoding, Tensor[] positions, SymInt offset, int length, bool heads_tokens, "
           "bool inverse")
_WITH = "Tensor cos, Tensor sin, str pairing, int head_offset, bool heads_tokens, bool inverse"
_CALL = ("Tensor? query_positions, Tensor? positions, Tensor? query_sequences, "
         "Tensor? sequences, str encoding, bool heads_tokens, str visibility, int? left, "
         "int? right, float? softmax_scale, float? cap, int length")
_TRAINED = "Tensor[] parameters, Tensor? sinks, Tensor? gates"
_ADD = "Tensor[] parameters, Tensor? positions, str encoding, SymInt offset"

_library = torch.library.Library("gnomon", "DEF")
for _schema in (
    f"rotate(Tensor x, {_ROTATE}) -> Tensor",
    f"rotate_(Tensor(a!) x, {_ROTATE}) -> ()",
    f"rotate_with(Tensor x, {_WITH}) -> Tensor",
    f"rotate_with_(Tensor(a!) x, {_WITH}) -> ()",
    f"attention(Tensor q, Tensor k, Tensor v, {_TRAINED}, {_CALL}) -> (Tensor, Tensor)",
    f"attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, {_TRAINED}, Tensor out, "
    f"Tensor lse, {_CALL}) -> Tensor[]",
    f"add_position(Tensor x, {_ADD}) -> Tensor",
    f"add_position_(Tensor(a!) x, {_ADD}) -> ()",
    f"add_position_backward(Tensor grad, {_ADD}) -> Tensor[]",
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))

_append.define(_library)
_ops = torch.ops.gnomon


def _implement(name: str, kernel: Callable[..., Any], fake: Callable[..., Any]) -> None:
    _library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"gnomon::{name}", fake, lib=_library)


def _nothing(*_: Any) -> None:
    """The fake kernel of an operator that only changes its argument."""


# -- rotate ------------------------------------------------------------------------------------


def _rotate(x: Tensor, encoding: str, positions: Sequence[Tensor], offset: int, length: int,
            heads_tokens: bool, inverse: bool) -> Tensor:
    if positions and _device.kernels(x) is not None:
        x = _kernels.readable(x)
        out = _kernels.like(x)
        if _device.rotate_at(out, x, encoding, positions, length, heads_tokens, inverse):
            return out
    table, begin = _kernels.table_of(x, encoding, positions, offset, length, heads_tokens)
    return _kernels.rotated_by(x, table, begin, heads_tokens, inverse)


def _rotate_in_place(x: Tensor, encoding: str, positions: Sequence[Tensor], offset: int,
                     length: int, heads_tokens: bool, inverse: bool) -> None:
    _kernels.check_writable(x)
    if not positions or not _device.rotate_at(x, x, encoding, positions, length, heads_tokens,
                                              inverse):
        table, begin = _kernels.table_of(x, encoding, positions, offset, length, heads_tokens)
        _kernels.rotate_into(x, x, table, begin, heads_tokens, inverse)
    _kernels.changed(x)


def _rotate_with_in_place(x: Tensor, *rest: Any) -> None:
    _kernels.check_writable(x)
    _kernels.rotate_with_into(x, x, *rest)
    _kernels.changed(x)


def _fake_rotated(x: Tensor, *_: Any) -> Tensor:
    _kernels.check_heads(x)
    return _kernels.like(_kernels.readable(x))


_implement("rotate", _rotate, _fake_rotated)
_implement("rotate_", _rotate_in_place, _nothing)
_implement("rotate_with", _kernels.rotated_with, _fake_rotated)
_implement("rotate_with_", _rotate_with_in_place, _nothing)


def _keep_rotation(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, ctx.encoding, positions, *ctx.rest, ctx.inverse = inputs
    ctx.save_for_backward(*positions)


def _rotate_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    positions = list(ctx.saved_tensors)
    back = call("rotate", grad, ctx.encoding, positions, *ctx.rest, not ctx.inverse)
    return back, None, [None] * len(positions), None, None, None, None


def _keep_factors(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, cos, sin, *ctx.rest, ctx.inverse = inputs
    ctx.save_for_backward(cos, sin)


def _rotate_with_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    back = call("rotate_with", grad, *ctx.saved_tensors, *ctx.rest, not ctx.inverse)
    return back, None, None, None, None, None, None



# -- attention ---------------------------------------------------------------------------------


def _attention(q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor],
               sinks: Tensor | None, gates: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
    call = Call(*rest)
    plan = call.plan(q, k, parameters, sinks)
    return _kernels.attend(plan, call.heads_tokens, q, k, v, gates)


def _fake_attention(q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor],
                    sinks: Tensor | None, gates: Tensor | None, *rest: Any,
                    ) -> tuple[Tensor, Tensor]:
    return _kernels.result_of(q, v, Call(*rest).heads_tokens)


def _attention_backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor,
                        parameters: Sequence[Tensor], sinks: Tensor | None,
                        gates: Tensor | None, out: Tensor, lse: Tensor,
                        *rest: Any) -> list[Tensor]:
    call = Call(*rest)
    plan = call.plan(q, k, parameters, sinks)
    return _kernels.attend_backward(plan, call.heads_tokens, grad, q, k, v, parameters, sinks,
                                    gates, out, lse)


def _fake_attention_backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor,
                             parameters: Sequence[Tensor], sinks: Tensor | None,
                             gates: Tensor | None, *_: Any) -> list[Tensor]:
    return _kernels.empty_gradients(q, k, v, parameters, sinks, gates)


_implement("attention", _attention, _fake_attention)
_implement("attention_backward", _attention_backward, _fake_attention_backward)


def _keep_attention(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, parameters, sinks, gates, *rest = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(q, k, v, sinks, gates, *output, *rest[:4], *parameters)
    ctx.rest = rest[4:]


def _attention_gradients(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, sinks, gates, out, lse, *positions = ctx.saved_tensors
    positions, parameters = positions[:4], positions[4:]
    results = call("attention_backward", grad, q, k, v, parameters, sinks, gates, out, lse,
                   *positions, *ctx.rest)
    dq, dk, dv, *others = results
    of_gates = others.pop() if gates is not None else None
    of_sinks = others.pop() if sinks is not None else None
    return dq, dk, dv, others, of_sinks, of_gates, *([None] * 12)


def refuse_second(operation: str) -> Callable[..., Any]:
    """Returns a gradient formula that refuses the gradient of a gradient."""

    def refuse(ctx: Any, *_: Any) -> Any:
        raise ValueError(f"[{operation}] gradients must be of first order, got a request for "
                         "the gradient of a gradient")

    return refuse



# -- add_position ------------------------------------------------------------------------------


def _add_position_in_place(x: Tensor, *rest: Any) -> None:
    _kernels.add_into(x, *rest)
    _kernels.changed(x)


def _fake_added(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _add_position_backward(grad: Tensor, parameters: Sequence[Tensor], *rest: Any) -> list[Tensor]:
    return _kernels.add_backward(grad, parameters, *rest)


def _fake_add_position_backward(grad: Tensor, parameters: Sequence[Tensor],
                                *_: Any) -> list[Tensor]:
    return [torch.empty_like(one, memory_format=torch.contiguous_format) for one in parameters]


_implement("add_position", _kernels.added, _fake_added)
_implement("add_position_", _add_position_in_place, _nothing)
_implement("add_position_backward", _add_position_backward, _fake_add_position_backward)


def _keep_sum(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, parameters, positions, ctx.encoding, ctx.offset = inputs
    ctx.save_for_backward(positions, *parameters)


def _add_position_gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    positions, *parameters = ctx.saved_tensors
    grads = []
    if parameters:
        grads = call("add_position_backward", grad, parameters, positions, ctx.encoding,
                     ctx.offset)
    return grad, list(grads), None, None, None



def _keep_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    pass


# What is kept for the gradient, and its formula.
_GRADIENTS = {
    "rotate": (_keep_rotation, _rotate_backward),
    "rotate_with": (_keep_factors, _rotate_with_backward),
    "attention": (_keep_attention, _attention_gradients),
    "attention_backward": (_keep_nothing, refuse_second("attention")),
    "add_position": (_keep_sum, _add_position_gradients),
    "add_position_backward": (_keep_nothing, refuse_second("add_position")),
}
for _name, (_keep, _formula) in _GRADIENTS.items():
    torch.library.register_autograd(f"gnomon::{_name}", _formula, setup_context=_keep,
                                    lib=_library)


# -- vmap --------------------------------------------------------------------------------------
# The mapped axis joins the batch where all tensors of a batch are mapped, and the others are
# shared. Otherwise the operator runs once for each element of the mapped axis.


def _element(value: Any, axes: Any, index: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_element(one, axis, index) for one, axis in zip(value, _axes(axes, value))]
    return value.select(axes, index) if axes is not None else value


def _axes(axes: Any, values: Sequence[Any]) -> Sequence[Any]:
    return axes if isinstance(axes, (list, tuple)) else [axes] * len(values)


def _each(op: Any, size: int, in_dims: Sequence[Any], args: Sequence[Any]) -> tuple[Any, Any]:
    results = [op(*[_element(one, axes, i) for one, axes in zip(args, in_dims)])
               for i in range(size)]
    stacked = _pytree.tree_map(lambda *ones: torch.stack(ones), *results)
    return stacked, _pytree.tree_map(lambda _: 0, stacked)


def _mapped(axes: Any) -> bool:
    return any(one is not None for one in (axes if isinstance(axes, (list, tuple)) else [axes]))


def _joined(name: str, batched: int, shared: Mapping[int, int]) -> Callable[..., Any]:
    """Returns the vmap rule of an operator.

    batched: the first arguments, tensors [B, ...] that join the mapped axis and the batch.
    shared: arguments [B or 1, ...], or lists of them, by index, with their number of axes. They
        are repeated if they have
        a row for each row of the batch.
    """
    op = getattr(_ops, name).default

    def repeated(one: Any, size: int, rank: int) -> Any:
        if isinstance(one, (list, tuple)):
            return [repeated(each, size, rank) for each in one]
        if one is None or one.dim() < rank or one.shape[0] == 1:
            return one
        return one.repeat(size, *[1] * (one.dim() - 1))

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
        size = info.batch_size
        if any(map(_mapped, in_dims[batched:])):
            return _each(op, size, in_dims, args)
        joined = [one.expand(size, *one.shape) if axis is None else one.movedim(axis, 0)
                  for one, axis in zip(args[:batched], in_dims)]
        rest = [repeated(one, size, shared[i]) if i in shared else one
                for i, one in enumerate(args[batched:], batched)]
        results = op(*[one.flatten(0, 1) for one in joined], *rest)
        return (_pytree.tree_map(lambda one: one.unflatten(0, (size, -1)), results),
                _pytree.tree_map(lambda _: 0, results))

    return rule


def _separate(name: str) -> Callable[..., Any]:
    op = getattr(_ops, name).default
    return lambda info, in_dims, *args: _each(op, info.batch_size, in_dims, args)


_VMAP = {
    "rotate": _joined("rotate", 1, {2: 2}),
    "rotate_with": _joined("rotate_with", 1, {1: 3, 2: 3}),
    "attention": _joined("attention", 3, {5: 3, 6: 2, 7: 2, 8: 2, 9: 2}),
    "attention_backward": _separate("attention_backward"),
    "add_position": _separate("add_position"),
    "add_position_backward": _separate("add_position_backward"),
}
for _name, _rule in _VMAP.items():
    torch.library.register_vmap(f"gnomon::{_name}", _rule, lib=_library)


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
        _GRADIENTS[ctx.name][0](ctx, _pytree.tree_unflatten(flat, spec), output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return None, None, *_pytree.tree_leaves(_GRADIENTS[ctx.name][1](ctx, *grads))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], name: str, spec: Any, *flat: Any) -> Any:
        results, axes = _VMAP[name](info, _pytree.tree_unflatten(in_dims[2:], spec),
                                    *_pytree.tree_unflatten(flat, spec))
        return (tuple(results), tuple(axes)) if isinstance(results, list) else (results, axes)


def call(name: str, *args: Any) -> Any:
    """Calls an operator that has a gradient, also inside transforms of torch.func."""
    if torch.compiler.is_dynamo_compiling() or not torch._C._are_functorch_transforms_active():
        return getattr(_ops, name)(*args)
    flat, spec = _pytree.tree_flatten(args)
    return _Transformed.apply(name, spec, *flat)
