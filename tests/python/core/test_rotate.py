"""Rotation and tables, compared with float64 NumPy."""

from __future__ import annotations

import pickle

import numpy as np
import numpy_oracles as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnomon

ULP = 2.0**-24
PI = np.longdouble("3.14159265358979323846264338327950288")


def table_error(angles: np.ndarray) -> float:
    """Half an ulp + 2^-46 of the table, and the rounding of the oracle's float64 angle."""
    return ULP + 2.0**-46 + float(np.abs(angles).max(initial=0)) * 2.0**-51


def rotation_error(x: np.ndarray) -> float:
    return 6 * ULP * float(np.abs(x).max(initial=0)) + 1e-30


@given(
    pairs=st.integers(1, 20),
    base=st.floats(1.5, 1e7),
    head_offset=st.integers(0, 5),
    rest=st.integers(0, 5),
    pairing=st.sampled_from(["halves", "adjacent"]),
    direction=st.sampled_from(["forward", "inverse"]),
    first=st.sampled_from([-(2**31), -7, 0, 100, 2**20, 2**31 - 8]),
    dtype=st.sampled_from(["f4", "f8"]),
)
def test_rotate_is_the_formula(
    pairs: int,
    base: float,
    head_offset: int,
    rest: int,
    pairing: str,
    direction: str,
    first: int,
    dtype: str,
) -> None:
    spec = gnomon.Rotary(
        rotary_dim=2 * pairs, pairing=pairing, base=base, head_offset=head_offset
    )
    positions = first + np.arange(3)
    inv_freq = gnomon.rotary_frequencies(spec).inv_freq
    exact = np.longdouble(base) ** (-np.arange(pairs, dtype=np.longdouble) / pairs)
    np.testing.assert_allclose(inv_freq, exact, 2.0**-52, 0)  # one ulp
    x = np.random.default_rng(pairs).standard_normal((2, 3, 2, head_offset + 2 * pairs + rest))
    x = x.astype(dtype)
    # The product of position and frequency in longdouble: a float64 product is not enough.
    angles = np.remainder(
        positions[:, None].astype(np.longdouble) * inv_freq.astype(np.longdouble), 2 * PI
    ).astype(np.float64)[None]
    want = oracle.rotate(
        x, angles, pairing, head_offset=head_offset, sign=1 if direction == "forward" else -1
    )
    got = x.copy()
    gnomon.rotate(got, gnomon.RotaryTable(spec, positions), direction)
    np.testing.assert_allclose(got, want, 0, rotation_error(x))
    np.testing.assert_array_equal(got[..., :head_offset], x[..., :head_offset])
    end = head_offset + 2 * pairs
    np.testing.assert_array_equal(got[..., end:], x[..., end:])


@pytest.mark.parametrize("name", ["rotary", "rotary-scaled", "mrope", "xpos", "rotary-axial"])
def test_the_score_depends_on_the_distance(name: str, rng: np.random.Generator) -> None:
    spec = gnomon.usual(name, width=32, heads=1, length=16)
    shift = 4 if name == "rotary-axial" else 5  # one row of the grid
    if name == "rotary-axial":
        near, far = [0, 2, 6, 7], [4, 6, 10, 11]
    else:
        near, far = list(range(4)), [p + shift for p in range(4)]
    q, k = (rng.standard_normal((1, 4, 1, 32)) for _ in range(2))
    scores = []
    for positions in (near, far):
        plan = gnomon.lower(spec, positions, visibility="causal")
        turned_q, turned_k = q.copy(), k.copy()
        gnomon.rotate(turned_q, plan.query_rotary)
        gnomon.rotate(turned_k, plan.key_rotary)
        scores.append(turned_q[0, :, 0] @ turned_k[0, :, 0].T)
    np.testing.assert_allclose(scores[0], scores[1], 1e-5, 1e-5)


def test_inverse_undoes_forward(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 7, 3, 8), np.float32)
    before = x.copy()
    table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=8, pairing="adjacent"), 7)
    gnomon.rotate(x, table)
    assert np.abs(x - before).max() > 0.1
    gnomon.rotate(x, table, "inverse")
    np.testing.assert_allclose(x, before, 0, 2 * rotation_error(before))


def test_queries_and_keys_in_one_call(rng: np.random.Generator) -> None:
    q = rng.standard_normal((2, 5, 4, 8), np.float32)
    k = rng.standard_normal((2, 5, 2, 12), np.float32)
    table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=6, pairing="halves"), 5)
    apart = [q.copy(), k.copy()]
    for one in apart:
        gnomon.rotate(one, table)
    gnomon.rotate(q, table, k=k)
    np.testing.assert_array_equal(q, apart[0])
    np.testing.assert_array_equal(k, apart[1])
    with pytest.raises(ValueError, match="k and out"):
        gnomon.rotate(q, table, k=k, out=np.empty_like(q))


def test_the_table_is_cos_and_sin() -> None:
    spec = gnomon.Rotary(rotary_dim=8, pairing="halves")
    table = gnomon.RotaryTable(spec, np.array([[0, 3, -5], [7, 1, 100000]]))
    assert (table.batch, table.tokens) == (2, 3)
    assert table.cos.shape == table.sin.shape == (2, 3, 4)
    assert table.cos.dtype == np.float32 and not table.cos.flags.writeable
    angles = np.array([[0, 3, -5], [7, 1, 100000]])[..., None] * oracle.inverse_frequencies(8, 1e4)
    np.testing.assert_allclose(table.cos, np.cos(angles), 0, table_error(angles))
    np.testing.assert_allclose(table.sin, np.sin(angles), 0, table_error(angles))


def test_float32_angles_follow_other_engines() -> None:
    spec = gnomon.Rotary(rotary_dim=128, pairing="halves")
    positions = [131072, 131073]
    rounded = gnomon.RotaryTable(spec, positions, angles="float32")
    inv_freq = gnomon.rotary_frequencies(spec).inv_freq.astype(np.float32)
    angles = np.array(positions, np.float32)[:, None] * inv_freq
    np.testing.assert_allclose(rounded.cos[0], np.cos(angles.astype(np.float64)), 0, 2 * ULP)
    exact = gnomon.RotaryTable(spec, positions)
    assert 1e-3 < np.abs(exact.cos - rounded.cos).max() < 2e-2  # 8e-3 at position 131072
    with pytest.raises(ValueError, match="angles must be one of exact, float32"):
        gnomon.RotaryTable(spec, 2, angles="bfloat16")


def test_rows_of_the_batch_have_their_own_positions(rng: np.random.Generator) -> None:
    spec = gnomon.Rotary(rotary_dim=8, pairing="halves")
    positions = np.array([[0, 1, 2], [5, 9, 4]])
    x = rng.standard_normal((2, 3, 2, 8), np.float32)
    want = oracle.rotate(x, positions[..., None] * oracle.inverse_frequencies(8, 1e4), "halves")
    gnomon.rotate(x, gnomon.RotaryTable(spec, positions))
    np.testing.assert_allclose(x, want, 0, rotation_error(want))
    with pytest.raises(ValueError, match=r"^\[rot"):
        gnomon.rotate(np.zeros((3, 3, 2, 8), np.float32), gnomon.RotaryTable(spec, positions))


def test_axes_of_mrope(rng: np.random.Generator) -> None:
    spec = gnomon.MRope(rotary_dim=16, pairing="halves", sections=(2, 3, 3), order="sequential")
    axes = tuple(rng.integers(0, 50, (2, 5)) for _ in range(3))
    of_pair = np.repeat([0, 1, 2], [2, 3, 3])
    np.testing.assert_array_equal(gnomon.rotary_frequencies(spec).axes, of_pair)
    angles = np.stack([axes[axis] for axis in of_pair], -1) * oracle.inverse_frequencies(16, 1e4)
    x = rng.standard_normal((2, 5, 1, 16), np.float32)
    want = oracle.rotate(x, angles, "halves")
    gnomon.rotate(x, gnomon.RotaryTable(spec, axes))
    np.testing.assert_allclose(x, want, 0, rotation_error(want))
    with pytest.raises(ValueError, match=r"^\[rot"):
        gnomon.RotaryTable(spec, axes[:2])


def test_xpos_grows_queries_and_shrinks_keys(rng: np.random.Generator) -> None:
    spec = gnomon.XPos(rotary_dim=8, pairing="adjacent", scale_base=16.0, centre=3)
    zeta = (np.arange(0, 8, 2) / 8 + 0.4) / 1.4
    positions = np.arange(10)
    growth = zeta ** ((positions - 3)[:, None] / 16.0)
    angles = positions[:, None] * oracle.inverse_frequencies(8, 1e4)
    plan = gnomon.lower(spec, 10, visibility="causal")
    for table, scale in ((plan.query_rotary, growth), (plan.key_rotary, 1 / growth)):
        x = rng.standard_normal((1, 10, 1, 8), np.float32)
        want = oracle.rotate(x, angles[None], "adjacent", scale=scale[None])
        gnomon.rotate(x, table)
        np.testing.assert_allclose(x, want, 0, 4 * rotation_error(want))


def test_frequencies_are_a_value() -> None:
    made = gnomon.RotaryFrequencies(
        pairing="halves", inv_freq=[1.0, 0.5], head_offset=2, axes=[0, 1], table_scale=1.25
    )
    assert made == pickle.loads(pickle.dumps(made))
    assert made.rotary_dim == 4 and made.head_offset == 2 and made.table_scale == 1.25
    np.testing.assert_array_equal(made.inv_freq, [1.0, 0.5])
    np.testing.assert_array_equal(made.axes, [0, 1])
    assert made != gnomon.RotaryFrequencies(pairing="adjacent", inv_freq=[1.0, 0.5])
    assert made != "text"
    assert hash(made) == hash(pickle.loads(pickle.dumps(made)))
    for name in ("xpos", "rotary-scaled", "mrope"):
        spec = gnomon.usual(name, width=32, heads=1, length=16)
        one = gnomon.lower(spec, 3, visibility="causal").key_rotary.frequencies
        assert pickle.loads(pickle.dumps(one)) == one
    copy = made.inv_freq
    copy[:] = 0
    np.testing.assert_array_equal(made.inv_freq, [1.0, 0.5])


@pytest.mark.parametrize("spec", ["alibi", "sinusoidal", "none", "vjepa2"])
def test_frequencies_of_other_encodings_are_refused(spec: str) -> None:
    with pytest.raises(ValueError, match=r"^\[rotary\] the encoding must be rotary"):
        gnomon.rotary_frequencies(gnomon.usual(spec, width=32, heads=1, length=16))


@pytest.mark.parametrize(
    ("field", "value"),
    [("rotary_dim", 7), ("rotary_dim", 0), ("base", 1.0), ("base", -2.0), ("head_offset", -1)],
)
def test_wrong_fields_are_refused(field: str, value: float) -> None:
    fields = {"rotary_dim": 8, "pairing": "halves", field: value}
    with pytest.raises(ValueError, match=r"^\[rotary\] .*got"):
        gnomon.rotary_frequencies(gnomon.Rotary(**fields))


@pytest.mark.parametrize(
    "positions", [-1, 2.5, "4", [[[1]]], np.ones(3, "f4"), None, True, [[1, 2], [3]]]
)
def test_wrong_positions_are_refused(positions: object) -> None:
    spec = gnomon.Rotary(rotary_dim=8, pairing="halves")
    with pytest.raises((ValueError, TypeError)):
        gnomon.RotaryTable(spec, positions)


def test_wrong_shapes_are_refused() -> None:
    table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=8, pairing="halves"), 5)
    for shape in ((1, 4, 1, 8), (1, 5, 1, 7)):
        with pytest.raises(ValueError, match=r"^\[rotary\]"):
            gnomon.rotate(np.zeros(shape, np.float32), table)
    with pytest.raises(ValueError, match="direction must be one of forward, inverse, got back"):
        gnomon.rotate(np.zeros((1, 5, 1, 8), np.float32), table, "back")
    with pytest.raises(ValueError, match=r"^\[rotary\]"):
        gnomon.rotate(np.zeros((1, 5, 1, 8), np.float32), table,
                      out=np.zeros((1, 5, 2, 8), np.float32))


def test_keys_of_other_shapes_change_nothing() -> None:
    table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=8, pairing="halves"), 5)
    q = np.ones((1, 5, 1, 8), np.float32)
    with pytest.raises(ValueError, match=r"^\[rotary\]"):
        gnomon.rotate(q, table, k=np.ones((2, 5, 1, 8), np.float32))
    np.testing.assert_array_equal(q, np.ones_like(q))
