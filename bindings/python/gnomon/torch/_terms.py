"""Terms of the tokens (gnomon.token_terms), computed from the input of the layer by PyTorch.

Each formula takes a spec, its parameters, and hidden [B, T, C], and returns terms by name.
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


def _wavlm(spec: Any, parameters: Sequence[Tensor], hidden: Tensor) -> dict[str, Tensor]:
    """Factors on the bias. Source: Chen et al. 2021, arXiv:2110.13900, section III-B."""
    _, weight, bias, constant = parameters
    x = hidden.unflatten(-1, (spec.heads, spec.head_dim)).transpose(1, 2).to(weight.dtype)
    z = torch.nn.functional.linear(x, weight, bias[:, 0]).unflatten(-1, (2, 4)).sum(-1)
    a, b = torch.sigmoid(z).unbind(-1)
    return {"gates": a * (b * constant.view(1, -1, 1) - 1) + 2}


def _fox(spec: Any, parameters: Sequence[Tensor], hidden: Tensor) -> dict[str, Tensor]:
    """Log forget gates. Sources: arXiv:2503.02130 (FoX), arXiv:2503.08067 (CABLE)."""
    weight, *bias = parameters
    z = torch.nn.functional.linear(hidden.to(weight.dtype), weight,
                                   bias[0][:, 0] if bias else None).transpose(1, 2)
    return {"log_gates": torch.nn.functional.logsigmoid(z if spec.recipe == "fox" else -z)}


_FORMULAS: dict[type[Encoding], Callable[..., dict[str, Tensor]]] = {
    specs.WavLm: _wavlm, specs.Fox: _fox}


# Encodings that enter at the scores, but have no bias by position.
FORMLESS = specs.Fox,


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
             keys: int) -> dict[str, Tensor]:
    """Returns the terms of an encoding for T queries and S keys; empty if it has none."""
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
    found = _FORMULAS[type(spec)](spec, parameters, hidden)
    for name, _, size, tokens in needed:
        if tokens == "queries":  # the last tokens
            found[name] = found[name].narrow(1 if size else 2, rows - queries, queries)
    return found
