"""Rotation by the GGUF metadata of each model, against float64 and ggml_rope_ext."""

from __future__ import annotations

import pathlib
from typing import Any

import ggml
import numpy as np
import oracle
import pytest
from layers import error, rotation
from models import MODELS, Model, NEOX
from operators import Graph, Layer

ROTARY = [model for model in MODELS if model.rope]
# One rounding of cos and sin to float, of two products and of a sum, of values up to scale x.
BOUND = 2.0**-22


@pytest.mark.parametrize("start", [0, 4000, 131_072, 1_000_000])
@pytest.mark.parametrize("model", ROTARY, ids=lambda model: model.name)
def test_equals_float64(model: Model, start: int, tmp_path: pathlib.Path) -> None:
    found = rotation(model, model.write(tmp_path / "model.gguf"), start)
    assert found.gnomon <= BOUND * 1.5
    # ggml multiplies angles in float: its error grows with the position.
    assert found.ggml <= 1e-5 + 4e-7 * start


@pytest.mark.parametrize("model", ROTARY[:3], ids=lambda model: model.name)
def test_half_precision(model: Model, tmp_path: pathlib.Path) -> None:
    found = rotation(model, model.write(tmp_path / "model.gguf"), 100, dtype=np.float16)
    assert found.gnomon <= 2.0**-11 * 1.5
    assert found.ggml <= 2.0**-10 * 1.5


def test_positions_are_read_when_the_graph_runs(tmp_path: pathlib.Path) -> None:
    model = MODELS[0]
    assert model.rope
    layer, graph = Layer(model.write(tmp_path / "model.gguf")), Graph()
    x = np.random.default_rng(1).standard_normal((5, 8, 64)).astype(np.float32)
    positions, q = graph.new(np.zeros(5, np.int32)), graph.new(x)
    y = graph.add(graph.prepare(layer, q, graph.tokens(layer, positions)))
    for places in ([0, 1, 2, 3, 4], [7, 3, 3, 900, 0]):
        graph.array(positions, np.int32, (5,))[...] = places
        graph.array(q, np.float32, x.shape)[...] = x
        graph.compute()
        exact = oracle.rotate(x, np.array(places), model.rope.oracle()[0], halves=False)
        assert error(graph.array(y, np.float32, x.shape), exact, float(np.abs(x).max())) <= BOUND


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_do_not_change_bits(threads: int, tmp_path: pathlib.Path) -> None:
    path = MODELS[0].write(tmp_path / "model.gguf")
    x = np.random.default_rng(1).standard_normal((700, 8, 64)).astype(np.float32)

    def rotated(count: int) -> np.ndarray:
        layer, graph = Layer(path), Graph(threads=count)
        positions = graph.new(np.arange(700, dtype=np.int32))
        y = graph.add(graph.prepare(layer, graph.new(x), graph.tokens(layer, positions)))
        graph.compute()
        return graph.array(y, np.uint32, x.shape).copy()

    assert np.array_equal(rotated(1), rotated(threads))


def test_views_with_strides(tmp_path: pathlib.Path) -> None:
    """Queries as a part of a fused projection of q, k and v: only they are changed."""
    model = MODELS[2]
    assert model.rope
    layer, graph = Layer(model.write(tmp_path / "model.gguf")), Graph()
    fused = np.random.default_rng(1).standard_normal((9, 12, 64)).astype(np.float32)
    whole = graph.new(fused)
    q = ggml.ggml_view_3d(graph.context, whole, 64, 8, 9, 64 * 4, 12 * 64 * 4, 0)
    positions = graph.new(np.arange(9, dtype=np.int32))
    graph.add(graph.prepare(layer, q, graph.tokens(layer, positions)))
    graph.compute()
    found = graph.array(whole, np.float32, fused.shape)
    exact = oracle.rotate(fused[:, :8], np.arange(9), model.rope.oracle()[0], halves=True)
    assert error(found[:, :8], exact, float(np.abs(fused).max())) <= BOUND
    assert np.array_equal(found[:, 8:], fused[:, 8:])


def test_axes_of_multimodal_positions(tmp_path: pathlib.Path) -> None:
    """M-RoPE of Qwen2-VL: positions t, h, w of each token."""
    sections = [16, 8, 8, 0]
    model = Model("Qwen2-VL", "qwen2vl", {
        "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6,
        "rope.dimension_sections": sections})
    layer, graph = Layer(model.write(tmp_path / "model.gguf")), Graph()
    rng = np.random.default_rng(1)
    x = rng.standard_normal((9, 8, 64)).astype(np.float32)
    places = np.zeros((4, 9), np.int32)
    places[:3] = np.sort(rng.integers(0, 500, (3, 9)), 1)
    of_theirs: Any = graph.new(places.ravel())
    mode, none = 8, None
    theirs = graph.add(ggml.ggml_rope_multi(
        graph.context, graph.new(x), of_theirs, none, 64, (ggml.ctypes.c_int * 4)(*sections),
        mode, 0, 1e6, 1.0, 0.0, 1.0, 32.0, 1.0))
    cached = graph.new(np.zeros(1, np.int32))
    tokens = graph.tokens(layer, graph.new(places[:3]), cached)
    ours = graph.add(graph.prepare(layer, graph.new(x), tokens))
    graph.compute()
    assert layer.error() is None, layer.error()
    axis = np.repeat(np.arange(4), sections)
    exact = oracle.rotate(x, places[axis].T, oracle.frequencies(64, 1e6), halves=True)
    unit = float(np.abs(x).max())
    assert error(graph.array(ours, np.float32, x.shape), exact, unit) <= BOUND
    assert error(graph.array(theirs, np.float32, x.shape), exact, unit) <= 1e-4


def test_norms_of_queries(tmp_path: pathlib.Path) -> None:
    """The norms of Qwen3 are a part of the preparation: ggml_rms_norm, ggml_mul, ggml_rope_ext."""
    rng = np.random.default_rng(1)
    weights = [rng.uniform(0.5, 2, (1, 64)).astype(np.float32) for _ in "qk"]
    model = Model("Qwen3", "qwen3", {
        "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6},
        tensors={f"blk.0.attn_{name}_norm.weight": weight[0]
                 for name, weight in zip("qk", weights, strict=True)})
    none = np.zeros((1, 64), np.float32)  # biases
    values = (weights[0], none, weights[1], none)
    layer = Layer(model.write(tmp_path / "model.gguf"), values=values)
    graph = Graph()
    x = rng.standard_normal((9, 8, 64)).astype(np.float32)
    positions = graph.new(np.arange(9, dtype=np.int32))
    normed = ggml.ggml_rms_norm(graph.context, graph.new(x), 1e-6)
    scaled = ggml.ggml_mul(graph.context, normed, graph.new(weights[0]))
    theirs = graph.add(ggml.ggml_rope_ext(graph.context, scaled, positions, None, 64, NEOX, 0,
                                          1e6, 1.0, 0.0, 1.0, 32.0, 1.0))
    ours = graph.add(graph.prepare(layer, graph.new(x), graph.tokens(layer, positions)))
    graph.compute()
    double = x.astype(np.float64)
    assert layer.error() is None, layer.error()
    exact = double / np.sqrt((double**2).mean(-1, keepdims=True) + 1e-6) * weights[0]
    exact = oracle.rotate(exact, np.arange(9), oracle.frequencies(64, 1e6), halves=True)
    unit = float(np.abs(exact).max())
    assert error(graph.array(ours, np.float32, x.shape), exact, unit) <= 2 * BOUND
    assert error(graph.array(theirs, np.float32, x.shape), exact, unit) <= 1e-5
