"""Arguments that reach memory: sizes that overflow, overlapping arrays, states of pickles."""

from __future__ import annotations

import copy
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
    """In a process of its own, so that a crash is a failure of this test."""
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "attack.py", "6000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
