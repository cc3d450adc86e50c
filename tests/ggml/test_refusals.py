"""Arguments that do not fit give a message, and no node."""

from __future__ import annotations

import pathlib

import ggml
import numpy as np
import pytest
from models import Model
from operators import Graph, Layer


def test_a_file_that_is_not_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0")
    with pytest.raises(ValueError, match=r"model.gguf"):
        Layer(path)


def test_an_architecture_that_is_not_known(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="nonesuch"):
        Layer(Model("", "nonesuch", {}).write(tmp_path / "model.gguf"))


def test_shapes_and_types() -> None:
    layer, graph = Layer(), Graph()
    floats = graph.new(np.zeros((4, 8, 64), np.float32))
    tokens = graph.tokens(layer, graph.new(np.arange(4, dtype=np.int32)))
    few = graph.tokens(layer, graph.new(np.arange(3, dtype=np.int32)))
    keys = graph.heads_first(floats)
    halves = graph.heads_first(graph.new(np.zeros((4, 8, 64), np.float16)))
    packed = ggml.ggml_new_tensor_3d(graph.context, ggml.GGML_TYPE_Q8_0, 64, 8, 4)
    odd = graph.heads_first(graph.new(np.zeros((4, 3, 64), np.float32)))
    refused = [
        (lambda: graph.tokens(layer, floats), "positions must be I32"),
        (lambda: graph.tokens(layer, tokens, floats), "cached must be I32"),
        (lambda: graph.prepare(layer, floats, few), "q must have 3 tokens, got 4"),
        (lambda: graph.prepare(layer, packed, tokens), "q must be of F32, F16 or BF16, got q8_0"),
        (lambda: graph.prepare(layer, floats, None), "tokens must be given"),
        (lambda: graph.prepare(layer, ggml.ggml_transpose(graph.context, floats), tokens),
         "q must have a contiguous first axis"),
        (lambda: graph.attend(layer, keys, keys, halves, tokens),
         "v must be of the type of k, f32, got f16"),
        (lambda: graph.attend(layer, halves, halves, halves, tokens),
         "q must be of F32, got f16"),
        (lambda: graph.attend(layer, keys, odd, odd, tokens), "do not fit"),
        (lambda: graph.attend(layer, keys, keys, keys, few),
         "q must have the tokens of gnomon_ggml_tokens, got 4"),
    ]
    for call, message in refused:
        graph.tokens(layer, graph.new(np.arange(4, dtype=np.int32)))  # forgets the last error
        with pytest.raises(ValueError, match=message):
            call()


def test_a_failed_computation_gives_nan() -> None:
    """Positions below 0 are refused when the graph runs."""
    layer, graph = Layer(), Graph()
    nodes = [graph.heads_first(graph.new(np.ones((2, 8, 64), np.float32))) for _ in "qkv"]
    positions = graph.new(np.array([-1, 0], np.int32))
    out = graph.add(graph.attend(layer, *nodes, graph.tokens(layer, positions)))
    graph.compute()
    assert layer.error() is not None
    assert np.isnan(graph.array(out, np.float32, (2, 8, 64))).all()
    graph.array(positions, np.int32, (2,))[...] = [0, 1]
    graph.compute()
    assert layer.error() is None, layer.error()
    assert np.array_equal(graph.array(out, np.float32, (2, 8, 64)), np.ones((2, 8, 64)))
