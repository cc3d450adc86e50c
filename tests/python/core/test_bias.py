"""Every bias, as a whole matrix and inside attention, compared with float64 NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy_oracles as oracle
import pytest

import gnomon

HEADS, LENGTH = 3, 16


def parameters(spec: gnomon.Encoding, seed: int = 3) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [
        (one.initial_mean + 0.5 * random.standard_normal((one.rows, one.columns))).astype("f4")
        for one in spec.parameters()
    ]


def at(tokens: int, keys: int | None = None) -> np.ndarray:
    """Distances of the last `tokens` of `keys` positions."""
    keys = keys or tokens
    return oracle.distances(np.arange(keys - tokens, keys), np.arange(keys))


Case = tuple[gnomon.Encoding, Callable[[list[np.ndarray], int, int], np.ndarray]]


def fire(p: list[np.ndarray], t: int, s: int) -> np.ndarray:
    return oracle.fire(
        *p, threshold=4.0, epsilon=1e-6, query_positions=np.arange(s - t, s),
        key_positions=np.arange(s),
    )


CASES: dict[str, Case] = {
    "alibi": (gnomon.Alibi(heads=HEADS), lambda p, t, s: oracle.alibi(HEADS, at(t, s))),
    "alibi-shard": (
        gnomon.Alibi(heads=2 * HEADS, head_offset=1, local_heads=HEADS, bias_scale=0.5),
        lambda p, t, s: 0.5 * oracle.alibi(2 * HEADS, at(t, s))[1 : HEADS + 1],
    ),
    "t5-causal": (
        gnomon.T5Bias(heads=HEADS, direction="causal", buckets=8, max_distance=20),
        lambda p, t, s: oracle.t5(p[0], at(t, s), 20, False),
    ),
    "t5-bidirectional": (
        gnomon.T5Bias(heads=HEADS, direction="bidirectional", buckets=8, max_distance=20),
        lambda p, t, s: oracle.t5(p[0], at(t, s), 20, True),
    ),
    "clipped": (
        gnomon.ClippedBias(heads=HEADS, left=5, right=2),
        lambda p, t, s: oracle.clipped(p[0], at(t, s), 5, 2),
    ),
    "kerple": (
        gnomon.Kerple(heads=HEADS, kernel="logarithmic"),
        lambda p, t, s: oracle.kerple(*p, at(t, s), "logarithmic"),
    ),
    "kerple-power": (
        gnomon.Kerple(heads=HEADS, kernel="power"),
        lambda p, t, s: oracle.kerple(*p, at(t, s), "power"),
    ),
    "sandwich": (
        gnomon.Sandwich(heads=HEADS, width=32),
        lambda p, t, s: oracle.sandwich(HEADS, 32, 1e4, at(t, s)),
    ),
    "dynamic": (
        gnomon.DynamicBias(heads=HEADS, hidden=5, depth=3, scale="linear"),
        lambda p, t, s: oracle.dynamic(p, at(t, s), False),
    ),
    "dynamic-log": (
        gnomon.DynamicBias(heads=HEADS, hidden=5, depth=1, scale="logarithmic"),
        lambda p, t, s: oracle.dynamic(p, at(t, s), True),
    ),
    "fire": (gnomon.Fire(heads=HEADS, hidden=7, threshold=4.0), fire),
    "graphormer": (
        gnomon.Graphormer(heads=HEADS, unreachable=6, token="none", given="once"),
        lambda p, t, s: np.moveaxis(p[0][1 + np.minimum(np.abs(at(t, s)), 6)], -1, 0),
    ),
}
GRIDS: dict[str, Case] = {
    "swin": (
        gnomon.Swin(heads=HEADS, height=3, width=4),
        lambda p, t, s: oracle.swin(p[0], 3, 4, 0),
    ),
    "beit": (
        gnomon.Swin(heads=HEADS, height=4, width=3, class_tokens=1),
        lambda p, t, s: oracle.swin(p[0], 4, 3, 1),
    ),
    "swin-v2": (
        gnomon.SwinV2(heads=HEADS, height=3, width=4, hidden=9),
        lambda p, t, s: oracle.swin_v2(*p[:3], 3, 4),
    ),
    "layout": (
        gnomon.LayoutBias(heads=HEADS, text_buckets=8, page_buckets=8, columns=5, scale=0.25),
        lambda p, t, s: oracle.layout(
            *(one.astype(float) for one in p), t, GRIDS["layout"][0]
        ),
    ),
}


def wide(values: list[np.ndarray]) -> list[np.ndarray]:
    return [one.astype(np.float64) for one in values]


@pytest.mark.parametrize(("tokens", "keys"), [(LENGTH, LENGTH), (4, LENGTH), (1, 9), (1, 1)])
@pytest.mark.parametrize("name", CASES)
def test_the_matrix_is_the_formula(name: str, tokens: int, keys: int) -> None:
    spec, formula = CASES[name]
    values = parameters(spec)
    plan = gnomon.lower(spec, tokens, keys, parameters=values, visibility="bidirectional")
    assert plan.bias_form["form"] in ("slope", "strip", "piecewise_log")
    want = np.broadcast_to(formula(wide(values), tokens, keys), (HEADS, tokens, keys))
    np.testing.assert_allclose(plan.bias(), want, 1e-12, 1e-13)


@pytest.mark.parametrize("name", GRIDS)
def test_the_matrix_of_a_grid_is_the_formula(name: str) -> None:
    spec, formula = GRIDS[name]
    values = parameters(spec)
    tokens = spec.capacity() or 14
    plan = gnomon.lower(spec, tokens, parameters=values, visibility="bidirectional")
    assert plan.bias_form["form"] == ("axes" if name == "layout" else "grid")
    np.testing.assert_allclose(plan.bias(), formula(wide(values), tokens, tokens), 1e-12, 1e-13)


@pytest.mark.parametrize("name", [*CASES, *GRIDS])
@pytest.mark.parametrize("visibility", ["causal", "bidirectional"])
def test_attention_adds_the_bias(name: str, visibility: str, rng: np.random.Generator) -> None:
    spec, formula = {**CASES, **GRIDS}[name]
    values = parameters(spec)
    tokens = spec.capacity() or 14
    plan = gnomon.lower(spec, tokens, parameters=values, visibility=visibility)
    q, k, v = (rng.standard_normal((2, tokens, HEADS, 8)) for _ in range(3))
    sees = oracle.visible(tokens, tokens, visibility=visibility)
    bias = formula(wide(values), tokens, tokens)
    if name == "swin-v2":  # cosine attention: normalised, with a trained scale
        scale = np.exp(np.minimum(values[3][:, 0].astype(float), np.log(100)))
        unit = [one / np.linalg.norm(one, axis=-1, keepdims=True) for one in (q, k)]
        want, want_lse = oracle.attention(
            unit[0] * scale[:, None], unit[1], v, sees=sees, bias=bias, scale=1.0
        )
    else:
        want, want_lse = oracle.attention(q, k, v, sees=sees, bias=bias)
    lse = np.empty((2, HEADS, tokens))
    np.testing.assert_allclose(gnomon.attention(q, k, v, plan, lse=lse), want, 0, 1e-12)
    np.testing.assert_allclose(lse, want_lse, 1e-12, 1e-12)
    single = [one.astype(np.float32) for one in (q, k, v)]
    error = 2.0**-16 * np.abs(v).max()
    np.testing.assert_allclose(gnomon.attention(*single, plan), want, 0, error)


def test_gates_of_wavlm_multiply_the_bias(rng: np.random.Generator) -> None:
    spec = gnomon.WavLm(heads=2, direction="bidirectional", buckets=8, max_distance=20, head_dim=4)
    values = parameters(spec)
    plan = gnomon.lower(spec, 6, parameters=values, visibility="bidirectional")
    assert plan.gated
    q, k, v = (rng.standard_normal((3, 6, 2, 4)) for _ in range(3))
    gates = rng.uniform(0, 2, (3, 2, 6)).astype(np.float32)
    bias = oracle.t5(values[0].astype(float), at(6), 20, True)
    sees = oracle.visible(6, 6, visibility="bidirectional")
    want, _ = oracle.attention(q, k, v, sees=sees, bias=bias, gates=gates)
    np.testing.assert_allclose(gnomon.attention(q, k, v, plan, terms={"gates": gates}), want, 0, 1e-12)
    shared = gnomon.attention(q, k, v, plan, terms={"gates": gates[:1]})
    want, _ = oracle.attention(q, k, v, sees=sees, bias=bias, gates=gates[:1])
    np.testing.assert_allclose(shared, want, 0, 1e-12)
    with pytest.raises(ValueError, match="gates"):
        gnomon.attention(q, k, v, plan)


def test_biases_follow_the_positions_of_a_packed_row(rng: np.random.Generator) -> None:
    positions = gnomon.Positions.packed([5, 3], 10)
    for name in ("alibi", "t5-causal", "fire"):
        spec, _ = CASES[name]
        values = parameters(spec)
        plan = gnomon.lower(spec, positions, parameters=values, visibility="causal")
        q, k, v = (rng.standard_normal((1, 10, HEADS, 8)) for _ in range(3))
        got = gnomon.attention(q, k, v, plan)
        for begin, end in ((0, 5), (5, 8)):
            alone = gnomon.lower(spec, end - begin, parameters=values, visibility="causal")
            part = [np.ascontiguousarray(one[:, begin:end]) for one in (q, k, v)]
            np.testing.assert_allclose(
                got[:, begin:end], gnomon.attention(*part, alone), 0, 1e-13
            )
        np.testing.assert_array_equal(got[:, 8:], 0)  # padding sees nothing


def test_the_numbers_of_a_form_give_the_matrix() -> None:
    d = at(LENGTH)
    for name, (spec, _) in CASES.items():
        plan = gnomon.lower(spec, LENGTH, parameters=parameters(spec), visibility="bidirectional")
        form = plan.bias_form
        if form["form"] == "slope":
            made = -form["slopes"][:, None, None] * np.abs(d)
        elif form["form"] == "strip":
            made = form["values"][:, d - form["min_distance"]]
        else:
            i, j = np.mgrid[:LENGTH, :LENGTH]
            x = np.log1p(form["c"] * abs(i - j)) / (
                np.log1p(form["c"] * np.maximum(form["threshold"], i)) + form["epsilon"]
            )
            piece = np.searchsorted(form["knots"], x, "right") - 1
            made = form["offsets"][:, piece] + form["slopes"][:, piece] * x
        np.testing.assert_allclose(made, plan.bias(), 1e-12, 1e-12, err_msg=name)


def test_no_bias_is_none() -> None:
    assert gnomon.lower(None, 4, visibility="causal").bias() is None
    assert gnomon.lower(None, 4, visibility="causal").bias_form == {"form": "none"}


def test_negative_sizes_are_refused() -> None:
    plan = gnomon.lower(gnomon.Alibi(heads=2), 4, visibility="causal")
    assert plan.bias(0, 3).shape == (2, 0, 3)
    for sizes in ((-1, 3), (3, -1)):
        with pytest.raises(ValueError, match=r"^\[bias\] queries and keys must not be negative"):
            plan.bias(*sizes)


def test_wrong_parameters_are_refused() -> None:
    spec = gnomon.T5Bias(heads=2, direction="causal", buckets=8)
    good = np.zeros((8, 2), np.float32)
    for wrong in ([], [good, good], [good.T], [good.astype("f8")], [good[0]], [3], [[1.0]]):
        with pytest.raises(ValueError, match=r"^\["):
            gnomon.lower(spec, 4, parameters=wrong, visibility="causal")
    for wrong in (None, 3):
        with pytest.raises((TypeError, ValueError)):
            gnomon.lower(spec, 4, parameters=wrong, visibility="causal")


def test_positions_outside_a_table_are_refused() -> None:
    spec = gnomon.Learned(rows=4, width=8)
    table = [np.zeros((4, 8), np.float32)]
    for positions in (5, [4], [-1], [0, 1, 2**40]):
        with pytest.raises(ValueError, match=r"^\["):
            gnomon.lower(spec, positions, parameters=table, visibility="causal")
    window = gnomon.Swin(heads=2, height=2, width=2)
    with pytest.raises(ValueError, match=r"^\["):
        gnomon.lower(window, 5, parameters=parameters(window), visibility="bidirectional")
