"""The operators torch.ops.gnomon.*, each with one declaration.

Schemas use tensors, strings, numbers and flags only, so that a C++ extension can define the same
operators. `encoding` is the JSON of a spec (rotate) or a JSON array of specs (attention,
add_position). Operators that end in `_` change x in place and have no gradient. rotate_append_ is
in _append.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import _composed, _device, _kernels
from ._kernels import AttentionArguments
from ._registry import Operator, call, each, joined, register

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
    _kernels.mark_changed(x)


def _rotate_with_in_place(x: Tensor, *rest: Any) -> None:
    _kernels.check_writable(x)
    _kernels.rotate_with_into(x, x, *rest)
    _kernels.mark_changed(x)


def _fake_rotated(x: Tensor, *_: Any) -> Tensor:
    _kernels.check_heads(x)
    return _kernels.like(_kernels.readable(x))


def _save_rotation(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, ctx.encoding, positions, *ctx.rest, ctx.inverse = inputs
    ctx.save_for_backward(*positions)


def _rotate_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    positions = list(ctx.saved_tensors)
    back = call("rotate", grad, ctx.encoding, positions, *ctx.rest, not ctx.inverse)
    return back, None, [None] * len(positions), None, None, None, None


def _save_factors(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, cos, sin, *ctx.rest, ctx.inverse = inputs
    ctx.save_for_backward(cos, sin)


def _rotate_with_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    back = call("rotate_with", grad, *ctx.saved_tensors, *ctx.rest, not ctx.inverse)
    return back, None, None, None, None, None, None


_ROTATE = ("str encoding, Tensor[] positions, SymInt offset, int length, bool heads_tokens, "
           "bool inverse")
_WITH = "Tensor cos, Tensor sin, str pairing, int head_offset, bool heads_tokens, bool inverse"

register(Operator(
    f"rotate(Tensor x, {_ROTATE}) -> Tensor", kernel=_rotate, fake=_fake_rotated,
    setup_context=_save_rotation, backward=_rotate_backward, vmap=joined(1, {2: 2}),
    composed=_composed.rotate))
register(Operator(f"rotate_(Tensor(a!) x, {_ROTATE}) -> ()", kernel=_rotate_in_place))
register(Operator(
    f"rotate_with(Tensor x, {_WITH}) -> Tensor", kernel=_kernels.rotated_with, fake=_fake_rotated,
    setup_context=_save_factors, backward=_rotate_with_backward, vmap=joined(1, {1: 3, 2: 3}),
    composed=_kernels.rotated))
register(Operator(f"rotate_with_(Tensor(a!) x, {_WITH}) -> ()", kernel=_rotate_with_in_place))


# -- attention ---------------------------------------------------------------------------------


def _attention(q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor],
               sinks: Tensor | None, terms: Sequence[Tensor], bias: Tensor | None,
               *rest: Any) -> tuple[Tensor, Tensor]:
    arguments = AttentionArguments(*rest)
    plan = arguments.plan(q, k, parameters, sinks)
    return _kernels.attend(plan, arguments.heads_tokens, q, k, v, arguments.named(terms), bias)


def _fake_attention(q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor],
                    sinks: Tensor | None, terms: Sequence[Tensor], bias: Tensor | None,
                    *rest: Any) -> tuple[Tensor, Tensor]:
    return _kernels.result_of(q, v, AttentionArguments(*rest).heads_tokens)


def _attention_backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor,
                        parameters: Sequence[Tensor], sinks: Tensor | None,
                        terms: Sequence[Tensor], bias: Tensor | None, out: Tensor, lse: Tensor,
                        bias_wanted: bool, *rest: Any) -> list[Tensor]:
    arguments = AttentionArguments(*rest)
    plan = arguments.plan(q, k, parameters, sinks)
    return _kernels.attend_backward(plan, arguments.heads_tokens, grad, q, k, v, parameters, sinks,
                                    arguments.named(terms), bias, out, lse, bias_wanted)


def _fake_attention_backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor,
                             parameters: Sequence[Tensor], sinks: Tensor | None,
                             terms: Sequence[Tensor], bias: Tensor | None, out: Tensor,
                             lse: Tensor, bias_wanted: bool, *_: Any) -> list[Tensor]:
    return _kernels.empty_gradients(q, k, v, parameters, sinks, terms,
                                    bias if bias_wanted else None)


def _save_attention(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, parameters, sinks, terms, bias, *rest = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(q, k, v, sinks, bias, *output, *rest[:4], *terms, *parameters)
    ctx.rest, ctx.terms = rest[4:], len(terms)
    ctx.bias_wanted = bias is not None and bias.requires_grad


def _attention_gradients(ctx: Any, grad: Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, sinks, bias, out, lse, *others = ctx.saved_tensors
    positions, terms, parameters = others[:4], others[4:4 + ctx.terms], others[4 + ctx.terms:]
    results = call("attention_backward", grad, q, k, v, parameters, sinks, terms, bias, out, lse,
                   ctx.bias_wanted, *positions, *ctx.rest)
    return *_kernels.split_gradients(results, sinks, ctx.terms, ctx.bias_wanted), *([None] * 13)


def _refuse_second(operation: str) -> Callable[..., Any]:
    """Returns a gradient formula that refuses the gradient of a gradient."""

    def refuse(ctx: Any, *_: Any) -> Any:
        raise ValueError(f"[{operation}] gradients must be of first order, got a request for "
                         "the gradient of a gradient")

    return refuse


_CALL = ("Tensor? query_positions, Tensor? positions, Tensor? query_sequences, "
         "Tensor? sequences, str encoding, bool heads_tokens, str visibility, int? left, "
         "int? right, float? softmax_scale, float? cap, int length, str term_names")
_INPUTS = ("Tensor q, Tensor k, Tensor v, Tensor[] parameters, Tensor? sinks, Tensor[] terms, "
           "Tensor? bias")

register(Operator(
    f"attention({_INPUTS}, {_CALL}) -> (Tensor, Tensor)", kernel=_attention, fake=_fake_attention,
    setup_context=_save_attention, backward=_attention_gradients,
    vmap=joined(3, {5: 3, 6: 4, 7: 2, 8: 2, 9: 2, 10: 2}), composed=_composed.attention))
register(Operator(
    f"attention_backward(Tensor grad, {_INPUTS}, Tensor out, Tensor lse, bool bias_wanted, "
    f"{_CALL}) -> Tensor[]",
    kernel=_attention_backward, fake=_fake_attention_backward,
    backward=_refuse_second("attention"), vmap=each))


# -- the bias of encodings beside a bias of the caller -----------------------------------------


def _encoding_bias(*args: Any) -> Tensor:
    with torch.no_grad():
        return _composed.encoding_bias(*args).contiguous()


def _fake_encoding_bias(parameters: Sequence[Tensor], gates: Tensor | None, query_at: Tensor,
                        at: Tensor, encoding: str, consecutive: bool) -> Tensor:
    batch = [one.shape[0] for one, rank in ((query_at, 2), (at, 2), (gates, 3))
             if one is not None and one.dim() == rank and one.shape[0] != 1]
    return query_at.new_empty(*batch[:1] or (1,), _composed.heads_of(encoding),
                              query_at.shape[-1], at.shape[-1], dtype=torch.float32)


def _save_bias(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    parameters, gates, query_at, at, *ctx.rest = inputs
    ctx.save_for_backward(gates, query_at, at, *parameters)


def _bias_gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    gates, query_at, at, *parameters = ctx.saved_tensors
    results = call("encoding_bias_backward", grad, parameters, gates, query_at, at, *ctx.rest)
    return results[:len(parameters)], results[-1] if gates is not None else None, *([None] * 4)


def _bias_backward(grad: Tensor, parameters: Sequence[Tensor], gates: Tensor | None,
                   *rest: Any) -> list[Tensor]:
    keys = torch._C.DispatchKey  # a kernel runs below autograd, whose keys are excluded
    with (torch.enable_grad(), torch._C._SetExcludeDispatchKeyGuard(
            keys.AutogradFunctionality, False),
          torch._C._SetExcludeDispatchKeyGuard(keys.ADInplaceOrView, False)):
        inputs = [one.detach().requires_grad_() for one in (*parameters, gates) if one is not None]
        bias = _composed.encoding_bias(inputs[:len(parameters)],
                                       None if gates is None else inputs[-1], *rest)
        grads = torch.autograd.grad(bias, inputs, grad, allow_unused=True) if (
            bias.requires_grad) else [None] * len(inputs)
    return [torch.zeros_like(one) if g is None else g.contiguous() for one, g in zip(inputs, grads)]


def _fake_bias_backward(grad: Tensor, parameters: Sequence[Tensor], gates: Tensor | None,
                        *_: Any) -> list[Tensor]:
    return [torch.empty_like(one) for one in (*parameters, gates) if one is not None]


_BIAS = ("Tensor[] parameters, Tensor? gates, Tensor query_positions, Tensor positions, "
         "str encoding, bool consecutive")

register(Operator(
    f"encoding_bias({_BIAS}) -> Tensor", kernel=_encoding_bias, fake=_fake_encoding_bias,
    setup_context=_save_bias, backward=_bias_gradients, vmap=each,
    composed=_composed.encoding_bias))
register(Operator(
    f"encoding_bias_backward(Tensor grad, {_BIAS}) -> Tensor[]", kernel=_bias_backward,
    fake=_fake_bias_backward, backward=_refuse_second("attention"), vmap=each))


# -- add_position ------------------------------------------------------------------------------


def _add_position_in_place(x: Tensor, *rest: Any) -> None:
    _kernels.add_into(x, *rest)
    _kernels.mark_changed(x)


def _fake_added(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _fake_add_position_backward(grad: Tensor, parameters: Sequence[Tensor],
                                *_: Any) -> list[Tensor]:
    return [torch.empty_like(one, memory_format=torch.contiguous_format) for one in parameters]


def _save_sum(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, parameters, positions, ctx.encoding, ctx.offset = inputs
    ctx.save_for_backward(positions, *parameters)


def _add_position_gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    positions, *parameters = ctx.saved_tensors
    grads = []
    if parameters:
        grads = call("add_position_backward", grad, parameters, positions, ctx.encoding,
                     ctx.offset)
    return grad, list(grads), None, None, None


def _fake_sinusoid(positions: Tensor, encoding: str) -> Tensor:
    return positions.new_empty(*positions.shape, _composed.width_of(encoding), dtype=torch.float32)


register(Operator("sinusoid(Tensor positions, str encoding) -> Tensor", kernel=_composed.sinusoid,
                  fake=_fake_sinusoid, vmap=each))

_ADD = "Tensor[] parameters, Tensor? positions, str encoding, SymInt offset"

register(Operator(
    f"add_position(Tensor x, {_ADD}) -> Tensor", kernel=_kernels.added, fake=_fake_added,
    setup_context=_save_sum, backward=_add_position_gradients, vmap=each,
    composed=_composed.add_position))
register(Operator(f"add_position_(Tensor(a!) x, {_ADD}) -> ()", kernel=_add_position_in_place))
register(Operator(
    f"add_position_backward(Tensor grad, {_ADD}) -> Tensor[]", kernel=_kernels.add_backward,
    fake=_fake_add_position_backward, backward=_refuse_second("add_position"), vmap=each))
