"""Graphs and their encodings against NumPy in double; resized tables; checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon

# Two components: a square with a diagonal and a tail, and a pair.
EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4), (5, 6)]
NODES = 7


def adjacency(directed: bool = False) -> np.ndarray:
    a = np.zeros((NODES, NODES))
    for u, v in EDGES:
        a[u, v] = 1
        if not directed:
            a[v, u] = 1
    return a


def distances(a: np.ndarray, limit: int) -> np.ndarray:
    far = np.where(np.eye(len(a)) > 0, 0, limit)
    reached = np.eye(len(a))
    for step in range(1, len(a)):
        reached = reached @ (a + np.eye(len(a)))
        far = np.where((reached > 0) & (far == limit), min(step, limit), far)
    return far


def graph(kind: str = "undirected") -> gnomon.Graph:
    return gnomon.Graph(NODES, EDGES, kind)


@pytest.mark.parametrize("kind", ["undirected", "directed"])
def test_degrees_distances_and_components(kind: str) -> None:
    made, a = graph(kind), adjacency(kind == "directed")
    assert (made.nodes, made.arcs, made.kind) == (NODES, a.sum(), kind)
    np.testing.assert_array_equal(made.out_degrees(), a.sum(1))
    np.testing.assert_array_equal(made.in_degrees(), a.sum(0))
    np.testing.assert_array_equal(made.distances(), distances(a, 510))
    np.testing.assert_array_equal(made.distances(2), distances(a, 2))
    np.testing.assert_array_equal(made.components(), [0] * 5 + [1] * 2)
    assert made == gnomon.Graph(NODES, np.array(EDGES), kind)
    assert made != gnomon.Graph(NODES, EDGES[1:], kind)


@pytest.mark.parametrize("kind", ["combinatorial", "symmetric"])
def test_laplacian_vectors(kind: str) -> None:
    a = adjacency()
    degrees = a.sum(1)
    if kind == "combinatorial":
        laplacian = np.diag(degrees) - a
    else:
        laplacian = np.eye(NODES) - a / np.sqrt(np.outer(degrees, degrees))
    values, vectors, found = graph().laplacian_vectors(4, kind=kind, zeros="skip_one",
                                                       signs="fixed")
    assert found == 4 and vectors.shape == (NODES, 4)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(laplacian)[1:5], atol=1e-9)
    np.testing.assert_allclose(laplacian @ vectors, vectors * values, atol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-9)
    again = graph().laplacian_vectors(4, kind=kind, zeros="skip_one", signs="random", seed=3)
    np.testing.assert_array_equal(np.abs(again.vectors), np.abs(vectors))
    assert graph().laplacian_vectors(9, kind=kind, zeros="skip_all", signs="absolute").found == 5


def test_return_probabilities() -> None:
    for kind in ("undirected", "directed"):
        a = adjacency(kind == "directed")
        walk = a / np.maximum(a.sum(1, keepdims=True), 1)
        want = [np.diag(np.linalg.matrix_power(walk, k)) for k in range(1, 6)]
        np.testing.assert_allclose(graph(kind).return_probabilities(5), np.transpose(want),
                                   atol=1e-15)


def test_degree_table() -> None:
    ins, outs = (np.random.default_rng(seed).standard_normal((4, 3)).astype("f4")
                 for seed in range(2))
    a = adjacency(True)
    rows = [np.minimum(a.sum(axis).astype(int) + 1, 3) for axis in (0, 1)]
    want = ins.astype("f8")[rows[0]] + outs.astype("f8")[rows[1]]
    np.testing.assert_array_equal(graph("directed").degree_table(ins, outs, beyond="capped"),
                                  want.astype("f4"))
    with pytest.raises(ValueError, match=r"^\[degree\]"):
        graph().degree_table(ins, outs, beyond="refused")


@pytest.mark.parametrize("token", ["none", "first"])
def test_graphormer_bias(token: str) -> None:
    draw = np.random.default_rng(0)
    spec = gnomon.Graphormer(heads=2, unreachable=3, token=token, given="twice")
    spatial = draw.standard_normal((5, 2)).astype("f4")
    own = draw.standard_normal(2).astype("f4") if token == "first" else None
    first = int(token == "first")
    given = draw.standard_normal((NODES + first,) * 2).astype("f4")
    want = np.zeros((2, NODES + first, NODES + first))
    want[:, first:, first:] = spatial[distances(adjacency(), 3) + 1].transpose(2, 0, 1)
    if own is not None:
        want[:, 0], want[:, :, 0] = own[:, None], own[:, None]
    got = graph().graphormer_bias(spec, spatial, token=own, given=given)
    np.testing.assert_allclose(got, want + 2 * given, atol=1e-6)


def test_graphormer_bias_with_edges() -> None:
    """A path 0 - 1 - 2: the mean over hops of the edge features times their weights."""
    draw = np.random.default_rng(1)
    spec = gnomon.Graphormer(heads=2, unreachable=4, edge_rows=4, hops=2, token="none",
                             given="once")
    spatial, edges = draw.standard_normal((6, 2)), draw.standard_normal((4, 2))
    hops = draw.standard_normal((2, 2, 2))
    made = gnomon.Graph(3, [(0, 1), (1, 2)], "undirected")
    got = made.graphormer_bias(spec, spatial.astype("f4"), edges=edges.astype("f4"),
                               hops=hops.astype("f4"), features=np.array([[1, 3], [2, 2]]))
    x = [edges[[1, 3]].mean(0), edges[2]]
    want = spatial[3] + (x[0] @ hops[0] + x[1] @ hops[1]) / 2
    np.testing.assert_allclose(got[:, 0, 2], want, atol=1e-6)
    np.testing.assert_allclose(got[:, 1, 2], spatial[2] + x[1] @ hops[0], atol=1e-6)


@pytest.mark.parametrize("call, rule", [
    (lambda: gnomon.Graph(2, [(0, 2)], "undirected"), "0 to 1"),
    (lambda: gnomon.Graph(2, [0, 1], "undirected"), "edges must have the shape"),
    (lambda: gnomon.Graph(2, [(0.5, 1.0)], "undirected"), "edges must be integers"),
    (lambda: gnomon.Graph(2, [(0, 1)], "both"), "kind must be one of undirected, directed"),
    (lambda: graph("directed").laplacian_vectors(2, kind="symmetric", zeros="skip_one",
                                                 signs="fixed"), "undirected"),
    (lambda: graph().return_probabilities(0), "steps"),
    (lambda: graph().graphormer_bias(gnomon.Alibi(heads=2), np.zeros((5, 2), "f4")),
     "must be a gnomon.Graphormer, got alibi"),
    (lambda: gnomon.resize_table(np.zeros((5, 2), "f4"), (2, 2), preset="vit", extra_rows=0),
     "size must be given"),
    (lambda: gnomon.resize_table(np.zeros((5, 2), "f4"), (2, 2)), "preset, or kernel and corners"),
    (lambda: gnomon.resize_table(np.zeros((5, 2), "f4"), 0, preset="linear"), "to must be at lea"),
    (lambda: gnomon.resize_table(np.zeros((5, 2), "i4"), 3, preset="linear"), "table must have"),
])
def test_wrong_graphs_and_tables_are_refused(call: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rf"^\[\w+\] .*{rule}"):
        call()


# -- resize ------------------------------------------------------------------------------------


def linear(table: np.ndarray, rows: int, aligned: bool) -> np.ndarray:
    """Linear resampling of the rows, in double."""
    old = len(table)
    at = np.arange(rows) * (old - 1) / max(rows - 1, 1) if aligned else (
        (np.arange(rows) + 0.5) * old / rows - 0.5)
    at = np.clip(at, 0, old - 1)
    below = np.minimum(at.astype(int), old - 1)
    above, part = np.minimum(below + 1, old - 1), (at - below)[:, None]
    return table[below] * (1 - part) + table[above] * part


@pytest.mark.parametrize("corners", ["half-pixel", "aligned"])
@pytest.mark.parametrize("dtype, error", [("f4", 1e-6), ("f8", 1e-14), ("f2", 2e-3)])
def test_a_line_is_resized(corners: Any, dtype: str, error: float) -> None:
    table = np.random.default_rng(0).standard_normal((5, 3)).astype(dtype)
    for rows in (3, 5, 9):
        got = gnomon.resize_table(table, rows, kernel="linear", corners=corners)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, linear(table.astype("f8"), rows, corners == "aligned"),
                                   atol=error)


def test_a_grid_is_resized_axis_by_axis() -> None:
    table = np.random.default_rng(0).standard_normal((1 + 6, 2))
    grid = table[1:].reshape(2, 3, 2)
    rows = linear(grid.reshape(2, -1), 4, True).reshape(4, 3, 2)
    both = np.stack([linear(row, 5, True) for row in rows]).reshape(-1, 2)
    got = gnomon.resize_table(table, (4, 5), (2, 3), kernel="linear", corners="aligned",
                              extra_rows=1)
    np.testing.assert_allclose(got, np.concatenate([table[:1], both]), atol=1e-14)
    square = np.random.default_rng(1).standard_normal((1 + 4, 2))
    np.testing.assert_allclose(gnomon.resize_table(square, (2, 2), preset="vit"), square,
                               atol=1e-14)  # the same size; one class token


# -- check -------------------------------------------------------------------------------------


def test_the_properties_of_an_encoding_are_measured() -> None:
    rotary, none = gnomon.check("rotary", "none", trained=16, length=32)
    assert rotary.encoding == gnomon.Rotary(rotary_dim=32, pairing="halves")
    assert rotary.verdicts["distance"].word == "yes" and rotary.promises
    assert rotary.verdicts["beyond"].number.endswith("%")
    assert all(one.kept and isinstance(one.value, float) for one in rotary.promises)
    assert rotary.numbers["relative"]["deviation"] < 1e-5
    assert none.verdicts["order"].word == "no"
    with pytest.raises(ValueError, match="nowhere"):
        gnomon.check("nowhere")
