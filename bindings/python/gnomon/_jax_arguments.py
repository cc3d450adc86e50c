"""Arguments of gnomon.jax: conversions, and checks at trace time by the library itself.

A check runs once for each set of static arguments. It lowers the plan and applies it to empty
arrays.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _core
from ._spec import Encoding

_LAYOUTS = ("tokens_heads", "heads_tokens")
_INT32_MAX = 2**31 - 1


@functools.lru_cache(maxsize=1024)
def text(encodings: tuple[Encoding, ...], **given: Any) -> str:
    """Returns the JSON from which a handler lowers a plan."""
    defaults = {"keys": 0, "visibility": "bidirectional", "operands": ""}
    return json.dumps(defaults | given | {"encodings": [one.to_json() for one in encodings]})


def mixture(encoding: Any) -> tuple[Encoding, ...]:
    if encoding is None:
        return ()
    return tuple(encoding) if isinstance(encoding, (list, tuple)) else (encoding,)


def matrices(parameters: Sequence[Any]) -> tuple[jax.Array, ...]:
    return tuple(jnp.asarray(one).astype(jnp.float32) for one in parameters)


def array(operation: str, name: str, value: Any) -> jax.Array:
    """Returns an array of JAX. Refuses one of another device."""
    x = value if isinstance(value, jax.Array) else jnp.asarray(value)
    if not isinstance(x, jax.core.Tracer):
        for device in x.devices():
            if device.platform != "cpu":
                raise ValueError(f"[{operation}] {name} must be on the CPU, got {device.platform}")
    return x


def heads(operation: str, name: str, value: Any, layout: str) -> Any:
    """Returns an array of at least 3 axes, and its (B, T, H, D)."""
    if layout not in _LAYOUTS:
        raise ValueError(f"[{operation}] layout must be one of {', '.join(_LAYOUTS)}, got {layout}")
    x = array(operation, name, value)
    if x.ndim < 3:
        raise ValueError(f"[{operation}] {name} must have at least 3 axes, got {x.ndim}")
    tokens, heads = (-3, -2) if layout == "tokens_heads" else (-2, -3)
    return x, (math.prod(x.shape[:-3]), x.shape[tokens], x.shape[heads], x.shape[-1])


def integers(operation: str, name: str, value: Any) -> jax.Array | np.ndarray:
    """Returns integers as int32 or int64. Refuses values that JAX would cut to 32 bits.

    Arrays of NumPy remain such: their values are known when a function is traced.
    """
    wide = jax.config.jax_enable_x64
    ids = array(operation, name, value) if isinstance(value, jax.Array) else np.asarray(value)
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(f"[{operation}] {name} must be integers, got {ids.dtype}")
    if not wide and isinstance(ids, np.ndarray) and abs(ids).max(initial=0) > _INT32_MAX:
        raise ValueError(f"[{operation}] {name} must be below 2^31 unless jax_enable_x64 is set, "
                         f"got {abs(ids).max()}")
    return ids.astype(np.int64 if wide else np.int32)


def rows(operation: str, name: str, value: Any, lead: tuple[int, ...], tokens: int) -> Any:
    """Returns integers [T] or [..., T] as [1 or B, T]."""
    ids = integers(operation, name, value)
    if ids.shape not in ((tokens,), (*lead, tokens), (1, tokens)):
        raise ValueError(f"[{operation}] {name} must have the shape ({tokens},) or "
                         f"{(*lead, tokens)}, got {ids.shape}")
    return ids.reshape(math.prod(ids.shape[:-1]), tokens)


def all_rows(positions: Any, sequences: Any, lead: tuple[int, ...], queries: int,
              keys: int) -> tuple[Any, ...]:
    """Returns ids and sequences of queries and of keys, or () if none are given."""
    if positions is None and sequences is None:
        return ()
    start = max(keys - queries, 0)

    def both(name: str, value: Any) -> list[Any]:
        if value is None:
            values = [np.arange(start, start + queries), np.arange(keys)]
            return values if name == "positions" else [0 * one for one in values]
        if isinstance(value, tuple):
            if len(value) != 2:
                raise ValueError(f"[attention] {name} must be an array or two, of queries and "
                                 f"keys, got {len(value)}")
            return list(value)
        if queries > keys:
            raise ValueError(f"[attention] {name} must be two arrays if there are more queries "
                             f"than keys, got one array and {queries} queries")
        value = integers("attention", name, value)
        return [value[..., start:], value]

    if isinstance(positions, _core.Positions):
        positions = (positions, positions) if queries == keys else positions
    if isinstance(positions, tuple) and any(isinstance(one, _core.Positions) for one in positions):
        sequences = tuple(one.sequences for one in positions)
        positions = tuple(one.ids for one in positions)
    elif isinstance(positions, _core.Positions):
        positions, sequences = positions.ids, positions.sequences
    ids, numbers = both("positions", positions), both("sequences", sequences)
    return tuple(rows("attention", name, one, lead, count)
                 for i, count in enumerate((queries, keys))
                 for name, one in (("positions", ids[i]), ("sequences", numbers[i])))


# The letter (0, 1, ...) and the number of axes of each term, in the order of token_terms.h.
TERMS = {name: chr(ord("0") + n) for n, (name, _) in enumerate(_core.term_ranks())}
_RANKS = dict(_core.term_ranks())


def terms(given: Any, lead: tuple[int, ...], batch: int) -> list[tuple[str, Any]]:
    """Returns terms of the tokens with one batch axis, in the order of the library."""
    given = {name: one for name, one in (given or {}).items() if one is not None}
    unknown = set(given) - set(TERMS)
    if unknown:
        raise ValueError(f"[attention] terms must have names of token terms, {', '.join(TERMS)}, "
                         f"got {', '.join(sorted(unknown))}")
    named = []
    for name in sorted(given, key=TERMS.__getitem__):
        one = jnp.asarray(given[name], jnp.float32)
        rest = one.shape[1 - _RANKS[name]:]
        named.append((name, jnp.broadcast_to(one, (*lead, *rest)).reshape(batch, *rest)))
    return named


def offset(offset: Any, tokens: int) -> Any:
    if isinstance(offset, int):
        return np.arange(offset, offset + tokens)
    return integers("add_position", "offset", offset) + jnp.arange(tokens)


def known(rows: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Returns the values of arrays as hashable ones, or None if one of them is traced."""
    if any(isinstance(one, jax.core.Tracer) for one in rows):
        return None
    return tuple((one.shape, np.asarray(one, np.int64).tobytes()) for one in rows)


def _zeros(encodings: tuple[Encoding, ...], shapes: tuple[Any, ...]) -> list[np.ndarray]:
    """Returns parameters for a check: of the given shapes, with their initial mean."""
    means = [one.initial_mean for encoding in encodings for one in encoding.parameters()]
    means += [0.0] * len(shapes)
    return [np.broadcast_to(np.float32(mean), shape) for mean, shape in zip(means, shapes)]


@functools.lru_cache(maxsize=1024)
def check_rotate(encoding: Encoding, tokens: int, length: int, axes: int, shape: tuple[int, ...],
                  dtype: str, layout: str) -> None:
    ids = (np.zeros((1, 1), np.int64),) * max(axes, 1)
    one = _core.RotaryTable(encoding, ids if axes > 1 else ids[0], length=length)
    heads = shape[2 if layout == "tokens_heads" else 1]
    _core.rotate(np.empty((0, 1, heads, shape[3]), jnp.dtype(dtype)), one)


@functools.lru_cache(maxsize=1024)
def check_attention(encodings: tuple[Encoding, ...], shapes: Any, dtypes: Any, layout: str,
                    matrices: Any, visibility: str, left: int | None, right: int | None,
                    softmax_scale: float | None, cap: float | None, sinks: int, terms: Any,
                    length: int, has_rows: bool) -> None:
    arrays = [np.empty((0, *shape[1:]), jnp.dtype(dtype)) for shape, dtype in zip(shapes, dtypes)]
    if layout == "heads_tokens":
        arrays = [one.transpose(0, 2, 1, 3) for one in arrays]
    q, k, v = arrays
    tokens: tuple[Any, ...] = (q.shape[1], k.shape[1])
    options: dict[str, Any] = dict(
        parameters=_zeros(encodings, matrices), visibility=visibility, left=left, right=right,
        softmax_scale=softmax_scale, cap=cap, sinks=[0.0] * sinks, length=length)
    if has_rows:
        tokens = tuple(_core.Positions(np.zeros((1, count), np.int64)) for count in tokens)
    plan = _core.lower(list(encodings), *tokens, **options)
    given = {name: np.empty((0, *shape[1:]), np.float32) for name, shape in terms}
    out = np.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    _core.attention(q, k, v, plan, out=out, terms=given)


@functools.lru_cache(maxsize=16)
def check_positions(encodings: tuple[Encoding, ...], matrices: Any, length: int,
                    known: tuple[Any, ...] | None) -> None:
    """Checks known positions: of a table, or ids and sequences of queries and keys."""
    if not known:
        return
    arrays = [np.frombuffer(data, np.int64).reshape(shape) for shape, data in known]
    rows = max(len(one) for one in arrays)
    arrays = [np.broadcast_to(one, (rows, one.shape[1])) for one in arrays]
    tokens = arrays if len(arrays) == 1 else [_core.Positions(*arrays[i:i + 2]) for i in (0, 2)]
    _core.lower(list(encodings), *tokens, parameters=_zeros(encodings, matrices), length=length,
                visibility="bidirectional")


@functools.lru_cache(maxsize=1024)
def check_table(encoding: Encoding, tokens: int, matrices: Any, length: int,
                has_rows: bool) -> int:
    """Returns the width."""
    at = np.zeros((1, tokens), np.int64) if has_rows else tokens
    plan = _core.lower(encoding, at, parameters=_zeros((encoding,), matrices), length=length,
                       visibility="bidirectional")
    if plan.table is None:
        raise ValueError(f"[table] encoding must have a table, got {encoding.title}")
    return plan.table.shape[1]


@functools.lru_cache(maxsize=1024)
def check_bias(encoding: Encoding, queries: int, keys: int, matrices: Any, length: int) -> int:
    """Returns the number of heads."""
    plan = _core.lower(encoding, queries, keys, parameters=_zeros((encoding,), matrices),
                       length=length, visibility="bidirectional")
    one = plan.bias(1, 1)
    if one is None:
        raise ValueError(f"[bias] encoding must have a bias, got {encoding.title}")
    return one.shape[0]
