"""Specs of all position encodings.

Written by tools/python/write_specs.py from the library; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ._spec import Encoding, Scaling, Value


@dataclass(frozen=True, kw_only=True)
class NoScaling(Scaling):
    """Plain rotary: f_i."""

    type = "none"


@dataclass(frozen=True, kw_only=True)
class LinearScaling(Scaling):
    """Position interpolation: f_i / factor. `rope_scaling` type "linear".

    factor: positive
    """

    type = "linear"
    factor: float


@dataclass(frozen=True, kw_only=True)
class NtkScaling(Scaling):
    """NTK-aware: the base becomes b factor^(R/(R-2)). The highest frequency is unchanged and
    the lowest is divided by `factor`.

    factor: positive
    """

    type = "ntk"
    factor: float


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class ProportionalScaling(Scaling):
    """Proportional: the first `turning` pairs have frequency f_i / factor, all other pairs
    have frequency 0. Unlike partial rotary, R is the whole head, so the two elements of
    a pair (halves) are half a head apart. Gemma 4.

    turning: pairs that rotate, 0 to R/2
    factor: positive
    """

    type = "proportional"
    turning: int
    factor: float = 1.0


@dataclass(frozen=True, kw_only=True)
class FrequencyFactors(Scaling):
    """Frequency factors: f_i / factors[i]. GGUF files store them as `rope_freqs.weight`.

    factors: [R/2], positive
    """

    type = "factors"
    factors: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class AxialPart(Value):
    """A run of pairs that rotate by one position axis.

    axis: not negative
    rotary_dim: elements, even, at least 2
    inv_freq: [n / 2], n = rotary_dim; empty: base^(-2j/n)
    """

    axis: int = 0
    rotary_dim: int
    inv_freq: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NoPosition(Encoding):
    """No position (NoPE): no position encoding; a causal mask alone gives some information on
    the order.

    Source: Haviv et al. 2022, arXiv:2203.16634.
    """

    kind = "none"


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class GridAxis(Value):
    """One axis of sinusoids of a grid.

    column: column of the coordinates: for grid(height, width) 0 is y, 1 is x
    sinusoidal: its width: the number of channels of this axis
    """

    column: int
    sinusoidal: Sinusoidal


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Alibi(Encoding):
    """ALiBi: a penalty proportional to the distance, with one slope per head.

    Source: Press et al. 2021, arXiv:2108.12409.

    heads: H of the whole model, also on a tensor-parallel shard; at least 1
    max_bias: `alibi_bias_max` (MPT), `max_alibi_bias` (GGUF); positive
    head_offset: the tensor-parallel shard: heads head_offset to head_offset + local_heads -
        1. If local_heads is 0, the shard extends to the last head.
    bias_scale: factor on the bias: 1 / sqrt(head_dim) in Falcon; positive
    rounding: with bfloat16 the bias depends on the position of the key, not on the
        distance. Use key_biases() instead of lower().
    """

    kind = "alibi"
    heads: int
    max_bias: float = 8.0
    head_offset: int = 0
    local_heads: int = 0
    bias_scale: float = 1.0
    rounding: Literal["none", "bfloat16"] = "none"


@dataclass(frozen=True, kw_only=True)
class T5Bias(Encoding):
    """T5 bias: a trained bias for each head and each bucket of distances.

    Source: Raffel et al. 2019, arXiv:1910.10683.

    heads: H; at least 1
    buckets: at least 2 (bidirectional: at least 4, and even)
    max_distance: distances of at least this share the last bucket
    """

    kind = "t5"
    heads: int
    direction: Literal["causal", "bidirectional"]
    buckets: int = 32
    max_distance: int = 128


@dataclass(frozen=True, kw_only=True)
class ClippedBias(Encoding):
    """Clipped table: a trained bias for each head and each distance up to a limit.

    Source: Shaw et al. 2018, arXiv:1803.02155.

    heads: H; at least 1
    left: limit of the distance to past keys, in positions; not negative
    right: limit of the distance to future keys, in positions; not negative
    """

    kind = "clipped"
    heads: int
    left: int = 0
    right: int = 0


@dataclass(frozen=True, kw_only=True)
class Kerple(Encoding):
    """KERPLE (logarithmic): a trained penalty that grows with the logarithm of the distance.

    Source: Chi et al. 2022, arXiv:2205.09921.

    heads: H; at least 1
    """

    kind = "kerple"
    heads: int
    kernel: Literal["power", "logarithmic"]


@dataclass(frozen=True, kw_only=True)
class Sandwich(Encoding):
    """Sandwich: a bias: the dot product of the sinusoidal embeddings of both positions.

    Source: Chi et al. 2022, arXiv:2212.10356.

    heads: H; at least 1
    width: width of the embeddings, d bar in the paper; positive and even
    base: greater than 1
    """

    kind = "sandwich"
    heads: int
    width: int = 128
    base: float = 10000.0


@dataclass(frozen=True, kw_only=True)
class DynamicBias(Encoding):
    """Dynamic bias: a bias computed from the distance by a small trained network.

    Source: x-transformers; Wang et al. 2021, arXiv:2108.00154.

    heads: H; at least 1
    hidden: U; at least 1; a quarter of the model width in x-transformers
    depth: hidden layers; at least 1
    """

    kind = "dynamic"
    heads: int
    hidden: int
    depth: int = 2
    scale: Literal["linear", "logarithmic"]


@dataclass(frozen=True, kw_only=True)
class Fire(Encoding):
    """FIRE: a bias computed by a small trained network from the distance relative to the query
    position.

    Source: Li et al. 2023, arXiv:2310.04418.

    heads: H; at least 1
    hidden: U; at least 1
    threshold: the initial L (`init_L`), in positions; positive
    epsilon: as in the paper's listing (its formula has none); not negative
    """

    kind = "fire"
    heads: int
    hidden: int = 32
    threshold: float = 512.0
    epsilon: float = 1e-06


@dataclass(frozen=True, kw_only=True)
class Swin(Encoding):
    """Swin bias: a trained bias for each head and each offset between two cells of a window.

    Source: Liu et al. 2021, arXiv:2103.14030.

    heads: H; at least 1
    height: of the window, in cells; 1 to 32767
    width: of the window, in cells; 1 to 32767
    class_tokens: before the cells: 0 (Swin) or 1 (BEiT)
    """

    kind = "swin"
    heads: int
    height: int
    width: int
    class_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class SwinV2(Encoding):
    """Swin v2: a bias computed from the offset of two cells by a small trained network; cosine
    scores.

    Source: Liu et al. 2021, arXiv:2111.09883.

    heads: H; at least 1
    height: of the window, in cells; 1 to 32767
    width: of the window, in cells; 1 to 32767
    hidden: U; at least 1
    pretrained_height: the window of the pretrained weights (`pretrained_window_sizes`):
        both at least 2, or both 0 if it is the same window.
    pretrained_width: the window of the pretrained weights (`pretrained_window_sizes`): both
        at least 2, or both 0 if it is the same window.
    """

    kind = "swin-v2"
    heads: int
    height: int
    width: int
    hidden: int = 512
    pretrained_height: int = 0
    pretrained_width: int = 0


@dataclass(frozen=True, kw_only=True)
class WavLm(Encoding):
    """WavLM bias: the bias of T5, multiplied by a gate for each query and head, computed from
    the input.

    Source: Chen et al. 2021, arXiv:2110.13900.

    heads: the bias is `strip(wavlm.t5, ...)`. The released models are bidirectional.
    direction: the bias is `strip(wavlm.t5, ...)`. The released models are bidirectional.
    buckets: the bias is `strip(wavlm.t5, ...)`. The released models are bidirectional.
    max_distance: the bias is `strip(wavlm.t5, ...)`. The released models are bidirectional.
    head_dim: D; at least 1
    """

    kind = "wavlm"
    heads: int
    direction: Literal["causal", "bidirectional"]
    buckets: int = 320
    max_distance: int = 800
    head_dim: int = 0


@dataclass(frozen=True, kw_only=True)
class LayoutBias(Encoding):
    """LayoutLM bias: t5 buckets of the distance in the text, and across and down the page.

    Source: Huang et al. 2022, arXiv:2204.08387.

    heads: H; at least 1
    text_buckets: buckets of a bidirectional T5Bias
    text_distance: its max_distance, in tokens
    page_buckets: buckets of x and of y
    page_distance: in units of the boxes; a page is 1000 wide and high
    scale: factor on the sum of the three biases; finite
    columns: for text without boxes: see boxes_of_text
    """

    kind = "layout"
    heads: int
    text_buckets: int = 32
    text_distance: int = 128
    page_buckets: int = 64
    page_distance: int = 256
    scale: float = 1.0
    columns: int = 1


@dataclass(frozen=True, kw_only=True)
class Graphormer(Encoding):
    """Graphormer bias: a trained bias for each head and each distance in a graph; for text,
    |distance|.

    Source: Ying et al. 2021, arXiv:2106.05234.

    heads: H; at least 1
    unreachable: distances of at least this, and unconnected nodes, share one value; at
        least 1.
    edge_rows: rows of the table of edge features, including row 0, which no edge uses. 0:
        no edge features.
    hops: arcs of a path that count, from its start (`multi_hop_max_dist`). At least 1 with
        edge features, 0 without.
    """

    kind = "graphormer"
    heads: int
    unreachable: int = 510
    edge_rows: int = 0
    hops: int = 0
    token: Literal["none", "first"]
    given: Literal["once", "twice"]


@dataclass(frozen=True, kw_only=True)
class Shaw(Encoding):
    """Shaw: a trained vector for each distance up to a limit, multiplied by queries and by
    attention weights.

    Source: Shaw et al. 2018, arXiv:1803.02155.

    heads: of the tables: H, or 1 if all heads share the vectors
    head_dim: D; at least 1
    value_dim: dv; at least 1 with queries_and_weights, else 0
    left: largest distance to a past key; 0 to 2^30
    right: largest distance to a future key; 0 to 2^30
    """

    kind = "shaw"
    heads: int = 1
    head_dim: int
    value_dim: int
    left: int = 0
    right: int = 0
    meets: Literal["queries", "queries_and_weights", "queries_and_keys"]
    order: Literal["past_first", "future_first"] = "past_first"
    outside: Literal["clipped", "refused"] = "clipped"


@dataclass(frozen=True, kw_only=True)
class TransformerXl(Encoding):
    """Transformer-XL: a projected sinusoid of the distance, multiplied by queries, and two
    trained vectors added to the queries.

    Source: Dai et al. 2019, arXiv:1901.02860.

    heads: H; at least 1
    head_dim: D; at least 1
    width: C, the width of the model; even, at least 2
    clamp: distances are clamped to -clamp and clamp (`clamp_len`); positive. None: no
        clamping.
    base: of the sinusoid: frequency i is base^(-2i/C); greater than 1
    """

    kind = "transformer-xl"
    heads: int
    head_dim: int
    width: int
    sinusoid: Literal["half_split", "interleaved"]
    clamp: int | None = None
    base: float = 10000.0


@dataclass(frozen=True, kw_only=True)
class Deberta(Encoding):
    """DeBERTa: trained embeddings of distances, projected and multiplied by queries and by
    keys.

    Source: He et al. 2020, arXiv:2006.03654.

    heads: H; at least 1
    head_dim: D; at least 1
    width: C; at least 1
    span: half the number of embeddings: `position_buckets` if distances are logarithmic
        (even, at least 4), `max_relative_positions` if they are raw.
    max_distance: logarithmic only: `max_relative_positions` or, if that is below 1,
        `max_position_embeddings`; more than span / 2 + 1.
    norm_epsilon: added to the variance in the layer norm of the embeddings
        (`norm_rel_ebd`). None: no norm.
    """

    kind = "deberta"
    heads: int
    head_dim: int
    width: int
    span: int
    distance: Literal["raw", "logarithmic"]
    max_distance: int = 512
    terms: Literal["content_to_position", "position_to_content", "both"] = "both"
    norm_epsilon: float | None = None


@dataclass(frozen=True, kw_only=True)
class Decomposed(Encoding):
    """Decomposed (MViTv2, SAM): trained vectors for the offsets of rows and of columns,
    multiplied by queries.

    Source: Li et al. 2021, arXiv:2112.01526.

    head_dim: D; at least 1
    height: of the grid of queries, in cells; 1 to 32767
    width: of the grid of queries, in cells; 1 to 32767
    key_height: of the grid of keys, in cells; 0: equal to height
    key_width: of the grid of keys, in cells; 0: equal to width
    table_height: L of the given tables: 2 n - 1 for tables trained on a grid of n cells,
        odd, at most 65533. 0: the length for this grid. A table of another length is
        resized linearly.
    table_width: L of the given tables: 2 n - 1 for tables trained on a grid of n cells,
        odd, at most 65533. 0: the length for this grid. A table of another length is
        resized linearly.
    class_tokens: before the cells: 0 (SAM) or 1 (MViT). A class token has no relative
        vectors.
    """

    kind = "decomposed"
    head_dim: int
    height: int
    width: int
    key_height: int = 0
    key_width: int = 0
    table_height: int = 0
    table_width: int = 0
    class_tokens: int = 0


SCALINGS: dict[str, type[Scaling]] = {
    "none": NoScaling,
    "linear": LinearScaling,
    "ntk": NtkScaling,
    "dynamic": DynamicNtkScaling,
    "yarn": YarnScaling,
    "longrope": LongRopeScaling,
    "llama3": Llama3Scaling,
    "proportional": ProportionalScaling,
    "factors": FrequencyFactors,
}
KINDS: dict[str, type[Encoding]] = {
    "none": NoPosition,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "axial": AxialLearned,
    "fourier": FourierLine,
    "fourier-learned": LearnedFourier,
    "detr": DetrPage,
    "sinusoidal-grid": SinusoidalGrid,
    "video": SinusoidalVideo,
    "cross-modal": CrossModal,
    "laplacian": PathLaplacian,
    "random-walk": PathRandomWalk,
    "degree": PathDegree,
    "rotary": Rotary,
    "rotary-scaled": ScaledRotary,
    "rotary-axial": AxialRotary,
    "mrope": MRope,
    "vjepa2": Vjepa2,
    "xpos": XPos,
    "alibi": Alibi,
    "t5": T5Bias,
    "clipped": ClippedBias,
    "kerple": Kerple,
    "sandwich": Sandwich,
    "dynamic": DynamicBias,
    "fire": Fire,
    "swin": Swin,
    "swin-v2": SwinV2,
    "wavlm": WavLm,
    "layout": LayoutBias,
    "graphormer": Graphormer,
    "shaw": Shaw,
    "transformer-xl": TransformerXl,
    "deberta": Deberta,
    "decomposed": Decomposed,
}
__all__ = [
    "Alibi",
    "AxialLearned",
    "AxialPart",
    "AxialRotary",
    "ClippedBias",
    "CrossModal",
    "Deberta",
    "Decomposed",
    "DetrPage",
    "DynamicBias",
    "DynamicNtkScaling",
    "Fire",
    "FourierLine",
    "FrequencyFactors",
    "Graphormer",
    "GridAxis",
    "Kerple",
    "LayoutBias",
    "Learned",
    "LearnedFourier",
    "LinearScaling",
    "Llama3Scaling",
    "LongRopeScaling",
    "MRope",
    "NoPosition",
    "NoScaling",
    "NtkScaling",
    "PathDegree",
    "PathLaplacian",
    "PathRandomWalk",
    "ProportionalScaling",
    "Rotary",
    "Sandwich",
    "ScaledRotary",
    "Shaw",
    "Sinusoidal",
    "SinusoidalGrid",
    "SinusoidalVideo",
    "Swin",
    "SwinV2",
    "T5Bias",
    "TransformerXl",
    "Vjepa2",
    "WavLm",
    "XPos",
    "YarnScaling",
]


def from_fields(fields: dict[str, Any]) -> Encoding:
    """Returns the spec of the fields of a JSON object, with its "kind"."""
    values = {name: value for name, value in fields.items() if name != "kind"}
    kind = KINDS[fields["kind"]]
    if kind is ScaledRotary:
        scaling = dict(values["scaling"])
        values["scaling"] = SCALINGS[scaling.pop("type")](**scaling)
    elif kind is AxialRotary:
        values["parts"] = tuple(AxialPart(**part) for part in values["parts"])
    elif kind is SinusoidalGrid:
        values["axes"] = tuple(map(_axis, values["axes"]))
    elif kind is CrossModal:
        values["text"] = Sinusoidal(**values["text"])
        values["patches"] = from_fields({"kind": "sinusoidal-grid"} | values["patches"])
    return kind(**values)


def _axis(fields: dict[str, Any]) -> GridAxis:
    return GridAxis(column=fields["column"], sinusoidal=Sinusoidal(**fields["sinusoidal"]))
