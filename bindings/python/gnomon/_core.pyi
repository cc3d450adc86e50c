from collections.abc import Sequence

import numpy
import numpy.typing


from typing import Any, Literal, TypeAlias

from gnomon._typing import (
    Angles,
    Array,
    CacheType,
    DegreeBeyond,
    Direction,
    EdgeKind,
    Encoding,
    IntegerArray,
    LaplacianKind,
    LaplacianSigns,
    LaplacianVectors,
    LaplacianZeros,
    Layout,
    MemoryType,
    PagedCacheType,
    Pairing,
    Resize,
    ResizeCorners,
    ResizeKernel,
    Segment,
    Switch,
    TapOrder,
    Visibility,
    YarnFactor,
)

#: A number T of tokens (positions 0 to T - 1), integers [T] or [B, T], or Positions; where
#: several position axes are allowed, also a tuple of them.
PositionsLike: TypeAlias = int | Array | Sequence[int] | Positions | tuple[PositionsLike, ...]

__version__: str

class FormatError(ValueError):
    pass

def isa() -> Literal['portable', 'sse4', 'avx2', 'avx512', 'neon']:
    """
    Returns the instruction set of the kernels: 'portable', 'sse4', 'avx2', 'avx512' or 'neon'.
    """

def threads() -> int:
    """Returns the largest number of threads of calls of this thread."""

def set_threads(count: int) -> None:
    """
    Sets the largest number of threads of calls of this thread. Results do not depend on it.
    """

class Positions:
    """
    Positions of the tokens of a batch, and the sequence of each token.

    ids: integers, [T] or [B, T].
    sequences: the same shape. Tokens of a row attend to each other if they have the same
    number; -1 is padding. Default: one sequence for each row.
    """

    def __init__(self, ids: IntegerArray, sequences: IntegerArray | None = None) -> None: ...

    @staticmethod
    def consecutive(tokens: int, offset: int = 0, batch: int = 1) -> Positions:
        """
        Returns the positions offset, offset + 1, ... in each row of the batch.
        """

    @staticmethod
    def packed(lengths: Sequence[int], tokens: int | None = None) -> Positions:
        """
        Returns one row of packed sequences, each with positions from 0. Remaining tokens
        are padding.
        """

    @staticmethod
    def ragged(*, starts: IntegerArray | None = None, lengths: IntegerArray | None = None, offsets: IntegerArray | None = None, tokens: int | None = None) -> Positions:
        """
        Returns the positions of sequences of different lengths, after cached tokens.
        Row i of sequence n is at offsets[n] + i (default: 0).

        starts [N + 1]: one row of the batch, where sequence n has the tokens starts[n] to
            starts[n + 1]. lengths [N]: N rows, where sequence n has the first lengths[n] tokens. Other
            tokens are padding. tokens: of a row; default: the last start, or the greatest length.
        """

    @staticmethod
    def from_padding_mask(mask: IntegerArray) -> Positions:
        """
        Returns the positions for a padding mask [B, T], nonzero for tokens. The tokens
        of a row have the positions 0, 1, 2, ...
        """

    @property
    def batch(self) -> int:
        """B, the rows of the batch."""

    @property
    def tokens(self) -> int:
        """T, the tokens of a row."""

    @property
    def ids(self) -> numpy.typing.NDArray[numpy.int64]:
        """A copy of the positions, int64 [B, T]."""

    @property
    def sequences(self) -> numpy.typing.NDArray[numpy.int32]:
        """A copy of the sequence numbers, int32 [B, T]; -1 is padding."""

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __getstate__(self) -> tuple[int, int, list[int], list[int]]: ...

    def __setstate__(self, state: tuple[int, int, list[int], list[int]]) -> None: ...

class RotaryFrequencies:
    """
    The angle of each pair of a head for one position. Every rotary spec lowers to it.

    pairing: 'halves' (i, i + R/2) or 'adjacent' (2i, 2i + 1).
    inv_freq: radians per position, [R/2].
    head_offset: the first rotated element of the head.
    axes: the position axis of each pair, [R/2] (M-RoPE); empty: axis 0.
    table_scale: a factor on cos and sin (the attention factor of YaRN).
    """

    def __init__(self, *, pairing: Pairing, inv_freq: Sequence[float], head_offset: int = 0, axes: Sequence[int] = (), table_scale: float = 1.0) -> None: ...

    @property
    def pairing(self) -> Pairing: ...

    @property
    def head_offset(self) -> int: ...

    @property
    def rotary_dim(self) -> int:
        """R, the rotated elements of a head."""

    @property
    def inv_freq(self) -> numpy.typing.NDArray[numpy.float64]:
        """A copy of the frequencies, float64 [R/2], in radians per position."""

    @property
    def axes(self) -> numpy.typing.NDArray[numpy.int32]: ...

    @property
    def table_scale(self) -> float: ...

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __getstate__(self) -> tuple[Any, ...]: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None: ...

def rotary_frequencies(encoding: Encoding | RotaryFrequencies, length: int = 0) -> RotaryFrequencies:
    """
    Returns the frequencies of a rotary encoding at a declared context length.

    length: for scalings that depend on it (dynamic NTK, LongRoPE); 0: that of the spec.
    Each frequency is within one ulp of the formula. Raises ValueError if the encoding
    has no single set of frequencies.
    """

class RotaryTable:
    """
    Cos and sin of every angle of a rotary encoding, for given positions.

    encoding: a rotary spec or RotaryFrequencies.
    positions: a number T of tokens (positions 0 to T - 1), integers [T] or [B, T], Positions,
        or a tuple of them, one for each position axis (M-RoPE). Continuous positions: float64
        [T], or a tuple of them. A spec with a grid takes the numbers of cells.
    length: declared context length for dynamic NTK and LongRoPE; 0: that of the spec.
    angles: 'exact', or 'float32' to follow engines that compute position * inv_freq in float32.

    Each entry is within half an ulp + 2^-46 of the true value for positions up to 2^31.
    Cost: O(B T R) time, 4 B T R bytes. Source: Su et al. 2021, arXiv:2104.09864.
    """

    def __init__(self, encoding: Encoding | RotaryFrequencies, positions: PositionsLike, *, length: int = 0, angles: Angles = 'exact') -> None: ...

    @property
    def batch(self) -> int:
        """1, or the rows of the batch."""

    @property
    def tokens(self) -> int: ...

    @property
    def frequencies(self) -> RotaryFrequencies: ...

    @property
    def cos(self) -> numpy.typing.NDArray[numpy.float32]:
        """Cosines, read-only float32 [B or 1, T, R/2]; no copy."""

    @property
    def sin(self) -> numpy.typing.NDArray[numpy.float32]:
        """Sines, read-only float32 [B or 1, T, R/2]; no copy."""

    def __copy__(self) -> RotaryTable: ...

    def __deepcopy__(self, memo: object) -> RotaryTable: ...

    def __getstate__(self) -> tuple[Any, ...]: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None: ...

    def __repr__(self) -> str: ...

def rotate(x: Array, table: RotaryTable, direction: Direction = 'forward', *, k: Array | None = None, out: Array | None = None) -> None:
    """
    Rotates queries or keys in place.

    x: [B, T, H, D] or [T, H, D], any strides (x.transpose(1, 2) of [B, H, T, D]), D
        contiguous; float32, float16, bfloat16 or float64.
    direction: 'forward', or 'inverse' for the gradient.
    k: keys that are rotated in the same pass; heads and D may differ from those of x.
    out: if given, receives the result, and x is not changed.

    |x' - exact| <= 3 * 2^-24 (|a| + |b|) for the pair (a, b); 16-bit types are rounded
    once more. Memory-bound, no copies; releases the GIL. Raises ValueError if shapes do
    not fit the table or an array that is changed is read-only.
    """

def rotate_rows(x: Array, out: Array, table: RotaryTable, begin: int | None, heads_tokens: bool, inverse: bool) -> None:
    """
    Writes the rotation of x by rows begin to begin + T - 1 of a table to out. x and out
    may be the same array. None: all rows. Shapes: [B, T, H, D], or [B, H, T, D] if
    heads_tokens.
    """

def rotate_with(x: Array, out: Array, cos: Array, sin: Array, pairing: Pairing, head_offset: int, heads_tokens: bool, inverse: bool, pairs: int | None = None) -> None:
    """
    Writes the rotation of x by given cos and sin to out. cos, sin: [T, R/2] or [B or 1, T,
    R/2]; types other than float32 are converted. pairs: if given, only the first `pairs`
    columns are read. Shapes of x and out as in rotate_rows.
    """

def encodings() -> list[dict[str, str]]: ...

def find_encoding(name: str) -> dict[str, str]: ...

def info(encoding: Encoding | str) -> dict[str, str]: ...

def usual(name: str, width: int, heads: int, length: int, reads: Visibility) -> str: ...

def scheme(text: str, layers: int, width: int, heads: int, length: int, reads: Visibility) -> list[list[str]]: ...

def complete(encoding: Encoding | str) -> str: ...

def parameters(encoding: Encoding | str | Sequence[Encoding | str]) -> list[tuple[str, int, int, float, float]]: ...

def term_ranks() -> list[tuple[str, int]]:
    """Returns the names of all token terms and their numbers of axes."""

def token_terms(encoding: Encoding | str | Sequence[Encoding | str]) -> list[tuple[str, int, int, str]]:
    """
    Returns the inputs of attention that an encoding computes from the tokens: name, heads, elements of a
    vector (0: one number for each token and head), and the tokens, 'queries' or 'keys'.
    """

def stored_parameters(encoding: Encoding | str) -> list[tuple[str, tuple[int, ...], bool]]: ...

def capacity(encoding: Encoding | str | Sequence[Encoding | str]) -> int | None: ...

def enters(encoding: Encoding | str | Sequence[Encoding | str]) -> str: ...

def softmax_factor(encoding: Encoding | str, length: int) -> float: ...

def properties(encoding: Encoding | str) -> dict[str, str]: ...

class Plan:
    """
    All places in which position enters a layer, for known tokens. Made by gnomon.lower
    and by gnomon.model. Immutable; threads and layers can share it.
    """

    @property
    def queries(self) -> int:
        """T, query tokens."""

    @property
    def keys(self) -> int:
        """S, key tokens."""

    @property
    def offset(self) -> int:
        """The key row that corresponds to query row 0."""

    @property
    def visibility(self) -> Visibility: ...

    @property
    def left(self) -> int | None: ...

    @property
    def right(self) -> int | None: ...

    @property
    def softmax_scale(self) -> float | None:
        """
        The scale of q . k with all factors; None: 1 / sqrt(D) times softmax_factor.
        """

    @property
    def softmax_factor(self) -> float: ...

    @property
    def cap(self) -> float | None: ...

    @property
    def sinks(self) -> list[float]: ...

    @property
    def rounds_weights(self) -> bool:
        """Whether weights of bfloat16 calls may be rounded to bfloat16."""

    @property
    def gated(self) -> bool:
        """Whether the bias requires gates that depend on the tokens (WavLM)."""

    @property
    def has_relative(self) -> bool: ...

    @property
    def changes_products(self) -> bool: ...

    @property
    def stick_breaking(self) -> bool:
        """Whether the weights are those of stick-breaking instead of a softmax."""

    @property
    def cosine(self) -> list[float]:
        """
        The factor of each head in cosine attention (Swin v2); empty: dot products.
        """

    @property
    def table(self) -> numpy.typing.NDArray[numpy.float32] | None:
        """
        A copy of the table that is added to the embeddings, [T, C] or [B T, C]; or None.
        """

    @property
    def query_rotary(self) -> RotaryTable | None: ...

    @property
    def key_rotary(self) -> RotaryTable | None: ...

    @property
    def output_rotary(self) -> RotaryTable | None:
        """The output of attention is rotated back by this table (DeepSeek-V4)."""

    @property
    def index_rotary(self) -> RotaryTable | None:
        """The rotation of the index queries of a layer with compressed keys."""

    @property
    def bias_form(self) -> dict[str, object]:
        """
        The form of the bias and its numbers: 'slope' (slopes [H]), 'strip' (values [H, N]
        by distance), 'grid', 'axes', 'piecewise_log', 'dense' or 'none'.
        """

    def bias(self, queries: int | None = None, keys: int | None = None) -> numpy.typing.NDArray[numpy.float64] | None:
        """
        Returns the whole bias [H, T, S], for inspection; None if the plan has no bias. The
        query of row t is at position offset + t, the key of row s at position s.
        """

    def __copy__(self) -> Plan: ...

    def __deepcopy__(self, memo: object) -> Plan: ...

    def __reduce__(self) -> tuple[Any, ...]: ...

    def __repr__(self) -> str: ...

def lower(encoding: Encoding | Sequence[Encoding] | None, queries: PositionsLike, keys: PositionsLike | None = None, *, parameters: Sequence[Array] = (), visibility: Visibility, left: int | None = None, right: int | None = None, softmax_scale: float | None = None, cap: float | None = None, sinks: Sequence[float] = (), length: int = 0, rounds_weights: bool = True) -> Plan:
    """
    Lowers an encoding for known tokens.

    encoding: a spec, several specs, or None (no position).
    queries, keys: numbers of tokens T and S (the queries are the last T of the keys, at
        positions 0 to S - 1), or positions: integers [T] or [B, T], or Positions. Default for
        keys: the queries. Rotary encodings and sinusoids also take continuous positions: float64
        [T] and [S], or tuples of them, one for each position axis.
    parameters: the trained matrices of the encoding in the order of spec.parameters(), float32.
    visibility: 'causal' or 'bidirectional'; required.
    left, right: window limits in rows. Mistral's `sliding_window` w is left = w - 1.
    softmax_scale: scale of q . k before a factor of the encoding. Default: 1 / sqrt(D).
    cap: soft cap of the scores (Gemma 2). sinks: one score for each head (gpt-oss).
    length: declared context length for dynamic NTK and LongRoPE; 0: that of the spec.
    rounds_weights: whether softmax weights of bfloat16 q, k and v may be rounded to bfloat16 on
        processors that multiply bfloat16: twice as fast or faster, at most 2^-9 max |v| less exact.

    Cost: O(T C) for a table, O(S R) for rotations, O(H (T + S)) for a bias.
    """

def attention(q: Array, k: Array, v: Array, plan: Plan, *, out: Array | None = None, lse: Array | None = None, k_scales: Array | None = None, v_scales: Array | None = None, terms: Mapping[str, Array] | None = None, layout: Layout = 'tokens_heads', bias: Array | None = None, query_starts: IntegerArray | None = None, query_lengths: IntegerArray | None = None, key_starts: IntegerArray | None = None, key_lengths: IntegerArray | None = None, offsets: IntegerArray | None = None, block_table: Array | None = None) -> Array:
    """
    Softmax attention with the rotation, bias and relative vectors of a plan. With the plan
    of a model's layer (gnomon.model), q, k and v must be those after gnomon.prepare.

    q: [B, T, Hq, D]; k: [B, S, Hk, D]; v: [B, S, Hk, Dv], any strides, the last axis
        contiguous. Hk divides Hq. q, k, v are not changed. Types: float32, float16, bfloat16
        or float64; k and v also 16-bit if q is float32, or int8 with scales [B, S, Hk], or
        float8_e4m3fn (or uint8 with its bits) with scales [1] or [Hk].
    out: [B, T, Hq, Dv] of the type of q; default: a new NumPy array, which is returned.
    lse: receives the log-sum-exp of the scores [B, Hq, T], float32 (float64 for float64 q).
    terms: inputs that depend on the tokens, float32, by name; gnomon.token_terms(encoding) lists
        those that an encoding requires. gates [B or 1, Hq, T] (WavLM); log_gates (FoX, CABLE),
        key_slopes (GRAPE-A) [B, Hq, S]; channel_gates [B, S, Hq, D] (Wall); relative_queries
        [B, T, Hq, K] (Inkling); sinks [B, Hq, T]; householder [B, S, Hk, D], betas [B, Hk, S]
        (PaTH); edge_queries [B, T, Hq, P], edge_keys [B, S, Hq, P] (GRAPE-AP); angles
        [B or 1, S, Ha, R/2] (selective rotary).
    layout: 'heads_tokens' if q, k, v and out are [B, H, T, D].
    bias: float32 [B, Hq, T, S], any strides: replaces the bias of the plan. -inf: not visible.

    Sequences of different lengths in one call, N of them (integers; a plan with a window, a bias by
    distance, a cap and sinks only, lowered for the longest sequence):
    query_starts [N + 1]: q is [1, rows, Hq, D], and sequence n has rows query_starts[n] to
        query_starts[n + 1] (cu_seqlens). query_lengths [N]: q is [N, T, Hq, D], and sequence n has
        its first query_lengths[n] rows. Other rows of out are 0, of lse -infinity.
    key_starts [N + 1], key_lengths [N]: the same for k and v.
    offsets [N]: query row i of sequence n corresponds to its key row i + offsets[n]. Default: the
        last query corresponds to the last key.
    block_table: int32 [N, M], with key_lengths: k and v are pages [P, page, Hk, D], and key row j
        of sequence n is row j % page of page block_table[n][j // page].

    Memory beyond the arguments grows with T + S. Error for float32: 2^-17 max |v|. The same
    bits for any number of threads. A query that sees no key gives zeros. Releases the GIL.
    """

def attention_backward(q: Array, k: Array, v: Array, plan: Plan, out: Array, lse: Array, out_grad: Array, *, q_grad: Array, k_grad: Array, v_grad: Array, terms: Mapping[str, Array] | None = None, term_grads: Mapping[str, Array] | None = None, sinks_grad: Array | None = None, parameter_grads: Sequence[Array] = (), bias: Array | None = None, bias_grad: Array | None = None) -> None:
    """
    Writes the gradients of `attention`. out and lse are its results.

    q_grad, k_grad, v_grad: shapes and types of q, k, v; overwritten.
    term_grads: float32, by name, shapes of the terms; overwritten.
    parameter_grads: float32, one for each parameter of the encoding; gradients are added.
    bias: as in `attention`. bias_grad: float32 [B, Hq, T, S], overwritten.
    sinks_grad: float64 [Hq]. Deterministic: the same bits for any number of threads.
    """

def add_position(x: Array, plan: Plan) -> None:
    """
    Adds the position table of the plan to x [B, T, C] in place; nothing if it has no table.
    """

def add_position_backward(grad: Array, plan: Plan, parameter_grads: Sequence[Array]) -> None:
    """
    Adds the gradients of the table's parameters, from the gradient [B, T, C] of x.
    """

def prepare(q: Array | None, k: Array | None, v: Array | None, plan: Plan) -> None:
    """
    Applies the norms, rotations and scales of the plan of a model's layer (gnomon.model)
    to projected q [B, T, H, D] and k, v [B, T, Hk, D] in place, before keys are stored in a cache.
    Error and cost: those of `rotate` for a rotation.
    """

def rotate_heads(q: Array, k: Array, plan: Plan) -> None:
    """
    Applies the rotations of a plan that no single table contains (V-JEPA 2) in place.
    """

class ModelDescription:
    @staticmethod
    def from_path(path: str, part: str, yarn_factor: YarnFactor, assume_pairing: Pairing | None) -> ModelDescription: ...

    @staticmethod
    def from_config(json: str, part: str, yarn_factor: YarnFactor, assume_pairing: Pairing | None) -> ModelDescription: ...

    def to_json(self, length: int | None = None) -> str: ...

    def groups(self) -> list[dict[str, Any]]: ...

    @property
    def source(self) -> str: ...

    @property
    def model_type(self) -> str: ...

    @property
    def layers(self) -> int: ...

    @property
    def length(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def notes(self) -> list[str]: ...

    def parameters(self, layer: int, part: str) -> list[tuple[str, int, int, float, float]]: ...

    def compute_terms(self, layer: int, part: str, plan: Plan, hidden: Array) -> dict[str, numpy.typing.NDArray[numpy.float32]]: ...

    def lower_layer(self, layer: int, queries: object | None, keys: object | None, part: str, parameters: object, cached: int, rotated: bool, length: int, image: object | None) -> Plan: ...

class KvCache:
    """
    The keys and values of past tokens of one layer, for decoding.

    capacity: C, entries of each row. heads: Hk. head_dim, value_dim: D of keys, Dv of values
        (default: D; 0: the values are the keys, one tensor for both). batch: B.
    axes: A, position axes (3 for M-RoPE).
    encoding: the rotary spec, or RotaryFrequencies, by which the cache rotates keys; None: keys
        are stored as they are. length: declared context length for dynamic NTK and LongRoPE.
    dtype: of the stored keys and values.
    window: for layers with a sliding window: a query sees at most the last `window` entries, its
        own included. `append` overwrites the entries that no later query sees, if new tokens
        exceed the room. 0: keeps all.

    All keys of a cache have the same frequencies: a call that changes them rotates the keys again.
    Memory: B C Hk (D + Dv) elements, allocated at once. A call that raises ValueError changes
    nothing. Calls hold the GIL.
    """

    def __init__(self, *, capacity: int, heads: int, head_dim: int, value_dim: int | None = None, batch: int = 1, axes: int = 1, encoding: Encoding | RotaryFrequencies | None = None, length: int = 0, dtype: CacheType = 'float32', window: int = 0) -> None: ...

    @property
    def tokens(self) -> int:
        """S, the entries of each row."""

    @property
    def room(self) -> int:
        """The number of new tokens that `append` takes."""

    @property
    def dropped(self) -> int:
        """Entries that `append` has overwritten, those of a window."""

    @property
    def frequencies(self) -> RotaryFrequencies | None:
        """The frequencies by which all keys are rotated."""

    @property
    def keys(self) -> numpy.typing.NDArray[Any]:
        """
        The keys, rotated: a read-only view [B, S, Hk, D]. Calls change its values.
        """

    @property
    def values(self) -> numpy.typing.NDArray[Any]:
        """The values: a read-only view [B, S, Hk, Dv]. Calls change its values."""

    def positions(self, axis: int = 0) -> Positions:
        """Returns the positions of the entries, for the keys of `gnomon.lower`."""

    def append(self, k: Array, v: Array | None, positions: PositionsLike | None = None, *, table: RotaryTable | None = None, rotated_with: Encoding | RotaryFrequencies | None = None) -> None:
        """
        Rotates new keys and writes them after the last entry; copies the values.

        k: [B, T, Hk, D], not rotated; v: [B, T, Hk, Dv], None if Dv is 0. Of the type of the cache,
            or float32.
        positions: of the new tokens, [T] or [B, T], Positions, or a tuple of them, one for each axis.
            Default: those after the entries so far, from dropped + S on.
        table: the rows of these positions, shared between layers; default: computed here.
        rotated_with: the encoding by which k is rotated already, that of the cache.
        """

    def insert(self, at: int, k: Array, v: Array, positions: PositionsLike | None = None, *, table: RotaryTable | None = None) -> None:
        """
        Inserts entries before entry `at`, as `append`. Positions of later entries increase
        by the number of new entries of their sequence, and their keys are rotated. Default positions:
        at, at + 1, ...
        """

    def remove(self, begin: int, end: int) -> None:
        """
        Removes entries [begin, end). Positions of later entries decrease by the number of
        removed entries of their sequence, and their keys are rotated.
        """

    def drop(self, begin: int, end: int) -> None:
        """
        Removes entries [begin, end). All positions stay, so no key is rotated.
        """

    def shift(self, begin: int, end: int, delta: int | Sequence[int]) -> None:
        """
        Adds delta to the positions of entries [begin, end) and rotates their keys. A
        sequence: one delta for each axis.
        """

    def change_frequencies(self, to: Encoding | RotaryFrequencies, length: int = 0) -> None:
        """
        Rotates all keys to other frequencies, as dynamic NTK and LongRoPE require when the
        length exceeds a limit.
        """

    def truncate(self, tokens: int) -> None:
        """Keeps the first entries."""

    def clear(self) -> None:
        """Removes all entries."""

    def __repr__(self) -> str: ...

class SegmentMemory:
    """
    The keys and values of earlier segments of a long text (Transformer-XL).

    memory: M, tokens that are kept. segment: the longest T of a call. heads, head_dim, value_dim,
        batch, encoding, length, dtype: as KvCache; dtype may also be 'float64'.

    If queries see at most M keys back (left=M), attention by segments equals attention over the
    whole text. Memory: B (2 M + segment) Hk (D + Dv) elements. Source: Dai et al. 2019,
    arXiv:1901.02860, section 3.2.
    """

    def __init__(self, *, memory: int, segment: int, heads: int, head_dim: int, value_dim: int | None = None, batch: int = 1, encoding: Encoding | RotaryFrequencies | None = None, length: int = 0, dtype: MemoryType = 'float32') -> None: ...

    @property
    def kept(self) -> int:
        """Rows that the next segment will see."""

    @property
    def next(self) -> int:
        """The position of the next token."""

    def append(self, k: Array, v: Array, *, table: RotaryTable | None = None) -> Segment:
        """
        Appends a segment and returns what its queries attend to.

        k: [B, T, Hk, D]; v: [B, T, Hk, Dv], of the type of the memory. The result has read-only views
        keys and values [B, offset + T, Hk, D or Dv], valid until the next call; offset, the rows of
        memory; first, the position of row 0 in the text.
        """

    def clear(self) -> None:
        """Removes all tokens. The next one has position 0."""

def rotate_append(k: Array, v: Array | None, table: RotaryTable | None, key_cache: Array, value_cache: Array | None = None, *, slots: Array | None = None, block_table: Array | None = None, entries: Array | None = None, sequences: Array | None = None, key_scales: Array | None = None, value_scales: Array | None = None) -> None:
    """
    Rotates new keys and writes them, with the values, to a paged KV cache.

    k: [B, T, Hk, D] or [T, Hk, D]; v: the same with Dv, or None (MLA). table: the rows of the
        positions of k; None: keys are not rotated.
    key_cache, value_cache: [P, S, Hk, D] and [P, S, Hk, Dv], P blocks of S entries, any strides;
        of the type of k, or float16 or bfloat16 for float32, or int8, or float8_e4m3fn or uint8
        (E4M3).
    slots: int64 [T] or [B, T], block * S + entry of each token (vLLM); a negative slot is not
        written. Or instead:
    block_table: int32 [N, M], the blocks of N sequences; entries: int64 [T] or [B, T], the index of
        each token in its sequence; sequences: int32, the row of block_table of each token; default:
        the batch row, or the token for [T, H, D].
    key_scales, value_scales: E4M3: float32 [1] or [Hk], a stored element is x / scale; int8:
        float32 [P, S, Hk], written.

    No two tokens may have one slot. A cache [N, C, Hk, D] of sequences of different lengths has the
    slots n * C + entry.
    """

class PagedKvCache:
    """
    The keys and values of many sequences of one layer, in one pool of blocks.

    blocks: P, of all sequences together. block_size: S, entries of a block.
    heads: Hk. head_dim, value_dim: D of keys, Dv of values (default: D; 0: the values are the
        keys, one tensor for both). axes: A, position axes (3 for M-RoPE).
    encoding: the rotary spec, or RotaryFrequencies, by which the cache rotates keys; None: keys
        are stored as they are. length: declared context length for dynamic NTK and LongRoPE.
    dtype: of the stored keys and values. key_scales, value_scales: of 'float8_e4m3fn', 1 or Hk
        numbers: a stored element is x / scale. 'int8' has a scale for each head vector.

    Sequences share the blocks of a common prefix (`fork`). All keys of a cache have the same
    frequencies. Memory: P S Hk (D + Dv) elements, allocated at once. A call that raises ValueError
    changes nothing. Calls hold the GIL.
    """

    def __init__(self, *, blocks: int, heads: int, head_dim: int, value_dim: int | None = None, block_size: int = 16, axes: int = 1, encoding: Encoding | RotaryFrequencies | None = None, length: int = 0, dtype: PagedCacheType = 'float32', key_scales: Sequence[float] = (), value_scales: Sequence[float] = ()) -> None: ...

    def start(self) -> int:
        """Starts a sequence without entries and returns its number."""

    def fork(self, sequence: int, tokens: int | None = None) -> int:
        """
        Starts a sequence with the first `tokens` entries of another (default: all), and
        returns its number. Both hold the same blocks; a shared block that is not full is copied when
        one of them appends to it.
        """

    def truncate(self, sequence: int, tokens: int) -> None:
        """Keeps the first entries, for example without rejected drafts."""

    def end(self, sequence: int) -> None:
        """Ends a sequence. Blocks that no other sequence holds become free."""

    def clear(self) -> None:
        """Ends all sequences."""

    @property
    def sequences(self) -> int:
        """The number of sequences that have not ended."""

    @property
    def free_blocks(self) -> int:
        """Blocks that no sequence holds."""

    @property
    def frequencies(self) -> RotaryFrequencies | None:
        """The frequencies by which all keys are rotated."""

    def tokens(self, sequence: int) -> int:
        """Returns the number of entries of a sequence."""

    def room(self, sequence: int) -> int:
        """
        Returns the entries that this sequence could get, if no other one gets any.
        """

    def blocks_needed(self, sequences: int | Sequence[int] | Array, starts: Sequence[int] | Array | None = None) -> int:
        """Returns the free blocks that `append` with these arguments takes."""

    def positions(self, sequence: int, axis: int = 0) -> Positions:
        """Returns the positions of the entries of a sequence."""

    def append(self, k: Array, v: Array | None, sequences: int | Sequence[int] | Array, starts: Sequence[int] | Array | None = None, positions: PositionsLike | None = None, *, table: RotaryTable | None = None, rotated_with: Encoding | RotaryFrequencies | None = None) -> None:
        """
        Rotates new keys and writes them after the last entry of each sequence; copies
        the values.

        k: [rows, Hk, D] or [1, rows, Hk, D], not rotated; v: the same with Dv, None if Dv is 0. Of the
            type of the cache, or float32 (float16 and bfloat16 too for 8-bit caches).
        sequences: N numbers, each once, or one number, whose sequence gets all rows.
        starts: N + 1 integers (`cu_seqlens`): sequence n gets rows starts[n] to starts[n + 1] - 1.
            Default: row n is the new token of sequence n.
        positions: of the rows, [rows], Positions, or a tuple of them, one for each axis. Default: the
            index of each entry in its sequence.
        table: the rows of these positions, shared between layers; default: computed here.
        rotated_with: the encoding by which k is rotated already, that of the cache.
        """

    def block_table(self, sequences: int | Sequence[int] | Array) -> numpy.typing.NDArray[numpy.int32]:
        """
        Returns the blocks of sequences, int32 [N, M], as attention takes them. Blocks
        beyond those of a sequence are -1.
        """

    def key_lengths(self, sequences: int | Sequence[int] | Array) -> numpy.typing.NDArray[numpy.int64]:
        """
        Returns the entries of each sequence, int64 [N], as attention takes them.
        """

    def change_frequencies(self, to: Encoding | RotaryFrequencies, length: int = 0) -> None:
        """
        Rotates all keys to other frequencies, as dynamic NTK and LongRoPE require when the
        length exceeds a limit. Not for 8-bit caches.
        """

    @property
    def keys(self) -> numpy.typing.NDArray[Any]:
        """
        The keys, rotated: a read-only view [P, S, Hk, D] of all blocks; E4M3 as uint8.
        Calls change its values.
        """

    @property
    def values(self) -> numpy.typing.NDArray[Any]:
        """The values: a read-only view [P, S, Hk, Dv] of all blocks."""

    @property
    def key_scales(self) -> numpy.typing.NDArray[numpy.float32] | None:
        """
        The scales of int8 keys, [P, S, Hk], or of E4M3 keys, [1] or [Hk]; else None.
        """

    @property
    def value_scales(self) -> numpy.typing.NDArray[numpy.float32] | None:
        """The scales of the values, as key_scales."""

    def __repr__(self) -> str: ...

class Graph:
    """
    A graph of N nodes, numbered from 0. Immutable.

    edges: integers [E, 2], each row two nodes. kind: 'undirected' (an edge gives two arcs) or
        'directed'. An edge that is listed more than once counts once.
    Cost: O(N + E log E) time.
    """

    def __init__(self, nodes: int, edges: Array, kind: EdgeKind) -> None: ...

    @staticmethod
    def path(nodes: int) -> Graph:
        """Returns the path 0 - 1 - ... - (nodes - 1), the graph of a text."""

    @staticmethod
    def ring(nodes: int) -> Graph:
        """Returns the path closed to a ring."""

    @property
    def nodes(self) -> int:
        """N."""

    @property
    def arcs(self) -> int:
        """Arcs: two for each undirected edge."""

    @property
    def kind(self) -> EdgeKind: ...

    def out_degrees(self) -> numpy.typing.NDArray[numpy.int64]:
        """Returns the number of arcs from each node, [N]."""

    def in_degrees(self) -> numpy.typing.NDArray[numpy.int64]:
        """Returns the number of arcs to each node, [N]."""

    def components(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        Returns the connected component of each node, [N], ignoring directions.
        """

    def distances(self, limit: int = 510) -> numpy.typing.NDArray[numpy.int32]:
        """
        Returns the arcs of the shortest path between every two nodes, [N, N]; `limit` if
        there are at least that many, or no path. Cost: O(N (N + arcs)).
        """

    def laplacian_vectors(self, vectors: int, *, kind: LaplacianKind, zeros: LaplacianZeros, signs: LaplacianSigns, seed: int = 0) -> LaplacianVectors:
        """
        Returns the K eigenvectors of the least eigenvalues of the Laplacian: eigenvalues
        [K], ascending; vectors [N, K], columns of norm 1; found, the number of columns that are not
        padding.

        kind: 'combinatorial', D - A, or 'symmetric', I - D^-1/2 A D^-1/2.
        zeros: 'skip_one' leaves out the first eigenvector of eigenvalue 0, 'skip_all' all of them.
        signs: 'fixed', 'random' (by the seed, for training) or 'absolute'.
        Residual: at most 2^-32 max L(i, i). Components of up to 256 nodes: O(n^3). Source: Dwivedi et
        al. 2020, arXiv:2003.00982.
        """

    def return_probabilities(self, steps: int) -> numpy.typing.NDArray[numpy.float64]:
        """
        Returns the probabilities [N, K] that a random walk is at its first node again
        after 1 to K steps. Cost: at most O(N K arcs). Source: Dwivedi et al. 2021, arXiv:2110.07875.
        """

    def degree_table(self, in_table: Array, out_table: Array, *, beyond: DegreeBeyond) -> numpy.typing.NDArray[numpy.float32]:
        """
        Returns the table [N, C] of the sums of the rows degree + 1 of both tables, float32
        [rows, C]. beyond: degrees without a row are 'capped' or 'refused'. Source: Ying et al. 2021,
        arXiv:2106.05234, section 3.1.1.
        """

    def graphormer_bias(self, encoding: Encoding, spatial: Array, *, token: Array | None = None, edges: Array | None = None, hops: Array | None = None, features: IntegerArray | None = None, given: Array | None = None) -> numpy.typing.NDArray[numpy.float32]:
        """
        Returns the bias [H, T, T] of a gnomon.Graphormer; T is N, or N + 1 with a token.

        spatial: float32 [unreachable + 2, H]; row 0 is not used, row d + 1 is that of distance d.
        token: [H]. edges: [edge_rows, H]. hops: [hops, H, H]. features: rows of `edges` of each listed
            edge, integers [E, F]. given: a matrix [T, T] that is added (0 and -infinity).
        Sums in double, rounded once. Source: Ying et al. 2021, arXiv:2106.05234, section 3.1.
        """

    def __eq__(self, other: object, /) -> bool: ...

    def __repr__(self) -> str: ...

def resize_table(table: Array, to: int | Sequence[int], size: int | Sequence[int] | None = None, *, preset: Resize | None = None, kernel: ResizeKernel | None = None, corners: ResizeCorners | None = None, antialias: Switch = 'off', extra_rows: int | None = None, size_offset: float = 0.0) -> numpy.typing.NDArray[Any]:
    """
    Returns a learned table resampled to another length or grid, of its element type.

    table: [N, C], float32, float64, float16 or bfloat16 (computed in double, rounded once).
    to: rows, or (height, width). size: the present rows or grid; default: all rows, or a square.
    preset: the method of a model, 'vit', 'deit', 'clip', 'dinov2', 'glm4v' (all cubic),
        'dinov2-original', 'dinov2-registers', 'siglip2', 'qwen3-vl', or 'linear' (one axis).
    kernel, corners, antialias: without a preset; 'half-pixel' is align_corners=False.
    extra_rows: rows before the grid that are copied (class token); default: that of the preset.

    The values are those of torch.nn.functional.interpolate, with sums in double: error half an ulp
    + 2^-46 of the largest entry. Cost: O(rows C).
    """

class CompressedKeys:
    """
    The entries of compressed keys of one layer, for a text that arrives in parts.

    plan: of a layer with compressed keys (gnomon.model); a plan for any tokens has the same
        compression. capacity: the most entries. batch: B. index: the entries of the index heads.
    dtype: of values, gates and entries.

    Entries have the same bits as those of the whole text. Calls hold the GIL.
    """

    def __init__(self, plan: Plan, *, capacity: int, batch: int = 1, index: bool = False, dtype: MemoryType = 'float32') -> None: ...

    def append(self, values: Array, gates: Array) -> None:
        """
        Appends the values and gates [B, T, N, D] of the next tokens; N is 1, or 2 if
        windows overlap.
        """

    @property
    def entries(self) -> numpy.typing.NDArray[Any]:
        """A read-only view of the entries, [B, W, 1, D]."""

    @property
    def tokens(self) -> int:
        """Tokens appended so far."""

    def clear(self) -> None:
        """Removes all tokens."""

def compress_keys(values: Array, gates: Array, plan: Plan, *, index: bool = False, out: Array | None = None) -> Array:
    """
    Returns the entries [B, W, 1, D] of a whole text: one for each complete window.

    values, gates: [B, T, N, D], the projections of the layer's input; float32, float16, bfloat16
    or float64. index: the entries of the index heads. Raises ValueError if shapes do not match.
    """

def compress_keys_backward(values: Array, gates: Array, plan: Plan, entries_grad: Array, *, values_grad: Array | None = None, gates_grad: Array | None = None, bias_grad: Array | None = None, weight_grad: Array | None = None, index: bool = False) -> None:
    """
    Writes the gradients of `compress_keys`. values_grad, gates_grad: shapes and types of
    values and gates. bias_grad [m N D], weight_grad [D]: float64. None: not computed.
    """

def select_keys(q: Array, weights: Array, keys: Array, plan: Plan) -> numpy.typing.NDArray[numpy.int32]:
    """
    Returns the entries with the greatest index scores of each query, int32 [B, T, K], in
    ascending order, then -1.

    q: index queries [B, T, H, D], rotated by plan.index_rotary; weights: [B, T, H]; keys: entries
    of the index heads [B, W, 1, D]. Of equal scores the lower entry is selected.
    """

def compressed_attention(q: Array, kv: Array, entries: Array, plan: Plan, *, selected: Array | None = None, out: Array | None = None, lse: Array | None = None) -> Array:
    """
    Attention over the keys of the window and over compressed keys, in one softmax. The
    output is rotated back if the model does so.

    q: [B, T, Hq, D]; kv: [B, S, Hk, D], keys and values; both after gnomon.prepare. entries:
    [B, W, Hk, D]. selected: int32 [B, T, K] of select_keys; None: all entries that a query sees.
    lse: receives the log-sum-exp of the scores [B, Hq, T]. Releases the GIL.
    """

def compressed_attention_backward(q: Array, kv: Array, entries: Array, plan: Plan, out: Array, lse: Array, out_grad: Array, *, q_grad: Array, kv_grad: Array, entries_grad: Array, selected: Array | None = None, sinks_grad: Array | None = None) -> None:
    """
    Writes the gradients of `compressed_attention`, whose results are out and lse.

    q_grad, kv_grad, entries_grad: shapes and types of q, kv and entries, with respect to the
    prepared q and kv; kv_grad and entries_grad are those of keys and values, added.
    sinks_grad: float64 [Hq].
    """

def convolve(x: Array, weight: Array, *, order: TapOrder = 'oldest_first', scale: float = 1.0, dynamic: Array | None = None, state: Array | None = None, out: Array | None = None, tokens: Positions | None = None) -> Array:
    """
    Returns a causal convolution of each channel, with the token itself added (Inkling).

    y[t, c] = scale (x[t, c] + sum over n of (w[c, n] + dynamic[t, head of c, n]) x[t - n, c])

    x: [B, T, C]; float32, float16 or float64. weight: float32 [C, W]. order: oldest_first has the
    weight of the token itself last, as torch.nn.Conv1d. dynamic: float32 [B, T, H, W], newest
    first. state: float32 (float64 if x is) [B, W - 1, C], the inputs before x; it is replaced by
    the last inputs. Zeros start a text. tokens: sequences of the tokens (packing, padding).
    Raises ValueError if shapes do not match.
    """

def dape_attention(q: Array, k: Array, v: Array, plan: Plan, network: Sequence[Array], *, negative_slope: float = 0.01, out: Array | None = None, lse: Array | None = None) -> Array:
    """
    Attention whose scores are adapted by a network over all heads (DAPE).

    score = s + b + W2 leaky(W1 [s; b] + c1) + c2 for each pair, with the scores s and the biases b
    of all heads.

    q: [B, T, Hq, D]; k: [B, S, Hk, D]; v: [B, S, Hk, Dv]; float32, float16 or bfloat16.
    plan: with a bias by position or none; rotate q and k before.
    network: float32 W1 [M, 2 Hq], c1 [M], W2 [Hq, M], c2 [Hq]. DAPE V2: W1 [M, 2 Hq K] and
        W2 [Hq, M K], convolutions over K keys, K odd; causal.
    lse: receives the log-sum-exp of the scores, float32 [B, Hq, T].

    Memory grows with T + S. The same bits for any number of threads. Releases the GIL.
    """

def dape_attention_backward(q: Array, k: Array, v: Array, plan: Plan, network: Sequence[Array], out: Array, lse: Array, out_grad: Array, *, q_grad: Array, k_grad: Array, v_grad: Array, network_grads: Sequence[Array] | None = None, parameter_grads: Sequence[Array] = (), negative_slope: float = 0.01) -> None:
    """
    Writes the gradients of `dape_attention`. out and lse are its results.

    q_grad, k_grad, v_grad: shapes and types of q, k, v. network_grads: shapes of network; both are
    overwritten. parameter_grads: float32, one for each parameter of the encoding of the plan;
    gradients are added.
    """

def jax_targets() -> dict[str, object]: ...
