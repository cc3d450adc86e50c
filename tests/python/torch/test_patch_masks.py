"""The rules of masks against the dense masks of transformers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import masking_utils as hf

import gnomon
from gnomon.torch._transformers.masks import Mask, mask

PADDING = torch.tensor([[1] * 14, [0] * 5 + [1] * 9, [1] * 9 + [0] * 5], dtype=torch.bool)
PACKED = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3, 4, 5]])
CAUSAL, BOTH = hf.causal_mask_function, hf.bidirectional_mask_function


def packed(function: Any) -> Any:
    return hf.packed_sequence_compatibility_function(
        function, PACKED.expand(3, -1), hf.find_packed_sequence_indices(PACKED).expand(3, -1))


CASES: dict[str, dict[str, Any]] = {
    "causal": dict(mask_function=CAUSAL),
    "cached": dict(mask_function=CAUSAL, q_length=3, q_offset=11),
    "static": dict(mask_function=CAUSAL, q_length=3, q_offset=5),
    "static tensor": dict(mask_function=CAUSAL, q_length=1, q_offset=torch.tensor(7)),
    "padded": dict(mask_function=CAUSAL, attention_mask=PADDING),
    "padded cached": dict(mask_function=CAUSAL, q_length=2, q_offset=12, attention_mask=PADDING),
    "window": dict(mask_function=hf.sliding_window_causal_mask_function(4)),
    "window padded": dict(mask_function=hf.sliding_window_causal_mask_function(4),
                          attention_mask=PADDING),
    "window cached": dict(mask_function=hf.sliding_window_causal_mask_function(6), q_length=1,
                          kv_length=6, q_offset=13, kv_offset=8, attention_mask=PADDING),
    "bidirectional": dict(mask_function=BOTH),
    "bidirectional padded": dict(mask_function=BOTH, attention_mask=PADDING),
    "cross": dict(mask_function=BOTH, q_length=5, attention_mask=PADDING),
    "cross longer": dict(mask_function=BOTH, q_length=30),
    "bidirectional window": dict(mask_function=hf.sliding_window_bidirectional_mask_function(3)),
    "packed": dict(mask_function=packed(CAUSAL)),
    "packed window": dict(mask_function=packed(hf.sliding_window_causal_mask_function(3))),
}


def visible(rules: Mask) -> Tensor:
    """Returns the keys that each query sees, bool [B, 1, T, S], from the rules alone."""
    T, S, r = rules.queries, rules.keys, rules.rules
    distance = torch.arange(S)[None] - (torch.arange(T)[:, None] + rules.offset)
    sees = torch.ones(rules.shape[0], 1, T, S, dtype=torch.bool)
    if r.visibility == "causal":
        sees &= distance <= 0
    if r.left is not None:
        sees &= distance >= -r.left
    if r.right is not None:
        sees &= distance <= r.right
    if r.key_sequences is not None:
        keys, queries = r.key_sequences[:, None, None], r.query_sequences[:, None, :, None]
        sees &= (keys == queries) & (keys >= 0)
    return sees


@pytest.mark.parametrize("name", CASES)
def test_rules(name: str) -> None:
    arguments = dict(batch_size=3, q_length=14, kv_length=14) | CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = mask(**arguments)
    assert isinstance(got, Mask)
    want = hf.sdpa_mask(**arguments, allow_is_causal_skip=False)
    assert torch.equal(visible(got), want[..., :got.keys])
    assert not want[..., got.keys:].any()
    assert torch.equal(got + 0 == 0, want[..., :got.keys])  # an operator makes the dense mask


@pytest.mark.parametrize("function", [
    hf.chunked_causal_mask_function(4, torch.zeros(3, dtype=torch.long)),
    hf.or_masks(CAUSAL, hf.blockwise_overlay(torch.zeros(3, 14, dtype=torch.long))),
    hf.and_masks(CAUSAL, lambda b, h, q, k: k != 2),
    lambda b, h, q, k: k != 2,
], ids=["chunked", "blockwise", "and lambda", "lambda"])
def test_unknown_masks_are_dense(function: Any) -> None:
    arguments = dict(batch_size=3, q_length=14, kv_length=14, mask_function=function)
    with pytest.warns(UserWarning, match="cannot be expressed"):
        got = mask(**arguments)
    assert not isinstance(got, Mask)
    assert torch.equal(got, hf.eager_mask(**arguments))


def test_keys_must_exist() -> None:
    """Queries after the last key are not causal attention with an offset."""
    with pytest.warns(UserWarning, match="cannot be expressed"):
        mask(batch_size=1, q_length=4, kv_length=6, q_offset=4)


def test_layers_share_plans() -> None:
    one = mask(batch_size=1, q_length=4, kv_length=4)
    assert isinstance(one, Mask)
    alibi = gnomon.Alibi(heads=2), None
    plain, biased = one.plan(0.5, None, None), one.plan(0.5, None, alibi)
    assert one.plan(0.5, None, None) is plain and one.plan(0.5, None, alibi) is biased
    assert plain.bias() is None and biased.bias() is not None
    assert one.plan(0.5, 3.0, None).cap == 3.0 and one.plan(0.25, None, None).softmax_scale == 0.25
