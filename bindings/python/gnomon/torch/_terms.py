"""Terms of the tokens (gnomon.token_terms), computed from the input of the layer by PyTorch.

Each formula takes a spec, its parameters, hidden [B, T, C], and the sequences of its tokens [B or
1, T] (None: one sequence), and returns terms by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _core, specs
from .._spec import Encoding
from . import _plans


def _wavlm(spec: Any, parameters: Sequence[Tensor], hidden: Tensor,
           sequences: Tensor | None) -> dict[str, Tensor]:
    """Factors on the bias. Source: Chen et al. 2021, arXiv:2110.13900, section III-B."""
    _, weight, bias, constant = parameters
    x = hidden.unflatten(-1, (spec.heads, spec.head_dim)).transpose(1, 2).to(weight.dtype)
    z = torch.nn.functional.linear(x, weight, bias[:, 0]).unflatten(-1, (2, 4)).sum(-1)
    a, b = torch.sigmoid(z).unbind(-1)
    return {"gates": a * (b * constant.view(1, -1, 1) - 1) + 2}


def _fox(spec: Any, parameters: Sequence[Tensor], hidden: Tensor,
         sequences: Tensor | None) -> dict[str, Tensor]:
    """Log forget gates. Sources: arXiv:2503.02130 (FoX), arXiv:2503.08067 (CABLE)."""
    weight, *bias = parameters
    z = torch.nn.functional.linear(hidden.to(weight.dtype), weight,
                                   bias[0][:, 0] if bias else None).transpose(1, 2)
    return {"log_gates": torch.nn.functional.logsigmoid(z if spec.recipe == "fox" else -z)}


def _relative_logits(spec: Any, parameters: Sequence[Tensor], hidden: Tensor,
                     sequences: Tensor | None) -> dict[str, Tensor]:
    """Queries of relative logits. Source: Inkling and Inkling 2 in transformers 5.23."""
    weight, _, *scale = parameters
    r = torch.nn.functional.linear(hidden.to(weight.dtype), weight)
    r = r.unflatten(-1, (spec.heads, spec.rank))
    if scale:
        r = r * scale[0]
        r = r * (spec.clip / (r.norm(dim=-1, keepdim=True) + 1e-6)).clamp(max=1)
    return {"relative_queries": r}


def _convolved(z: Tensor, conv: Tensor, sequences: Tensor | None) -> Tensor:
    """Returns the causal convolution of z [B, T, N] with conv [N, K], within sequences."""
    tokens, total, kernel = z.shape[1], torch.zeros_like(z), conv.shape[1]
    for tap in range(kernel):
        back = kernel - 1 - tap  # the tap reads the token this far before
        if back >= tokens:
            continue
        term = torch.nn.functional.pad(z[:, :tokens - back], (0, 0, back, 0)) * conv[:, tap]
        if sequences is not None:
            later = sequences[:, back:]
            same = (later == sequences[:, :tokens - back]) & (later >= 0)
            term = term * torch.nn.functional.pad(same, (back, 0))[..., None]
        total = total + term
    return total


def _selective(spec: Any, parameters: Sequence[Tensor], hidden: Tensor,
               sequences: Tensor | None) -> dict[str, Tensor]:
    """Increments of angles; 0 for padding. Source: arXiv:2511.17388 and its released code."""
    down, up, conv = parameters
    x = hidden.to(down.dtype)
    if sequences is not None:
        x = x.masked_fill((sequences < 0)[..., None], 0)
    x = x.unflatten(-1, (spec.heads, -1))
    x = (x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()).flatten(-2)
    linear = torch.nn.functional.linear
    z = linear(linear(x, down), up)
    total = _convolved(z, conv, sequences)
    pair = torch.arange(0, spec.rotary_dim, 2, device=z.device, dtype=torch.float64)
    factor = spec.base ** (-pair / spec.rotary_dim)
    return {"angles": total.unflatten(-1, (spec.heads, -1)) * factor.to(z.dtype)}


def _contextual(spec: Any, parameters: Sequence[Tensor], hidden: Tensor,
                sequences: Tensor | None) -> dict[str, Tensor]:
    """Increments of angles: those of the token before. Source: arXiv:2512.07805, its code."""
    log_frequencies, weight, bias = parameters
    x = hidden.to(weight.dtype)
    if sequences is not None:
        x = x.masked_fill((sequences < 0)[..., None], 0)
    w = torch.sigmoid(torch.nn.functional.linear(x, weight, bias[:, 0]) / spec.scale)
    before = torch.nn.functional.pad(w[:, :-1], (0, 0, 1, 0))
    if sequences is not None:
        same = (sequences[:, 1:] == sequences[:, :-1]) & (sequences[:, 1:] >= 0)
        before = before * torch.nn.functional.pad(same, (1, 0))[..., None]
    return {"angles": -before[..., None] * log_frequencies[:, 0].exp()}


def _mamba3(spec: Any, parameters: Sequence[Tensor], hidden: Tensor,
            sequences: Tensor | None) -> dict[str, Tensor]:
    """Increments of angles: tanh of shared angles, times steps of heads. Source: mamba3.py."""
    angle, step, bias = parameters
    x = hidden.to(angle.dtype)
    if sequences is not None:
        x = x.masked_fill((sequences < 0)[..., None], 0)
    a = math.pi * torch.tanh(x @ angle.t())
    dt = torch.nn.functional.softplus(x @ step.t() + bias[:, 0])
    if sequences is not None:
        dt = dt.masked_fill((sequences < 0)[..., None], 0)
    return {"angles": dt[..., None] * a[:, :, None]}


def _wall(spec: Any, parameters: Sequence[Tensor], hidden: Tensor,
          sequences: Tensor | None) -> dict[str, Tensor]:
    """Log gates of each channel. Source: fla.ops.wall_attn of fla-core 0.6.0."""
    weight, bias = parameters
    z = torch.nn.functional.linear(hidden.to(weight.dtype), weight, bias[:, 0])
    gates = torch.nn.functional.logsigmoid(z)
    return {"channel_gates": gates.unflatten(-1, (spec.heads, spec.head_dim))}


def _path(spec: Any, parameters: Sequence[Tensor], hidden: Tensor,
          sequences: Tensor | None) -> dict[str, Tensor]:
    """Directions and strengths of Householder factors. Source: arXiv:2505.16381."""
    down, up, conv, weight, bias = parameters
    x = hidden.to(weight.dtype)
    linear = torch.nn.functional.linear
    mixed = _convolved(linear(linear(x, down), up), conv, sequences)
    w = torch.nn.functional.silu(mixed).unflatten(-1, (spec.heads, spec.head_dim))
    w = w * (w.square().sum(-1, keepdim=True) + 1e-6).rsqrt()
    b = 2 * torch.sigmoid(linear(x, weight, bias[:, 0]))
    return {"householder": w, "betas": b.transpose(1, 2)}


def _grape_additive(spec: Any, parameters: Sequence[Tensor], hidden: Tensor,
                    sequences: Tensor | None) -> dict[str, Tensor]:
    """Slopes of keys. Source: arXiv:2512.07805 and its released code, of x in place of keys."""
    direction, omega = parameters
    softplus = torch.nn.functional.softplus
    unit = torch.nn.functional.normalize(direction, dim=-1, eps=1e-6)
    z = torch.nn.functional.linear(hidden.to(unit.dtype), unit) / math.sqrt(spec.width)
    scale = softplus(omega[:, 0]) * slopes_of(spec.heads).to(omega)
    return {"key_slopes": (softplus(z) * scale).transpose(1, 2)}


def _grape_path(spec: Any, parameters: Sequence[Tensor], hidden: Tensor,
                sequences: Tensor | None) -> dict[str, Tensor]:
    """Vectors of edges. Source: arXiv:2512.07805 and its released code."""
    p = torch.nn.functional.linear(hidden.to(parameters[0].dtype), parameters[0])
    p = p.unflatten(-1, (spec.heads, spec.size))
    factor = (p.square().mean(-1, keepdim=True) + 2 ** -23).rsqrt()
    return {"edge_queries": p / spec.size, "edge_keys": p * factor}


def slopes_of(heads: int) -> Tensor:
    """Returns the slopes of ALiBi, [H]."""
    form = _core.lower(specs.Alibi(heads=heads), 1, visibility="causal").bias_form
    return torch.as_tensor(form["slopes"])


_FORMULAS: dict[type[Encoding], Callable[..., dict[str, Tensor]]] = {
    specs.WavLm: _wavlm, specs.Fox: _fox, specs.SelectiveRotary: _selective,
    specs.RotaryContextual: _contextual, specs.RotaryMamba3: _mamba3,
    specs.RelativeLogits: _relative_logits, specs.Wall: _wall, specs.PathAttention: _path,
    specs.GrapeAdditive: _grape_additive, specs.GrapePath: _grape_path}


# Encodings that enter at the scores, but have no bias by position.
FORMLESS = (specs.Fox, specs.GrapeAdditive, specs.GrapePath, specs.Wall, specs.PathAttention,
            specs.Pope)


@_plans.constant
def _needed(text: str) -> list[tuple[str, int, int, str]]:
    return _core.token_terms(text)


def has_form(one: Encoding) -> bool:
    """Whether an encoding has a bias by position, and not only terms of the tokens."""
    return "scores" in one.enters and not isinstance(one, FORMLESS)


def scale_factor(one: Encoding) -> float:
    """Returns the factor of a bias on the softmax scale: CABLE's code has no 1 / sqrt(D)."""
    return math.sqrt(one.head_dim) if isinstance(one, specs.Fox) and one.recipe == "cable" else 1.0


def terms_of(spec: Encoding, parameters: Sequence[Tensor], hidden: Tensor | None, queries: int,
             keys: int, sequences: Any = None) -> dict[str, Tensor]:
    """Returns the terms of an encoding for T queries and S keys; empty if it has none.

    sequences: of the keys, or of the queries if only these have terms; [S] or [B, S].
    """
    needed = _needed(spec.to_json())
    if not needed:
        return {}
    if hidden is None:
        raise ValueError(f"[attention] hidden must be given for {spec.kind}, got None")
    of_keys = any(tokens != "queries" for *_, tokens in needed)
    rows = keys if of_keys else queries
    if hidden.dim() != 3 or hidden.shape[1] != rows:
        raise ValueError(f"[attention] hidden must be [B, {'S' if of_keys else 'T'}, C] with "
                         f"{rows} tokens for {spec.kind}, got {list(hidden.shape)}")
    if sequences is not None:
        sequences = torch.as_tensor(sequences, device=hidden.device)
        sequences = sequences if sequences.dim() == 2 else sequences[None]
    found = _FORMULAS[type(spec)](spec, parameters, hidden, sequences)
    for name, _, size, tokens in needed:
        if tokens == "queries":  # the last tokens
            found[name] = found[name].narrow(1 if size else 2, rows - queries, queries)
    return found
