"""PositionEncoding and PositionScheme: position encodings as modules of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .. import _core, specs
from .._spec import Encoding, usual
from . import _functions, _kernels
from ._attention import attention
from ._functions import Layout, Visibility
from ._lowering import bias_form, dense, frozen, mixture_of, thawed
from ._names import Stored, stored
from ._rotation import HEADS, SUMS, by_heads, head_angles, rotary_plan, rotated, rotations
from ._terms import terms_of


class Matrices(nn.Module):
    """Trained matrices and their initial distributions. A module contains one for each dotted name.

    Every module with parameters has `reset_parameters`, as materialization of meta modules needs.
    """

    def __init__(self) -> None:
        super().__init__()
        self._initial: dict[str, Stored] = {}

    def _register(self, path: str, one: Stored, device: Any, dtype: Any) -> None:
        head, _, rest = path.partition(".")
        if rest:
            if head not in self._modules:
                self.add_module(head, Matrices())
            child: Any = self._modules[head]
            child._register(rest, one, device, dtype)
        else:
            empty = torch.empty(one.shape, device=device, dtype=dtype)
            self.register_parameter(head, nn.Parameter(empty))
            self._initial[head] = one

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws all parameters from the normal distributions of spec.parameters().

        Parameters with initial values get those.
        """
        for name, stored_as in self._initial.items():
            parameter: Any = self._parameters[name]
            one = stored_as.parameter
            if one.initial is not None and not parameter.is_meta:
                parameter.copy_(stored_as.tensor(torch.tensor(one.initial)))
            elif one.initial_deviation:
                parameter.normal_(one.initial_mean, one.initial_deviation)
            else:
                parameter.fill_(one.initial_mean)
        for child in self.children():
            if isinstance(child, Matrices):
                child.reset_parameters()

    def extra_repr(self) -> str:
        return ", ".join(f"{name}: {list(one.shape)}" for name, one in self._parameters.items()
                         if one is not None)


class PositionEncoding(Matrices):
    """A position encoding, or several, for all layers of a model or for one.

        position = PositionEncoding("rotary", width=512, heads=8, length=2048)
        position = PositionEncoding(gnomon.Fire(heads=8))
        position = PositionEncoding([gnomon.Rotary(rotary_dim=64, pairing="halves"), t5])

        x = position.embed(tokens)                      # once, before the first layer
        y = position.attend(q, k, v, visibility="causal")  # in every layer

    encoding: a name of the list ('fire', 'rotary+t5'), a spec, or several specs.
    heads, width, length, reads: sizes of the model for a name, as gnomon.usual. A size that the
        encoding does not depend on can be left out. fields: other fields of the spec.
    device, dtype: of the trained parameters.

    The module contains the specs, and its only tensors are trained parameters. Tables of cos and
    sin, slopes and sinusoids are computed in double from the spec when they are first needed, and
    are shared by all modules. So `to`, `bfloat16`, `to_empty`, meta tensors and sharding change no
    frequency. State dicts contain the trained parameters under the names of the released models.

    `forward` is `embed` if position enters the embeddings only, `rotate` if it enters queries and
    keys only, `bias` if it enters the scores only, else `attend`.
    """

    def __init__(self, encoding: str | Encoding | Sequence[Encoding], *, heads: int | None = None,
                 width: int | None = None, length: int | None = None, reads: str = "causal",
                 device: Any = None, dtype: torch.dtype | None = None, **fields: Any) -> None:
        super().__init__()
        if isinstance(encoding, str):
            names = encoding.split("+")
            if fields and len(names) > 1:
                raise ValueError("[position] fields must belong to one encoding, "
                                 f"got {', '.join(fields)} for {encoding}")
            encoding = [usual(name, width=width, heads=heads, length=length, reads=reads, **fields)
                        for name in names]
        elif fields or not (heads is width is length is None):
            raise ValueError("[position] sizes and fields must be those of the spec, "
                             "got a spec and further arguments")
        self.mixture = mixture_of(encoding)
        _check(self.mixture)
        kinds = [one.kind for one in self.mixture]
        if len(set(kinds)) < len(kinds):
            raise ValueError(f"[position] each encoding must occur once, got {', '.join(kinds)}")
        places = {one: one.enters for one in self.mixture}
        self._enters: str = _core.enters(list(self.mixture))
        self._parts = {place: _part([one for one in self.mixture if place in places[one]])
                       for place in ("embeddings", "queries and keys", "scores")}
        self._parts["attention"] = _part([one for one in self.mixture
                                          if places[one] != "embeddings"])
        self._paths: dict[Encoding, list[tuple[Stored, list[str]]]] = {}
        for spec in self.mixture:
            prefix = f"{spec.kind}." if len(self.mixture) > 1 else ""
            self._paths[spec] = [(one, (prefix + one.path).split(".")) for one in stored(spec)]
            for one in stored(spec):
                self._register(prefix + one.path, one, device, dtype)
        self.reset_parameters()

    @property
    def enters(self) -> str:
        """Where position enters the Transformer: 'embeddings', 'queries and keys', 'scores', ..."""
        return self._enters

    def matrices(self) -> list[Tensor]:
        """Returns the trained matrices, [rows, columns], in the order of spec.parameters()."""
        return self._matrices(self.mixture)

    def embed(self, x: Tensor, offset: int = 0, positions: Any = None) -> Tensor:
        """Returns x [B, T, C] plus the position table; x itself if the encoding has none.

        offset: the position of the first token. positions: integers [T] or [B, T], in place of it.
        Raises ValueError for a position beyond a learned table. Cost: O(T C) and one pass over x.
        """
        mixture, texts = self._parts["embeddings"]
        if not mixture:
            return x
        return _functions.add_position(x, texts, self._matrices(mixture), offset=offset,
                                       positions=positions)

    def rotate(self, q: Tensor, k: Tensor, positions: Any = None, *,
               layout: Layout = "heads_tokens", length: int = 0) -> tuple[Tensor, Tensor]:
        """Returns the rotated queries and keys.

        q: [B, H, T, D], k: [B, Hk, S, D] ('heads_tokens') or [B, T, H, D], ... ('tokens_heads').
        positions: of the keys, integers [S] or [B, S], an offset, or a tuple of integers, one for
            each position axis (M-RoPE). The queries are the last T of the keys.
        length: declared context length for dynamic NTK and LongRoPE; 0: that of the spec.
        Raises ValueError if the encoding has no rotation.
        """
        mixture, texts = self._part("queries and keys")
        if any(isinstance(one, SUMS) for one in mixture):
            raise ValueError("[rotate] an encoding whose angles depend on the tokens must be used "
                             f"by attend, with hidden, got {self._names()}")
        _kernels.check_heads(q)
        _kernels.check_heads(k)
        axis = 2 if layout == "heads_tokens" else 1
        queries, keys = q.shape[axis], k.shape[axis]
        first_query = keys - queries  # the row of the first query
        at: Any = positions
        if isinstance(positions, tuple):
            at = tuple(one[..., first_query:] for one in positions)
        elif isinstance(positions, int) or (positions is None and first_query):
            positions = positions or 0
            at = positions + first_query
        elif positions is not None:
            at = positions[..., first_query:]
        heads_first = layout == "heads_tokens"
        if isinstance(mixture[0], HEADS):
            angles = head_angles(mixture[0], self._matrices(mixture[:1]))
            return (by_heads(q, angles, at, heads_first, angles.phases),
                    by_heads(k, angles, positions, heads_first))
        # Encodings with one axis have tables for all lengths; others are lowered for these tokens.
        spec = mixture[0]
        one_axis = isinstance(spec, specs.Rotary) or not getattr(spec, "axes", (0,))
        if len(mixture) == 1 and (one_axis or isinstance(positions, tuple)):
            return (_functions.rotate(q, texts[0], at, layout=layout, length=length),
                    _functions.rotate(k, texts[0], positions, layout=layout, length=length))
        if isinstance(positions, tuple):
            raise ValueError(
                f"[rotate] an encoding with position axes must be alone, got {self._names()}")
        if isinstance(positions, int):
            at = torch.arange(at, at + queries)
            positions = torch.arange(positions, positions + keys)
        tokens = ((frozen(queries), frozen(keys)) if positions is None
                  else (frozen(at), frozen(positions)))
        plan = rotary_plan(mixture, *tokens, length)
        if plan.query_rotary is not None:
            return (_functions.rotate(q, plan.query_rotary, layout=layout),
                    _functions.rotate(k, plan.key_rotary, layout=layout))
        both = rotations(mixture, *tokens, length, q.device)
        q, k = (rotated(x if heads_first else x.transpose(1, 2), rotation)
                for x, rotation in zip((q, k), both, strict=True))
        return (q, k) if heads_first else (q.transpose(1, 2), k.transpose(1, 2))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, visibility: Visibility,
               layout: Layout = "heads_tokens", left: int | None = None, right: int | None = None,
               softmax_scale: float | None = None, cap: float | None = None,
               sinks: Tensor | None = None, positions: Any = None, query_positions: Any = None,
               sequences: Any = None, query_sequences: Any = None,
               attn_mask: Tensor | None = None, bias: Tensor | None = None, dropout: float = 0,
               hidden: Tensor | None = None, length: int = 0) -> Tensor:
        """Attention with the rotation, bias and relative vectors of the encoding.

        q: [B, H, T, D]; k: [B, Hk, S, D]; v: [B, Hk, S, Dv]; returns [B, H, T, Dv]; keys are not
            rotated. Arguments as gnomon.torch.attention.
        hidden: the input of the layer, for encodings with terms of the tokens
            (gnomon.token_terms): [B, T, C] for WavLM, [B, S, C] for FoX, with a row for each key.

        On the CPU, and with attn_mask, bias or dropout: gnomon.torch.attention. On other devices:
        gnomon.torch.flex.attend.
        """
        mixture, texts = self._parts["attention"]
        encoding: Any = texts
        run: Any = attention
        masks: dict[str, Any] = {}
        if attn_mask is not None or bias is not None or dropout:
            masks = {"attn_mask": attn_mask, "bias": bias, "dropout": dropout}
        elif q.device.type not in ("cpu", "meta"):
            from . import flex  # imported here because its import is slow

            run = flex.attend
            encoding = mixture
        return run(q, k, v, encoding, self._matrices(mixture), layout=layout,
                   visibility=visibility, left=left, right=right, softmax_scale=softmax_scale,
                   cap=cap, sinks=sinks, positions=positions, query_positions=query_positions,
                   sequences=sequences, query_sequences=query_sequences,
                   terms=self._terms(hidden, q, k, layout, sequences), length=length, **masks)

    def bias(self, queries: Any, keys: Any = None, *, device: Any = None,
             dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns the bias [H, T, S], for the `attn_mask` of scaled_dot_product_attention.

        queries, keys: numbers T and S of tokens (the queries are the last T of the keys), or their
            positions, integers [T] or [B, T] (the result is then [B, H, T, S]).
        device: default: that of the parameters, or the CPU.

        Differentiable in the parameters. The gates of WavLM are not included. Raises ValueError if
        the encoding has no bias, or one that depends on the queries (Shaw). Memory: O(H T S);
        `attend` and gnomon.torch.flex need O(H (T + S)).
        """
        mixture, _ = self._part("scores")
        parameters = self._matrices(mixture)
        device = torch.device(device or (parameters[0].device if parameters else "cpu"))
        keys = queries if keys is None else keys
        kind = torch.float64 if dtype == torch.float64 else torch.float32
        form = bias_form(mixture, parameters, queries, keys, device=device, dtype=kind)
        if form is None:
            raise ValueError("[bias] the encoding must add a bias to the scores, "
                             f"got {self._names()}")
        if isinstance(queries, int) and isinstance(keys, int):
            rows = torch.arange(queries, device=device) + max(0, keys - queries)
            columns = torch.arange(keys, device=device)
        else:
            rows, columns = (torch.as_tensor(getattr(thawed(frozen(one)), "ids", one)).to(device)
                             for one in _both(queries, keys))
            if rows.shape[0] == columns.shape[0] == 1:
                rows, columns = rows[0], columns[0]
        return dense(form, rows, columns).to(dtype)  # type: ignore[arg-type]

    def frequencies(self, length: int = 0) -> _core.RotaryFrequencies:
        """Returns the rotary frequencies at a declared context length, in radians per position.

        length: 0: that of the spec. Raises ValueError if the encoding has no rotation, or more
        than one set of frequencies (xPos).
        """
        mixture, _ = self._part("queries and keys")
        return _core.rotary_frequencies(mixture[0], length)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """`embed`, `rotate`, `bias` or `attend`: the natural one of the encoding (see above)."""
        one: dict[str, Any] = {"embeddings": self.embed, "queries and keys": self.rotate,
                               "scores": self.bias}
        if any(isinstance(spec, SUMS) for spec in self.mixture):
            return self.attend(*inputs, **options)
        return one.get(self.enters, self.attend)(*inputs, **options)

    def extra_repr(self) -> str:
        return ", ".join(map(repr, self.mixture))

    def _names(self) -> str:
        return "+".join(one.kind for one in self.mixture) or "none"

    def _part(self, place: str) -> Part:
        part = self._parts[place]
        if not part.mixture:
            raise ValueError(f"[position] the encoding must enter the {place}, got {self._names()}")
        return part

    def _matrices(self, mixture: Sequence[Encoding]) -> list[Tensor]:
        found = []
        for spec in mixture:
            for one, names in self._paths[spec]:
                value: Any = self
                for name in names:
                    value = getattr(value, name)
                matrix = one.matrix(value)
                found.append(matrix if matrix.dtype == torch.float64 else matrix.float())
        return found

    def _terms(self, hidden: Tensor | None, q: Tensor, k: Tensor, layout: Layout,
               sequences: Any) -> dict[str, Tensor]:
        axis = 2 if layout == "heads_tokens" else 1
        all_terms: dict[str, Tensor] = {}
        if q.dim() != 4 or k.dim() != 4:  # refused by attention
            return all_terms
        for spec in self._parts["attention"][0]:
            all_terms |= terms_of(spec, self._matrices((spec,)), hidden, q.shape[axis],
                                  k.shape[axis], sequences)
        return all_terms


class Part(NamedTuple):
    """Encodings of a module that enter at one place, and their JSON, as the operators take them."""

    mixture: tuple[Encoding, ...]
    texts: Any  # a tuple of str


def _check(mixture: tuple[Encoding, ...]) -> None:
    """Refuses specs with values out of bounds, as `lower` does, before parameters are drawn."""
    for spec in mixture:
        if isinstance(spec, (specs.ScaledRotary, specs.AxialRotary, specs.MRope)):
            _core.rotary_frequencies(spec)
            continue
        for one in spec.parameters():
            if min(one.rows, one.columns) < 1:
                raise ValueError(f"[{spec.kind}] {one.name} must have at least 1 row and 1 column, "
                                 f"got {one.rows} x {one.columns}")
        shapes = [(one.rows, one.columns) for one in spec.parameters()]
        if sum(rows * columns for rows, columns in shapes) < 2**22:  # lower copies them
            _core.lower(spec, 1, parameters=[np.ones(one, np.float32) for one in shapes],
                        visibility="bidirectional")


def _part(mixture: list[Encoding]) -> Part:
    return Part(tuple(mixture), tuple(one.to_json() for one in mixture))


def _both(queries: Any, keys: Any) -> tuple[Any, Any]:
    return tuple(torch.arange(one)[None] if isinstance(one, int)  # type: ignore[return-value]
                 else one for one in (queries, keys))


class PositionScheme(nn.Module):
    """The position encodings of all layers of a model.

        position = PositionScheme("rotary*3/none", layers=12, width=512, heads=8, length=2048)
        x = position.embed(tokens)
        for layer in range(12):
            y = position.attend(layer, q, k, v, visibility="causal")

    scheme: the text of a scheme, as of `gnomon` (`+` joins the encodings of a layer, `/` separates
        layers, `*3` repeats, and the list is repeated for all layers), or a list with the
        encodings of each layer.
    layers, width, heads, length, reads: sizes of the model, for a text.

    Each parameter occurs once. Layers with the same encodings share one PositionEncoding, unless
    an encoding has separate parameters in each layer (Swin, Shaw). Submodules: `table` contains
    the encodings that act on the embeddings only; `layer<l>` has the index of its first layer.
    """

    def __init__(self, scheme: str | Sequence[Encoding | Sequence[Encoding] | None], *,
                 layers: int | None = None, width: int | None = None, heads: int | None = None,
                 length: int | None = None, reads: str = "causal", device: Any = None,
                 dtype: torch.dtype | None = None) -> None:
        super().__init__()
        if isinstance(scheme, str):
            for name, one in (("layers", layers), ("width", width), ("heads", heads),
                              ("length", length)):
                if one is None:
                    raise ValueError(f"[scheme] {name} must be given for a text, got None")
            found = _core.scheme(scheme, layers, width, heads, length, reads)
            self.layers = [tuple(map(Encoding.from_json, layer)) for layer in found]
        else:
            self.layers = [mixture_of(layer) for layer in scheme]
        if not self.layers:
            raise ValueError("[scheme] there must be at least one layer, got 0")
        tables = [tuple(one for one in layer if one.enters == "embeddings")
                  for layer in self.layers]
        if len(set(tables)) > 1:
            names = ["+".join(one.kind for one in table) or "none" for table in set(tables)]
            raise ValueError("[scheme] all layers must have the encodings that are added to the "
                             f"embeddings, got {', '.join(sorted(names))}")
        self.table = PositionEncoding(tables[0], device=device, dtype=dtype)
        self._owners: list[str] = []
        for index, layer in enumerate(self.layers):
            mixture = tuple(one for one in layer if one.enters != "embeddings")
            shared = all(_core.info(one)["sharing"] == "all_layers" for one in mixture)
            owner = next((name for name in self._owners
                          if shared and self.get_submodule(name).mixture == mixture), None)
            if owner is None:
                owner = f"layer{index}"
                self.add_module(owner, PositionEncoding(mixture, device=device, dtype=dtype))
            self._owners.append(owner)

    def layer(self, layer: int) -> PositionEncoding:
        """Returns the encodings of a layer."""
        if not 0 <= layer < len(self._owners):
            raise ValueError(f"[scheme] layer must be 0 to {len(self._owners) - 1}, got {layer}")
        return self._modules[self._owners[layer]]  # type: ignore[return-value]

    def embed(self, x: Tensor, offset: int = 0, positions: Any = None) -> Tensor:
        """As PositionEncoding.embed. Call it once, before layer 0."""
        return self.table.embed(x, offset, positions)

    def rotate(self, layer: int, q: Tensor, k: Tensor, positions: Any = None,
               **options: Any) -> tuple[Tensor, Tensor]:
        """As PositionEncoding.rotate."""
        return self.layer(layer).rotate(q, k, positions, **options)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, visibility: Visibility,
               **options: Any) -> Tensor:
        """As PositionEncoding.attend."""
        return self.layer(layer).attend(q, k, v, visibility=visibility, **options)

    def bias(self, layer: int, queries: Any, keys: Any = None, **options: Any) -> Tensor:
        """As PositionEncoding.bias."""
        return self.layer(layer).bias(queries, keys, **options)

    def forward(self, layer: int, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        """`attend`."""
        return self.attend(layer, q, k, v, **options)

    def reset_parameters(self) -> None:
        """Draws all parameters from the normal distributions of spec.parameters()."""
        for one in self.children():
            one.reset_parameters()  # type: ignore[operator]
