"""Runs every encoding of the list through the custom operators, and compares with the package.

    operators.py LIBRARY
"""

from __future__ import annotations

import collections
import sys

import gnomon
import numpy as np
import onnxruntime
from c_api import Library
from gnomon import _core
from onnx import TensorProto, helper

WIDTH, HEADS, LENGTH, BATCH = 64, 4, 16, 2
HEAD_DIM = WIDTH // HEADS
BOUND = 2e-6  # the same code with the same inputs; only the number of threads differs


def session_of(library, nodes, shapes, outputs, threads=2):
    """A session of a graph: {input: shape}, (output, ...); inputs named positions are int64."""
    inputs = [helper.make_tensor_value_info(
        name, TensorProto.INT64 if name == "positions" else TensorProto.FLOAT, shape)
        for name, shape in shapes.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    model = helper.make_model(
        helper.make_graph(nodes, "test", inputs, results), ir_version=10,
        opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("gnomon", 1),
                       helper.make_opsetid("com.microsoft", 1)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if library:
        options.register_custom_ops_library(library)
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def case_of(name, reads, rng):
    """The encoding of that name with random parameters, its plan and its terms."""
    json = _core.usual(name, WIDTH, HEADS, LENGTH, reads)
    encoding = gnomon.Encoding.from_json(json)
    parameters = [rng.normal(one.initial_mean, max(one.initial_deviation, 0.1),
                             (one.rows, one.columns)).astype(np.float32)
                  for one in encoding.parameters()]
    return encoding, _core.complete(encoding), parameters


def check(library, name, reads, queries, rng):
    encoding, json, parameters = case_of(name, reads, rng)
    plan = gnomon.lower(encoding, queries, LENGTH, parameters=parameters, visibility=reads)
    heads = {key: rng.standard_normal((BATCH, tokens, HEADS, HEAD_DIM), np.float32)
             for key, tokens in (("q", queries), ("k", LENGTH), ("v", LENGTH))}
    hidden = rng.standard_normal((BATCH, LENGTH, WIDTH), np.float32)
    terms = gnomon.token_terms(encoding)
    feeds = {**heads, **{f"p{i}": one for i, one in enumerate(parameters)}}
    if terms:
        feeds["hidden"] = hidden
    node = helper.make_node(
        "Attention", ["q", "k", "v", "hidden" if terms else "",
                      *[f"p{i}" for i in range(len(parameters))]], ["out", "lse"],
        domain="gnomon", encoding=json, causal=int(reads == "causal"))
    outputs = ["out", "lse"]
    nodes = [node]
    table = "embeddings" in encoding.enters and queries == LENGTH
    if table:
        feeds["hidden"] = hidden
        nodes.append(helper.make_node("AddPosition",
                                      ["hidden", *[f"p{i}" for i in range(len(parameters))]],
                                      ["added"], domain="gnomon", encoding=json))
        outputs.append("added")
    session = session_of(library, nodes, {key: one.shape for key, one in feeds.items()}, outputs)
    got = session.run(outputs, feeds)
    if terms:  # the package takes them as arrays, the C API computes them
        want = Library(library).encoded(json, reads == "causal", *heads.values(), parameters,
                                        hidden)
    else:
        lse = np.zeros((BATCH, HEADS, queries), np.float32)
        want = [gnomon.attention(*heads.values(), plan, lse=lse), lse]
    if table:
        added = hidden.copy()
        gnomon.add_position(added, plan)
        want.append(added)
    error = max(float(np.abs(one - two).max()) for one, two in zip(got, want, strict=True))
    assert error <= BOUND, f"error {error:.2g}"
    return error


def check_rotary(library, name, rng):
    encoding, json, _ = case_of(name, "causal", rng)
    x = rng.standard_normal((BATCH, LENGTH, HEADS, HEAD_DIM), np.float32)
    axes = 1 + max(_core.rotary_frequencies(encoding, LENGTH).axes, default=0)
    positions = rng.integers(0, 1000, (axes, BATCH, LENGTH) if axes > 1 else (BATCH, LENGTH))
    node = helper.make_node("RotaryEmbedding", ["x", "positions"], ["y"], domain="gnomon",
                            encoding=json)
    session = session_of(library, [node], {"x": x.shape, "positions": positions.shape}, ["y"])
    want = x.copy()
    table = gnomon.RotaryTable(_core.rotary_frequencies(encoding, LENGTH),
                               tuple(positions) if axes > 1 else positions)
    gnomon.rotate(want, table)
    for _ in range(2):  # the second run reads the kept table
        got, = session.run(None, {"x": x, "positions": positions})
        assert np.array_equal(got, want), f"error {np.abs(got - want).max():.2g}"


def main():
    library, rng = sys.argv[1], np.random.default_rng(1)
    failed, reasons, passed, rotations, worst = [], collections.Counter(), 0, 0, 0.0
    for info in gnomon.encodings():
        for reads in ("causal", "bidirectional"):
            for queries in (LENGTH, 5):
                label = f"{info.name}, {reads}, {queries} queries"
                if reads == "bidirectional" and info.causal:
                    reasons["causal only"] += 1
                    continue
                terms = gnomon.token_terms(case_of(info.name, reads, rng)[0])
                if queries < LENGTH and any(one[3] == "queries" for one in terms):
                    reasons["all queries only"] += 1
                    continue
                try:
                    worst = max(worst, check(library, info.name, reads, queries, rng))
                    passed += 1
                except Exception as error:
                    failed.append(f"{label}: {type(error).__name__} {str(error)[:300]}")
        try:
            frequencies = _core.rotary_frequencies(case_of(info.name, "causal", rng)[0], LENGTH)
        except ValueError:  # no rotation, or one that frequencies do not describe
            frequencies = None
        if frequencies is not None:
            try:
                check_rotary(library, info.name, rng)
                rotations += 1
            except Exception as error:
                failed.append(f"{info.name}, rotary: {type(error).__name__} {str(error)[:300]}")
    for one in failed:
        print("FAILED", one)
    print(f"largest difference {worst:.2g}; {reasons['causal only']} calls do not apply, because "
          f"the encoding is causal, {reasons['all queries only']} because its terms of queries are "
          "of all tokens")
    print(f"custom operators: {len(gnomon.encodings())} encodings, {passed} calls of Attention "
          f"equal, {rotations} of RotaryEmbedding, {len(failed)} failed")
    return 1 if failed or not rotations or passed < 2 * len(gnomon.encodings()) else 0


if __name__ == "__main__":
    sys.exit(main())
