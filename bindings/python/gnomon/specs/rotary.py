"""Specs of rotations of queries and keys.

Written by tools/python/write_specs.py from the library; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .._spec import Encoding, Scaling, Value
from .scaling import NoScaling

__all__ = [
    "AxialPart",
    "AxialRotary",
    "ComRope",
    "MRope",
    "Pope",
    "Rotary",
    "RotaryContextual",
    "RotaryLearned",
    "RotaryMamba3",
    "RotaryMixed",
    "RotaryPlusPlus",
    "ScaledRotary",
    "SelectiveRotary",
    "Vjepa2",
    "XPos",
]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class AxialPart(Value):
    """A run of pairs that rotate by one position axis.

    axis: not negative
    rotary_dim: elements, even, at least 2
    inv_freq: [n / 2], n = rotary_dim; empty: base^(-2j/n)
    """

    axis: int = 0
    rotary_dim: int
    inv_freq: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Rotary(Encoding):
    """Rotary (RoPE): pairs of elements rotate by an angle proportional to the position.

    Source: Su et al. 2021, arXiv:2104.09864.

    rotary_dim: R, rotated elements of a head; even, at least 2
    base: `rope_theta` in Hugging Face configs; greater than 1
    head_offset: first rotated element of the head; not negative
    """

    kind = "rotary"
    rotary_dim: int
    pairing: Literal["halves", "adjacent"]
    base: float = 10000.0
    head_offset: int = 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ScaledRotary(Encoding):
    """Rotary, scaled: rotary with lower frequencies in its slow pairs, for contexts beyond the
    training length (YaRN).

    Source: Peng et al. 2023, arXiv:2309.00071.

    rotary_dim: R, rotated elements of a head; even, at least 2
    base: `rope_theta` in Hugging Face configs; greater than 1
    head_offset: first rotated element of the head; not negative
    length: declared context length; at least 1
    axes: as in RotaryFrequencies
    direction: inverse: the model rotates by the negative angle (nanochat).
    """

    kind = "rotary-scaled"
    rotary_dim: int
    pairing: Literal["halves", "adjacent"]
    base: float = 10000.0
    head_offset: int = 0
    scaling: Scaling = NoScaling()
    length: int
    axes: tuple[int, ...] = ()
    direction: Literal["forward", "inverse"] = "forward"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class AxialRotary(Encoding):
    """Axial rotary (2-D RoPE): half of the pairs rotate by the row, half by the column.

    Source: Wang et al. 2024, arXiv:2409.12191.

    parts: in the order of the pairs; R is the sum of the dims
    base: greater than 1
    head_offset: as in Rotary
    grid: extents of the grid, used if a token's position is one number, the index of its
        cell in row-major order. Empty: tokens have a position on every axis. The
        frequencies do not depend on `grid`.
    """

    kind = "rotary-axial"
    parts: tuple[AxialPart, ...]
    pairing: Literal["halves", "adjacent"]
    order: Literal["blocks", "interleaved"]
    base: float = 10000.0
    head_offset: int = 0
    grid: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MRope(Encoding):
    """M-RoPE: rotary over time, height and width; identical to rotary for text.

    Source: Wang et al. 2024, arXiv:2409.12191.

    rotary_dim: R, as in Rotary
    sections: see MRopeOrder; the sum is R / 2 pairs
    """

    kind = "mrope"
    rotary_dim: int
    pairing: Literal["halves", "adjacent"]
    base: float = 10000.0
    sections: tuple[int, ...]
    order: Literal["sequential", "interleaved", "ernie", "ggml_interleaved"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Vjepa2(Encoding):
    """V-JEPA 2: frame, row and column each rotate a third of the head; the two elements of a
    pair have different angles.

    Source: Assran et al. 2025, arXiv:2506.09985.

    head_dim: S, at least 6
    base: greater than 1
    grid: frames, height and width of the grid, used if a token's position is one number,
        the index of its cell in row-major order. Empty: tokens have positions t, y, x.
    """

    kind = "vjepa2"
    head_dim: int
    base: float = 10000.0
    grid: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class XPos(Encoding):
    """xPos: rotary with scores that decay with the distance, fastest at high frequencies.

    Source: Sun et al. 2022, arXiv:2212.10554.

    rotary_dim: R, as in Rotary
    head_offset: as in Rotary
    scale_base: positions over which pair i changes by zeta_i; greater than 0
    gamma: greater than 0
    centre: position; half the context length keeps factors closest to 1
    """

    kind = "xpos"
    rotary_dim: int
    pairing: Literal["halves", "adjacent"]
    base: float = 10000.0
    head_offset: int = 0
    scale_base: float = 512.0
    gamma: float = 0.4
    centre: int = 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RotaryPlusPlus(Encoding):
    """RoPE++: rotary whose odd query heads are turned by another -pi / 2.

    Source: Liu et al. 2025, arXiv:2512.07525.

    heads: H, query heads: real, imaginary, real, ...; at least 1
    rotary_dim: R; even, at least 2
    base: `rope_theta` in Hugging Face configs; greater than 1
    head_offset: first rotated element of the head; not negative
    first_head: number of the first head in the whole model, for a part of the heads; not
        negative.
    """

    kind = "rotary-plus-plus"
    heads: int
    rotary_dim: int
    pairing: Literal["halves", "adjacent"]
    base: float = 10000.0
    head_offset: int = 0
    first_head: int = 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Pope(Encoding):
    """PoPE: elements are magnitudes by softplus; their phases depend on the position only.

    Source: Gopalakrishnan et al. 2025, arXiv:2509.10534.

    heads: H; at least 1
    head_dim: D; at least 1
    base: greater than 1
    """

    kind = "pope"
    heads: int
    head_dim: int
    base: float = 10000.0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RotaryLearned(Encoding):
    """Learned rotary (LeRoPE): rotary with trained frequencies.

    Source: Mistral AI 2026, arXiv:2607.10134.

    rotary_dim: R; even, at least 2
    base: `rope_theta` in Hugging Face configs; greater than 1
    head_offset: first rotated element of the head; not negative
    """

    kind = "rotary-learned"
    rotary_dim: int
    pairing: Literal["halves", "adjacent"]
    base: float = 10000.0
    head_offset: int = 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RotaryMixed(Encoding):
    """Mixed 2-D rotary: trained frequencies of each head on both axes of a page, whose angles
    are added.

    Source: Heo et al. 2024, arXiv:2403.13298.

    heads: H; divides the query heads and the key heads; at least 1
    rotary_dim: R; a multiple of 4, at least 4
    pairing: timm: adjacent
    base: `temperature` of timm; greater than 1
    head_offset: first rotated element of the head; not negative
    seed: of the initial directions
    grid: height and width of the grid, used if a token's position is one number, the index
        of its cell in row-major order. Empty: tokens have positions on the axes y, x, or
        one for both.
    """

    kind = "rotary-mixed"
    heads: int
    rotary_dim: int
    pairing: Literal["halves", "adjacent"]
    base: float = 10.0
    head_offset: int = 0
    seed: int = 0
    grid: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ComRope(Encoding):
    """ComRoPE (LD): a trained angle of each pair, times a trained factor of each axis.

    Source: Yu et al. 2025, arXiv:2506.03737.

    heads: H; divides the query heads and the key heads; at least 1
    rotary_dim: R; a multiple of 2, in AP of 2 A
    head_offset: first rotated element of the head; not negative
    grid: n_a, extents of the grid: height and width, or frames, height and width. A token's
        position is one number, the index of its cell in row-major order, or one for each
        axis.
    """

    kind = "comrope"
    heads: int
    rotary_dim: int
    form: Literal["axial_partition", "linearly_dependent"]
    head_offset: int = 0
    grid: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SelectiveRotary(Encoding):
    """Selective RoPE: each token turns queries and keys further by angles computed from it.

    Source: Movahedi et al. 2025, arXiv:2511.17388.

    heads: H, query and key heads; divides the width
    width: C
    rotary_dim: R; even, at least 2
    base: finite, greater than 1
    rank: of W2 W1; at least 1
    kernel: K; at least 1
    """

    kind = "selective"
    heads: int
    width: int
    rotary_dim: int
    base: float = 500000.0
    rank: int = 32
    kernel: int = 4


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RotaryContextual(Encoding):
    """Contextual rotary (GRAPE-M): each token turns later queries and keys by an amount
    computed from it.

    Source: Zhang et al. 2025, arXiv:2512.07805.

    width: C; at least 1
    rotary_dim: R; even, at least 2
    pairing: released code: halves
    heads: H; 1: all heads turn equally. Divides query and key heads
    base: of the initial frequencies; greater than 1
    scale: s; positive, finite
    """

    kind = "rotary-contextual"
    width: int
    rotary_dim: int
    pairing: Literal["halves", "adjacent"]
    heads: int = 1
    base: float = 10000.0
    scale: float = 16.0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RotaryMamba3(Encoding):
    """Mamba-3 rotation: each token turns queries and keys further by its angles, times a step
    of each head.

    Source: Lahoti et al. 2026, arXiv:2603.15569.

    heads: H; divides query and key heads; at least 1
    width: C; at least 1
    rotary_dim: R; even, at least 2. Released code: half of the head, or all
    pairing: released code: adjacent (halves of the whole head in MIMO)
    """

    kind = "rotary-mamba3"
    heads: int
    width: int
    rotary_dim: int
    pairing: Literal["halves", "adjacent"]
