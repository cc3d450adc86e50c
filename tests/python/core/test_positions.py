"""Positions: ids, sequences, packing, padding, copies, errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gnomon

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4"]


@given(
    hnp.arrays(
        st.sampled_from(INTEGERS),
        hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=6),
    )
)
def test_ids_of_any_integer_type(ids: np.ndarray) -> None:
    positions = gnomon.Positions(ids)
    assert (positions.batch, positions.tokens) == (1, *ids.shape)[-2:]
    np.testing.assert_array_equal(positions.ids, ids.reshape(positions.batch, -1))
    assert positions.ids.dtype == np.int64 and positions.sequences.dtype == np.int32
    np.testing.assert_array_equal(positions.sequences, 0)
    assert gnomon.Positions(ids.tolist() if ids.ndim == 1 else ids) == positions
    assert pickle.loads(pickle.dumps(positions)) == positions


@given(
    hnp.arrays("i8", (4, 6), elements=st.integers(-(2**62), 2**62)),
    st.sampled_from([1, 2, -1, -2]),
    st.booleans(),
)
def test_ids_of_any_layout(ids: np.ndarray, step: int, transposed: bool) -> None:
    view = (ids.T if transposed else ids)[::step, ::-step]
    np.testing.assert_array_equal(gnomon.Positions(view).ids, view)
    one_row = np.broadcast_to(ids[0], (3, 6))
    np.testing.assert_array_equal(gnomon.Positions(one_row).ids, one_row)


def test_consecutive() -> None:
    made = gnomon.Positions.consecutive(4, offset=10, batch=2)
    np.testing.assert_array_equal(made.ids, [[10, 11, 12, 13]] * 2)
    assert gnomon.Positions.consecutive(0).tokens == 0
    for wrong in ((-1,), (2, 0, -1), (3, 2**63 - 2)):
        with pytest.raises(ValueError, match=r"^\[position\]"):
            gnomon.Positions.consecutive(*wrong)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 4))
def test_packed(lengths: list[int], padding: int) -> None:
    total = sum(lengths)
    made = gnomon.Positions.packed(lengths, total + padding)
    ids = np.concatenate([np.arange(n) for n in lengths] + [np.zeros(padding)])
    sequences = np.repeat([*range(len(lengths)), -1], [*lengths, padding])
    np.testing.assert_array_equal(made.ids, ids[None])
    np.testing.assert_array_equal(made.sequences, sequences[None])
    assert gnomon.Positions(ids.astype(int), sequences) == made
    if not padding:
        assert gnomon.Positions.packed(lengths) == made
    with pytest.raises(ValueError, match=r"^\["):
        gnomon.Positions.packed(lengths, total - 1)


@given(hnp.arrays(st.sampled_from(["?", "i8", "u1"]), (3, 5), elements=st.integers(0, 1)))
def test_padding_masks(mask: np.ndarray) -> None:
    made = gnomon.Positions.from_padding_mask(mask)
    on = mask.astype(bool)
    np.testing.assert_array_equal(made.sequences, np.where(on, 0, -1))
    np.testing.assert_array_equal(made.ids[on], (np.cumsum(on, 1) - 1)[on])


def test_properties_are_copies() -> None:
    made = gnomon.Positions([1, 2])
    made.ids[:] = 0
    made.sequences[:] = 7
    assert made == gnomon.Positions([1, 2])
    assert made != gnomon.Positions([1, 3]) and made != "text"
    assert hash(made) == hash(gnomon.Positions([1, 2]))
    assert repr(made) == "Positions([1, 2], ids [1, 2])"


@pytest.mark.parametrize("type", ["f4", "f8", "c8", "O", "U2", "M8[s]"])
def test_other_element_types_are_refused(type: str) -> None:
    with pytest.raises(ValueError, match=r"^\[positions\] ids must"):
        gnomon.Positions(np.zeros(3, type))


@pytest.mark.parametrize("wrong", [3, "text", [1.5], ["a"], [True, "x"], np.zeros((1, 1, 1), int),
                                   np.int64(3), [[1, 2], [3, 4]], [2**64]])
def test_other_objects_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"^\[positions\] ids must"):
        gnomon.Positions(wrong)


def test_unsigned_ids_beyond_63_bits_are_refused() -> None:
    assert gnomon.Positions(np.array([2**63 - 1], "u8")).ids[0, 0] == 2**63 - 1
    with pytest.raises(ValueError, match=r"^\[positions\]"):
        gnomon.Positions(np.array([2**63], "u8"))


@pytest.mark.parametrize("sequences", [[0], [[0, 0]], [0, -2], [0, 2**31], [0.5, 1]])
def test_wrong_sequences_are_refused(sequences: object) -> None:
    with pytest.raises(ValueError, match=r"^\[positions\] sequences must"):
        gnomon.Positions([1, 2], sequences)


def test_the_largest_sequence_number_is_kept() -> None:
    made = gnomon.Positions([1, 2], [2**31 - 1, -1])
    np.testing.assert_array_equal(made.sequences, [[2**31 - 1, -1]])
