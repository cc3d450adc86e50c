"""Specs of encodings that add a table to the embeddings, and of no position.

Written by tools/python/write_specs.py from the library; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .._spec import Encoding, Value

__all__ = [
    "AxialLearned",
    "CrossModal",
    "DetrPage",
    "FourierLine",
    "GridAxis",
    "Index",
    "Learned",
    "LearnedFourier",
    "NoPosition",
    "PathDegree",
    "PathLaplacian",
    "PathRandomWalk",
    "Sinusoidal",
    "SinusoidalGrid",
    "SinusoidalVideo",
    "UniversalTransformer",
]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class NoPosition(Encoding):
    """No position (NoPE): no position encoding; a causal mask alone gives some information on
    the order.

    Source: Haviv et al. 2022, arXiv:2203.16634.
    """

    kind = "none"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Index(Encoding):
    """Index: the position, divided by the length or not: the naive choice, for comparison.

    Source: Kazemnejad 2019, "Transformer Architecture: The Positional Encoding".

    width: C, at least 1
    unit: raw: t; normalised: t / (length - 1)
    channels: channels that receive the value
    length: normalised only: the tokens of a sequence, at least 2. Position length - 1 has
        the value 1, and later positions have larger values.
    """

    kind = "index"
    width: int
    unit: Literal["raw", "normalised"]
    channels: Literal["all", "first"]
    length: int


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Sinusoidal(Encoding):
    """Sinusoidal: sines and cosines of the position at geometric wavelengths.

    Source: Vaswani et al. 2017, arXiv:1706.03762.

    width: C, at least 1 (timestep: 2; tensor2tensor: 4, so that n - 1 > 0)
    base: greater than 1; `max_period` of diffusion models
    order: timestep only. The defaults of diffusers are sine_first and shift 1. Nearly every
        released diffusion model sets cosine_first (`flip_sin_to_cos`) and shift 0.
    shift: `downscale_freq_shift`; less than n
    scale: factor of the position
    offset: added to integer positions before `scale`: 2 in XGLM and M2M-100, whose tables
        begin with rows of padding.
    """

    kind = "sinusoidal"
    width: int
    recipe: Literal["interleaved", "half_split", "tensor2tensor", "timestep"]
    base: float = 10000.0
    order: Literal["sine_first", "cosine_first"] = "sine_first"
    shift: float = 1.0
    scale: float = 1.0
    offset: int = 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class GridAxis(Value):
    """One axis of sinusoids of a grid.

    column: column of the coordinates: for grid(height, width) 0 is y, 1 is x
    sinusoidal: its width: the number of channels of this axis
    """

    column: int
    sinusoidal: Sinusoidal


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class UniversalTransformer(Encoding):
    """Universal Transformer: sinusoid of the position plus sinusoid of the step.

    Source: Dehghani et al. 2018, arXiv:1807.03819.

    width: C; bounds as in Sinusoidal
    recipe: interleaved in the paper, tensor2tensor in the release
    base: greater than 1
    step: the run of the layer, from 1
    """

    kind = "universal"
    width: int
    recipe: Literal["interleaved", "half_split", "tensor2tensor", "timestep"]
    base: float = 10000.0
    step: int = 1


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Learned(Encoding):
    """Learned table: one trained vector per position; no positions after the end of the table.

    Source: Gehring et al. 2017, arXiv:1705.03122.

    rows: N, at least 1
    width: C, at least 1
    offset: row = position + offset; at least 0, less than N
    """

    kind = "learned"
    rows: int
    width: int
    offset: int = 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class AxialLearned(Encoding):
    """Axial learned tables: a trained vector for each row and for each column of a page,
    concatenated.

    Source: Kitaev et al. 2020, arXiv:2001.04451.

    rows: [A], rows of each table, at least 1; at least one axis
    widths: [A], channels of each table; summed: all equal
    """

    kind = "axial"
    join: Literal["concatenated", "summed"]
    rows: tuple[int, ...]
    widths: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FourierLine(Encoding):
    """Fourier features (Perceiver): sines and cosines at evenly spaced frequencies, projected
    by a trained matrix.

    Source: Jaegle et al. 2021, arXiv:2103.03206.

    length: tokens from -1 to 1, at least 2
    width: C, width of the projection; 0: the table holds the features
    grid: extents of the grid. The tokens are its cells, row by row, at unit_coordinates
        (Perceiver). Empty: tokens in a line.
    """

    kind = "fourier"
    bands: Literal["perceiver", "nerf", "gaussian"]
    axes: int = 1
    count: int
    input: Literal["first", "left_out"]
    resolution: tuple[float, ...] = ()
    unit: Literal["half_turn", "radian"] = "half_turn"
    deviation: float = 1.0
    seed: int = 1
    length: int = 0
    width: int = 0
    grid: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LearnedFourier(Encoding):
    """Learned Fourier features: sines and cosines at trained frequencies, projected by a small
    trained network.

    Source: Li et al. 2021, arXiv:2106.02795.

    axes: M, at least 1
    features: D, even and positive
    hidden: H, positive
    width: C, positive
    gamma: initial frequencies have deviation 1 / gamma; unit of the coordinates; positive
    """

    kind = "fourier-learned"
    axes: int = 1
    features: int
    hidden: int
    width: int
    gamma: float = 1.0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DetrPage(Encoding):
    """DETR's sine: sinusoids of the row and the column, relative to the size of the page.

    Source: Carion et al. 2020, arXiv:2005.12872.

    width: C, width of the embeddings, a multiple of 4
    grid_height: rows, at least 1; at most 2^24 tokens in all
    grid_width: tokens in a row, at least 1
    """

    kind = "detr"
    width: int
    grid_height: int
    grid_width: int
    scale: Literal["cells", "normalised", "centred"] = "normalised"
    temperature: float = 10000.0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SinusoidalGrid(Encoding):
    """Sinusoids of a grid (MAE): half of the channels encode the column, half the row.

    Source: He et al. 2021, arXiv:2111.06377.

    axes: in channel order; at least one
    kept: keep only the first `kept` channels; 0: all
    grid: extents of the grid, for tokens whose position is one number (`grid_table`), and
        the number of tokens before the cells. These have rows of zeros, as the class token
        of MAE.
    """

    kind = "sinusoidal-grid"
    join: Literal["concatenated", "summed"]
    axes: tuple[GridAxis, ...]
    kept: int = 0
    grid: tuple[int, ...]
    class_tokens: int = 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SinusoidalVideo(Encoding):
    """Sinusoidal of video: sinusoids of the frame, the column and the row.

    Source: Yang et al. 2024, arXiv:2408.06072.

    width: C: a multiple of 16 (cogvideox), even (vjepa), any (videomae)
    grid_height: rows of a frame, in tokens; at least 1
    grid_width: columns of a frame, in tokens; at least 1
    """

    kind = "video"
    recipe: Literal["cogvideox", "vjepa", "videomae"]
    width: int
    grid_height: int
    grid_width: int


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CrossModal(Encoding):
    """Text and image patches: sinusoids: of the index for text, of row and column for patches;
    a vector for each kind.

    Source: Kim et al. 2021, arXiv:2102.03334.

    text: width C
    patches: columns y (0) and x (1), width C
    types: M, at least 2; type 0 is text
    """

    kind = "cross-modal"
    text: Sinusoidal
    patches: SinusoidalGrid
    types: int = 0
    index: Literal["text", "sequence"]
    image_type: Literal["one", "by_number"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PathLaplacian(Encoding):
    """Laplacian eigenvectors: the lowest eigenvectors of the path graph of the tokens,
    projected by a trained matrix.

    Source: Dwivedi and Bresson 2020, arXiv:2012.09699.

    nodes: nodes of the path, independent of the text's length
    width: C, width of the embeddings
    """

    kind = "laplacian"
    nodes: int
    width: int = 0
    vectors: int
    laplacian: Literal["combinatorial", "symmetric"]
    zeros: Literal["skip_one", "skip_all"]
    signs: Literal["fixed", "random", "absolute"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PathRandomWalk(Encoding):
    """Random walks: return probabilities of walks on the path graph of the tokens, projected
    by a trained matrix.

    Source: Dwivedi et al. 2021, arXiv:2110.07875.

    nodes: nodes of the path, independent of the text's length
    width: C, width of the embeddings
    """

    kind = "random-walk"
    nodes: int
    width: int = 0
    steps: int


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PathDegree(Encoding):
    """Vectors by degree: a trained vector for each degree of a node; a text has the degrees 1
    (its ends) and 2.

    Source: Ying et al. 2021, arXiv:2106.05234.

    nodes: nodes of the path, independent of the text's length
    """

    kind = "degree"
    nodes: int
    rows: int
    width: int
    beyond: Literal["capped", "refused"]
