"""Every array argument of gnomon.* by condition: the right result, or a sentence with its name.

The table is in docs/python/package.md. Tensors of PyTorch: tests/python/torch/test_core_tensors.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gnomon
import gnomon.model

ROPE = gnomon.Rotary(rotary_dim=4, pairing="halves")
TABLE = gnomon.RotaryTable(ROPE, 3)
PLAN = gnomon.lower(ROPE, 3, visibility="causal")
WAVLM = gnomon.WavLm(heads=2, direction="bidirectional", buckets=4, max_distance=9)
T5 = gnomon.T5Bias(heads=2, direction="causal", buckets=4, max_distance=9)
ADDED = gnomon.lower(gnomon.Learned(rows=3, width=8), 3, parameters=[np.ones((3, 8), "f4")],
                     visibility="causal")
LAYER = gnomon.model.from_pretrained({
    "model_type": "llama", "num_attention_heads": 2, "hidden_size": 8, "num_hidden_layers": 1,
    "max_position_embeddings": 16}).lower(0, 3)
GRAPH = gnomon.Graph.path(3)


def heads(seed: int = 9) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 3, 2, 4)).astype("f4")


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, "f4")


class Argument(NamedTuple):
    """An array argument.

    call: calls the function with the array, and returns what it computed.
    shape: of the right array. changed: whether the function changes it.
    types: the element types that are right beside float32; integers: for positions and ids.
    strided: whether its last axis may have any stride.
    """

    name: str
    call: Callable[[Any], Any]
    shape: tuple[int, ...] = (1, 3, 2, 4)
    changed: bool = False
    types: str = ""
    strided: bool = True
    integers: bool = False


def changed(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        function(x)
        return x

    return call


def backward(name: str) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        arrays = {"q": heads(1), "k": heads(2), "v": heads(3), "out": heads(4),
                  "lse": np.full((1, 2, 3), 3, "f4"), "out_grad": heads(5), "q_grad": heads(6),
                  "k_grad": heads(7), "v_grad": heads(8)} | {name: x}
        gnomon.attention_backward(plan=PLAN, **arrays)
        return x if name.endswith("_grad") and name != "out_grad" else arrays["q_grad"]

    return call


def appended(made: Any, k: Any, v: Any) -> np.ndarray:
    segment = made.append(k, v)
    return np.array(made.keys if segment is None else segment.keys)


def cache() -> gnomon.KvCache:
    return gnomon.KvCache(capacity=4, heads=2, head_dim=4, encoding=ROPE)


def memory() -> gnomon.SegmentMemory:
    return gnomon.SegmentMemory(memory=4, segment=3, heads=2, head_dim=4)


def gated() -> gnomon.Plan:
    parameters = [np.full((one.rows, one.columns), 0.1, "f4") for one in WAVLM.parameters()]
    return gnomon.lower(WAVLM, 3, parameters=parameters, visibility="bidirectional")


ARGUMENTS = {
    "rotate x": Argument("x", changed(lambda x: gnomon.rotate(x, TABLE)), changed=True,
                         types="f2 f8", strided=False),
    "rotate x, to out": Argument("x", lambda x: changed(lambda out: gnomon.rotate(
        x, TABLE, out=out))(np.zeros_like(np.asarray(x), order="C")), types="f2 f8",
        strided=False),
    "rotate k": Argument("k", changed(lambda x: gnomon.rotate(heads(), TABLE, k=x)), changed=True,
                         strided=False),
    "rotate out": Argument("out", changed(lambda x: gnomon.rotate(heads(), TABLE, out=x)),
                           changed=True, strided=False),
    "attention q": Argument("q", lambda x: gnomon.attention(x, heads(1), heads(2), PLAN),
                            strided=False),
    "attention k": Argument("k", lambda x: gnomon.attention(heads(1), x, heads(2), PLAN),
                            strided=False),
    "attention v": Argument("v", lambda x: gnomon.attention(heads(1), heads(2), x, PLAN),
                            strided=False),
    "attention out": Argument("out", changed(lambda x: gnomon.attention(
        heads(1), heads(2), heads(3), PLAN, out=x)), changed=True, strided=False),
    "attention lse": Argument("lse", changed(lambda x: gnomon.attention(
        heads(1), heads(2), heads(3), PLAN, lse=x)), (1, 2, 3), changed=True),
    "attention gates": Argument("gates", lambda x: gnomon.attention(
        heads(1), heads(2), heads(3), gated(), terms={"gates": x}), (1, 2, 3)),
    "attention bias": Argument("bias", lambda x: gnomon.attention(
        heads(1), heads(2), heads(3), PLAN, bias=x), (1, 2, 3, 3)),
    **{f"attention_backward {name}": Argument(
        name, backward(name), (1, 2, 3) if name == "lse" else (1, 3, 2, 4),
        changed=name in ("q_grad", "k_grad", "v_grad"), strided=name == "lse")
       for name in ("q", "k", "v", "out", "lse", "out_grad", "q_grad", "k_grad", "v_grad")},
    "add_position x": Argument("x", changed(lambda x: gnomon.add_position(x, ADDED)), (1, 3, 8),
                               changed=True, types="f2 f8", strided=False),
    "add_position_backward grad": Argument("grad", lambda x: changed(
        lambda sums: gnomon.add_position_backward(x, ADDED, [sums]))(zeros(3, 8)), (1, 3, 8),
        types="f2 f8", strided=False),
    "add_position_backward parameter_grads": Argument("parameter_grads", changed(
        lambda x: gnomon.add_position_backward(np.ones((1, 3, 8), "f4"), ADDED, [x])), (3, 8),
        changed=True),
    "prepare q": Argument("q", changed(lambda x: gnomon.prepare(x, None, None, LAYER)),
                          changed=True, types="f2 f8", strided=False),
    "lower parameters": Argument("parameters", lambda x: gnomon.lower(
        T5, 3, parameters=[x], visibility="causal").bias(), (4, 2)),
    "KvCache.append k": Argument("k", lambda x: appended(cache(), x, heads()), strided=False),
    "KvCache.append v": Argument("v", lambda x: appended(cache(), heads(), x), strided=False),
    "SegmentMemory.append k": Argument("k", lambda x: appended(memory(), x, heads()),
                                       strided=False),
    "resize_table table": Argument("table", lambda x: gnomon.resize_table(x, 5, preset="linear"),
                                   (3, 4), types="f2 f8"),
    "Graph.degree_table in_table": Argument("in_table", lambda x: GRAPH.degree_table(
        x, zeros(4, 2), beyond="capped"), (4, 2)),
    "Graph.graphormer_bias spatial": Argument("spatial", lambda x: GRAPH.graphormer_bias(
        gnomon.Graphormer(heads=2, unreachable=2, token="none", given="once"), x), (4, 2)),
    "Graph edges": Argument("edges", lambda x: gnomon.Graph(9, x, "directed").distances(), (3, 2),
                            integers=True),
    "Positions ids": Argument("ids", lambda x: gnomon.Positions(x).ids, (2, 3), integers=True),
    "Positions sequences": Argument("sequences", lambda x: gnomon.Positions(
        np.zeros((2, 3), "i8"), x).sequences, (2, 3), integers=True),
    "RotaryTable positions": Argument("positions", lambda x: gnomon.RotaryTable(ROPE, x).cos,
                                      (2, 3), integers=True),
    "lower queries": Argument("queries", lambda x: gnomon.lower(
        ROPE, x, visibility="causal").query_rotary.cos, (2, 3), integers=True),
}
every_argument = pytest.mark.parametrize("key", ARGUMENTS)


def right(one: Argument) -> np.ndarray:
    if one.integers:
        return np.arange(np.prod(one.shape)).reshape(one.shape)
    return np.random.default_rng(5).standard_normal(one.shape).astype("f4")


def computed(one: Argument, x: Any) -> np.ndarray:
    return np.array(one.call(x), "f8")


def refused(one: Argument, x: Any) -> str:
    before = np.array(x)
    with pytest.raises((ValueError, TypeError)) as raised:
        one.call(x)
    text = str(raised.value)
    assert text.startswith("[") and ", got " in text and "\n" not in text, text
    assert "incompatible" not in text
    np.testing.assert_array_equal(np.array(x), before)  # nothing is changed
    return text


TYPES = "f2 f4 f8 i2 i4 i8 u1 u8 ? c8 c16 >f4 O U4 M8[s]".split()


@every_argument
def test_element_types(key: str) -> None:
    one = ARGUMENTS[key]
    x = right(one)
    want = computed(one, x.copy())
    accepted = "i2 i4 i8 u1 u8".split() if one.integers else ["f4", *one.types.split()]
    for dtype in TYPES:
        if one.integers and dtype == "?":
            continue  # True and False are 1 and 0, as in NumPy
        given = x.astype("i8").astype(dtype) if dtype in ("M8[s]", "U4") else x.astype(dtype)
        if dtype not in accepted:
            refused(one, given)
            continue
        error = 0.0 if one.integers else 4e-3 if dtype == "f2" else 2e-6
        np.testing.assert_allclose(computed(one, given), want, rtol=0, atol=error, err_msg=dtype)


@every_argument
def test_a_read_only_array_is_read_and_not_changed(key: str) -> None:
    one = ARGUMENTS[key]
    x = right(one)
    want = computed(one, x.copy())
    x.flags.writeable = False
    if one.changed:
        text = refused(one, x)
        assert f"{one.name} must be writable, since it is changed in place" in text
    else:
        np.testing.assert_array_equal(computed(one, x), want)


def with_layout(x: np.ndarray, layout: str) -> np.ndarray:
    """The same values in another layout in memory."""
    if layout == "transposed":  # Fortran order, the last axis contiguous
        order = (*range(x.ndim - 2, -1, -1), x.ndim - 1)
        return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    if layout == "part":
        wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
        wide[..., 1:-2] = x
        return wide[..., 1:-2]
    if layout == "reversed":
        return np.ascontiguousarray(x[:, ::-1])[:, ::-1]
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)  # "every second"
    wide[..., ::2] = x
    return wide[..., ::2]


@every_argument
def test_layouts_in_memory(key: str) -> None:
    one = ARGUMENTS[key]
    x = right(one)
    want = computed(one, x.copy())
    for layout in ("transposed", "part", "reversed", "every second"):
        given = with_layout(x.copy(), layout)
        np.testing.assert_array_equal(given, x)
        last_axis = layout == "every second" or (layout == "reversed" and x.ndim == 2)
        if last_axis and not one.strided:
            assert re.search("contiguous|stride 1", refused(one, given))
        else:
            np.testing.assert_allclose(computed(one, given), want, rtol=0, atol=1e-6,
                                       err_msg=layout)


@every_argument
def test_an_array_that_overlaps_itself_is_read_and_not_changed(key: str) -> None:
    one = ARGUMENTS[key]
    x = np.broadcast_to(right(one)[:1, :1], one.shape)
    if one.changed:
        x = np.lib.stride_tricks.as_strided(np.array(x), one.shape, [
            0 if axis == 1 else stride for axis, stride in enumerate(np.array(x).strides)])
        assert "overlap" in refused(one, x)
    else:
        np.testing.assert_allclose(computed(one, x), computed(one, x.copy()), rtol=0, atol=1e-6)


# The shapes that a function takes beside the one of the table.
ANY_NUMBER = ["surplus token", "missing token"]
FREE = {
    "resize_table table": [*ANY_NUMBER, "no element"],
    "Graph edges": ANY_NUMBER,
    "Positions ids": [*ANY_NUMBER, "missing axis", "no element"],
    "RotaryTable positions": [*ANY_NUMBER, "missing axis", "no element"],
    "lower queries": [*ANY_NUMBER, "missing axis", "no element"],
}


@every_argument
def test_shapes(key: str) -> None:
    """A surplus or a missing position, or axis: never used in part."""
    one = ARGUMENTS[key]
    x, axis = right(one), 1 if len(one.shape) > 2 else 0
    for change, given in {
        "surplus token": np.concatenate([x, x], axis),
        "missing token": np.delete(x, 0, axis),
        "surplus axis": x[None],
        "missing axis": x[(0,) * (x.ndim - 1)],
        "no element": np.zeros((*x.shape[:-1], 0), x.dtype),
    }.items():
        if change in FREE.get(key, []):
            one.call(given)
        else:
            refused(one, given)


OPTIONAL = ("attention out", "attention bias", "attention lse", "rotate out", "rotate k",
            "prepare q", "Positions sequences")


@every_argument
def test_objects_that_are_no_arrays(key: str) -> None:
    one = ARGUMENTS[key]
    for given in (None, "text", 1.5, {}, object()):
        if given is None and key in OPTIONAL:
            one.call(given)
            continue
        with pytest.raises((ValueError, TypeError)) as raised:
            one.call(given)
        text = str(raised.value)
        assert text.startswith("[") and "\n" not in text and "incompatible" not in text, text


@pytest.mark.parametrize("layout", ["tokens_heads", "heads_tokens"])
def test_layouts_of_attention(layout: Any) -> None:
    q, k, v = heads(1), heads(2), heads(3)
    want = gnomon.attention(q, k, v, PLAN)
    given = [q, k, v] if layout == "tokens_heads" else [
        np.ascontiguousarray(one.transpose(0, 2, 1, 3)) for one in (q, k, v)]
    out = gnomon.attention(*given, PLAN, layout=layout)
    np.testing.assert_array_equal(
        out if layout == "tokens_heads" else out.transpose(0, 2, 1, 3), want)
    other = "heads_tokens" if layout == "tokens_heads" else "tokens_heads"
    with pytest.raises(ValueError, match=r"^\[attention\] .* 3"):  # T = 3, H = 2
        gnomon.attention(*given, PLAN, layout=other)


def test_a_table_of_other_positions_is_refused() -> None:
    for tokens in (2, 4):
        table = gnomon.RotaryTable(ROPE, tokens)
        with pytest.raises(ValueError, match=rf"^\[rotary\] .* {tokens} tokens, got 3"):
            gnomon.rotate(heads(), table)
        plan = gnomon.lower(ROPE, tokens, visibility="causal")
        with pytest.raises(ValueError, match=r"^\[attention\] "):
            gnomon.attention(heads(), heads(), heads(), plan)
        added = gnomon.lower(gnomon.Sinusoidal(width=8, recipe="interleaved"), tokens,
                             visibility="causal")
        with pytest.raises(ValueError, match=r"^\[\w+\] "):
            gnomon.add_position(zeros(1, 3, 8), added)
    batch = gnomon.RotaryTable(ROPE, np.zeros((2, 3), "i8"))
    with pytest.raises(ValueError, match=r"^\[rotary\] "):
        gnomon.rotate(heads(), batch)
