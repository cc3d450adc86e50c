"""Specs of biases on the scores.

Written by tools/python/write_specs.py from the library; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .._spec import Encoding

__all__ = [
    "Alibi",
    "ClippedBias",
    "DynamicBias",
    "Fire",
    "Fox",
    "GrapeAdditive",
    "GrapePath",
    "Graphormer",
    "Kerple",
    "LayoutBias",
    "PathAttention",
    "Sandwich",
    "Swin",
    "SwinV2",
    "T5Bias",
    "Wall",
    "WavLm",
]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Kerple(Encoding):
    """KERPLE (logarithmic): a trained penalty that grows with the logarithm of the distance.

    Source: Chi et al. 2022, arXiv:2205.09921.

    heads: H; at least 1
    """

    kind = "kerple"
    heads: int
    kernel: Literal["power", "logarithmic"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DynamicBias(Encoding):
    """Dynamic bias: a bias computed from the distance by a small trained network.

    Source: x-transformers; Wang et al. 2021, arXiv:2108.00154.

    heads: H; at least 1
    hidden: U; at least 1; a quarter of the model width in x-transformers
    depth: hidden layers; 1 to 1024
    """

    kind = "dynamic"
    heads: int
    hidden: int
    depth: int = 2
    scale: Literal["linear", "logarithmic"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Swin(Encoding):
    """Swin bias: a trained bias for each head and each offset between two cells of a window.

    Source: Liu et al. 2021, arXiv:2103.14030.

    heads: H; at least 1
    height: window height, in cells; 1 to 32767
    width: window width, in cells; 1 to 32767
    class_tokens: before the cells: 0 (Swin) or 1 (BEiT)
    """

    kind = "swin"
    heads: int
    height: int
    width: int
    class_tokens: int = 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SwinV2(Encoding):
    """Swin v2: a bias computed from the offset of two cells by a small trained network; cosine
    scores.

    Source: Liu et al. 2021, arXiv:2111.09883.

    heads: H; at least 1
    height: window height, in cells; 1 to 32767
    width: window width, in cells; 1 to 32767
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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Fox(Encoding):
    """Forget gates (FoX): each token multiplies the weights of all earlier tokens by a gate
    computed from it.

    Source: Lin et al. 2025, arXiv:2503.02130.

    heads: H; at least 1
    width: C; at least 1
    head_dim: D; required by CABLE
    lost_weight: the greatest share of the weights of a query that may be lost
        (CumulativeBias); 0: none. e^-10 in the paper on pruning.
    """

    kind = "fox"
    heads: int
    width: int
    recipe: Literal["fox", "cable"] = "fox"
    head_dim: int = 0
    lost_weight: float = 0.0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class GrapeAdditive(Encoding):
    """GRAPE-A (key-gated): a penalty proportional to the distance, with a slope of each key
    computed from it.

    Source: Zhang et al. 2025, arXiv:2512.07805.

    heads: H; at least 1
    width: C; at least 1
    """

    kind = "grape-additive"
    heads: int = 0
    width: int = 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class GrapePath(Encoding):
    """GRAPE-AP (path sums): a penalty that sums edges between key and query, each computed
    from the query and a token between them.

    Source: Zhang et al. 2025, arXiv:2512.07805.

    heads: H; at least 1
    width: C; at least 1
    size: P; even, at least 2
    """

    kind = "grape-path"
    heads: int
    width: int
    size: int = 8


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Wall(Encoding):
    """Wall attention: each channel of a key decays by gates computed from the tokens after it.

    Source: Tilde Research 2026.

    heads: H; at least 1
    head_dim: D; at least 1
    width: C; at least 1
    """

    kind = "wall"
    heads: int = 0
    head_dim: int = 0
    width: int = 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PathAttention(Encoding):
    """PaTH attention: between a key and a query lie Householder reflections computed from the
    tokens between.

    Source: Yang et al. 2025, arXiv:2505.16381.

    heads: H, key heads; at least 1
    head_dim: D; at least 1
    width: C; at least 1
    rank: of W2 W1; at least 1
    kernel: K; at least 1
    """

    kind = "path"
    heads: int = 0
    head_dim: int = 0
    width: int = 0
    rank: int = 32
    kernel: int = 3


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class LayoutBias(Encoding):
    """LayoutLM bias: T5 buckets of the distance in the text, and across and down the page.

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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
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
