"""Runs the node cases of the package onnx for RotaryEmbedding and Attention by the C API.

    node_cases.py LIBRARY

The cases are those of `onnx.backend.test`. The variants "_expanded" have the same data. Inputs
are brought to the layout of gnomon.h and masks to a bias with NumPy; the C API rotates and
attends. Cases that do not apply are listed in SKIPPED with the reason.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from c_api import Library
from onnx import helper

warnings.simplefilter("ignore", RuntimeWarning)
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

SKIPPED: dict[str, str] = {}
# Of the largest element. float16 and bfloat16: ONNX's results round every step.
BOUNDS = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 8e-3}


def rotary(library, attributes, inputs):
    x, cos, sin, *rest = inputs
    three = x.ndim == 3
    if three:  # [B, T, H D]
        heads = attributes["num_heads"]
        x = x.reshape(*x.shape[:2], heads, -1)
    else:  # [B, H, T, D]
        x = x.transpose(0, 2, 1, 3)
    batch, tokens, heads, size = x.shape
    if rest:
        cos, sin = cos[rest[0]], sin[rest[0]]
    cos, sin = (np.broadcast_to(one, (batch, tokens, one.shape[-1])) for one in (cos, sin))
    rotated = attributes.get("rotary_embedding_dim", 0) or size
    pairing = 2 if attributes.get("interleaved", 0) else 1
    # ONNX's tables are not on the unit circle: the lengths are multiplied here.
    angles = np.arctan2(sin.astype(np.float64), cos)
    lengths = np.hypot(cos.astype(np.float64), sin)[:, :, None, :].astype(np.float32)
    first = x[..., :rotated]
    pairs = (first.reshape(*first.shape[:3], -1, 2) if pairing == 2 else
             np.stack(np.split(first, 2, -1), -1))  # [B, T, H, R/2, 2]
    pairs = pairs * lengths[..., None]
    by_head = pairs.transpose(2, 0, 1, 3, 4).reshape(heads, -1, 2)  # [H, N, 2]
    flat = (by_head.reshape(heads, -1) if pairing == 2 else
            by_head.transpose(0, 2, 1).reshape(heads, -1))
    flat = library.rotated(flat.astype(np.float32), angles.reshape(-1), pairing)
    by_head = (flat.reshape(heads, -1, 2) if pairing == 2 else
               flat.reshape(heads, 2, -1).transpose(0, 2, 1))
    pairs = by_head.reshape(heads, batch, tokens, -1, 2).transpose(1, 2, 0, 3, 4)
    first = (pairs.reshape(batch, tokens, heads, rotated) if pairing == 2 else
             np.concatenate([pairs[..., 0], pairs[..., 1]], -1))
    out = np.concatenate([first, x[..., rotated:]], -1)
    return [out.reshape(batch, tokens, -1) if three else out.transpose(0, 2, 1, 3)]


def bias_of(mask, shape):
    """The mask of the operator as a bias [B, H, T, S], padded by -infinity to S keys."""
    if mask is None:
        return np.zeros(shape, np.float32)
    bias = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask
    bias = bias.astype(np.float32)
    missing = shape[3] - bias.shape[-1]
    if missing > 0 and bias.shape[-1] != 1:
        edges = [(0, 0)] * (bias.ndim - 1) + [(0, missing)]
        bias = np.pad(bias, edges, constant_values=-np.inf)
    return np.broadcast_to(bias, shape).copy()


def attention(library, attributes, inputs):
    q, k, v, mask, past_k, past_v, lengths = (list(inputs) + [None] * 4)[:7]
    three = q.ndim == 3

    def heads_of(x, name):  # to [B, T, H, D]
        if three:
            return x.reshape(*x.shape[:2], attributes[name], -1)
        return x.transpose(0, 2, 1, 3)

    q, k, v = (heads_of(x, name) for x, name in
               ((q, "q_num_heads"), (k, "kv_num_heads"), (v, "kv_num_heads")))
    past = 0
    if past_k is not None:
        past = past_k.shape[2]
        k = np.concatenate([past_k.transpose(0, 2, 1, 3), k], 1)
        v = np.concatenate([past_v.transpose(0, 2, 1, 3), v], 1)
    shape = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    bias = bias_of(mask, shape)
    causal = bool(attributes.get("is_causal", 0))
    left, right = (attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    offset = past
    if lengths is not None:  # rows of a cache that are filled: another offset in each row
        row, key = np.arange(shape[2])[:, None], np.arange(shape[3])
        for b, length in enumerate(lengths):
            bias[b, :, :, length:] = -np.inf
            distance = key - (row + length - shape[2])
            hidden = np.zeros(distance.shape, bool)
            if causal:
                hidden |= distance > 0
            if left >= 0:
                hidden |= distance < -left
            if right >= 0:
                hidden |= distance > right
            bias[b][:, hidden] = -np.inf
        causal, left, right = False, -1, -1
    options = {"causal": causal, "offset": offset, "left": left, "right": right,
               "scale": attributes.get("scale"), "cap": attributes.get("softcap", 0)}
    out = library.attention(q, k, v, bias=bias, **options)
    out = out.reshape(*out.shape[:2], -1) if three else out.transpose(0, 2, 1, 3)
    results = [out, k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)]
    mode = attributes.get("qk_matmul_output_mode", 0)
    plain = {**options, "causal": False, "left": -1, "right": -1}
    if mode == 3:
        results.append(library.attention(q, k, v, bias=bias, what="weights", **options))
    elif mode == MODE_BIAS:
        results.append(library.attention(q, k, v, bias=bias, what="scores", **options))
    elif mode == 0:
        results.append(library.attention(q, k, v, what="scores", **{**plain, "cap": 0}))
    else:
        results.append(library.attention(q, k, v, what="scores", **plain))
    return results


MODE_BIAS = 2  # the sum with the mask; 1: after the cap


def main():
    library = Library(sys.argv[1])
    passed, failed, unused = 0, [], set(SKIPPED)
    worst = {}
    for case in collect_testcases(None):
        node = case.model.graph.node[0]
        if (node.op_type not in ("RotaryEmbedding", "Attention") or case.kind != "node"
                or len(case.model.graph.node) != 1 or "_expanded" in case.name):
            continue
        if case.name in SKIPPED:
            unused.discard(case.name)
            continue
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        for inputs, outputs in case.data_sets:
            given = iter(inputs)
            inputs = [next(given) if name else None for name in node.input]
            try:
                if node.op_type == "Attention":
                    got = attention(library, attributes, inputs)
                else:
                    got = rotary(library, attributes, inputs)
                wanted = iter(outputs)
                for i, name in enumerate(node.output):
                    if not name:
                        continue
                    want = next(wanted)
                    one, two = got[i].astype(np.float64), want.astype(np.float64)
                    assert one.shape == two.shape, f"{name}: shape {one.shape}, not {two.shape}"
                    infinite = np.isinf(two) | (two < -1e30)
                    assert (infinite == (np.isinf(one) | (one < -1e30))).all(), f"{name}: inf"
                    one, two = np.where(infinite, 0, one), np.where(infinite, 0, two)
                    error = np.abs(one - two).max() / max(1, np.abs(two).max())
                    kind = want.dtype.name
                    assert error <= BOUNDS[kind], f"{name}: error {error:.2g}"
                    worst[kind] = max(worst.get(kind, 0), error)
                passed += 1
            except Exception as error:
                failed.append(f"{case.name}: {type(error).__name__} {str(error)[:150]}")
    failed += [f"{name}: listed in SKIPPED, but not a case" for name in unused]
    for one in failed:
        print("FAILED", one)
    print("largest differences:", ", ".join(f"{kind} {error:.2g}" for kind, error in worst.items()))
    print(f"node cases: {passed} passed, {len(SKIPPED)} do not apply, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
