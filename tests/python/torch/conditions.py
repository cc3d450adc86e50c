"""The public functions of gnomon.torch with their oracles, for the table of conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from formulas import buckets, dense, expected, rotation, tokens_first
from torch import Tensor

import gnomon
import gnomon.torch as gt
from gnomon.torch import flex

ROPE = gnomon.Rotary(rotary_dim=8, pairing="halves")
T5 = gnomon.T5Bias(heads=4, direction="causal", buckets=8, max_distance=16)
SINUSOIDAL = gnomon.Sinusoidal(width=8, recipe="interleaved")
TOKENS = 5
AT = torch.arange(TOKENS)
TABLE = torch.linspace(-1, 1, 32).view(8, 4)
ANGLE = AT.double()[:, None] * 10000.0 ** (-torch.arange(0, 8, 2).double() / 8)
FREQUENCIES = 10000.0 ** (-torch.arange(0, 8, 2).double() / 8)
COS, SIN = (torch.cat((one, one), -1)[None] for one in (ANGLE.cos(), ANGLE.sin()))


class Function(NamedTuple):
    """A function of one tensor x, of positions, and of a layout where it has them.

    call(x, positions=None, **options); exact(x): its result in float64, by other code.
    """

    call: Callable[..., Tensor]
    exact: Callable[[Tensor], Tensor]
    shape: tuple[int, ...]
    positions: bool = True
    layout: bool = False


def rotated(x: Tensor) -> Tensor:
    return tokens_first(x, AT)


def attended(x: Tensor) -> Tensor:
    q = rotated(x)
    bias = TABLE.T.double()[:, buckets(AT[None] - AT[:, None])]
    return expected(q, q, x, dense(TOKENS, TOKENS) + bias)


def sinusoid(x: Tensor) -> Tensor:
    return x.double() + torch.stack((ANGLE.sin(), ANGLE.cos()), -1).flatten(1)


def append(x: Tensor, positions: Any = None) -> Tensor:
    cache = torch.zeros(5, 2, x.shape[-2], 8, dtype=x.dtype, device=x.device)
    at = AT if positions is None else positions
    gt.rotate_append(None, x, None, ROPE, at, cache, slots=torch.arange(10).view(2, 5))
    return cache.view(2, 5, *x.shape[-2:])


def given(positions: Any) -> dict[str, Any]:
    return {} if positions is None else {"positions": positions}


position = gt.PositionEncoding([ROPE, T5, SINUSOIDAL])
with torch.no_grad():
    position.t5.relative_attention_bias.weight.copy_(TABLE)
learned = gt.LearnedRotary(8, pairing="halves")

FUNCTIONS = {
    "rotate": Function(lambda x, positions=None, **o: gt.rotate(x, ROPE, positions, **o), rotated,
                       (2, 4, 5, 8), layout=True),
    "attention": Function(lambda x, positions=None, **o: gt.attention(
        x, x, x, [ROPE, T5], [TABLE], **given(positions), **o), attended,
        (2, 4, 5, 8), layout=True),
    "add_position": Function(lambda x, positions=None: gt.add_position(
        x, SINUSOIDAL, **given(positions)), sinusoid, (2, 5, 8)),
    "rotate_by_frequencies": Function(lambda x, positions=None, **o: gt.rotate_by_frequencies(
        x, FREQUENCIES, positions, pairing="halves", **o), rotated, (2, 4, 5, 8), layout=True),
    "apply_rotary_pos_emb": Function(lambda x: gt.apply_rotary_pos_emb(x, x, COS, SIN)[0], rotated,
                                     (2, 4, 5, 8), positions=False),
    "apply_rotary_emb": Function(lambda x: gt.apply_rotary_emb(x, COS[0, :, :4], SIN[0, :, :4]),
                                 lambda x: rotation(x, AT), (2, 5, 4, 8), positions=False),
    "rotate_append": Function(append, lambda x: rotation(x, AT), (2, 5, 4, 8)),
    "PositionEncoding.embed": Function(lambda x, positions=None: position.embed(
        x, positions=positions), sinusoid, (2, 5, 8)),
    "PositionEncoding.rotate": Function(lambda x, positions=None, **o: position.rotate(
        x, x, positions, **o)[0], rotated, (2, 4, 5, 8), layout=True),
    "PositionEncoding.attend": Function(lambda x, positions=None, **o: position.attend(
        x, x, x, visibility="causal", **given(positions), **o), attended,
        (2, 4, 5, 8), layout=True),
    "LearnedRotary.rotate": Function(lambda x, positions=None, **o: learned.rotate(
        x, x, positions, **o)[0], rotated, (2, 4, 5, 8), layout=True),
    "flex.attend": Function(lambda x, positions=None, **o: flex.attend(
        x, x, x, [ROPE, T5], [TABLE], **given(positions), **o), attended,
        (2, 4, 5, 8), layout=True),
}
