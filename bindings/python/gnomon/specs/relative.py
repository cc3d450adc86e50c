"""Specs of vectors by distance on queries, keys and weights.

Written by tools/python/write_specs.py from the library; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .._spec import Encoding

__all__ = [
    "Cope",
    "Deberta",
    "Decomposed",
    "RelativeLogits",
    "Shaw",
    "TransformerXl",
]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Shaw(Encoding):
    """Shaw: a trained vector for each distance up to a limit, multiplied by queries and by
    attention weights.

    Source: Shaw et al. 2018, arXiv:1803.02155.

    heads: heads in the tables: H, or 1 if all heads share the vectors
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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TransformerXl(Encoding):
    """Transformer-XL: a projected sinusoid of the distance, multiplied by queries, and two
    trained vectors added to the queries.

    Source: Dai et al. 2019, arXiv:1901.02860.

    heads: H; at least 1
    head_dim: D; at least 1
    width: C, the width of the model; even, at least 2
    clamp: distances are clamped to -clamp and clamp (`clamp_len`); positive. None: no
        clamping.
    base: sinusoid base: frequency i is base^(-2i/C); greater than 1
    """

    kind = "transformer-xl"
    heads: int
    head_dim: int
    width: int
    sinusoid: Literal["half_split", "interleaved"]
    clamp: int | None = None
    base: float = 10000.0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Cope(Encoding):
    """Contextual positions (CoPE): a trained vector for each position, which counts the keys
    that a gate of the query selects.

    Source: Golovneva et al. 2024, arXiv:2405.18719.

    heads: heads in the table: H, or 1 if all heads share the vectors
    head_dim: D; at least 1
    positions: P; positions beyond P - 1 are P - 1; 1 to 2^20
    """

    kind = "cope"
    heads: int = 1
    head_dim: int
    positions: int = 64


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Decomposed(Encoding):
    """Decomposed (MViTv2, SAM): trained vectors for the offsets of rows and of columns,
    multiplied by queries.

    Source: Li et al. 2021, arXiv:2112.01526.

    head_dim: D; at least 1
    height: height of the query grid, in cells; 1 to 32767
    width: width of the query grid, in cells; 1 to 32767
    key_height: height of the key grid, in cells; 0: equal to height
    key_width: width of the key grid, in cells; 0: equal to width
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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RelativeLogits(Encoding):
    """Relative logits (Inkling): a small query of each token and head, met by a trained vector
    for each distance into the past.

    Source: Thinking Machines 2026, Inkling (code).

    heads: H; at least 1
    width: C; at least 1
    rank: K; at least 1
    extent: distances 0 to extent - 1; the window in sliding layers
    clip: the greatest length of a query; 0: no limit, and no scale
    """

    kind = "relative-logits"
    heads: int
    width: int
    rank: int = 16
    extent: int = 1024
    clip: float = 0.0
