"""A layer in one graph twice: by ggml, and by the operators of Gnomon; both against float64."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Any

import ggml
import numpy as np
import oracle
from models import Model, ggml_attend, ggml_rope
from operators import Graph, Layer

ROWS = 96  # of a cache; more than any test uses


@dataclass(frozen=True)
class Errors:
    """Greatest errors, in units of the greatest magnitude of the inputs."""

    ggml: float
    gnomon: float


def error(found: np.ndarray, exact: np.ndarray, unit: float) -> float:
    return float(np.abs(found.astype(np.float64) - exact).max() / unit)


def rotation(model: Model, path: pathlib.Path, start: int, tokens: int = 33,
             dtype: Any = np.float32) -> Errors:
    """Rotates queries at positions from `start`."""
    assert model.rope
    rng = np.random.default_rng(5)
    x = rng.standard_normal((tokens, model.heads, 64)).astype(dtype)
    places = np.arange(start, start + tokens, dtype=np.int32)
    layer = Layer(path, values=model.values, length=model.length)
    graph = Graph()
    positions = graph.new(places)
    theirs = graph.add(ggml_rope(graph, model.rope, graph.new(x), positions))
    ours = graph.add(graph.prepare(layer, graph.new(x), graph.tokens(layer, positions)))
    graph.compute()
    assert layer.error() is None, layer.error()
    inv_freq, scale = model.rope.oracle()
    exact = oracle.rotate(x, places, inv_freq, model.rope.mode == 2, scale)
    unit = float(np.abs(x).max())
    return Errors(*(error(graph.array(y, dtype, x.shape), exact, unit) for y in (theirs, ours)))


@dataclass
class Step:
    """Results of a step, [T, H, D]."""

    ggml: np.ndarray
    gnomon: np.ndarray
    exact: np.ndarray


class Decoding:
    """A layer with a cache. The graph of a step has the rotations, the copies of new keys and
    values to the cache, and attention."""

    def __init__(self, model: Model, path: pathlib.Path, index: int, dtype: Any,
                 threads: int = 2) -> None:
        self.model, self.index, self.dtype, self.threads = model, index, dtype, threads
        self.layer = Layer(path, index, values=model.values, length=model.length)
        self.expected = model.layers[index % len(model.layers)]
        shape = (ROWS, model.key_heads, 64)
        # The rows that no token has written are not numbers: they must not be read.
        self.stored = {name: [np.full(shape, np.nan, dtype) for _ in "kv"]
                       for name in ("ggml", "gnomon")}
        self.keys = np.empty((0, model.key_heads, 64))
        self.values = np.empty((0, model.key_heads, 64), dtype)
        self.rng = np.random.default_rng(3)

    def draw(self, tokens: int, heads: int) -> np.ndarray:
        return self.rng.standard_normal((tokens, heads, 64)).astype(np.float32)

    def step(self, tokens: int) -> Step:
        model, cached = self.model, len(self.keys)
        q = self.draw(tokens, model.heads)
        k, v = (self.draw(tokens, model.key_heads) for _ in "kv")
        graph = Graph(threads=self.threads)
        positions = graph.new(np.arange(cached, cached + tokens, dtype=np.int32))
        outputs = []
        for name in ("ggml", "gnomon"):
            outputs.append(self.attention(graph, name, q, k, v, positions, cached))
        graph.compute()
        assert self.layer.error() is None, self.layer.error()
        for name, tensors in self.caches.items():
            self.stored[name] = [graph.array(x, self.dtype, self.stored[name][0].shape).copy()
                                 for x in tensors]
        shape = (tokens, model.heads, 64)
        found = [graph.array(x, np.float32, shape).copy() for x in outputs]
        return Step(*found, self.exact(q, k, v, cached))

    def attention(self, graph: Graph, name: str, q: np.ndarray, k: np.ndarray, v: np.ndarray,
                  positions: Any, cached: int) -> Any:
        context, tokens = graph.context, len(q)
        nodes = [graph.new(x) for x in (q, k, v)]
        if name == "gnomon":
            ids = graph.tokens(self.layer, positions)
            nodes[0] = graph.prepare(self.layer, nodes[0], ids)
            nodes[1] = graph.prepare(self.layer, nodes[1], ids, is_keys=True)
        elif self.model.rope:
            nodes[:2] = [ggml_rope(graph, self.model.rope, x, positions) for x in nodes[:2]]
        caches = [graph.new(x) for x in self.stored[name]]
        if not hasattr(self, "caches"):
            self.caches: dict[str, list[Any]] = {}
        self.caches[name] = caches
        row = ggml.ggml_row_size(caches[0].contents.type, 64 * self.model.key_heads)
        for cache, node in zip(caches, nodes[1:], strict=True):
            slot = ggml.ggml_view_3d(context, cache, 64, self.model.key_heads, tokens,
                                     row // self.model.key_heads, row, cached * row)
            graph.add(ggml.ggml_cpy(context, node, slot))
        of_queries = graph.heads_first(nodes[0])
        if name == "gnomon":
            views = [graph.heads_first(cache) for cache in caches]
            return graph.add(graph.attend(self.layer, of_queries, *views, ids))
        keys = cached + tokens
        views = [graph.heads_first(ggml.ggml_view_3d(
            context, cache, 64, self.model.key_heads, keys, row // self.model.key_heads, row, 0))
            for cache in caches]
        return graph.add(ggml_attend(graph, self.expected, of_queries, *views, tokens, cached,
                                     keys))

    def exact(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, cached: int) -> np.ndarray:
        rope, places = self.model.rope, np.arange(cached, cached + len(q))
        if rope:
            inv_freq, scale = rope.oracle()
            turned = [oracle.rotate(x, places, inv_freq, rope.mode == 2, scale) for x in (q, k)]
        else:
            turned = [q.astype(np.float64), k.astype(np.float64)]
        self.keys = np.concatenate([self.keys, turned[1].astype(self.dtype)])
        self.values = np.concatenate([self.values, v.astype(self.dtype)])
        return oracle.attend(turned[0], self.keys, self.values, cached, **self.expected)
