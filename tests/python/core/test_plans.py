"""Plans and tables: pickles, grids, continuous positions; usual settings."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.model

NAMES = [one.name for one in gnomon.encodings()]
ROTARY = [name for name in NAMES if gnomon.find_encoding(name).enters == "queries and keys"]
ROPE = gnomon.Rotary(rotary_dim=4, pairing="halves", base=100.0)
LLAMA = {"model_type": "llama", "num_attention_heads": 2, "hidden_size": 8,
         "num_hidden_layers": 1, "max_position_embeddings": 16}


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def lowered(name: str, tokens: Any = 9, **options: Any) -> gnomon.Plan:
    spec = gnomon.usual(name, width=48, heads=2, length=9)
    parameters = [numbers(one.rows, one.columns) for one in spec.parameters()]
    return gnomon.lower(spec, tokens, parameters=parameters, visibility="causal", **options)


def assert_same_plan(got: gnomon.Plan, want: gnomon.Plan) -> None:
    assert repr(got) == repr(want)
    for name in ("queries", "keys", "offset", "visibility", "left", "right", "softmax_scale",
                 "softmax_factor", "cap", "sinks", "gated", "cosine"):
        assert getattr(got, name) == getattr(want, name), name
    np.testing.assert_equal(got.table, want.table)
    np.testing.assert_equal(got.bias_form, want.bias_form)
    for a, b in ((got.query_rotary, want.query_rotary), (got.key_rotary, want.key_rotary)):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a.cos, b.cos)
            np.testing.assert_array_equal(a.sin, b.sin)


# -- pickles -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_of_every_encoding_is_pickled(name: str, random_terms: Any) -> None:
    plan = lowered(name)
    made = pickle.loads(pickle.dumps(plan))
    assert_same_plan(made, plan)
    if not plan.gated and plan.table is None:
        q = numbers(1, 9, 2, 24)
        terms = random_terms(gnomon.usual(name, width=48, heads=2, length=9), 1, 9)
        np.testing.assert_array_equal(gnomon.attention(q, q, q, made, terms=terms),
                                      gnomon.attention(q, q, q, plan, terms=terms))


@pytest.mark.parametrize("tokens", [
    4, np.array([[3, 1, 2], [0, 5, 6]]), gnomon.Positions([0, 1, 0], [0, 0, 1]),
    np.array([0.5, 2.0])], ids=["count", "ids", "Positions", "continuous"])
def test_positions_and_options_of_a_plan_are_pickled(tokens: Any) -> None:
    plan = gnomon.lower(ROPE, tokens, visibility="bidirectional", left=2, right=1, cap=5.0,
                        softmax_scale=0.3, sinks=[1.0, -1.0], length=7)
    made = pickle.loads(pickle.dumps(plan))
    assert_same_plan(made, plan)
    assert (made.left, made.right, made.cap, made.sinks) == (2, 1, 5.0, [1.0, -1.0])
    q = numbers(2, plan.queries, 2, 4) if np.ndim(tokens) == 2 else numbers(1, plan.queries, 2, 4)
    np.testing.assert_array_equal(gnomon.attention(q, q, q, made), gnomon.attention(q, q, q, plan))


def test_a_table_is_pickled() -> None:
    for table in (gnomon.RotaryTable(ROPE, np.array([[1, 2, 900], [4, 5, 6]])),
                  gnomon.RotaryTable(gnomon.ScaledRotary(
                      rotary_dim=8, pairing="adjacent", length=64,
                      scaling=gnomon.YarnScaling(factor=4.0, original_length=16)), 3)):
        made = pickle.loads(pickle.dumps(table))
        assert made.frequencies == table.frequencies and repr(made) == repr(table)
        np.testing.assert_array_equal(made.cos, table.cos)
        np.testing.assert_array_equal(made.sin, table.sin)
        assert copy.copy(table) is copy.deepcopy(table) is table  # immutable


def test_a_model_and_the_plan_of_its_layer_are_pickled() -> None:
    model = gnomon.model.from_pretrained(LLAMA)
    positions = np.array([3, 4, 5])
    plan = model.lower(0, positions, cached=0)
    positions[:] = 0  # the pickle keeps the values of the call
    made = pickle.loads(pickle.dumps(plan))
    q, k, v = (numbers(1, 3, 2, 4, seed=seed) for seed in range(3))
    outs = []
    for one in (plan, made):
        a, b, c = q.copy(), k.copy(), v.copy()
        gnomon.prepare(a, b, c, one)
        outs.append(gnomon.attention(a, b, c, one))
    np.testing.assert_array_equal(*outs)
    assert pickle.loads(pickle.dumps(model)).to_json() == model.to_json()
    assert copy.deepcopy(plan) is plan


def test_a_plan_of_lower_is_not_for_prepare() -> None:
    """It would be applied twice: attention applies it too."""
    q = numbers(1, 9, 2, 24)
    with pytest.raises(ValueError, match=r"^\[prepare\] plan must be that of a model's layer"):
        gnomon.prepare(q, q.copy(), None, lowered("vjepa2"))


# -- tables of every rotary spec ---------------------------------------------------------------


@pytest.mark.parametrize("name", [one for one in ROTARY if not gnomon.usual(
    one, width=48, heads=2, length=9).parameters()])
@pytest.mark.parametrize("tokens", [9, np.array([[8, 0, 3], [1, 2, 3]])], ids=["count", "ids"])
def test_a_table_has_the_rows_of_lower(name: str, tokens: Any) -> None:
    spec = gnomon.usual(name, width=48, heads=2, length=9)
    plan = gnomon.lower(spec, tokens, visibility="causal")
    if name in ("xpos", "vjepa2", "rotary-plus-plus"):
        with pytest.raises(ValueError, match="use .* the plan of gnomon.lower"):
            gnomon.RotaryTable(spec, tokens)
        return
    table = gnomon.RotaryTable(spec, tokens)
    np.testing.assert_array_equal(table.cos, plan.query_rotary.cos)
    np.testing.assert_array_equal(table.sin, plan.query_rotary.sin)


def test_a_table_of_a_grid_takes_the_numbers_of_cells() -> None:
    parts = tuple(gnomon.AxialPart(axis=axis, rotary_dim=4) for axis in (0, 1))
    spec = gnomon.AxialRotary(parts=parts, pairing="halves", order="blocks",
                              grid=(8, 9))
    table = gnomon.RotaryTable(spec, 72)
    cells = np.arange(72)
    frequencies = 10000.0 ** -(np.arange(2) / 2)
    angles = np.concatenate([np.outer(cells // 9, frequencies), np.outer(cells % 9, frequencies)],
                            axis=1)
    np.testing.assert_allclose(table.cos[0], np.cos(angles), atol=2.0**-24)
    np.testing.assert_allclose(table.sin[0], np.sin(angles), atol=2.0**-24)
    by_axes = gnomon.RotaryTable(spec, (cells // 9, cells % 9))
    np.testing.assert_array_equal(by_axes.cos, table.cos)


# -- continuous positions ----------------------------------------------------------------------


def test_continuous_positions_are_exact() -> None:
    at = np.array([0.0, 0.25, -3.5, 1000.125])
    frequencies = np.array([1.0, 100.0**-0.5])
    angles = at[:, None] * frequencies
    for table in (gnomon.RotaryTable(ROPE, at), gnomon.RotaryTable(ROPE, at.tolist()),
                  gnomon.lower(ROPE, at, visibility="causal").query_rotary):
        assert table.tokens == 4 and table.batch == 1
        np.testing.assert_allclose(table.cos[0], np.cos(angles), atol=2.0**-24)
        np.testing.assert_allclose(table.sin[0], np.sin(angles), atol=2.0**-24)


def test_continuous_positions_of_whole_numbers_are_integers() -> None:
    whole = np.arange(5)
    for name in ("rotary", "rotary-scaled", "sinusoidal"):
        real, integer = lowered(name, whole.astype("f8")), lowered(name, whole)
        if name == "sinusoidal":
            np.testing.assert_array_equal(real.table, integer.table)
        else:
            np.testing.assert_array_equal(real.key_rotary.cos, integer.key_rotary.cos)


def test_continuous_positions_of_queries_and_keys() -> None:
    """Scores depend on the distance alone: queries and keys shifted by 0.75."""
    q, k = numbers(1, 2, 1, 4), numbers(1, 3, 1, 4, seed=1)
    at, keys_at = np.array([1.5, 2.5]), np.array([0.5, 1.0, 2.25])
    outs = [gnomon.attention(q, k, k, gnomon.lower(ROPE, at + shift, keys_at + shift,
                                                   visibility="bidirectional"))
            for shift in (0.0, 0.75)]
    np.testing.assert_allclose(*outs, atol=1e-6)
    other = gnomon.lower(ROPE, at, keys_at + 1, visibility="bidirectional")
    assert np.abs(gnomon.attention(q, k, k, other) - outs[0]).max() > 1e-3


def test_continuous_positions_on_axes() -> None:
    parts = tuple(gnomon.AxialPart(axis=axis, rotary_dim=2) for axis in (0, 1))
    spec = gnomon.AxialRotary(parts=parts, pairing="halves", order="blocks")
    table = gnomon.RotaryTable(spec, (np.array([0.5, 1.5]), np.array([2, 3])))
    np.testing.assert_allclose(table.cos[0], np.cos([[0.5, 2], [1.5, 3]]), atol=2.0**-24)


@pytest.mark.parametrize("call, rule", [
    (lambda: gnomon.RotaryTable(ROPE, np.zeros((2, 3))), "must have 1 axis"),
    (lambda: gnomon.RotaryTable(ROPE, np.zeros(3, "f4")), "be integers, or float64.*, got f32"),
    (lambda: gnomon.RotaryTable(ROPE, np.array([np.nan])), "at most 2.31 in magnitude, got nan"),
    (lambda: gnomon.RotaryTable(ROPE, np.array([1e10])), "at most 2.31 in magnitude"),
    (lambda: gnomon.RotaryTable(ROPE, (np.zeros(2), np.zeros(3))), "2 tokens on each axis, got 3"),
    (lambda: gnomon.lower(gnomon.Alibi(heads=2), np.zeros(3), visibility="causal"),
     "positions must be integers unless the encoding is rotary or sinusoidal, got alibi"),
    (lambda: gnomon.lower(ROPE, np.zeros(3), 3, visibility="causal"),
     "keys must be continuous positions"),
    (lambda: gnomon.Positions(np.zeros(3)), "ids must be integers, got f64"),
])
def test_wrong_continuous_positions_are_refused(call: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        call()


# -- usual settings ----------------------------------------------------------------------------


def test_usual_requires_only_the_sizes_that_matter() -> None:
    assert gnomon.usual("sinusoidal", width=32) == gnomon.Sinusoidal(
        width=32, recipe="interleaved")
    assert gnomon.usual("alibi", heads=8) == gnomon.Alibi(heads=8)
    assert gnomon.usual("none") == gnomon.NoPosition()
    assert gnomon.usual("learned", width=8, length=16) == gnomon.Learned(rows=16, width=8)
    assert gnomon.usual("t5", heads=4, buckets=8).buckets == 8
    for name, sizes, missing in (("sinusoidal", {}, "width"), ("alibi", {"width": 32}, "heads"),
                                 ("learned", {"width": 32}, "length")):
        with pytest.raises(ValueError, match=rf"^\[encoding\] {missing} must be given for {name}"):
            gnomon.usual(name, **sizes)
    with pytest.raises(ValueError, match="fields must be among heads, .*, got nope"):
        gnomon.usual("t5", heads=4, nope=3)


@pytest.mark.parametrize("name", NAMES)
def test_usual_with_all_sizes_needs_no_default(name: str) -> None:
    """With all sizes the settings are those of the library, whatever the defaults."""
    import json

    from gnomon import _core

    spec = gnomon.usual(name, width=96, heads=4, length=30)
    assert json.loads(spec.to_json()) == json.loads(_core.usual(name, 96, 4, 30, "causal"))
