"""Masks of transformers as rules: visibility, window, sequences. No [T, S] tensor is made.

Letters: B batch, T query tokens, S key tokens.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from transformers import masking_utils

from gnomon import _core, specs

from . import not_compiled

Bias = tuple[Any, Tensor | None]  # a bias spec and its parameter


@dataclasses.dataclass(frozen=True)
class Rules:
    """The keys that a query sees, as `gnomon.lower` takes them.

    Key row j of query row i + offset; sequences: integers [B, S] and [B, T], or None.
    """

    visibility: str
    left: int | None = None
    right: int | None = None
    key_sequences: Tensor | None = None
    query_sequences: Tensor | None = None


def _cells(function: Callable) -> dict[str, Any]:
    cells = function.__closure__ or ()
    return {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, cells)}


def _parts(function: Callable) -> dict[str, Any] | None:
    """Returns the parts of a mask function of transformers; None if one of them is unknown.

    Mask functions are closures. They are recognised by their qualified name and module.
    """
    if function is masking_utils.causal_mask_function:
        return {"causal": True}
    if function is masking_utils.bidirectional_mask_function:
        return {}
    if getattr(function, "__module__", None) != masking_utils.__name__:
        return None
    cells = _cells(function)
    name = function.__qualname__.removesuffix(".<locals>.inner_mask")
    if name == "and_masks.<locals>.and_mask":
        all_parts: dict[str, Any] = {}
        for one in cells["mask_functions"]:
            parts = _parts(one)
            if parts is None or parts.keys() & all_parts.keys():
                return None
            all_parts |= parts
        return all_parts
    if name == "sliding_window_overlay":
        return {"left": cells["sliding_window"] - 1}
    if name == "sliding_window_bidirectional_overlay":
        return {"left": cells["sliding_window"], "right": cells["sliding_window"]}
    if name == "packed_sequence_mask_function":
        return {"packed": cells["packed_sequence_mask"]}
    if name == "remap_positions_for_packed_sequence":
        # Positions of a sequence are consecutive, so distances in rows and in positions agree.
        return _parts(cells["mask_function"])
    return None


def _rules(function: Callable, padding: Tensor | None, T: int, S: int, offset: int) -> Rules | None:
    """Returns the rules of a mask of T queries and S keys; None if Gnomon cannot express it."""
    parts = _parts(function)
    if parts is None:
        return None
    left, right = parts.get("left"), parts.get("right")
    visibility = "causal" if "causal" in parts else "bidirectional"
    # The offset of a plan is max(S - T, 0). It is of no effect without an order of the rows.
    if (visibility == "causal" or left is not None) and offset != max(S - T, 0):
        return None
    keys = parts.get("packed")
    if keys is not None and (S != T or padding is not None):
        return None
    queries = keys
    if padding is not None:
        # Queries at padding tokens see the keys that transformers shows them.
        keys = padding.long() - 1
        queries = keys.new_zeros(keys.shape[0], T)
    return Rules(visibility, left, right, keys, queries)


class Mask(torch.Tensor):
    """A mask [B, 1, T, S] as rules. An operator on it makes it a dense additive mask.

    transformers passes masks from the model to the attention function, and takes a 4-D tensor
    as a mask that is complete.
    """

    rules: Rules
    offset: int  # the key row of query row 0
    padding: Tensor | None  # bool [B, S], True for tokens
    arguments: dict[str, Any]  # arguments of the mask function
    plans: dict[Any, Any]

    @staticmethod
    def __new__(cls, rules: Rules, offset: int, padding: Tensor | None, batch: int, queries: int,
                keys: int, arguments: dict[str, Any]) -> Mask:
        self = torch.Tensor._make_wrapper_subclass(
            cls, (batch, 1, queries, keys), dtype=arguments["dtype"], device=arguments["device"])
        self.rules, self.offset, self.padding = rules, offset, padding
        self.queries, self.keys = queries, keys
        self.arguments, self.plans = arguments, {}
        return self

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Mask({self.queries} queries, {self.keys} keys, {self.rules})"

    def dense(self) -> Tensor:
        """Returns the additive mask [B, 1, T, S] of transformers: 0 or the lowest number."""
        mask = masking_utils.eager_mask(**self.arguments)
        if mask is None:
            mask = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        return mask[..., :self.keys]

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (),
                           options: Any = None) -> Any:
        arguments, options = tree_map(
            lambda one: one.dense() if isinstance(one, Mask) else one, (arguments, options or {}))
        return function(*arguments, **options)

    def plan(self, softmax_scale: float | None, cap: float | None, bias: Bias | None) -> Any:
        """Returns the plan of this mask with these softmax options. Layers share plans."""
        spec, parameter = bias or (None, None)
        key = (softmax_scale, cap, spec, id(parameter))
        plan = self.plans.get(key)
        if plan is None:
            parameters = () if parameter is None else (parameter.detach().float(),)
            queries, keys = self._tokens(spec)
            plan = self.plans[key] = _core.lower(
                spec, queries, keys, parameters=parameters, visibility=self.rules.visibility,
                left=self.rules.left, right=self.rules.right, softmax_scale=softmax_scale, cap=cap)
        return plan

    def _tokens(self, spec: Any) -> tuple[Any, Any]:
        T, S, rules = self.queries, self.keys, self.rules
        unordered = rules.visibility == "bidirectional" and rules.left is None and spec is None
        if rules.key_sequences is None and T <= S and (unordered or self.offset == S - T):
            return T, S
        key_sequences, query_sequences = rules.key_sequences, rules.query_sequences
        if key_sequences is None:
            key_sequences, query_sequences = torch.zeros(1, S).long(), torch.zeros(1, T).long()
        keys = torch.arange(S).expand(key_sequences.shape)
        queries = torch.arange(self.offset, self.offset + T).expand(query_sequences.shape)
        if isinstance(spec, specs.Alibi) and self.padding is not None:
            # BLOOM counts tokens without padding; T5 counts rows.
            keys = self.padding.long().cumsum(-1) - 1
            queries = keys[:, S - T:]
        return _core.Positions(queries, query_sequences), _core.Positions(keys, key_sequences)


@not_compiled
def mask(*, batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: int = 0,
         mask_function: Callable = masking_utils.causal_mask_function,
         attention_mask: Tensor | None = None, dtype: torch.dtype = torch.float32,
         device: Any = "cpu", **options: Any) -> Tensor:
    """Returns the mask for `attention_forward`: the mask function "gnomon" of transformers.

    A mask that Gnomon cannot express is returned as a dense tensor, with a warning.
    """
    # Offsets of static caches are tensors that change when the cache is updated.
    q_offset = int(q_offset)
    arguments = dict(batch_size=batch_size, q_length=q_length, kv_length=kv_length,
                     q_offset=q_offset, kv_offset=kv_offset, mask_function=mask_function,
                     attention_mask=attention_mask, dtype=dtype, device=device, **options)
    offset = q_offset - kv_offset
    keys = kv_length
    # The rows of a static cache after the last query are unused.
    if "causal" in (_parts(mask_function) or ()) and 0 <= offset:
        keys = min(keys, offset + q_length)
    padding = masking_utils.prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if padding is not None:
        padding = padding[:, kv_offset:kv_offset + keys]
        if padding.all():
            padding = None
    rules = _rules(mask_function, padding, q_length, keys, offset)
    if rules is None:
        warnings.warn(f"[patch] the mask {mask_function.__qualname__} of {q_length} queries and "
                      f"{kv_length} keys cannot be expressed; transformers computes the attention",
                      stacklevel=2)
        return masking_utils.eager_mask(**arguments | {"allow_is_bidirectional_skip": False})
    return Mask(rules, offset, padding, batch_size, q_length, keys, arguments)
