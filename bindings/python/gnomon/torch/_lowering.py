"""Bias forms as tensors: the numbers of gnomon/bias/form.h, differentiable in the parameters.

A form evaluates the bias at positions of queries and keys, element by element. `dense` and
FlexAttention (flex.py) use the same evaluation.

Letters: H heads, N distances, T queries, S keys.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from .. import _core, specs
from .._spec import Encoding
from ._plans import kept, numbers
from ._terms import has_form


class Form(Protocol):
    """A bias form: `at(h, q, k)` is the bias of head h, query position q and key position k.

    h, q and k are integer tensors that broadcast. Pairs outside the form (padding, other
    sequences) give an arbitrary value, not an error: a mask hides them.
    """

    @property
    def heads(self) -> int: ...

    def at(self, h: Tensor, q: Tensor, k: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Slope:
    """-slopes[h] |k - q|. slopes: [H]."""

    slopes: Tensor

    @property
    def heads(self) -> int:
        return self.slopes.shape[0]

    def at(self, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.slopes[h] * -(k - q).abs()


@dataclass(frozen=True)
class Strip:
    """values[h, k - q - min_distance]. values: [H, N]. One lookup for each score."""

    values: Tensor
    min_distance: int

    @property
    def heads(self) -> int:
        return self.values.shape[0]

    def at(self, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        column = (k - q - self.min_distance).clamp(0, self.values.shape[1] - 1)
        return self.values[h, column]


@dataclass(frozen=True)
class Grid:
    """values[h, offset of two cells], as GridBias. values: [H, N]."""

    values: Tensor
    height: int
    width: int
    leading: int

    @property
    def heads(self) -> int:
        return self.values.shape[0]

    def at(self, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        cells = self.height * self.width
        q, k = q - self.leading, k - self.leading
        y, x = q.clamp(0, cells - 1), k.clamp(0, cells - 1)
        dy, dx = y // self.width - x // self.width, y % self.width - x % self.width
        index = (dy + self.height - 1) * (2 * self.width - 1) + dx + self.width - 1
        if self.leading:
            count = self.values.shape[1]
            index = torch.where(q < 0, count - 3, index)
            index = torch.where(k < 0, count - 2, index)
            index = torch.where((q < 0) & (k < 0), count - 1, index)
        return self.values[h, index]


@dataclass(frozen=True)
class Axes:
    """A sum of strips, each by the distance of the coordinates of one axis, as AxesBias.

    coordinates: [P] for each axis; None: the position itself.
    """

    strips: tuple[Strip, ...]
    coordinates: tuple[Tensor | None, ...]

    @property
    def heads(self) -> int:
        return self.strips[0].heads

    def at(self, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        total: Any = 0
        for strip, table in zip(self.strips, self.coordinates, strict=True):
            if table is None:
                total = total + strip.at(h, q, k)
            else:
                last = table.shape[0] - 1
                total = total + strip.at(h, table[q.clamp(0, last)], table[k.clamp(0, last)])
        return total


@dataclass(frozen=True)
class PiecewiseLog:
    """offsets[h, p] + slopes[h, p] x with knots[p] <= x < knots[p + 1], as PiecewiseLogBias.

    x = psi(|q - k|) / (psi(max(threshold, q)) + epsilon), psi(n) = log(c n + 1). knots: [P]; one
    that is infinite is never reached. offsets, slopes: [H, P]. c, threshold: [H], equal for all
    heads. All numbers are read by lookups with tensors: FlexAttention has gradients for these only.
    """

    knots: Tensor
    offsets: Tensor
    slopes: Tensor
    c: Tensor
    threshold: Tensor
    epsilon: float

    @property
    def heads(self) -> int:
        return self.offsets.shape[0]

    def at(self, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        c, threshold = self.c[h], self.threshold[h]
        distance = (q - k).abs().to(self.offsets.dtype)
        back = q.to(self.offsets.dtype)
        back = torch.where(back >= threshold, back, threshold)
        x = torch.log1p(c * distance) / (torch.log1p(c * back) + self.epsilon)
        first = h * 0
        piece = first
        for p in range(1, self.knots.shape[0]):
            piece = piece + (x >= self.knots[first + p]).to(first.dtype)
        return self.offsets[h, piece] + self.slopes[h, piece] * x


def dense(form: Form, queries: Tensor, keys: Tensor) -> Tensor:
    """Returns the whole bias: [H, T, S] for positions [T] and [S], [B, H, T, S] for [B, T], ..."""
    h = torch.arange(form.heads, device=queries.device)
    return form.at(h[:, None, None], queries[..., None, :, None], keys[..., None, None, :])


# The form of an encoding.


def mixture_of(encoding: Any) -> tuple[Encoding, ...]:
    """Returns the encodings of an argument: a spec, several specs, or None."""
    if encoding is None:
        return ()
    return (encoding,) if isinstance(encoding, Encoding) else tuple(encoding)


def bias_form(mixture: Sequence[Encoding], parameters: Sequence[Tensor], queries: Any,
              keys: Any, *, device: torch.device, dtype: torch.dtype) -> Form | None:
    """Returns the form of the bias of some encodings, or None if they have no bias.

    parameters: one tensor for each of the matrices of all encodings, [rows, columns].
    queries, keys: as gnomon.lower. The numbers have the given type and device, and gradients
    with respect to the parameters. Raises ValueError for relative vectors (Shaw, DeBERTa,
    Transformer-XL), whose bias depends on the queries.
    """
    first = 0
    for one in mixture:
        count = len(one.parameters())
        mine = [p.to(device=device, dtype=dtype) for p in parameters[first:first + count]]
        first += count
        places = one.enters
        if "keys and values" in places:
            raise ValueError("[bias] the bias must not depend on the queries, got "
                             f"{one.kind}; use gnomon.torch.attention")
        if "weights" in places:
            raise ValueError("[bias] the weights must be those of a softmax, got "
                             f"{one.kind}; use gnomon.torch.attention")
        if has_form(one):
            key = (one, frozen(queries), frozen(keys))
            return _form_of(one, mine, key, device, dtype)
    return None


def _form_of(spec: Encoding, p: list[Tensor], key: tuple[Any, ...], device: torch.device,
             dtype: torch.dtype) -> Form | None:
    if network := _NETWORKS.get(type(spec)):
        return network(spec, p, key)
    if not p:
        return _constant(key, device, dtype)
    if _core.properties(spec)["plan_linearity"] == "nonlinear":
        raise ValueError("[bias] the bias must be linear in its parameters or have a formula in "
                         f"gnomon.torch, got {spec.kind}")
    return _linear(p, key, device, dtype)


# The bias networks, from their papers (the formulas are in gnomon/bias/*.h).


class _Bounded(torch.autograd.Function):
    """Clamps to [low, high]; no gradient that would move a value further out of the bounds."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float, high: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.bounds = low, high
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        low, high = ctx.bounds
        out = ((x < low) & (grad > 0)) | ((x > high) & (grad < 0))
        return grad.masked_fill(out, 0), None, None


def _kerple(spec: specs.Kerple, p: list[Tensor], key: tuple[Any, ...]) -> Strip:
    low, count = _distances(key)
    r1, r2 = p
    distance = torch.arange(low, low + count, device=r1.device).abs().to(r1.dtype)
    power = spec.kernel == "power"
    r1 = _Bounded.apply(r1, 0.01, float("inf"))
    r2 = _Bounded.apply(r2, 0.01, 2.0 if power else float("inf"))
    if power:  # 0^r has no gradient with respect to r
        value = torch.where(distance == 0, 0, distance.clamp(min=1) ** r2)
    else:
        value = torch.log1p(r2 * distance)
    return Strip(-r1 * value, low)


def _dynamic(spec: specs.DynamicBias, p: list[Tensor], key: tuple[Any, ...]) -> Strip:
    low, count = _distances(key)
    x = -torch.arange(low, low + count, device=p[0].device).to(p[0].dtype)
    if spec.scale == "logarithmic":
        x = torch.sign(x) * torch.log1p(x.abs())
    x = x[:, None]
    for layer in range(0, len(p), 2):
        x = torch.nn.functional.linear(x, p[layer], p[layer + 1][:, 0])
        if layer < len(p) - 2:
            x = torch.nn.functional.silu(x)
    return Strip(x.T, low)


def _swin_v2(spec: specs.SwinV2, p: list[Tensor], key: tuple[Any, ...]) -> Grid:
    offsets = _grid_offsets(spec).to(p[0])
    hidden = torch.relu(torch.nn.functional.linear(offsets, p[0], p[1][:, 0]))
    return Grid(16 * torch.sigmoid(hidden @ p[2].T).T, spec.height, spec.width, 0)


def _grid_offsets(spec: specs.SwinV2) -> Tensor:
    def axis(n: int, pretrained: int) -> Tensor:
        x = torch.arange(1 - n, n, dtype=torch.float64) * 8 / max(1, (pretrained or n) - 1)
        return torch.sign(x) * torch.log2(1 + x.abs()) / 3
    y, x = axis(spec.height, spec.pretrained_height), axis(spec.width, spec.pretrained_width)
    return torch.cartesian_prod(y, x).view(-1, 2)


def _fire(spec: specs.Fire, p: list[Tensor], key: tuple[Any, ...]) -> PiecewiseLog:
    # f(x) = b2 + sum_u w2[u] relu(w1[u] x + b1[u]): unit u starts (w1 > 0) or stops (w1 < 0) at
    # its knot -b1 / w1. The pieces are in the order of the knots above 0. f is continuous, so the
    # knots have no gradient. The number of pieces is constant, for torch.compile.
    w1, b1, w2, b2, c, multiplier = p[0][:, 0], p[1][:, 0], *p[2:]
    with torch.no_grad():
        knot = -b1 / w1
        knot = torch.where((knot > 0) & torch.isfinite(knot), knot, float("inf"))
        first = (b1 > 0) | ((b1 == 0) & (w1 > 0))  # active for x just above 0
        order = torch.argsort(knot)
        knots = torch.cat([knot.new_zeros(1), knot[order]])
        # changes[u]: 1 if unit u becomes active at its knot, -1 if it becomes inactive.
        changes = torch.where(torch.isfinite(knot), 1 - 2 * first.to(w1.dtype), 0)[order]
    def pieces(weights: Tensor, start: Tensor | float) -> Tensor:
        at_zero = (weights * first).sum(1, keepdim=True) + start
        steps = (weights[:, order] * changes).cumsum(1)
        return torch.cat([at_zero, at_zero + steps], 1)
    return PiecewiseLog(knots, pieces(w2 * b1, b2), pieces(w2 * w1, 0.0),
                        c[0].abs().expand(spec.heads),
                        (multiplier[0].abs() * spec.threshold).expand(spec.heads), spec.epsilon)


_NETWORKS: dict[type, Callable[..., Form]] = {
    specs.Fire: _fire, specs.Kerple: _kerple, specs.DynamicBias: _dynamic, specs.SwinV2: _swin_v2}


# Encodings whose numbers are entries of their tables (T5, Swin, ...): Gnomon lowers a table that
# contains its own indices, which gives the entry of each number.


def frozen(tokens: Any) -> Any:
    """Returns the tokens of `gnomon.lower` as a value that can be the key of a cache."""
    if isinstance(tokens, (int, _Held)):
        return tokens
    if isinstance(tokens, _core.Positions):
        return _Held(tokens)
    if isinstance(tokens, Tensor):
        if tokens.is_floating_point() or tokens.is_complex():
            raise ValueError("[torch] positions must be integers (gnomon.torch.rotate takes "
                             f"fractional ones), got {tokens.dtype}")
        tokens = tokens.detach().cpu().numpy()
    return _Held(_core.Positions(np.ascontiguousarray(tokens, dtype=np.int64)))


def thawed(tokens: Any) -> Any:
    """Returns the tokens of a key that `frozen` made."""
    return tokens.positions if isinstance(tokens, _Held) else tokens


class _Held:
    """Positions, hashed by their contents."""

    def __init__(self, positions: _core.Positions) -> None:
        self.positions = positions
        self._key = (positions.ids.tobytes(), positions.sequences.tobytes(), positions.batch)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and self._key == other._key


def _lower(key: tuple[Any, ...], parameters: Sequence[Any]) -> dict[str, Any]:
    spec, queries, keys = key
    plan = _core.lower(spec, thawed(queries), thawed(keys), parameters=parameters,
                       visibility="bidirectional")
    return plan.bias_form


def _numbers(form: dict[str, Any]) -> list[np.ndarray]:
    strips = form["axes"] if form["form"] == "axes" else [form]
    return [one["values"] for one in strips]


@functools.lru_cache(maxsize=64)
def _distances(key: tuple[Any, ...]) -> tuple[int, int]:
    """Returns the first distance of the strip and the number of distances."""
    form = _lower(key, [np.ones((p.rows, p.columns), np.float32) for p in key[0].parameters()])
    return form["min_distance"], form["values"].shape[1]


@functools.lru_cache(maxsize=64)
def _entries(key: tuple[Any, ...]) -> tuple[dict[str, Any], list[np.ndarray], list[np.ndarray]]:
    """Returns the form, and for each number its entry in the joined tables and its factor."""
    shapes = [(p.rows, p.columns) for p in key[0].parameters()]
    sizes = np.cumsum([0] + [rows * columns for rows, columns in shapes])
    if sizes[-1] >= 2**23:
        raise ValueError(f"[bias] tables must have less than 2^23 elements, got {sizes[-1]}")
    indices = [np.arange(1 + first, 1 + end, dtype=np.float32).reshape(shape)
               for first, end, shape in zip(sizes, sizes[1:], shapes, strict=False)]
    form = _lower(key, [np.ones(shape, np.float32) for shape in shapes])
    factors = _numbers(form)
    named = _numbers(_lower(key, indices))
    entries = [np.rint(a / b).astype(np.int64) - 1 for a, b in zip(named, factors, strict=True)]
    return form, entries, factors


@kept(64)
def _entries_on(key: tuple[Any, ...], device: torch.device) -> list[Tensor]:
    return [numbers(one, "int64", device) for one in _entries(key)[1]]


def _linear(p: list[Tensor], key: tuple[Any, ...], device: torch.device,
            dtype: torch.dtype) -> Form:
    form, _, factors = _entries(key)
    joined = torch.cat([one.reshape(-1) for one in p])
    values = []
    for entry, factor in zip(_entries_on(key, device), factors, strict=True):
        common = float(factor.flat[0])
        if not np.all(factor == common):
            raise ValueError(f"[bias] the encoding must have one factor, got {key[0].kind}")
        values.append(joined[entry] * common if common != 1 else joined[entry])
    return _form(form, values, device, dtype)


@kept(64)
def _constant(key: tuple[Any, ...], device: torch.device, dtype: torch.dtype) -> Form | None:
    form = _lower(key, ())
    return form_of_numbers(form, device, dtype)


def form_of_numbers(form: dict[str, Any], device: torch.device, dtype: torch.dtype) -> Form | None:
    """Returns the form of `Plan.bias_form`, without gradients. None: no bias."""
    def tensor(values: Any) -> Tensor:
        return numbers(values, "float64", device).to(dtype)
    kind = form["form"]
    if kind == "none":
        return None
    if kind == "slope":
        return Slope(tensor(form["slopes"]))
    if kind == "piecewise_log":
        heads = len(form["offsets"])
        return PiecewiseLog(tensor(form["knots"]), tensor(form["offsets"]),
                            tensor(form["slopes"]), tensor([form["c"]] * heads),
                            tensor([form["threshold"]] * heads), form["epsilon"])
    if kind in ("strip", "grid", "axes"):
        return _form(form, [tensor(one) for one in _numbers(form)], device, dtype)
    raise ValueError(f"[bias] the form must not be dense, got {kind}")


def _form(form: dict[str, Any], values: list[Tensor], device: torch.device,
          dtype: torch.dtype) -> Form:
    if form["form"] == "strip":
        return Strip(values[0], form["min_distance"])
    if form["form"] == "grid":
        return Grid(values[0], form["height"], form["width"], form["leading"])
    coordinates = tuple(numbers(one["coordinates"], "int64", device)
                        if len(one["coordinates"]) else None for one in form["axes"])
    strips = tuple(Strip(value, one["min_distance"])
                   for value, one in zip(values, form["axes"], strict=True))
    return Axes(strips, coordinates)
