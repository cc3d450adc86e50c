"""Scalings of rotary: context extensions.

Written by tools/python/write_specs.py from the library; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .._spec import Scaling

__all__ = [
    "ClippedScaling",
    "DynamicNtkScaling",
    "FrequencyFactors",
    "LinearScaling",
    "Llama3Scaling",
    "LongRopeScaling",
    "NoScaling",
    "NtkScaling",
    "ProportionalScaling",
    "YarnScaling",
]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class NoScaling(Scaling):
    """Plain rotary: f_i."""

    type = "none"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LinearScaling(Scaling):
    """Position interpolation: f_i / factor. `rope_scaling` type "linear".

    factor: positive
    """

    type = "linear"
    factor: float


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class NtkScaling(Scaling):
    """NTK-aware: the base becomes b factor^(R/(R-2)). The highest frequency is unchanged and
    the lowest is divided by `factor`.

    factor: positive
    """

    type = "ntk"
    factor: float


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DynamicNtkScaling(Scaling):
    """Dynamic NTK: NTK-aware with a factor that depends on the declared length L. It is 1 for
    L up to `trained_length` and factor L / trained_length - (factor - 1) beyond.
    Hugging Face's type "dynamic".

    factor: at least 1
    trained_length: `max_position_embeddings`
    """

    type = "dynamic"
    factor: float
    trained_length: int


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class YarnScaling(Scaling):
    """YaRN. High frequencies are unchanged and low frequencies are divided by `factor`. A ramp
    over the pairs connects the two, from the pair with `beta_fast` full rotations
    within the original length to the pair with `beta_slow`.

    factor: positive
    original_length: `original_max_position_embeddings`; at least 1
    beta_fast: full rotations; positive
    beta_slow: full rotations; positive
    attention_factor: scale of cos and sin: `attention_factor` if given; otherwise m(mscale)
        / m(mscale_all_dim) if both are nonzero; otherwise m(1). m(s) = 1 + 0.1 s
        ln(factor), and 1 if factor <= 1.
    softmax_mscale: the softmax scale is multiplied by m(softmax_mscale)^2. DeepSeek's
        attention uses its mscale_all_dim here; other models use 0.
    """

    type = "yarn"
    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ramp: Literal["whole_pairs", "fractional"] = "whole_pairs"
    attention_factor: float | None = None
    mscale: float = 0.0
    mscale_all_dim: float = 0.0
    softmax_mscale: float = 0.0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LongRopeScaling(Scaling):
    """LongRoPE: f_i / long_factors[i] if L > original_length, otherwise f_i /
    short_factors[i]. Phi-3, MiniCPM.

    factor: `factor` is the context length divided by the original length; positive. Scale
        of cos and sin: `attention_factor` if given; otherwise sqrt(1 + ln(factor) /
        ln(original_length)) if factor > 1; otherwise 1. `long_attention_factor`, if given,
        replaces it for the long factors (Phi-3.5-MoE: short_mscale and long_mscale).
    original_length: at least 2
    short_factors: [R/2], positive
    long_factors: [R/2], positive
    """

    type = "longrope"
    factor: float = 1.0
    original_length: int
    attention_factor: float | None = None
    long_attention_factor: float | None = None
    short_factors: tuple[float, ...]
    long_factors: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Llama3Scaling(Scaling):
    """Llama 3.1. Frequencies with a wavelength below original_length / high_freq_factor are
    unchanged. Frequencies with a wavelength above original_length / low_freq_factor are
    divided by `factor`. In between there is a ramp, linear in the frequency. There is
    no ramp if low_freq_factor >= high_freq_factor (Llama 4 Scout).

    factor: positive
    low_freq_factor: positive
    high_freq_factor: positive
    original_length: positions; at least 1
    """

    type = "llama3"
    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_length: int


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ProportionalScaling(Scaling):
    """Proportional: the first `rotated_pairs` pairs have frequency f_i / factor, all other
    pairs have frequency 0. Unlike partial rotary, R is the whole head, so the two
    elements of a pair (halves) are half a head apart. Gemma 4.

    rotated_pairs: pairs that rotate, 0 to R/2
    factor: positive
    """

    type = "proportional"
    rotated_pairs: int
    factor: float = 1.0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FrequencyFactors(Scaling):
    """Frequency factors: f_i / factors[i]. GGUF files store them as `rope_freqs.weight`.

    factors: [R/2], positive
    """

    type = "factors"
    factors: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ClippedScaling(Scaling):
    """Clipped: the n slowest pairs, i = R/2 - n + m with m = 0 to n - 1, have frequency f_i (1
    + cos(pi m / (n - 1))) / 2: unchanged at m = 0, and 0 for the slowest pair. If n =
    1, nothing changes. Scales are 1. The paper calls it CoPE; relative/cope.h is
    another encoding.

    original_length: pairs with a period 2 pi / f_i greater than this length are clipped. At
        least 1.
    clipped_pairs: n, 0 to R/2, in place of that rule. The released code uses 20 of 64 for
        Llama 3.
    """

    type = "clipped"
    original_length: int
    clipped_pairs: int | None = None
