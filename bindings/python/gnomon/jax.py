"""Positional encodings and attention for JAX on the CPU.

    import jax, jax.numpy as jnp, gnomon, gnomon.jax

    rope = gnomon.Rotary(rotary_dim=64, pairing="halves")
    q = k = v = jnp.ones((2, 128, 8, 64))                        # [B, T, H, D]
    out = gnomon.jax.attention(q, k, v, rope)                    # [B, T, H, D]
    grad = jax.grad(lambda q: gnomon.jax.attention(q, k, v, rope).sum())(q)

Functions are pure and work with `jax.jit`, `jax.grad` and `jax.vmap`. They call the library through
`jax.ffi`, without Python and without the GIL. Element types: float32, bfloat16, float16, and
float64 if `jax_enable_x64` is set. Results and gradients have the same bits for any number of
threads.

Arguments are checked when a function is traced: ValueError. Values that are unknown then (traced
positions) are checked when it runs: JAX raises its own error with the same sentence.

A plan depends on the encoding, sizes, positions and parameters. The last 32 plans are kept, so a
call with the same ones does not compute them again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from . import _core
from . import _jax_arguments as _arguments
from ._spec import Encoding

if TYPE_CHECKING:
    from ._typing import Layout, Visibility

__all__ = ["add_position", "attention", "bias", "rotate", "table"]

for _name, _target in _core.jax_targets().items():
    jax.ffi.register_ffi_target(_name, _target, platform="cpu")


def rotate(x: jax.typing.ArrayLike, encoding: Encoding, positions: Any = None, *,
           layout: Layout = "tokens_heads", inverse: bool = False, length: int = 0) -> jax.Array:
    """Returns queries or keys rotated by a rotary encoding.

    x: [..., T, H, D] for layout 'tokens_heads', [..., H, T, D] for 'heads_tokens'.
    positions: integers [T] or [..., T] with the leading axes of x; a tuple of them, one for each
        position axis (M-RoPE); None: 0 to T - 1. They may be traced.
    inverse: rotates back. This is also the gradient. The rotation is linear in x: `jax.jvp`,
        `jax.vjp` and all higher derivatives apply.
    length: declared context length for dynamic NTK and LongRoPE; 0: that of the spec.

    Error and cost: as `gnomon.rotate`, and O(T R) for angles of new positions. Source: Su et al.
    2021, arXiv:2104.09864.
    """
    x, (batch, tokens, _, _) = _arguments.heads("rotate", "x", x, layout)
    lead, flat = x.shape[:-3], _shaped(x, (batch, *x.shape[-3:]))
    axes = () if positions is None else positions if isinstance(positions, tuple) else (positions,)
    rows = tuple(_arguments.rows("rotate", "positions", one, lead, tokens) for one in axes)
    _arguments.check_rotate(encoding, tokens, length, len(axes), flat.shape, flat.dtype.name,
                            layout)
    plan = _arguments.text((encoding,), queries=tokens, length=length)
    return _shaped(_rotate(plan, layout, "inverse" if inverse else "forward", flat, rows), x.shape)


def attention(q: jax.typing.ArrayLike, k: jax.typing.ArrayLike, v: jax.typing.ArrayLike,
              encoding: Encoding | Sequence[Encoding] | None = None,
              parameters: Sequence[jax.typing.ArrayLike] = (), *, layout: Layout = "tokens_heads",
              visibility: Visibility = "causal", left: int | None = None, right: int | None = None,
              softmax_scale: float | None = None, cap: float | None = None,
              sinks: jax.typing.ArrayLike = (),
              terms: Mapping[str, jax.typing.ArrayLike] | None = None,
              positions: Any = None, sequences: Any = None, length: int = 0) -> jax.Array:
    """Returns softmax attention with the rotation, bias and relative vectors of an encoding.

    q: [..., T, Hq, D]; k: [..., S, Hk, D]; v: [..., S, Hk, Dv] for layout 'tokens_heads', tokens
        and heads exchanged for 'heads_tokens'. Hk divides Hq. The queries are the last T keys.
    encoding: a spec, several specs, or None.
    parameters: the trained matrices in the order of `encoding.parameters()`; used as float32.
    visibility: 'causal' or 'bidirectional'. left, right: window limits in rows; Mistral's
        `sliding_window` w is left = w - 1.
    softmax_scale: scale of q . k before a factor of the encoding. Default: 1 / sqrt(D).
    cap: soft cap of the scores (Gemma 2). sinks: one score for each head, [Hq] (gpt-oss).
    terms: inputs that depend on the tokens, by name, those of gnomon.token_terms(encoding):
        gates [..., Hq, T] (WavLM), log_gates [..., Hq, S] (FoX); vectors [..., T, Hq, K]. All
        shapes: gnomon.attention.
    positions: of the keys, integers [S] or [..., S], or gnomon.Positions; a tuple of two: of the
        queries and of the keys. Default: 0 to S - 1. They may be traced.
    sequences: the same shapes. Tokens attend to each other if they have the same number; -1 is
        padding.
    length: declared context length for dynamic NTK and LongRoPE; 0: that of the spec.

    Differentiable once with respect to q, k, v, parameters, sinks and terms. Error for float32:
    2^-17 max |v|. Memory beyond the arguments grows with T + S. A query that sees no key gives
    zeros.
    """
    q, (batch, queries, heads, _) = _arguments.heads("attention", "q", q, layout)
    k, (_, keys, _, _) = _arguments.heads("attention", "k", k, layout)
    v, (_, _, _, value_dim) = _arguments.heads("attention", "v", v, layout)
    lead = q.shape[:-3]
    for name, one in (("k", k), ("v", v)):
        if one.shape[:-3] != lead:
            raise ValueError(f"[attention] {name} must have the leading axes of q, {lead}, "
                             f"got {one.shape[:-3]}")
    encodings, matrices = _arguments.mixture(encoding), _arguments.matrices(parameters)
    flat: list[Any] = [_shaped(one, (batch, *one.shape[-3:])) for one in (q, k, v)]
    rows = _arguments.all_rows(positions, sequences, lead, queries, keys)
    scores: Any = np.empty(0) if isinstance(sinks, (tuple, list)) and not sinks else jnp.asarray(
        sinks, jnp.float32)
    if scores.ndim != 1 or scores.size not in (0, heads):
        raise ValueError(f"[attention] sinks must have the shape ({heads},), got {scores.shape}")
    named = _arguments.terms(terms, lead, batch)
    shapes = tuple(one.shape for one in matrices)
    _arguments.check_attention(
        encodings, tuple(one.shape for one in flat), tuple(one.dtype.name for one in flat), layout,
        shapes, visibility, left, right, softmax_scale, cap,
        scores.size, tuple((name, one.shape) for name, one in named), length, bool(rows))
    _arguments.check_positions(encodings, shapes, length, _arguments.known(rows))
    letters = "".join(_arguments.TERMS[name] for name, _ in named) + "p" * bool(rows) + "s" * (scores.size > 0)
    plan = _arguments.text(
        encodings, queries=queries, keys=keys, visibility=visibility, left=left, right=right,
        softmax_scale=softmax_scale, cap=cap, length=length, operands=letters)
    operands = _Operands(*flat, tuple(one for _, one in named), rows, scores[None] if scores.size else None, matrices)
    out = _attention(plan, layout, letters, operands)
    return _shaped(out, (*q.shape[:-1], value_dim))


def table(encoding: Encoding, positions: Any, parameters: Sequence[jax.typing.ArrayLike] = (), *,
          length: int = 0) -> jax.Array:
    """Returns the table that an encoding adds to the embeddings, float32 [T, C] or [..., T, C].

    positions: a number T of tokens (positions 0 to T - 1), or integers [T] or [..., T].
    parameters: the trained matrices in the order of `encoding.parameters()`. Differentiable.
    Raises ValueError if the encoding has no table.
    """
    matrices = _arguments.matrices(parameters)
    shape: tuple[int, ...]
    rows: tuple[Any, ...] = ()
    if isinstance(positions, (int, np.integer)):
        shape = (int(positions),)
    else:
        ids = _arguments.integers("table", "positions", positions)
        if ids.ndim == 0:
            raise ValueError("[table] positions must be a number of tokens or an array, "
                             "got a 0-dimensional array")
        shape, rows = ids.shape, (ids.reshape(-1, ids.shape[-1]),)
    shapes = tuple(one.shape for one in matrices)
    width = _arguments.check_table(encoding, shape[-1], shapes, length, bool(rows))
    _arguments.check_positions((encoding,), shapes, length, _arguments.known(rows))
    plan = _arguments.text((encoding,), queries=shape[-1], keys=shape[-1], length=length,
                           operands="t" * bool(rows))
    flat = _table(plan, (math.prod(shape), width), rows, matrices)
    return flat.reshape(*shape, width)


def add_position(x: jax.typing.ArrayLike, encoding: Encoding,
                 parameters: Sequence[jax.typing.ArrayLike] = (), *, offset: Any = 0,
                 positions: Any = None, length: int = 0) -> jax.Array:
    """Returns embeddings [..., T, C] plus the table of an encoding, of the type of x.

    offset: the position of the first token, a number or a traced scalar.
    positions: integers [T] or [..., T], in place of the offset.
    The sum is rounded once. Differentiable with respect to x and parameters.
    """
    x = _arguments.array("add_position", "x", x)
    if x.ndim < 2:
        raise ValueError(f"[add_position] x must have at least 2 axes, got {x.ndim}")
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ValueError(f"[add_position] x must have elements of a floating type, got {x.dtype}")
    if positions is None:
        is_zero = isinstance(offset, int) and offset == 0
        positions = x.shape[-2] if is_zero else _arguments.offset(offset, x.shape[-2])
    else:
        positions = _arguments.integers("add_position", "positions", positions)
        if positions.shape not in (x.shape[-2:-1], x.shape[:-1]):
            raise ValueError(f"[add_position] positions must have the shape {x.shape[-2:-1]} or "
                             f"{x.shape[:-1]}, got {positions.shape}")
    added = table(encoding, positions, parameters, length=length)
    if added.shape[-1] != x.shape[-1]:
        raise ValueError(f"[add_position] x must have the width of the table, {added.shape[-1]}, "
                         f"got {x.shape[-1]}")
    wide = jnp.promote_types(x.dtype, jnp.float32)
    return (x.astype(wide) + added.astype(wide)).astype(x.dtype)


def bias(encoding: Encoding, T: int, S: int, parameters: Sequence[jax.typing.ArrayLike] = (), *,
         length: int = 0) -> jax.Array:
    """Returns the whole bias of an encoding, float32 [H, T, S], for inspection.

    The query of row t is at position S - T + t (or t if T > S), the key of row s at position s.
    Attention does not need this matrix. Differentiable with respect to parameters.
    Raises ValueError if the encoding has no bias.
    """
    matrices = _arguments.matrices(parameters)
    heads = _arguments.check_bias(encoding, T, S, tuple(one.shape for one in matrices), length)
    plan = _arguments.text((encoding,), queries=T, keys=S, length=length)
    return _bias(plan, (heads, T, S), matrices)


# Calls of the handlers (jax.cc), and their gradients. Plans are JSON texts: static arguments.


def _call(target: str, results: Any, *operands: Any, **attributes: str) -> Any:
    return jax.ffi.ffi_call(target, results, vmap_method="expand_dims")(
        *jax.tree.leaves(operands), **attributes)


def _shaped(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Reshapes, without a call of JAX if the shape is that already."""
    return x if x.shape == shape else x.reshape(shape)


def _like(x: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _float32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


# The rotation is linear in x. JAX has no decorator for a linear function of its own that works
# with vmap, so the rotation is a primitive. x: [..., B, T, H, D]; rows: [..., 1 or B, T] each, with
# the same number of leading axes.
_rotate_p = Primitive("gnomon_rotate")


def _rotate_rule(x: jax.Array, *rows: Any, plan: str, layout: str, direction: str) -> jax.Array:
    return _call("gnomon_rotate", _like(x), x, rows, plan=plan, layout=layout,
                 direction=direction, operands="")


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _rotate(plan: str, layout: str, direction: str, x: jax.Array, rows: Any) -> jax.Array:
    return _rotate_p.bind(x, *rows, plan=plan, layout=layout, direction=direction)


def _rotate_tangent(primals: Any, tangents: Any, **static: Any) -> Any:
    out, tangent = _rotate_p.bind(*primals, **static), tangents[0]
    if type(tangent) is ad.Zero:
        return out, ad.Zero.from_primal_value(out)
    return out, _rotate_p.bind(tangent, *primals[1:], **static)


def _rotate_transposed(grad: Any, x: Any, *rows: Any, direction: str, **static: Any) -> Any:
    if type(grad) is ad.Zero:
        return ad.Zero(x.aval), *(None,) * len(rows)
    other = "forward" if direction == "inverse" else "inverse"
    return _rotate_p.bind(grad, *rows, direction=other, **static), *(None,) * len(rows)


def _rotate_batch(operands: Any, axes: Any, **static: Any) -> Any:
    count = next(one.shape[axis] for one, axis in zip(operands, axes) if axis is not None)
    x, *rows = (jnp.expand_dims(one, 0) if axis is None else jnp.moveaxis(one, axis, 0)
                for one, axis in zip(operands, axes))
    x = jnp.broadcast_to(x, (count, *x.shape[1:]))
    return _rotate_p.bind(x, *rows, **static), 0


_rotate_p.def_impl(functools.partial(jax.jit, static_argnames=("plan", "layout", "direction"))(
    _rotate_rule))
_rotate_p.def_abstract_eval(lambda x, *rows, **static: jax.core.ShapedArray(x.shape, x.dtype))
mlir.register_lowering(_rotate_p, mlir.lower_fun(_rotate_rule, multiple_results=False))
ad.primitive_jvps[_rotate_p] = _rotate_tangent
ad.primitive_transposes[_rotate_p] = _rotate_transposed
batching.primitive_batchers[_rotate_p] = _rotate_batch


class _Operands(NamedTuple):
    q: jax.Array
    k: jax.Array
    v: jax.Array
    terms: tuple[jax.Array, ...]
    rows: tuple[Any, ...]
    sinks: jax.Array | None
    parameters: tuple[jax.Array, ...]


def _forward(plan: str, layout: str, letters: str, o: _Operands) -> Any:
    tokens, heads = (1, 2) if layout == "tokens_heads" else (2, 1)
    sums = jnp.promote_types(o.q.dtype, jnp.float32)
    out = jax.ShapeDtypeStruct((*o.q.shape[:-1], o.v.shape[-1]), o.q.dtype)
    lse = jax.ShapeDtypeStruct((o.q.shape[0], o.q.shape[heads], o.q.shape[tokens]), sums)
    return _call("gnomon_attention", (out, lse), o, plan=plan, layout=layout, operands=letters)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _attention_rule(plan: str, layout: str, letters: str, operands: _Operands) -> jax.Array:
    return _forward(plan, layout, letters, operands)[0]


def _attention_forward(plan: str, layout: str, letters: str, operands: _Operands) -> Any:
    out, lse = _forward(plan, layout, letters, operands)
    return out, (operands, out, lse)


def _attention_backward(plan: str, layout: str, letters: str, saved: Any, grad: jax.Array) -> Any:
    o, out, lse = saved
    k, v = o.k.astype(o.q.dtype), o.v.astype(o.q.dtype)  # gradients have the type of q
    wanted = [one for one in (o.q, k, v, *o.terms, o.sinks, *o.parameters) if one is not None]
    grads = iter(_call("gnomon_attention_backward", tuple(_like(one) for one in wanted), o.q, k, v,
                       out, lse, grad, o.terms, o.rows, o.sinks, o.parameters, plan=plan,
                       layout=layout, operands=letters))
    return (_Operands(
        q=next(grads), k=next(grads).astype(o.k.dtype), v=next(grads).astype(o.v.dtype),
        terms=tuple(next(grads) for _ in o.terms),
        rows=(None,) * len(o.rows),  # integers
        sinks=None if o.sinks is None else next(grads), parameters=tuple(grads)),)


_attention_rule.defvjp(_attention_forward, _attention_backward)
_attention = jax.jit(_attention_rule, static_argnums=(0, 1, 2))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _table_rule(plan: str, shape: tuple[int, int], rows: Any, parameters: Any) -> jax.Array:
    return _call("gnomon_table", _float32(*shape), rows, parameters, plan=plan)


def _table_forward(plan: str, shape: tuple[int, int], rows: Any, parameters: Any) -> Any:
    return _table(plan, shape, rows, parameters), (rows, parameters)


def _table_backward(plan: str, shape: tuple[int, int], saved: Any, grad: jax.Array) -> Any:
    rows, parameters = saved
    if not parameters:
        return None, ()
    results = tuple(_like(one) for one in parameters)
    return None, tuple(_call("gnomon_table_backward", results, grad[None], rows, parameters,
                             plan=plan))


_table_rule.defvjp(_table_forward, _table_backward)
_table = jax.jit(_table_rule, static_argnums=(0, 1))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _bias_rule(plan: str, shape: tuple[int, int, int], parameters: Any) -> jax.Array:
    return _call("gnomon_bias", _float32(*shape), parameters, plan=plan)


def _bias_forward(plan: str, shape: tuple[int, int, int], parameters: Any) -> Any:
    return _bias(plan, shape, parameters), parameters


def _bias_backward(plan: str, shape: tuple[int, int, int], parameters: Any, grad: jax.Array) -> Any:
    if not parameters:
        return ((),)
    results = tuple(_like(one) for one in parameters)
    return (tuple(_call("gnomon_bias_backward", results, grad, parameters, plan=plan)),)


_bias_rule.defvjp(_bias_forward, _bias_backward)
_bias = jax.jit(_bias_rule, static_argnums=(0, 1))
