"""ONNX: the node cases of Attention, and RotaryEmbedding in its reference evaluator."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import pytest
import torch
from onnx.backend.test.case.node.attention import Attention
from onnx.reference import ReferenceEvaluator

import gnomon
import gnomon.torch

# Inputs 0 to 6 of the node: Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen.
MASK, PAST, LENGTHS = 3, 4, 6
ATTRIBUTES = {
    "scale", "softcap", "is_causal", "q_num_heads", "kv_num_heads", "left_window_size",
    "right_window_size",
}
MASKED_ATTRIBUTES = {"scale", "softcap", "is_causal", "q_num_heads", "kv_num_heads",
                     "qk_matmul_output_mode"}
# More valid queries than keys: rows that see nothing before the first key.
OTHER = {"test_attention_4d_causal_nonpad_negative_offset_structural_empty"}


def masked_cases() -> dict[str, node_cases.TestCase]:
    """Cases with attn_mask, without lengths, windows, or a past with more new keys than queries."""
    found = {}
    for case in node_cases._NodeTestCases:
        node = case.model.graph.node[0]
        if node.op_type != "Attention" or not node.input[MASK : MASK + 1] or not node.input[MASK]:
            continue
        facts = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
        shifted = node.input[PAST : PAST + 1] and node.input[PAST] and facts.get("is_causal")
        lengths = node.input[LENGTHS : LENGTHS + 1] and node.input[LENGTHS]
        if facts.keys() <= MASKED_ATTRIBUTES and not lengths and not shifted:
            found[case.name] = case
    return found


def attention_cases() -> dict[str, node_cases.TestCase]:
    assert Attention  # the import writes the cases
    found = {}
    for case in node_cases._NodeTestCases:
        node = case.model.graph.node[0]
        names = {one.name for one in node.attribute}
        masked = len(node.input) > MASK and node.input[MASK]
        plain = node.op_type == "Attention" and names <= ATTRIBUTES and not masked
        if plain and case.name not in OTHER:
            found[case.name] = case
    return found


CASES, MASKED = attention_cases(), masked_cases()


def test_the_cases_are_there() -> None:
    assert len(CASES) >= 38 and len(MASKED) >= 39


def by_tokens(x: np.ndarray, heads: int | None) -> np.ndarray:
    """[B, H, T, D] or [B, T, H D] as [B, T, H, D]."""
    if x.ndim == 4:
        return x.transpose(0, 2, 1, 3)
    return x.reshape(*x.shape[:2], heads, -1)


@pytest.mark.parametrize("name", MASKED)
def test_attention_with_a_mask(name: str) -> None:
    case = MASKED[name]
    node = case.model.graph.node[0]
    facts = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    given = iter(case.data_sets[0][0])
    inputs = [next(given) if one else None for one in node.input] + [None] * 7
    rough = inputs[0].dtype != np.float32
    inputs = [one.astype(np.float32) if one is not None and one.dtype != bool else one
              for one in inputs]
    q = by_tokens(inputs[0], facts.get("q_num_heads"))
    k, v = (by_tokens(one, facts.get("kv_num_heads")) for one in inputs[1:3])
    if inputs[PAST] is not None:
        past = [by_tokens(one, None) for one in inputs[PAST : PAST + 2]]
        k, v = (np.concatenate(both, 1) for both in zip(past, (k, v), strict=True))
    mask, causal = inputs[MASK], facts.get("is_causal", 0) == 1
    if causal:  # query i is aligned with key i; no query sees the other keys
        k, v, mask = k[:, : q.shape[1]], v[:, : q.shape[1]], mask[..., : q.shape[1]]
    out = gnomon.torch.attention(
        *(torch.from_numpy(np.ascontiguousarray(one)) for one in (q, k, v)),
        attn_mask=torch.from_numpy(np.ascontiguousarray(mask)), layout="tokens_heads",
        visibility="causal" if causal else "bidirectional",
        softmax_scale=facts.get("scale"), cap=facts.get("softcap") or None)
    want = by_tokens(case.data_sets[0][1][0], facts.get("q_num_heads")).astype(np.float32)
    np.testing.assert_allclose(out, want, rtol=0, atol=8e-3 if rough else 2e-6)


@pytest.mark.parametrize("name", CASES)
def test_attention(name: str) -> None:
    case = CASES[name]
    node = case.model.graph.node[0]
    facts = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    given = iter(case.data_sets[0][0])
    inputs = [next(given) if one else None for one in node.input] + [None] * 7
    want = case.data_sets[0][1][0]
    q = by_tokens(inputs[0], facts.get("q_num_heads"))
    k, v = (by_tokens(one, facts.get("kv_num_heads")) for one in inputs[1:3])
    missing = 0
    if inputs[PAST] is not None:
        # Query i is aligned with key past + i. Fewer new keys than queries: rows of padding.
        past = [by_tokens(one, None) for one in inputs[PAST : PAST + 2]]
        missing = q.shape[1] - k.shape[1]
        k, v = (np.pad(np.concatenate(both, 1), ((0, 0), (0, missing), (0, 0), (0, 0)))
                for both in zip(past, (k, v), strict=True))
    causal = facts.get("is_causal", 0) == 1
    if causal and inputs[PAST] is None and inputs[LENGTHS] is None:
        # Without a past, query i is aligned with key i; no query sees the other keys.
        k, v = k[:, : q.shape[1]], v[:, : q.shape[1]]
    left, right = (facts.get(f"{side}_window_size", -1) for side in ("left", "right"))
    want = by_tokens(want, facts.get("q_num_heads"))
    lengths = [k.shape[1]] if inputs[LENGTHS] is None else inputs[LENGTHS]
    for row, length in enumerate(int(one) for one in lengths):
        rows = slice(None) if len(lengths) == 1 else slice(row, row + 1)
        plan = gnomon.lower(
            None, gnomon.Positions(range(length - q.shape[1], length)),
            gnomon.Positions(range(length), [0] * (length - missing) + [-1] * missing),
            visibility="causal" if causal else "bidirectional",
            left=None if left < 0 else left, right=None if right < 0 else right,
            softmax_scale=facts.get("scale"), cap=facts.get("softcap") or None,
        )
        one = [np.ascontiguousarray(x[rows, :length]) for x in (k, v)]
        queries = np.ascontiguousarray(q[rows])
        out = np.empty((*queries.shape[:3], v.shape[3]), q.dtype)
        gnomon.attention(queries, *one, plan, out=out)
        error = {"bfloat16": 2.0**-7, "float16": 2.0**-9, "float32": 2.0**-16}[q.dtype.name]
        np.testing.assert_allclose(
            out.astype(float), want[rows].astype(float), 0, error * np.abs(v).max().astype(float)
        )


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rotary_dim", [0, 4])
@pytest.mark.parametrize("three_axes", [False, True])
@pytest.mark.parametrize("given_positions", [False, True])
def test_rotary_embedding(
    interleaved: int,
    rotary_dim: int,
    three_axes: bool,
    given_positions: bool,
    rng: np.random.Generator,
) -> None:
    """The attributes of the node cases, with the cos and sin of a rotary encoding.

    The cases themselves have random caches, which are no rotation.
    """
    rotated = rotary_dim or 8
    x = rng.standard_normal((2, 4, 3, 8), np.float32)  # [B, H, T, D]
    positions = rng.integers(0, 50, (2, 3))
    angles = np.arange(50)[:, None] * 10000.0 ** (-np.arange(rotated // 2) * 2 / rotated)
    caches = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    inputs = {"x": x.transpose(0, 2, 1, 3).reshape(2, 3, 32) if three_axes else x}
    if given_positions:
        inputs |= {"cos": caches[0], "sin": caches[1], "positions": positions}
    else:
        inputs |= {"cos": caches[0][positions], "sin": caches[1][positions]}
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": rotary_dim}
    if three_axes:
        attributes["num_heads"] = 4
    node = onnx.helper.make_node("RotaryEmbedding", list(inputs), ["y"], **attributes)
    want = by_tokens(ReferenceEvaluator(node).run(None, inputs)[0], 4)
    spec = gnomon.Rotary(
        rotary_dim=rotated, pairing="adjacent" if interleaved else "halves"
    )
    gnomon.rotate(x.transpose(0, 2, 1, 3), gnomon.RotaryTable(spec, positions))
    np.testing.assert_allclose(x.transpose(0, 2, 1, 3), want, 0, 1e-6)
