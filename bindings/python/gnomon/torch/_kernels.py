"""The work of the operators: kernels of the library, and torch operators where it has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _core
from .._core import Plan, RotaryTable
from . import _device, _plans


def like(x: Tensor) -> Tensor:
    """Returns an empty tensor with the layout of x, if the last axis of x is contiguous."""
    out = torch.empty_like(x)
    if out.stride(-1) == 1:
        return out
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def readable(x: Tensor) -> Tensor:
    """Returns x, or a copy if the last axis of x is not contiguous (an expanded gradient)."""
    if x.stride(-1) == 1:
        return x
    return x.clone(memory_format=torch.contiguous_format)  # contiguous() keeps empty tensors


def check_writable(x: Tensor) -> None:
    """Refuses a tensor whose elements share memory, before it is changed in place."""
    if torch._debug_has_internal_overlap(x) == 1:
        raise ValueError("[rotate] elements of x must not share memory if x is changed in place, "
                         f"got strides {list(x.stride())}")


def mark_changed(x: Tensor) -> None:
    """Records that x was changed in place, so that gradients which need its old values fail."""
    if not x.is_inference():
        torch.autograd.graph.increment_version(x)


def check_heads(x: Tensor) -> None:
    if x.dim() != 4:
        raise ValueError(f"[rotate] x must have 4 axes, got {x.dim()}")


def check_positions(operation: str, x: Tensor, positions: Sequence[Tensor],
                    heads_tokens: bool) -> None:
    """Refuses positions that are not [T], [1, T] or [B, T]."""
    check_heads(x)
    axis = 2 if heads_tokens else 1
    batch, tokens = x.shape[0], x.shape[axis]
    for one in positions:
        if one.dim() not in (1, 2) or one.shape[-1] != tokens or one.shape[0] not in (
                (1, batch) if one.dim() == 2 else (tokens,)):
            raise ValueError(
                f"[{operation}] positions must be [T] or [B, T] with T = {tokens} (axis {axis} of "
                f"x in this layout) and B = {batch}, got {list(one.shape)}")


# -- rotate ------------------------------------------------------------------------------------


def table_of(x: Tensor, encoding: str, positions: Sequence[Tensor], offset: int, length: int,
             heads_tokens: bool) -> tuple[RotaryTable, int]:
    """Returns the table of a rotation, and the row of the first token."""
    if positions:
        check_positions("rotate", x, positions, heads_tokens)
        return _plans.rotary_at(encoding, length, positions), 0
    check_heads(x)
    return _plans.rotary(encoding, length, offset, x.size(2 if heads_tokens else 1))


def rotated_by(x: Tensor, table: RotaryTable, begin: int | None, heads_tokens: bool,
               inverse: bool) -> Tensor:
    """Returns the rotation of x by rows of a table. begin: None: by all rows."""
    x = readable(x)
    out = like(x)
    rotate_into(out, x, table, begin, heads_tokens, inverse)
    return out


def rotate_into(out: Tensor, x: Tensor, table: RotaryTable, begin: int | None,
                heads_tokens: bool, inverse: bool) -> None:
    """Writes the rotation of x to out, which may be x."""
    if x.is_cpu:
        return _core.rotate_rows(x, out, table, begin, heads_tokens, inverse)
    cos, sin = _plans.cos_sin(table, begin or 0, x.size(2 if heads_tokens else 1), x)
    rotate_plain(out, x, cos, sin, _plans.pairing(table), _plans.head_offset(table), heads_tokens,
                 inverse)
    return None


def rotate_with_into(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, pairing: str,
                     head_offset: int, heads_tokens: bool, inverse: bool) -> None:
    """Writes the rotation of x by given cos and sin to out, which may be x."""
    rest = pairing, head_offset, heads_tokens, inverse
    if x.is_cpu:
        _core.rotate_with(x, out, cos, sin, *rest)
    else:
        rotate_plain(out, x, cos, sin, *rest)


def rotated_with(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, head_offset: int,
                 heads_tokens: bool, inverse: bool) -> Tensor:
    """Returns the rotation of x by given cos and sin."""
    x = readable(x)
    out = like(x)
    rotate_with_into(out, x, cos, sin, pairing, head_offset, heads_tokens, inverse)
    return out


def rotated_with_halves(x: Tensor, cos: Tensor, sin: Tensor, pairs: int,
                        heads_tokens: bool) -> Tensor:
    """Returns the rotation of x on the CPU by the first columns of cos and sin, [B or 1, T, R]."""
    x = readable(x)
    out = like(x)
    _core.rotate_with(x, out, cos, sin, "halves", 0, heads_tokens, False, pairs)
    return out


def rotate_plain(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, pairing: str, head_offset: int,
                 heads_tokens: bool, inverse: bool) -> None:
    """Rotates on a device other than the CPU: by a kernel, or by torch operators."""
    if _device.rotate(out, x, cos, sin, pairing, head_offset, heads_tokens, inverse):
        return
    out.copy_(rotated(x, cos, sin, pairing, head_offset, heads_tokens, inverse))


def rotated(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, head_offset: int,
            heads_tokens: bool, inverse: bool) -> Tensor:
    """Returns the rotation of x by torch operators: float32, or float64 if x is float64."""
    check_heads(x)
    rotary_dim = 2 * cos.shape[-1]
    if head_offset + rotary_dim > x.shape[3]:
        raise ValueError("[rotary] x must have at least head_offset + rotary_dim = "
                         f"{head_offset} + {rotary_dim} elements per head, got {x.shape[3]}")
    tokens = x.shape[2 if heads_tokens else 1]
    if cos.shape != sin.shape:
        raise ValueError(f"[rotate] sin must have the shape of cos, {list(cos.shape)}, "
                         f"got {list(sin.shape)}")
    if cos.shape[-2] != tokens:
        raise ValueError(
            f"[rotate] cos and sin must have the tokens of x, {tokens}, got {cos.shape[-2]}")
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    if cos.dim() == 4:  # [B or 1, H or 1, T, R/2]
        cos, sin = (one.to(kind) if heads_tokens else one.to(kind).transpose(1, 2)
                    for one in (cos, sin))
    else:
        cos, sin = (one.to(kind).unsqueeze(-3 if heads_tokens else -2) for one in (cos, sin))
    if inverse:
        sin = -sin
    pairs = x[..., head_offset:head_offset + rotary_dim].to(kind)
    axis = -2 if pairing == "halves" else -1
    a, b = pairs.unflatten(-1, (2, -1) if pairing == "halves" else (-1, 2)).unbind(axis)
    both = torch.stack((a * cos - b * sin, a * sin + b * cos), axis).flatten(-2).to(x.dtype)
    if rotary_dim == x.shape[3]:
        return both
    return torch.cat((x[..., :head_offset], both, x[..., head_offset + rotary_dim:]), -1)


# -- attention ---------------------------------------------------------------------------------


class AttentionArguments(NamedTuple):
    """The arguments of attention that are not differentiated. Positions: of queries and keys."""

    query_positions: Tensor | None
    positions: Tensor | None
    query_sequences: Tensor | None
    sequences: Tensor | None
    encoding: str
    heads_tokens: bool
    visibility: str
    left: int | None
    right: int | None
    softmax_scale: float | None
    cap: float | None
    length: int
    term_names: str = ""  # joined by ","

    def named(self, terms: Sequence[Tensor]) -> dict[str, Tensor]:
        """Returns the terms of the tokens by name."""
        return dict(zip(self.term_names.split(","), terms, strict=True)) if terms else {}

    @property
    def unordered(self) -> bool:
        """Whether the result does not depend on the order of tokens: no position and no window."""
        return (self.encoding == "[]" and self.visibility == "bidirectional"
                and self.left is self.right is None and self.sequences is None)

    def plan(self, q: Tensor, k: Tensor, parameters: Sequence[Tensor],
             sinks: Tensor | None) -> Plan:
        """Returns the plan of the call. Refuses devices other than the CPU."""
        if not (q.is_cpu and k.is_cpu):
            raise ValueError("[attention] q, k and v must be on the CPU (on a GPU use "
                             f"gnomon.torch.flex), got {q.device.type}")
        axis = 2 if self.heads_tokens else 1
        for name, one in (("q", q), ("k", k)):
            if one.dim() != 4:
                raise ValueError(f"[attention] {name} must have 4 axes, got {one.dim()}")
        queries, keys = q.size(axis), k.size(axis)
        self.check(q.size(0), queries, keys)
        return _plans.attention(self.encoding, parameters, sinks, q.size(0), queries, keys,
                                self.tokens(queries, keys), self.visibility, self.left,
                                self.right, self.softmax_scale, self.cap, self.length)

    def check(self, batch: int, queries: int, keys: int) -> None:
        """Refuses positions and sequences of another number of tokens, or of no known order."""
        if queries > keys and not self.unordered and (self.query_positions is None or (
                self.sequences is not None and self.query_sequences is None)):
            raise ValueError("[attention] query_positions and query_sequences must be given if "
                             f"there are more queries than keys, {keys}, got {queries}")
        if self.query_sequences is not None and self.sequences is None:
            raise ValueError("[attention] sequences must be given with query_sequences, got None")
        names = "query_positions", "positions", "query_sequences", "sequences"
        for name, one, tokens in zip(names, self[:4], (queries, keys, queries, keys)):
            if one is None:
                continue
            if one.dim() not in (1, 2) or one.shape[-1] != tokens or (
                    one.dim() == 2 and one.shape[0] not in (1, batch)):
                letter = "T" if name.startswith("query") else "S"
                raise ValueError(f"[attention] {name} must be [{letter}] or [B, {letter}] with "
                                 f"{letter} = {tokens} and B = {batch}, got {list(one.shape)}")

    def tokens(self, queries: int, keys: int) -> Sequence[Tensor | None]:
        """Returns positions of queries and keys, then sequences of both."""
        given = self[:4]
        if given == (None, None, None, None):
            if queries <= keys:
                return given
            return torch.arange(queries, device="cpu"), torch.arange(keys, device="cpu"), None, None
        query_at, at, query_of, of = given
        if at is None:
            some = next(one for one in given if one is not None)
            at = torch.arange(keys, device=some.device)
        if query_at is None:
            query_at = at[..., keys - queries:]
        if of is not None:
            at, of = torch.broadcast_tensors(at, of)
            query_of = of[..., keys - queries:] if query_of is None else query_of
        if query_of is not None:
            query_at, query_of = torch.broadcast_tensors(query_at, query_of)
        return query_at, at, query_of, of


def _tokens_first(x: Tensor, heads_tokens: bool) -> Tensor:
    return x.transpose(1, 2) if heads_tokens else x


def result_of(q: Tensor, v: Tensor, heads_tokens: bool) -> tuple[Tensor, Tensor]:
    """Returns empty tensors: out, in memory as [B, T, H, Dv], and the log-sum-exp [B, H, T]."""
    tokens, heads = (2, 1) if heads_tokens else (1, 2)
    batch, count, of = q.shape[0], q.shape[tokens], q.shape[heads]
    out = q.new_empty(batch, count, of, v.shape[3])
    kind = torch.float64 if q.dtype == torch.float64 else torch.float32
    return _tokens_first(out, heads_tokens), q.new_empty(batch, of, count, dtype=kind)


def attend(plan: Plan, heads_tokens: bool, q: Tensor, k: Tensor, v: Tensor,
           terms: dict[str, Tensor], bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Returns the attention of a plan, and the log-sum-exp of the scores."""
    out, lse = result_of(q, v, heads_tokens)
    attend_into(out, lse, plan, heads_tokens, q, k, v, terms, bias)
    return out, lse


def attended(plan: Plan, heads_tokens: bool, q: Tensor, k: Tensor, v: Tensor,
             terms: dict[str, Tensor], bias: Tensor | None) -> Tensor:
    """Returns the attention of a plan."""
    batch, heads, count, _ = q.shape
    if heads_tokens:
        out = q.new_empty((batch, count, heads, v.size(3))).transpose(1, 2)
    else:
        out = q.new_empty((batch, heads, count, v.size(3)))
    attend_into(out, None, plan, heads_tokens, q, k, v, terms, bias)
    return out


def attend_into(out: Tensor, lse: Tensor | None, plan: Plan, heads_tokens: bool, q: Tensor,
                k: Tensor, v: Tensor, terms: dict[str, Tensor],
                bias: Tensor | None) -> None:
    given = {name: one.detach().float() for name, one in terms.items()}
    layout = "heads_tokens" if heads_tokens else "tokens_heads"
    _core.attention(readable(q), readable(k), readable(v), plan, out=out, lse=lse, terms=given,
                    layout=layout, bias=_dense(bias, q, k, heads_tokens))


def _dense(bias: Tensor | None, q: Tensor, k: Tensor, heads_tokens: bool) -> Tensor | None:
    """Returns a bias as the kernel reads it: float32 [B, H, T, S], without copies of equal rows."""
    if bias is None:
        return None
    axis, heads = (2, 1) if heads_tokens else (1, 2)
    shape = q.shape[0], q.shape[heads], q.shape[axis], k.shape[axis]
    return bias.detach().float().expand(shape)


def empty_gradients(q: Tensor, k: Tensor, v: Tensor, parameters: Sequence[Tensor],
                    sinks: Tensor | None, terms: Sequence[Tensor],
                    bias: Tensor | None) -> list[Tensor]:
    """Returns tensors for the gradients of q, k, v, parameters, then the others that are given."""
    others = [*parameters, *(one for one in (sinks, *terms, bias) if one is not None)]
    return [like(q), like(k), like(v),
            *(torch.empty_like(one, memory_format=torch.contiguous_format) for one in others)]


def split_gradients(results: Sequence[Tensor], sinks: Tensor | None, terms: int,
                    bias_wanted: bool) -> tuple[Any, ...]:
    """Returns the gradients of q, k, v, [parameters], sinks, [terms], bias from empty_gradients."""
    dq, dk, dv, *others = results
    bias_grad = others.pop() if bias_wanted else None
    term_grads = [others.pop() for _ in range(terms)][::-1]
    sinks_grad = others.pop() if sinks is not None else None
    return dq, dk, dv, others, sinks_grad, term_grads, bias_grad


def _zeros(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
    """Returns zeros on the CPU, for any default device and default type."""
    return torch.zeros(shape, dtype=dtype, device="cpu")


def attend_backward(plan: Plan, heads_tokens: bool, grad: Tensor, q: Tensor, k: Tensor, v: Tensor,
                    parameters: Sequence[Tensor], sinks: Tensor | None, terms: dict[str, Tensor],
                    bias: Tensor | None, out: Tensor, lse: Tensor,
                    bias_wanted: bool) -> list[Tensor]:
    """Returns the gradients of attend, in the order of empty_gradients."""
    results = empty_gradients(q, k, v, parameters, sinks, list(terms.values()),
                              bias if bias_wanted else None)
    sums = [_zeros(one.shape) for one in parameters]
    sinks_grad = None if sinks is None else _zeros(sinks.shape, torch.float64)
    factors = {name: one.detach().float() for name, one in terms.items()}
    term_grads = {name: _zeros((q.shape[0], *one.shape[1:])) for name, one in terms.items()}
    inputs = [readable(_tokens_first(one, heads_tokens)) for one in (q, k, v, out, grad)]
    dq, dk, dv = (_tokens_first(one, heads_tokens) for one in results[:3])
    given = _dense(bias, q, k, heads_tokens)
    bias_grad = _zeros(given.shape) if given is not None and bias_wanted else None
    _core.attention_backward(*inputs[:3], plan, inputs[3], lse, inputs[4], q_grad=dq, k_grad=dk,
                             v_grad=dv, terms=factors, term_grads=term_grads,
                             sinks_grad=sinks_grad,
                             parameter_grads=sums, bias=given, bias_grad=bias_grad)
    others = [*sums, *([] if sinks_grad is None else [sinks_grad])]
    for name, one in terms.items():  # [1, H, T]: shared by the rows of the batch
        given_grad = term_grads[name]
        others.append(given_grad if one.shape[0] == q.shape[0] else given_grad.sum(0, True))
    if bias is not None and bias_grad is not None:
        others.append(bias_grad.sum_to_size(bias.shape))
    for to, one in zip(results[3:], others):
        to.copy_(one)
    return results


# -- add_position ------------------------------------------------------------------------------


def add_into(x: Tensor, parameters: Sequence[Tensor], positions: Tensor | None, encoding: str,
             offset: int) -> None:
    """Adds the table of an encoding to x [B, T, C]."""
    learned = _device.learned_rows(encoding, x, parameters, positions, offset)
    if learned is not None and _device.add_table(x, *learned):
        return
    plan = embedding(x, parameters, positions, encoding, offset)
    if x.is_cpu:
        _core.add_position(x, plan)
    elif (rows := _plans.device_table(plan, x)) is not None:
        kind = torch.float64 if x.dtype == torch.float64 else torch.float32
        if rows.shape[0] > 1 or not _device.add_table(x, rows[0]):
            x.copy_(x.to(kind) + rows.to(kind))


def added(x: Tensor, parameters: Sequence[Tensor], positions: Tensor | None, encoding: str,
          offset: int) -> Tensor:
    """Returns x with the table of an encoding added."""
    out = x.detach().clone(memory_format=torch.contiguous_format)
    add_into(out, parameters, positions, encoding, offset)
    return out


def add_backward(grad: Tensor, parameters: Sequence[Tensor], positions: Tensor | None,
                 encoding: str, offset: int) -> list[Tensor]:
    """Returns the gradients of the parameters of a table that was added."""
    learned = _device.learned_rows(encoding, grad, parameters, positions, offset)
    if learned is not None:
        rows, ids = learned
        part = _device.add_table_backward(grad, rows, ids)
        if part is not None and ids is None:
            first = rows.storage_offset() - parameters[0].storage_offset()
            whole = torch.zeros_like(parameters[0], memory_format=torch.contiguous_format)
            begin = first // parameters[0].stride(0)
            whole[begin:begin + rows.shape[0]] = part
            return [whole]
        if part is not None:
            return [part]
    plan = embedding(grad, parameters, positions, encoding, offset)
    sums = [_zeros(one.shape) for one in parameters]
    _core.add_position_backward(grad.detach().cpu().contiguous(), plan, sums)
    return [one.to(of) for one, of in zip(sums, parameters)]


def check_table(x: Tensor, table: Tensor, positions: Tensor | None, encoding: str,
                offset: int) -> None:
    """Refuses what the plan of a learned table refuses: shapes, and positions outside of it."""
    width = embedding(x, [table], positions, encoding, offset).table.shape[-1]
    if width != x.shape[-1]:
        raise ValueError(f"[add_position] x must have width {width}, got {x.shape[-1]}")


def embedding(x: Tensor, parameters: Sequence[Tensor], positions: Tensor | None, encoding: str,
              offset: int) -> Any:
    """Returns the plan of add_position."""
    if x.dim() not in (2, 3):
        raise ValueError(f"[add_position] x must have 2 or 3 axes, got {x.dim()}")
    if positions is not None and (
            positions.dim() not in (1, 2) or positions.shape[-1] != x.shape[-2]
            or (positions.dim() == 2 and positions.shape[0] not in (1, *x.shape[:-2]))):
        raise ValueError(f"[add_position] positions must be [T] or [B, T] with T = {x.shape[-2]}, "
                         f"got {list(positions.shape)} for x {list(x.shape)}")
    return _plans.embedding(encoding, parameters, positions, offset, x.size(-2))
