"""Masks of transformers as rules: visibility, window, sequences. No [T, S] tensor is made.

Letters: B batch, T query tokens, S key tokens.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from transformers import masking_utils

from gnomon import _core


class Bias(NamedTuple):
    """A bias of the scores.

    by_tokens: whether distances count tokens (BLOOM) instead of rows (T5, MPT).
    masked_gradient: whether scores of masked keys have gradients. transformers adds the lowest
        number to them; MPT replaces them by it.
    mean: whether queries that see no key give the mean of all values also with sdpa attention,
        where transformers adds the mask to the bias.
    """

    spec: Any
    parameter: Tensor | None
    by_tokens: bool = False
    masked_gradient: bool = True
    mean: bool = False


# Chunks of queries at left padding have negative numbers. Numbers of sequences must not be
# negative, and a packed sequence has fewer chunks than this.
_CHUNKS = 1 << 20


@dataclasses.dataclass
class Rules:
    """The keys that a query sees.

    Key row j of query row i + offset. The rows are those of the mask, without gaps.
    left, right: limits in rows.
    padding: bool [B, S], True for tokens, or None.
    key_sequences, query_sequences: integers [B or 1, S] and [B or 1, T] of packed sequences or
        chunks, or None: a query sees keys of its own sequence.
    """

    queries: int
    keys: int
    offset: Any  # an integer, or a tensor of one (static caches)
    causal: bool
    left: int | None = None
    right: int | None = None
    padding: Tensor | None = None
    key_sequences: Tensor | None = None
    query_sequences: Tensor | None = None

    def visible(self) -> Tensor:
        """Returns the visible keys as bool [B or 1, 1, T, S]."""
        distance = (torch.arange(self.keys)[None] - torch.arange(self.queries)[:, None]
                    - self.offset)[None, None]
        sees = distance == distance
        if self.causal:
            sees = sees & (distance <= 0)
        if self.left is not None:
            sees = sees & (distance >= -self.left)
        if self.right is not None:
            sees = sees & (distance <= self.right)
        if self.padding is not None:
            sees = sees & self.padding[:, None, None]
        if self.key_sequences is not None:
            sees = sees & (self.key_sequences[:, None, None] == self.query_sequences[:, None, :,
                                                                                     None])
        return sees

    def blind(self) -> Tensor | None:
        """Returns the queries that see no key as bool [B, T]; None if there are none."""
        if self.padding is None:
            return None  # a query sees itself
        if self.key_sequences is not None:
            blind = ~self.visible().any(-1)[:, 0]
        else:
            # The number of tokens among the keys of a query, from sums of tokens.
            sums = torch.nn.functional.pad(self.padding.cumsum(-1), (1, 0))
            row = torch.arange(self.queries) + self.offset
            end = row + 1 if self.causal else (
                row * 0 + self.keys if self.right is None else row + self.right + 1)
            begin = row * 0 if self.left is None else row - self.left
            end, begin = end.clamp(0, self.keys), begin.clamp(0, self.keys)
            blind = sums[:, end] <= sums[:, torch.minimum(begin, end)]
        return blind if bool(blind.any()) else None

    def resolved(self) -> Rules:
        """Returns the rules without unused keys and without padding that is no padding."""
        offset, keys, padding = int(self.offset), self.keys, self.padding
        # The rows of a static cache after the last query are unused.
        if self.causal and offset >= 0:
            keys = min(keys, offset + self.queries)
        if padding is not None:
            padding = padding[:, :keys]
            if padding.all():
                padding = None
        key_sequences = self.key_sequences
        if key_sequences is not None:
            key_sequences = key_sequences[:, :keys]
        return dataclasses.replace(self, offset=offset, keys=keys, padding=padding,
                                   key_sequences=key_sequences)

    @property
    def supported(self) -> bool:
        """Whether a plan can have these resolved rules."""
        # The offset of a plan is max(S - T, 0). It is of no effect without an order of the rows.
        ordered = self.causal or self.left is not None or self.right is not None
        return not ordered or self.offset == max(self.keys - self.queries, 0)

    def plan(self, softmax_scale: float | None, cap: float | None, bias: Bias | None,
             sinks: Tensor | None) -> Any:
        """Returns the plan of resolved rules with these softmax options."""
        spec, parameter = bias[:2] if bias else (None, None)
        queries, keys = self._tokens(spec is not None, bias is not None and bias.by_tokens)
        return _core.lower(
            spec, queries, keys, visibility="causal" if self.causal else "bidirectional",
            parameters=() if parameter is None else (parameter.detach().float(),),
            left=self.left, right=self.right, softmax_scale=softmax_scale, cap=cap,
            sinks=() if sinks is None else sinks.detach().double().tolist())

    def _tokens(self, biased: bool, by_tokens: bool) -> tuple[Any, Any]:
        T, S = self.queries, self.keys
        ordered = self.causal or self.left is not None or self.right is not None or biased
        of, query_of = self.key_sequences, self.query_sequences
        if (of is None and self.padding is None and T <= S
                and (not ordered or self.offset == S - T)):
            return T, S
        if of is None:
            of, query_of = torch.zeros(1, S).long(), torch.zeros(1, T).long()
        assert query_of is not None
        if self.padding is not None:
            # Queries at padding tokens see the keys that transformers shows them.
            of = of.masked_fill(~self.padding, -1)
            query_of = query_of.expand(of.shape[0], T)
        keys = torch.arange(S).expand(of.shape)
        queries = torch.arange(self.offset, self.offset + T).expand(query_of.shape)
        if by_tokens and self.padding is not None:
            keys = self.padding.long().cumsum(-1) - 1
            queries = keys[:, S - T:]
        return _core.Positions(queries, query_of), _core.Positions(keys, of)


# -- Mask functions of transformers ------------------------------------------------------------

_AND = "and_masks.<locals>.and_mask"
_OVERLAYS = ("sliding_window_overlay", "sliding_window_bidirectional_overlay", "chunked_overlay",
             "packed_sequence_mask_function", "remap_positions_for_packed_sequence")


def _cells(function: Callable) -> list[Any]:
    """Returns the variables of a closure in the alphabetical order of their names."""
    return [cell.cell_contents for cell in function.__closure__ or ()]


def _parts(function: Callable, positions: Tensor | None = None) -> list[tuple[Any, ...]] | None:
    """Returns the parts of a mask function of transformers; None if one of them is unknown.

    Mask functions are closures. They are recognised by their qualified name and module.
    positions: of the rows of packed sequences.
    """
    if function is masking_utils.causal_mask_function:
        return [("causal",)]
    if function is masking_utils.bidirectional_mask_function:
        return []
    if function.__module__ != masking_utils.__name__:
        return None
    name, cells = function.__qualname__.replace(".<locals>.inner_mask", ""), _cells(function)
    if name == _AND:
        joined = []
        for one in cells[0]:
            parts = _parts(one, positions)
            if parts is None:
                return None
            joined += parts
        return joined
    if name == "sliding_window_overlay":
        return [("left", cells[0] - 1)]
    if name == "sliding_window_bidirectional_overlay":
        return [("left", cells[0]), ("right", cells[0])]
    if name == "chunked_overlay":
        return [("chunks", cells[0], cells[1], positions)]
    if name == "packed_sequence_mask_function":
        return [("packed", cells[0])]
    if name == "remap_positions_for_packed_sequence":
        # Positions of a sequence are consecutive, so distances in rows and in positions agree.
        return _parts(cells[0], cells[1])
    return None


def rules_of(function: Callable, T: int, S: int, q_offset: Any, kv_offset: Any,
             padding: Tensor | None) -> Rules | None:
    """Returns the rules of a mask of T queries and S keys; None if Gnomon cannot express it.

    torch.compile can trace it.
    """
    parts = _parts(function)
    if parts is None:
        return None
    rules = Rules(T, S, q_offset - kv_offset, False, padding=padding)
    keys = queries = None
    for part in parts:
        if part[0] == "causal":
            rules.causal = True
        elif part[0] == "left":
            rules.left = part[1] if rules.left is None else min(rules.left, part[1])
        elif part[0] == "right":
            rules.right = part[1]
        else:
            if part[0] == "packed":
                own, own_queries = part[1].long(), part[1].long()
            else:
                _, size, first, positions = part
                if positions is None:
                    at = torch.arange(S)[None] + kv_offset, torch.arange(T)[None] + q_offset
                else:
                    at = positions, positions
                own, own_queries = [(one - first[:, None]) // size + _CHUNKS // 2 for one in at]
            if (part[0] == "packed" or part[3] is not None) and S != T:
                return None
            keys = own if keys is None else keys * _CHUNKS + own
            queries = own_queries if queries is None else queries * _CHUNKS + own_queries
    rules.key_sequences, rules.query_sequences = keys, queries
    return rules


class Mask(torch.Tensor):
    """A mask [B, 1, T, S] as rules. An operator on it makes it a dense mask of transformers.

    transformers passes masks from the model to the attention function, and takes a 4-D tensor
    as a mask that is complete.
    """

    rules: Rules  # resolved: without the unused keys of a static cache, which the shape counts
    make: Callable[[], Tensor]
    mean: bool  # whether queries that see no key give the mean of all values
    skipped: bool  # whether the sdpa attention of transformers has no mask
    plans: dict[Any, Any]

    @staticmethod
    def __new__(cls, rules: Rules, batch: int, keys: int, make: Callable[[], Tensor], mean: bool,
                dtype: torch.dtype, device: Any, skipped: bool = False) -> Mask:
        self = torch.Tensor._make_wrapper_subclass(
            cls, (batch, 1, rules.queries, keys), dtype=dtype, device=device)
        self.rules, self.make, self.mean, self.plans = rules, make, mean, {}
        self.skipped = skipped
        return self

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Mask({self.rules})"

    def dense(self) -> Tensor:
        """Returns the dense mask of transformers: additive, or bool if it had sdpa attention."""
        return self.make()

    def blind(self, bias: Bias | None = None) -> Tensor | None:
        """Returns the queries that see no key, if they give the mean of all values."""
        return self._blind if self.mean or (bias and bias.mean) else None

    @functools.cached_property
    def _blind(self) -> Tensor | None:
        return self.rules.blind()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (),
                           options: Any = None) -> Any:
        if function is torch.ops.aten._to_copy.default:  # MPT stores its mask as bool
            mask, options = arguments[0], options or {}
            return Mask(mask.rules, mask.shape[0], mask.shape[3],
                        lambda: function(mask.dense(), **options), mask.mean,
                        options.get("dtype") or mask.dtype, mask.device)
        arguments, options = tree_map(
            lambda one: one.dense() if isinstance(one, Mask) else one, (arguments, options or {}))
        return function(*arguments, **options)

    def plan(self, softmax_scale: float | None, cap: float | None, bias: Bias | None,
             sinks: Tensor | None) -> Any:
        """Returns the plan of this mask with these softmax options. Layers share plans."""
        if sinks is not None:
            return self.rules.plan(softmax_scale, cap, bias, sinks)
        key = softmax_scale, cap, bias and (bias.spec, id(bias.parameter), bias.by_tokens)
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = self.rules.plan(softmax_scale, cap, bias, None)
        return plan


def recovered(mask: Tensor, T: int, S: int) -> Mask | None:
    """Returns the rules of a dense mask of a model, bool or additive; None if it has others.

    Cost: O(B T S) once for each tensor.
    """
    version = None if mask.is_inference() else mask._version
    cached = getattr(mask, "gnomon_recovered", None)
    if cached is not None and cached[0] == (version, T):
        return cached[1]
    rules = None
    fits = mask.dim() == 4 and mask.shape[1] == 1 and mask.shape[2] in (1, T) and (
        mask.shape[3] == S and not mask.requires_grad)
    if fits and mask.dtype == torch.bool:
        rules = _rules_of_cells(mask[:, 0], T)
    elif fits:
        sees = mask == 0
        if bool((sees | (mask == torch.finfo(mask.dtype).min)).all()):
            rules = _rules_of_cells(sees[:, 0], T)
    found = None
    if rules is not None:
        found = Mask(rules.resolved(), mask.shape[0], S, lambda: mask, mask.dtype != torch.bool,
                     mask.dtype, mask.device)
    mask.gnomon_recovered = (version, T), found  # type: ignore[attr-defined]
    return found


def _rules_of_cells(sees: Tensor, T: int) -> Rules | None:
    """Returns the rules of the visible cells [B, T or 1, S]; None if there are none."""
    S = sees.shape[2]
    used = sees.any(1)
    if sees.shape[1] == 1 or torch.equal(sees, used[:, None].expand(sees.shape)):
        return Rules(T, S, max(S - T, 0), False, padding=used)
    if T > S:
        return None
    rules = Rules(T, S, S - T, True, padding=used)
    if torch.equal(rules.visible()[:, 0], sees):
        return rules
    distance = torch.arange(S - T, S)[:, None] - torch.arange(S)
    rules.left = int(torch.where(sees, distance, 0).max())
    return rules if torch.equal(rules.visible()[:, 0], sees) else None


def dense(mask: Tensor | None) -> Tensor | None:
    """Returns a mask as transformers has it."""
    return mask.dense() if isinstance(mask, Mask) else mask


def mask(mean: bool, *, batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0,
         kv_offset: Any = 0, mask_function: Callable = masking_utils.causal_mask_function,
         attention_mask: Tensor | None = None, dtype: torch.dtype = torch.float32,
         device: Any = "cpu", allow_is_causal_skip: bool = True,
         allow_is_bidirectional_skip: bool = False, local_size: int | None = None,
         **options: Any) -> Tensor | None:
    """Returns the mask for `attention_forward`: the mask function "gnomon" of transformers.

    mean: whether queries that see no key give the mean of all values, as in the eager attention
        of transformers. Otherwise they give zeros, as in its sdpa attention.
    A mask that Gnomon cannot express is returned as a dense tensor, with a warning. torch.compile
    traces a dense tensor with the attribute `gnomon_rules`; without a use it is not computed.
    """
    options |= dict(batch_size=batch_size, q_length=q_length, kv_length=kv_length,
                    q_offset=q_offset, kv_offset=kv_offset, mask_function=mask_function,
                    attention_mask=attention_mask, dtype=dtype, device=device,
                    allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
    padding = masking_utils.prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if padding is not None:
        if isinstance(kv_offset, Tensor):
            padding = padding[:, torch.arange(kv_length) + kv_offset]
        else:
            padding = padding[:, kv_offset:kv_offset + kv_length]
        padding = padding.bool()
    make = masking_utils.eager_mask if mean else masking_utils.sdpa_mask
    # The sdpa attention has no mask then, and is causal only if its module is.
    skipped = not mean and (
        (allow_is_causal_skip and masking_utils._ignore_causal_mask_sdpa(
            padding, q_length, kv_length, q_offset, kv_offset, local_size))
        or (allow_is_bidirectional_skip and masking_utils._ignore_bidirectional_mask_sdpa(
            padding, kv_length, local_size)))
    if torch.compiler.is_compiling():
        found = make(**options)
        rules = rules_of(mask_function, q_length, kv_length, q_offset, kv_offset, padding)
        if rules is not None:
            found.gnomon_rules = rules, skipped
        return found
    # Offsets of static caches are tensors that change when the cache is updated.
    options |= dict(q_offset=int(q_offset), kv_offset=int(kv_offset))
    rules = rules_of(mask_function, q_length, kv_length, int(q_offset), int(kv_offset), padding)
    if rules is not None:
        rules = rules.resolved()
        if rules.supported:
            return Mask(rules, batch_size, kv_length, lambda: make(**options), mean,
                        dtype if mean else torch.bool, device, skipped)
    warnings.warn(f"[patch] the mask {mask_function.__qualname__} cannot be expressed; "
                  "transformers computes the attention", stacklevel=2)
    return make(**options)
