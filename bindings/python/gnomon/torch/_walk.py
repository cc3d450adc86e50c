"""Weights, and sums along the rows of scores, by operators of PyTorch, for _composed.py."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from .. import specs
from .._spec import Encoding
from . import _kernels


def check(a: _kernels.AttentionArguments, mixture: Sequence[Encoding],
          sinks: Tensor | None, biased: bool) -> None:
    """Refuses what the kernels refuse beside contextual positions and stick-breaking."""
    for one in mixture:
        if not isinstance(one, (specs.Cope, specs.GrapePath, specs.StickBreaking)):
            continue
        given = [name for name, there in (
            ("bidirectional", a.visibility != "causal"), ("a bias", biased),
            ("a softmax cap", a.cap is not None),
            ("sinks", sinks is not None and isinstance(one, specs.StickBreaking))) if there]
        if given:
            raise ValueError(f"[attention] {one.kind} must be causal, without a bias and a cap, "
                             f"and stick-breaking without sinks, got {', '.join(given)}")


def _from_right(x: Tensor) -> Tensor:
    """Returns the sums over the keys from each key on."""
    return x.flip(-1).cumsum(-1).flip(-1)


def _contextual(scores: Tensor, products: Tensor) -> Tensor:
    """Returns the terms of contextual positions (gnomon/relative/form.h).

    scores: [B, H, T, S], -inf if hidden. products: of the queries with the vectors, [B, H, T, P].
    """
    positions = _from_right(scores.sigmoid()).clamp(max=products.shape[-1] - 1)
    floor, ceil = positions.detach().floor(), positions.detach().ceil()
    low, high = products.gather(-1, floor.long()), products.gather(-1, ceil.long())
    return low + (positions - floor) * (high - low)


def with_positions(mixture: Sequence[Encoding], parameters: Sequence[Tensor], scores: Tensor,
                   q: Tensor) -> Tensor:
    """Returns scores, -inf if hidden, with the terms of contextual positions if there are any.

    q: queries before the softmax scale, [B, H, T, D].
    """
    first = 0
    for one in mixture:
        if isinstance(one, specs.Cope):
            table = parameters[first].to(q.dtype).view(one.heads, one.positions, one.head_dim)
            scores = scores + _contextual(scores, q @ table.transpose(-2, -1))
        first += len(one.parameters())
    return scores


def sticks_of(mixture: Sequence[Encoding]) -> specs.StickBreaking | None:
    return next((one for one in mixture if isinstance(one, specs.StickBreaking)), None)


def attend(sticks: specs.StickBreaking, scores: Tensor, v: Tensor,
           dropout: float) -> tuple[Tensor, Tensor]:
    """Returns the values weighted by stick-breaking, and the logarithm of the rests."""
    queries, keys = scores.shape[-2:]
    hidden = scores == -math.inf
    if sticks.own_key == "excluded":
        rows = torch.arange(queries, device=scores.device) + max(0, keys - queries)
        hidden = hidden | (torch.arange(keys, device=scores.device) == rows[:, None])
    z = scores.masked_fill(hidden, 0)
    rests = torch.nn.functional.logsigmoid(-z).masked_fill(hidden, 0)
    weights = (z + _from_right(rests)).exp().masked_fill(hidden, 0)
    return torch.nn.functional.dropout(weights, dropout, dropout > 0) @ v, rests.sum(-1)


def cumulative_bias(log_gates: Tensor, queries: int) -> Tensor:
    """Returns the differences of cumulative log gates [B, H, S]: [B, H, T, S].

    The rows of a sequence must be adjacent, since gates of all rows between two are summed. A gate
    of -32768 hides all earlier keys; -infinity would give NaN.
    """
    sums = log_gates.clamp_min(-32768).cumsum(-1)
    return sums[..., sums.shape[-1] - queries:, None] - sums[..., None, :]


def slopes_of_keys(slopes: Tensor, query_at: Tensor, at: Tensor) -> Tensor:
    """Returns the bias of slopes of keys [B, H, S]: [B, H, T, S]. Positions: [T] or [B, T]."""
    away = (query_at[..., :, None] - at[..., None, :]).abs().to(slopes.dtype)
    return -slopes[:, :, None] * (away[:, None] if away.dim() == 3 else away)


def edge_sums(named: Mapping[str, Tensor], at: Tensor, scores: Tensor, slopes: Tensor) -> Tensor:
    """Returns scores, -inf if hidden, plus sums of edges (gnomon/bias/form.h, EdgeBias).

    at: positions of the keys, [S] or [B, S]. slopes: [H].
    """
    keys = named["edge_keys"].to(scores.dtype)
    angle = at.to(torch.float64)[..., None, None]  # [S, 1, 1] or [B, S, 1, 1]
    cos, sin = angle.cos().to(keys.dtype), angle.sin().to(keys.dtype)
    one, two = keys.chunk(2, -1)
    keys = torch.cat((one * cos + two * sin, two * cos - one * sin), -1)
    queries = named["edge_queries"].to(scores.dtype)
    products = queries.transpose(1, 2) @ keys.permute(0, 2, 3, 1)
    edges = torch.nn.functional.logsigmoid(products).masked_fill(scores == -math.inf, 0)
    return scores + slopes.to(scores).view(-1, 1, 1) * (_from_right(edges) - edges)


def softmax(scores: Tensor, v: Tensor, sinks: Tensor | None,
            dropout: float) -> tuple[Tensor, Tensor]:
    """Returns the weighted values and the log-sum-exp; zeros for a query that sees no key."""
    most = scores.detach().amax(-1, keepdim=True)
    if sinks is not None:
        rows = sinks.to(scores.dtype).view(-1, 1, 1)
        most = torch.maximum(most, rows.detach())
    most = most.masked_fill(most == -math.inf, 0)
    weights = (scores - most).exp()
    total = weights.sum(-1, keepdim=True)
    if sinks is not None:
        total = total + (rows - most).exp()
    weights = weights / total.masked_fill(total == 0, 1)
    lse = (total.log() + most).squeeze(-1)
    return torch.nn.functional.dropout(weights, dropout, dropout > 0) @ v, lse
