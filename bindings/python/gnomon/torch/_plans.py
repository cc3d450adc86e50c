"""Caches of tables and plans, so that layers share them and no call lowers an encoding again.

An encoding is identified by a text: the JSON of its spec, which is immutable. Positions are
identified by their contents. Encodings with parameters are lowered in each call.
"""

from __future__ import annotations

import functools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from .._core import (
    Plan,
    Positions,
    RotaryFrequencies,
    RotaryTable,
    lower,
    rotary_frequencies,
)
from .._spec import Encoding

Texts = str  # a JSON array of specs
_Function = TypeVar("_Function", bound=Callable[..., Any])


def constant(function: _Function) -> _Function:
    """Marks a function that torch.compile calls while it traces, with guards on its arguments.

    The same as torch.compiler.assume_constant_result, which imports the compiler.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def kept(size: int) -> Callable[[_Function], _Function]:
    """As functools.lru_cache, for functions that make tensors: tensors of a trace are not kept."""
    def decorate(function: _Function) -> _Function:
        cached = functools.lru_cache(size)(function)

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            return (function if torch._C._len_torch_dispatch_stack() else cached)(*args)

        return cast(_Function, call)

    return decorate


def numbers(values: Any, dtype: str, device: torch.device) -> Tensor:
    """Returns numbers as a tensor. torch.tensor would add an operator in place to a trace."""
    tensor = torch.from_numpy(np.array(values, dtype))
    return tensor if device.type == "cpu" else tensor.to(device)


class Cache:
    """Values by key. The least recently used are dropped beyond a budget in bytes."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Any:
        """Returns the value of a key, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        try:
            self._entries.move_to_end(key)
        except KeyError:  # dropped by another thread since
            pass
        return entry[0]

    def put(self, key: Hashable, value: Any, size: int) -> Any:
        """Keeps a value of `size` bytes, and returns it."""
        with self._lock:
            old = self._entries.pop(key, None)
            self.used += size - (old[1] if old else 0)
            self._entries[key] = value, size
            while self.used > self.budget and len(self._entries) > 1:
                self.used -= self._entries.popitem(last=False)[1][1]
        return value

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self.used = 0

    def __len__(self) -> int:
        return len(self._entries)


cache = Cache(1 << 28)
_LONGEST = 1 << 17  # rows of a table that starts at position 0 and grows


def text_of(encoding: Any) -> str:
    """Returns the text that identifies an encoding."""
    if isinstance(encoding, Encoding):
        return encoding.to_json()
    if isinstance(encoding, RotaryFrequencies):
        return _frequencies_text(encoding)
    if isinstance(encoding, str):
        return encoding
    raise ValueError("[torch] encoding must be a spec, as gnomon.Rotary(...), "
                     f"got {type(encoding).__name__}")


def texts_of(encoding: Any) -> Texts:
    """Returns the text that identifies a spec, several specs, or None (no position)."""
    if encoding is None:
        return "[]"
    several = encoding if isinstance(encoding, (list, tuple)) else (encoding,)
    if any(isinstance(one, RotaryFrequencies) for one in several):
        raise ValueError("[torch] encoding must be a spec; rotate q and k by frequencies with "
                         "gnomon.torch.rotate first, got RotaryFrequencies")
    return "[" + ", ".join([text_of(one) for one in several]) + "]"


_FREQUENCIES = '{"kind": "frequencies", '


@constant
def _frequencies_text(frequencies: RotaryFrequencies) -> str:
    key = "frequencies", id(frequencies)
    cached = cache.get(key)
    if cached is None:
        text = _FREQUENCIES + f'"state": {json.dumps(frequencies.__getstate__())}}}'
        # The object is kept, so that its id is not used again.
        cached = cache.put(key, (frequencies, text), 4 * len(text))
    return cached[1]


@functools.lru_cache(maxsize=64)
def source_of(text: str) -> Any:
    """Returns what RotaryTable is made of: the JSON of a spec, or RotaryFrequencies."""
    if not text.startswith(_FREQUENCIES):
        return text
    frequencies = RotaryFrequencies.__new__(RotaryFrequencies)
    frequencies.__setstate__(tuple(json.loads(text)["state"]))
    return frequencies


@functools.lru_cache(maxsize=256)
def _specs(texts: Texts) -> list[str]:
    return [json.dumps(one) for one in json.loads(texts)]


@functools.lru_cache(maxsize=256)
def _check_embedding(texts: Texts) -> None:
    places = [Encoding.from_json(one).enters for one in _specs(texts)]
    if "embeddings" not in places:
        raise ValueError("[add_position] encoding must be added to the embeddings, "
                         f"got one that enters at {', '.join(places) or 'no place'}")


def _contents(name: str, positions: Tensor) -> tuple[Any, bytes]:
    """Returns positions as int64 on the CPU, and their bytes."""
    if positions.is_floating_point() or positions.is_complex():
        raise ValueError(f"[torch] {name} must be integers (gnomon.torch.rotate takes fractional "
                         f"positions), got {positions.dtype}")
    if positions.is_meta:
        raise ValueError(f"[torch] {name} must have values, got a tensor on the device meta")
    values = positions.detach().to("cpu", torch.int64).numpy()
    return values, values.tobytes()


# These rotate q and k, or both of a pair, differently.
_TWO = {"xpos": "XPos", "vjepa2": "Vjepa2", "rotary-plus-plus": "RotaryPlusPlus"}


@functools.lru_cache(maxsize=256)
def has_axes(text: str) -> bool:
    """Whether an encoding has several position axes. Refuses those without a rotary table."""
    source = source_of(text)
    if isinstance(source, str) and (module := _TWO.get(json.loads(source).get("kind"))):
        raise ValueError("[rotate] the encoding must rotate q and k by one table, got "
                         f"{json.loads(source)['kind']}; use gnomon.torch.{module}(...).rotate")
    return bool(rotary_frequencies(source).axes.size)


def _table(text: str, length: int, at: Any) -> RotaryTable:
    """Returns the table of positions. A position of an encoding with axes is a cell of its grid."""
    if isinstance(at, tuple) or not has_axes(text) or text.startswith(_FREQUENCIES):
        return RotaryTable(source_of(text), at, length=length)
    return lower([text], at, at, visibility="bidirectional", length=length).query_rotary


def rotary(text: str, length: int, offset: int, tokens: int) -> tuple[RotaryTable, int]:
    """Returns a table with the positions offset to offset + tokens - 1, and its first row."""
    end = offset + tokens
    if offset < 0 or end > _LONGEST or has_axes(text):
        key = text, length, offset, tokens
        table = cache.get(key)
        if table is None:
            table = _put_table(key, _table(text, length, Positions.consecutive(tokens, offset)))
        return table, 0
    # One table for all lengths. Its size doubles, so that decoding rarely computes a new one.
    table = cache.get((text, length))
    if table is None or table.tokens < end:
        rows = max(64, 1 << (end - 1).bit_length())
        table = _put_table((text, length), RotaryTable(source_of(text), rows, length=length))
    return table, offset


def rotary_at(text: str, length: int, axes: Sequence[Tensor]) -> RotaryTable:
    """Returns the table of given positions, one tensor [T] or [B, T] for each axis."""
    values, contents = zip(*[_contents("positions", one) for one in axes])
    key = text, length, tuple(one.shape for one in values), contents
    table = cache.get(key)
    if table is None:
        table = _put_table(key, _table(text, length, values if len(values) > 1 else values[0]))
    return table


def _put_table(key: Hashable, table: RotaryTable) -> RotaryTable:
    size = 4 * table.batch * table.tokens * table.frequencies.rotary_dim
    return cache.put(key, table, size)


def cos_sin(table: RotaryTable, begin: int, tokens: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Returns rows of a table as float32 tensors [B or 1, T, R/2] on the device of `like`."""
    device = str(like.device)
    cos, sin = _part(table, "cos", device), _part(table, "sin", device)
    return cos[:, begin:begin + tokens], sin[:, begin:begin + tokens]


@constant
def _part(table: RotaryTable, name: str, device: str) -> Tensor:
    key = name, id(table), device
    cached = cache.get(key)
    if cached is None:
        copy = torch.tensor(getattr(table, name), device=device)
        # The table is kept, so that its id is not used again.
        cached = cache.put(key, (table, copy), 4 * copy.numel())
    return cached[1]


@constant
def pairing(table: RotaryTable) -> str:
    return table.frequencies.pairing


@constant
def head_offset(table: RotaryTable) -> int:
    return table.frequencies.head_offset


def embedding(texts: Texts, parameters: Sequence[Tensor], positions: Tensor | None, offset: int,
              tokens: int) -> Plan:
    """Returns the plan of an encoding that is added to the embeddings of T tokens."""
    _check_embedding(texts)
    if positions is None:
        at: Any = Positions.consecutive(tokens, offset)
        key: Any = "embedding", texts, offset, tokens
    else:
        values, contents = _contents("positions", positions)
        at = Positions(values)
        key = "embedding", texts, values.shape, contents

    def make() -> Plan:
        return lower(_specs(texts), at, parameters=matrices(parameters), visibility="causal")

    if parameters:
        return make()
    plan = cache.get(key)
    if plan is None:
        plan = make()
        table = plan.table
        plan = cache.put(key, plan, 64 if table is None else table.nbytes)
    return plan


def device_table(plan: Plan, x: Tensor) -> Tensor | None:
    """Returns the table of a plan of add_position, float32 [B or 1, T, C] on the device of x."""
    key = "device table", id(plan), str(x.device)
    cached = cache.get(key)
    if cached is None:
        table = plan.table
        if table is None:
            return None
        copy = torch.from_numpy(table).to(x.device, torch.float32).view(-1, *x.shape[-2:])
        # The plan is kept, so that its id is not used again.
        cached = cache.put(key, (plan, copy), 4 * copy.numel())
    return cached[1]


def attention(texts: Texts, parameters: Sequence[Tensor], sinks: Tensor | None, batch: int,
              queries: int, keys: int, at: Sequence[Tensor | None], visibility: str,
              left: int | None, right: int | None, softmax_scale: float | None,
              cap: float | None, length: int) -> Plan:
    """Returns the plan of attention. at: positions of queries and keys, sequences of both."""
    scores = () if sinks is None else tuple(sinks.detach().double().tolist())
    given = [None if one is None else _contents("positions and sequences", one) for one in at]
    key = None
    if not parameters:
        key = (texts, queries, keys, visibility, left, right, softmax_scale, cap, scores, length,
               tuple(one if one is None else (one[0].shape, one[1]) for one in given))
        plan = cache.get(key)
        if plan is not None:
            return plan
    tokens: list[Any] = [queries, keys]
    if any(one is not None for one in given):
        query_at, key_at, query_of, key_of = [None if one is None else one[0] for one in given]
        tokens = [Positions(query_at, query_of), Positions(key_at, key_of)]
    plan = lower(_specs(texts), *tokens, parameters=matrices(parameters), visibility=visibility,
                 left=left, right=right, softmax_scale=softmax_scale, cap=cap,
                 sinks=scores, length=length)
    # A rotary table of 128 elements for each token; plans of biases are smaller.
    return plan if key is None else cache.put(key, plan, 512 * batch * (queries + keys))


def matrices(parameters: Sequence[Tensor]) -> list[Tensor]:
    """Returns parameters as the library reads them: float32 on the CPU."""
    return [one.detach().to("cpu", torch.float32) for one in parameters]
