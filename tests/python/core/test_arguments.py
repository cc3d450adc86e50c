"""Arguments that reach memory: sizes that overflow, overlapping arrays, states of pickles."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gnomon
import gnomon.model
from gnomon import _core

MOST = 2**63 - 1
EXTENTS = [0, 1, 7, 2**31, 2**32 + 1, 2**62, MOST, -1, -(2**63), 7905747460161236407]
ROPE = gnomon.Rotary(rotary_dim=4, pairing="halves")


@pytest.mark.parametrize("queries", [7, 2**31, 2**62, MOST])
@pytest.mark.parametrize("keys", [2**62, MOST, 7905747460161236407])
def test_a_bias_whose_size_overflows_is_refused(queries: int, keys: int) -> None:
    plan = gnomon.lower(gnomon.Alibi(heads=4), 3, visibility="causal")
    with pytest.raises(
        ValueError, match=r"^\[bias\] heads x queries x keys must fit in memory"
    ):
        plan.bias(queries, keys)


def test_numbers_of_tokens_beyond_64_bits_are_refused() -> None:
    for number in (2**63, -(2**63) - 1, 10**30):
        with pytest.raises(ValueError, match="64 bits"):
            gnomon.lower(None, number, visibility="causal")
        with pytest.raises(ValueError, match="64 bits"):
            gnomon.RotaryTable(ROPE, number)


def state_of(cls: type, state: object) -> Any:
    made = cls.__new__(cls)
    made.__setstate__(state)
    return made


@pytest.mark.parametrize(
    "state",
    [
        (1, 64, [7], [0]),
        (7, 7905747460161236407, [7], [0]),
        (2**32, 2**32, [], []),
        (-1, -1, [7], [0]),
        (1, 1, [7], []),
        (1, 1, [7], [-2]),
    ],
)
def test_a_state_whose_sizes_differ_is_refused(state: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"^\[positions\]"):
        state_of(gnomon.Positions, state)


integers = st.one_of(st.integers(-3, 9), st.sampled_from(EXTENTS), st.integers())
floats = st.floats()
anything = st.one_of(
    st.none(), st.booleans(), integers, floats, st.text(max_size=9), st.binary(max_size=9)
)
position_states = st.one_of(
    st.tuples(
        integers,
        integers,
        st.lists(integers, max_size=9),
        st.lists(st.one_of(st.just(0), integers), max_size=9),
    ),
    st.tuples(
        st.just(1),
        st.just(3),
        st.lists(integers, min_size=3, max_size=3),
        st.lists(st.sampled_from([0, 1, -1, -2, 2**31]), min_size=3, max_size=3),
    ),
    st.lists(anything, max_size=6).map(tuple),
    anything,
)


@settings(max_examples=1000)
@given(position_states)
def test_drawn_states_of_positions(state: object) -> None:
    try:
        made = state_of(gnomon.Positions, state)
    except (ValueError, TypeError, OverflowError):
        return
    batch, tokens, ids, sequences = state  # type: ignore[misc]
    assert (made.batch, made.tokens) == (batch, tokens)
    np.testing.assert_array_equal(made.ids.ravel(), np.array(ids, "i8"))
    np.testing.assert_array_equal(made.sequences.ravel(), np.array(sequences, "i4"))
    assert pickle.loads(pickle.dumps(made)) == made and repr(made)


frequency_states = st.one_of(
    st.tuples(
        st.sampled_from(["halves", "adjacent", "?"]),
        st.one_of(st.just(0), integers),
        st.lists(st.one_of(st.floats(0, 1), floats), max_size=4),
        st.lists(st.one_of(st.just(0), integers), max_size=4),
        st.one_of(st.just(1.0), floats),
        st.lists(floats, max_size=4),
        st.one_of(st.just(0), integers),
    ),
    st.tuples(
        st.just("halves"),
        st.just(0),
        st.just([1.0, 0.5]),
        st.lists(st.sampled_from([0, 1, 2, 1023, 1024, 2**31 - 1, -1]), min_size=2, max_size=2),
        st.just(1.0),
        st.just([]),
        integers,
    ),
    st.lists(anything, max_size=8).map(tuple),
    anything,
)


@settings(max_examples=1000)
@given(frequency_states)
def test_drawn_states_of_frequencies(state: object) -> None:
    try:
        made = state_of(gnomon.RotaryFrequencies, state)
    except (ValueError, TypeError, OverflowError):
        return
    assert copy.deepcopy(made) == made and repr(made) and hash(made) is not None
    axes = int(made.axes.max(initial=0)) + 1
    x = np.ones((1, 3, 2, 8), np.float32)
    try:
        gnomon.rotate(x, gnomon.RotaryTable(made, (3,) * axes))
    except (ValueError, MemoryError):
        return


@pytest.mark.parametrize("cls", [_core.Plan, _core.ModelDescription])
def test_classes_without_a_state_are_not_pickled(cls: type) -> None:
    assert not hasattr(cls, "__setstate__")  # a plan is lowered again


FREQUENCIES = gnomon.rotary_frequencies(ROPE)
ROWS = np.ones((1, 3, 2), np.float32)


@pytest.mark.parametrize(
    "state",
    [
        (FREQUENCIES, ROWS, ROWS[:, :2]),
        (FREQUENCIES, ROWS[..., :1], ROWS[..., :1]),
        (FREQUENCIES, ROWS[0], ROWS[0]),
        (FREQUENCIES, ROWS.astype("f8"), ROWS),
        (FREQUENCIES, ROWS, "sin"),
        (FREQUENCIES, None, None),
        (3, ROWS, ROWS),
        (FREQUENCIES, ROWS),
    ],
)
def test_a_state_of_a_table_whose_parts_differ_is_refused(state: tuple[Any, ...]) -> None:
    with pytest.raises((ValueError, TypeError)):
        state_of(gnomon.RotaryTable, state)


@pytest.mark.parametrize(
    "cls", [gnomon.Positions, gnomon.RotaryFrequencies, gnomon.RotaryTable]
)
@pytest.mark.filterwarnings("ignore")
def test_an_object_without_a_state_is_refused(cls: type) -> None:
    with pytest.raises(TypeError):
        gnomon.rotate(np.zeros((1, 3, 1, 4), np.float32), cls.__new__(cls))


def test_overlapping_arrays_are_refused() -> None:
    table = gnomon.RotaryTable(ROPE, 5)
    memory = np.zeros(400, np.float32)
    x = memory[:80].reshape(1, 5, 2, 8)
    shifted = memory[8:88].reshape(1, 5, 2, 8)
    with pytest.raises(ValueError, match=r"^\[rotary\] k must not overlap q, got one array"):
        gnomon.rotate(x, table, k=x)
    with pytest.raises(ValueError, match=r"^\[rotary\] k must not overlap q, got arrays"):
        gnomon.rotate(x, table, k=shifted)
    with pytest.raises(ValueError, match=r"^\[rotary\] out must be the input itself"):
        gnomon.rotate(x, table, out=shifted)
    with pytest.raises(ValueError, match=r"^\[rotary\] out must be the input itself"):
        _core.rotate_rows(x, shifted, table, None, False, False)
    gnomon.rotate(x, table, out=x)
    _core.rotate_rows(x, x, table, None, False, False)
    # Queries and keys of one packed array [T, (H + 2 Hk) D], and halves of a stacked array.
    packed = memory[: 5 * 48].reshape(1, 5, 6, 8)
    gnomon.rotate(packed[:, :, :2], table, k=packed[:, :, 2:4])
    gnomon.rotate(packed[:, :, ::2], table, k=packed[:, :, 1::2])
    gnomon.rotate(memory[:80].reshape(1, 5, 2, 8), table, k=memory[80:160].reshape(1, 5, 2, 8))


def test_drawn_arguments_of_every_callable() -> None:
    """In a process of its own, so that a crash is a failure of this test.

    GNOMON_ATTACKS: the number of calls; default 5000. GNOMON_ATTACK_SEED: default 0.
    """
    calls = os.environ.get("GNOMON_ATTACKS", "5000")
    seed = os.environ.get("GNOMON_ATTACK_SEED", "0")
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "attack.py", calls, seed],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_sizes_of_resized_tables_do_not_overflow() -> None:
    table = np.zeros((9, 2), np.float32)
    for to in ((2**62, 4), (2**32, 2**32), (MOST, MOST)):
        with pytest.raises(ValueError, match=r"^\[resize\] height x width must fit in memory"):
            gnomon.resize_table(table, to, preset="linear")
    with pytest.raises(ValueError, match=r"^\[resize\] extra_rows \+ height x width must fit 64"):
        gnomon.resize_table(table, 1, 9, preset="linear", extra_rows=MOST)
    with pytest.raises(ValueError, match=r"^\[resize\] to must be at least 1, and extra_rows"):
        gnomon.resize_table(table, 4, preset="linear", extra_rows=-(2**63))
    assert gnomon.resize_table(table[:, :0], 2**31 - 1, preset="linear").shape == (2**31 - 1, 0)


def test_sizes_of_walks_do_not_overflow() -> None:
    for steps in (2**62, MOST):
        with pytest.raises(ValueError, match=r"^\[random_walk\] nodes x steps must fit"):
            gnomon.Graph.path(4).return_probabilities(steps)


def test_terms_require_a_plan_of_the_layer() -> None:
    config = {"model_type": "inkling_text", "hidden_size": 8, "num_hidden_layers": 1,
              "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "d_rel": 6,
              "rel_extent": 9, "layer_types": ["hybrid"], "max_position_embeddings": 64}
    model, hidden = gnomon.model.from_pretrained(config), np.zeros((1, 3, 8), np.float32)
    other = gnomon.lower(None, 3, visibility="causal")
    with pytest.raises(ValueError, match=r"^\[terms\] requires 6 parameter matrices .*, got 0"):
        model.terms(0, hidden, other)
    llama = gnomon.model.from_pretrained({"model_type": "llama", "num_attention_heads": 2,
                                          "hidden_size": 8, "num_hidden_layers": 1})
    assert llama.terms(0, hidden, llama.lower(0, 3)) == {}


def test_types_are_refused_by_a_sentence() -> None:
    q = np.zeros((1, 3, 2, 4), np.float32)
    plan = gnomon.lower(None, 3, visibility="causal")
    with pytest.raises(ValueError, match=r"^\[attention\] terms must have names of token terms"):
        gnomon.attention(q, q, q, plan, terms={3: q})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"^\[convolve\] order must be a string, one of oldest"):
        gnomon.convolve(q[0], q[0, 0], order=3)  # type: ignore[arg-type]
    for width in (1.5, float("nan"), "x"):
        with pytest.raises(TypeError, match=r"^\[usual\] width must be an integer, got "):
            gnomon.usual("alibi", width=width)  # type: ignore[arg-type]

    class Spec:
        def to_json(self) -> Any:
            return 3

    with pytest.raises(ValueError, match=r"^\[encoding\] to_json must return a string"):
        gnomon.lower(Spec(), 3, visibility="causal")


def test_terms_that_change_during_the_call() -> None:
    class Grows:
        def __dlpack__(self, **_: Any) -> Any:
            terms.update({f"x{i}": 1 for i in range(99)})
            return np.zeros(3, np.float32).__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    q, terms = np.zeros((1, 3, 2, 4), np.float32), {}
    terms.update({"gates": Grows(), "sinks": np.zeros((1, 2, 3), np.float32)})
    with pytest.raises(ValueError, match=r"^\[attention\] "):
        gnomon.attention(q, q, q, gnomon.lower(None, 3, visibility="causal"), terms=terms)
