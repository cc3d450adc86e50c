"""Causal masks with fewer queries than keys: the table of docs/python/causal.md."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import onnx.helper
import onnx.reference
import pytest
import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

import gnomon
import gnomon.jax
import gnomon.torch
from gnomon.torch import flex

T, S = 3, 5
QUERY, KEY = torch.zeros(1, 1, T, 8), torch.zeros(1, 1, S, 8)  # equal weights of all visible keys
VALUE = torch.eye(S, 8)[None, None]  # so that element j of a result is the weight of key j
OFFSET = S - T

Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def tokens_first(*tensors: Tensor) -> list[np.ndarray]:
    return [one.transpose(1, 2).numpy() for one in tensors]


def by_flex(mask: Mask | None) -> Tensor:
    seen = create_block_mask(mask, None, None, T, S, device="cpu")
    return flex_attention(QUERY, KEY, VALUE, block_mask=seen)


def by_onnx(past: int) -> np.ndarray:
    """Attention of ONNX whose first `past` keys are in past_key."""
    feeds = {"q": QUERY, "k": KEY[:, :, past:], "v": VALUE[:, :, past:]}
    names = ["q", "k", "v"]
    if past:
        feeds |= {"past_k": KEY[:, :, :past], "past_v": VALUE[:, :, :past]}
        names += ["", "past_k", "past_v"]
    outputs = ["y", "new_k", "new_v"] if past else ["y"]
    node = onnx.helper.make_node("Attention", names, outputs, is_causal=1)
    infos = [onnx.helper.make_tensor_value_info(name, 1, None) for name in [*feeds, "y"]]
    graph = onnx.helper.make_graph([node], "g", infos[:-1], infos[-1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)])
    run = onnx.reference.ReferenceEvaluator(model).run
    return run(None, {name: one.numpy() for name, one in feeds.items()})[0]


BOTTOM_RIGHT: dict[str, Callable[[], object]] = {
    "gnomon": lambda: gnomon.attention(*tokens_first(QUERY, KEY, VALUE),
                                       gnomon.lower(None, T, S, visibility="causal")),
    "gnomon.torch": lambda: gnomon.torch.attention(QUERY, KEY, VALUE),
    "gnomon.torch.flex": lambda: flex.attend(QUERY, KEY, VALUE),
    "gnomon.jax": lambda: gnomon.jax.attention(
        *map(jax.numpy.asarray, tokens_first(QUERY, KEY, VALUE))),
    "block_mask": lambda: flex_attention(
        QUERY, KEY, VALUE, block_mask=flex.block_mask(T, S, visibility="causal")),
    "mask_mod with offset": lambda: by_flex(flex.mask_mod("causal", offset=OFFSET)),
    "causal_lower_right": lambda: scaled_dot_product_attention(
        QUERY, KEY, VALUE, causal_lower_right(T, S)),
    "FlexAttention with offset": lambda: by_flex(lambda b, h, i, j: i + OFFSET >= j),
    "ONNX with past_key": lambda: by_onnx(past=OFFSET),
}
TOP_LEFT: dict[str, Callable[[], object]] = {
    "mask_mod": lambda: by_flex(flex.mask_mod("causal")),
    "is_causal": lambda: scaled_dot_product_attention(QUERY, KEY, VALUE, is_causal=True),
    "causal_upper_left": lambda: scaled_dot_product_attention(
        QUERY, KEY, VALUE, causal_upper_left(T, S)),
    "FlexAttention": lambda: by_flex(lambda b, h, i, j: i >= j),
    "jax.nn": lambda: jax.nn.dot_product_attention(
        *map(jax.numpy.asarray, tokens_first(QUERY, KEY, VALUE)), is_causal=True),
    "ONNX": lambda: by_onnx(past=0),
}


@pytest.mark.parametrize("name", [*BOTTOM_RIGHT, *TOP_LEFT])
def test_alignment(name: str) -> None:
    shift = OFFSET if name in BOTTOM_RIGHT else 0
    weights = np.asarray((BOTTOM_RIGHT | TOP_LEFT)[name]()).reshape(T, 8)[:, :S]
    expected = np.tril(np.ones((T, S)), k=shift)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_more_queries_than_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="more queries than keys, 3, got 5"):
        gnomon.torch.attention(KEY, QUERY, QUERY)
