"""Prompt and decoding with a cache, by the GGUF metadata of each model, against float64 and
ggml_rope_ext with ggml_flash_attn_ext."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import oracle
import pytest
from layers import Decoding, error
from models import MODELS, Model
from operators import BIDIRECTIONAL, Graph, Layer

LAYERS = [(model, index) for model in MODELS for index in range(len(model.layers))]
NAMES = [f"{model.name}, layer {index}" for model, index in LAYERS]
BOUND = 2.0**-17  # include/gnomon/attention/attention.h
# ggml rounds queries to the type of the cache: half a unit of F16 in scores.
THEIRS = {np.float32: 2e-5, np.float16: 1e-2}
# A key of the cache may be rounded to the other neighbour.
CACHE = {np.float32: 0.0, np.float16: 2.0**-11}


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["F32", "F16"])
@pytest.mark.parametrize(("model", "index"), LAYERS, ids=NAMES)
def test_equals_float64(model: Model, index: int, dtype: Any, tmp_path: pathlib.Path) -> None:
    decoding = Decoding(model, model.write(tmp_path / "model.gguf"), index, dtype)
    for tokens in (40, 1, 1, 7, 1):
        step = decoding.step(tokens)
        assert error(step.gnomon, step.exact, 4.0) <= BOUND + CACHE[dtype]
        assert error(step.ggml, step.exact, 4.0) <= THEIRS[dtype]


def test_threads_do_not_change_bits(tmp_path: pathlib.Path) -> None:
    path = MODELS[0].write(tmp_path / "model.gguf")

    def bits(threads: int) -> np.ndarray:
        decoding = Decoding(MODELS[0], path, 0, np.float16, threads)
        return np.concatenate([decoding.step(tokens).gnomon for tokens in (70, 1, 3)])

    assert all(np.array_equal(bits(1), bits(threads)) for threads in (2, 3, 5))


def test_one_graph_decodes(tmp_path: pathlib.Path) -> None:
    """A graph that is built once attends to one key more in each step, without a mask."""
    rng = np.random.default_rng(9)
    rows = 50
    keys, values = (rng.standard_normal((rows, 2, 64)).astype(np.float32) for _ in "kv")
    layer, graph = Layer(), Graph()
    position = graph.new(np.zeros(1, np.int32))
    q, k, v = graph.new(np.zeros((1, 8, 64), np.float32)), graph.new(keys), graph.new(values)
    out = graph.add(graph.attend(layer, graph.heads_first(q), graph.heads_first(k),
                                 graph.heads_first(v), graph.tokens(layer, position)))
    for step in (0, 1, 30, 49):
        query = rng.standard_normal((1, 8, 64)).astype(np.float32)
        graph.array(position, np.int32, (1,))[...] = step
        graph.array(q, np.float32, query.shape)[...] = query
        graph.compute()
        exact = oracle.attend(query, keys[: step + 1], values[: step + 1], step)
        assert error(graph.array(out, np.float32, query.shape), exact, 4.0) <= BOUND
    graph.array(position, np.int32, (1,))[...] = rows
    graph.compute()
    assert layer.error() == "[ggml] k and v must have a row for each of 51 tokens, got 50"
    assert np.isnan(graph.array(out, np.float32, query.shape)).all()


@pytest.mark.parametrize(("spec", "expected"), [
    ({"visibility": BIDIRECTIONAL}, {"causal": False}),
    ({"left": 3}, {"left": 3}),
    ({"scale": 0.2, "cap": 5.0}, {"scale": 0.2, "cap": 5.0}),
    ({"slopes": oracle.slopes(8)}, {"bias_slopes": oracle.slopes(8)}),
    ({"sinks": np.linspace(-1, 1, 8)}, {"sinks": np.linspace(-1, 1, 8)}),
])
def test_settings_without_a_model(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    layer = Layer(rotary={"rotary_dim": 64, "pairing": 1, "base": 1e4, "head_offset": 0}, **spec)
    q, k, v = (rng.standard_normal((20, heads, 64)).astype(np.float32) for heads in (8, 2, 2))
    graph = Graph()
    tokens = graph.tokens(layer, graph.new(np.arange(20, dtype=np.int32)))
    turned = graph.prepare(layer, graph.new(q), tokens)
    keys = graph.prepare(layer, graph.new(k), tokens, is_keys=True)
    out = graph.add(graph.attend(layer, graph.heads_first(turned), graph.heads_first(keys),
                                 graph.heads_first(graph.new(v)), tokens))
    graph.compute()
    assert layer.error() is None, layer.error()
    inv_freq = oracle.frequencies(64, 1e4)
    q, k = (oracle.rotate(x, np.arange(20), inv_freq, halves=True) for x in (q, k))
    exact = oracle.attend(q, k, v, 0, **expected)
    assert error(graph.array(out, np.float32, q.shape), exact, 4.0) <= BOUND


def test_batch() -> None:
    """[D, T, H, B]: rows of a batch have the same positions."""
    rng = np.random.default_rng(2)
    layer, graph = Layer(), Graph()
    arrays = [rng.standard_normal((3, 6, heads, 64)).astype(np.float32) for heads in (8, 2, 2)]
    tokens = graph.tokens(layer, graph.new(np.arange(6, dtype=np.int32)))
    nodes = [graph.heads_first(graph.new(x)) for x in arrays]
    out = graph.add(graph.attend(layer, *nodes, tokens))
    graph.compute()
    found = graph.array(out, np.float32, arrays[0].shape)
    for row, q, k, v in zip(found, *arrays, strict=True):
        assert error(row, oracle.attend(q, k, v, 0), 4.0) <= BOUND
