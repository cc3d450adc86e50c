"""The rules of masks against the dense masks of transformers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import masking_utils as hf

import gnomon
from gnomon.torch._transformers.masks import Bias, Mask, mask, recovered

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
    "chunked": dict(mask_function=hf.chunked_causal_mask_function(4, torch.tensor([0, 5, 0])),
                    attention_mask=PADDING),
    "chunked cached": dict(
        mask_function=hf.chunked_causal_mask_function(4, torch.tensor([0, 5, 0])),
        attention_mask=PADDING, q_length=2, q_offset=12),
    "packed chunks": dict(mask_function=packed(
        hf.chunked_causal_mask_function(2, torch.zeros(3, dtype=torch.long)))),
    "packed": dict(mask_function=packed(CAUSAL)),
    "packed window": dict(mask_function=packed(hf.sliding_window_causal_mask_function(3))),
}


def visible(mask: Mask) -> Tensor:
    """Returns the keys that each query sees, bool [B, 1, T, S], from the rules alone."""
    r = mask.rules
    T, S = r.queries, r.keys
    distance = torch.arange(S)[None] - (torch.arange(T)[:, None] + r.offset)
    sees = torch.ones(mask.shape[0], 1, T, S, dtype=torch.bool)
    if r.causal:
        sees &= distance <= 0
    if r.left is not None:
        sees &= distance >= -r.left
    if r.right is not None:
        sees &= distance <= r.right
    if r.padding is not None:
        sees &= r.padding[:, None, None]
    if r.key_sequences is not None:
        sees &= r.key_sequences[:, None, None] == r.query_sequences[:, None, :, None]
    return sees


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_rules(name: str, mean: bool) -> None:
    arguments = dict(batch_size=3, q_length=14, kv_length=14) | CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = mask(mean, **arguments)
    assert isinstance(got, Mask)
    want = hf.sdpa_mask(**arguments, allow_is_causal_skip=False)
    keys = got.rules.keys
    assert torch.equal(visible(got), want[..., :keys])
    assert torch.equal(got.rules.visible().expand(3, -1, -1, -1), want[..., :keys])
    assert not want[..., keys:].any()
    # An operator makes the dense mask, additive or bool.
    assert torch.equal(got + 0 == 0 if mean else got | False, want)
    blind = ~want.any(-1)[:, 0]
    if mean and blind.any():
        assert torch.equal(got.blind(), blind)
    else:
        assert got.blind() is None
    again = recovered(got.dense(), arguments["q_length"], want.shape[3])
    if "packed" in name or "chunk" in name or "bidirectional window" in name or "static" in name:
        return  # other rules, or others that show the same keys
    assert again is not None and torch.equal(visible(again), want[..., :again.rules.keys])


@pytest.mark.parametrize("function", [
    hf.or_masks(CAUSAL, hf.blockwise_overlay(torch.zeros(3, 14, dtype=torch.long))),
    hf.and_masks(CAUSAL, lambda b, h, q, k: k != 2),
    lambda b, h, q, k: k != 2,
], ids=["blockwise", "and lambda", "lambda"])
def test_unknown_masks_are_dense(function: Any) -> None:
    arguments = dict(batch_size=3, q_length=14, kv_length=14, mask_function=function)
    with pytest.warns(UserWarning, match="cannot be expressed"):
        got = mask(True, **arguments)
    assert not isinstance(got, Mask)
    assert torch.equal(got, hf.eager_mask(**arguments))


@pytest.mark.parametrize("mean", [False, True])
def test_dense_masks_that_are_no_rules(mean: bool) -> None:
    sees = torch.ones(1, 1, 6, 6, dtype=torch.bool).tril()
    sees[..., 3:, 2] = False
    added = torch.zeros(sees.shape).masked_fill_(~sees, torch.finfo(torch.float32).min)
    assert recovered(added if mean else sees, 6, 6) is None
    assert recovered(torch.randn(1, 1, 6, 6), 6, 6) is None  # a bias
    assert recovered(torch.zeros(1, 1, 6, 7), 6, 6) is None
    changed = torch.zeros(1, 1, 1, 6)
    assert recovered(changed, 6, 6) is not None
    changed[..., 2] = -1.0
    assert recovered(changed, 6, 6) is None


def test_keys_must_exist() -> None:
    """Queries after the last key are not causal attention with an offset."""
    with pytest.warns(UserWarning, match="cannot be expressed"):
        mask(True, batch_size=1, q_length=4, kv_length=6, q_offset=4)


def test_layers_share_plans() -> None:
    one = mask(True, batch_size=1, q_length=4, kv_length=4)
    assert isinstance(one, Mask)
    alibi = Bias(gnomon.Alibi(heads=2), None)
    plain, biased = one.plan(0.5, None, None, None), one.plan(0.5, None, alibi, None)
    assert one.plan(0.5, None, None, None) is plain and one.plan(0.5, None, alibi, None) is biased
    assert plain.bias() is None and biased.bias() is not None
    assert one.plan(0.5, 3.0, None, None).cap == 3.0
    assert one.plan(0.25, None, None, None).softmax_scale == 0.25
