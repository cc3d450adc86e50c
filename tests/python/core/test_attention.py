"""Attention: masks, grouped queries, sinks, caps and gradients, compared with float64 NumPy."""

from __future__ import annotations

import numpy as np
import numpy_oracles as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gnomon


@given(
    batch=st.integers(1, 3),
    cached=st.integers(0, 5),
    tokens=st.integers(1, 20),
    key_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    head_dim=st.integers(1, 20),
    value_dim=st.integers(1, 20),
    visibility=st.sampled_from(["causal", "bidirectional"]),
    left=st.none() | st.integers(0, 10),
    right=st.none() | st.integers(0, 10),
    cap=st.none() | st.floats(0.5, 50),
    scale=st.none() | st.floats(0.01, 2),
    sinks=st.booleans(),
    dtype=st.sampled_from(["f4", "f8"]),
)
def test_attention_is_the_formula(
    batch: int,
    cached: int,
    tokens: int,
    key_heads: int,
    group: int,
    head_dim: int,
    value_dim: int,
    visibility: str,
    left: int | None,
    right: int | None,
    cap: float | None,
    scale: float | None,
    sinks: bool,
    dtype: str,
) -> None:
    random = np.random.default_rng(tokens)
    keys, heads = tokens + cached, key_heads * group
    q = random.standard_normal((batch, tokens, heads, head_dim)).astype(dtype)
    k = random.standard_normal((batch, keys, key_heads, head_dim)).astype(dtype)
    v = random.standard_normal((batch, keys, key_heads, value_dim)).astype(dtype)
    sink = list(random.standard_normal(heads)) if sinks else []
    plan = gnomon.lower(
        None, tokens, keys, visibility=visibility, left=left, right=right, cap=cap,
        softmax_scale=scale, sinks=sink,
    )
    assert (plan.queries, plan.keys, plan.offset) == (tokens, keys, cached)
    assert (plan.visibility, plan.left, plan.right, plan.cap) == (visibility, left, right, cap)
    sees = oracle.visible(
        tokens, keys, visibility=visibility, offset=cached, left=left, right=right
    )
    want, want_lse = oracle.attention(q, k, v, sees=sees, scale=scale, cap=cap, sinks=sink)
    lse = np.empty((batch, heads, tokens), dtype)
    got = gnomon.attention(q, k, v, plan, lse=lse)
    error = 2.0**-17 if dtype == "f4" else 2.0**-46
    np.testing.assert_allclose(got, want, 0, error * np.abs(v).max())
    np.testing.assert_allclose(lse, want_lse, error, error)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_rotation_is_part_of_attention(dtype: str, rng: np.random.Generator) -> None:
    spec = gnomon.Rotary(rotary_dim=6, pairing="adjacent", head_offset=1)
    q, k, v = (rng.standard_normal((2, n, h, 8)).astype(dtype) for n, h in ((3, 4), (7, 2), (7, 2)))
    before = [q.copy(), k.copy()]
    angles = np.arange(7)[None, :, None] * oracle.inverse_frequencies(6, 1e4)
    want, _ = oracle.attention(
        oracle.rotate(q, angles[:, 4:], "adjacent", head_offset=1),
        oracle.rotate(k, angles, "adjacent", head_offset=1),
        v,
        sees=oracle.visible(3, 7, visibility="causal", offset=4),
    )
    got = gnomon.attention(q, k, v, gnomon.lower(spec, 3, 7, visibility="causal"))
    error = {"f2": 2.0**-10, "f4": 2.0**-17, "f8": 2.0**-20}[dtype]  # the table is float32
    np.testing.assert_allclose(got, want, 0, error * np.abs(v).max())
    np.testing.assert_array_equal(q, before[0])  # inputs are not changed
    np.testing.assert_array_equal(k, before[1])


@pytest.mark.parametrize("visibility", ["causal", "bidirectional"])
def test_packed_sequences_and_padding(visibility: str, rng: np.random.Generator) -> None:
    ids = np.array([[0, 1, 2, 0, 1, 0, 0], [0, 0, 0, 1, 2, 3, 4]])
    sequences = np.array([[0, 0, 0, 1, 1, -1, -1], [-1, -1, 5, 5, 5, 5, 5]], np.int32)
    positions = gnomon.Positions(ids, sequences)
    spec = gnomon.Rotary(rotary_dim=8, pairing="halves")
    q, k, v = (rng.standard_normal((2, 7, 2, 8)) for _ in range(3))
    angles = ids[..., None] * oracle.inverse_frequencies(8, 1e4)
    sees = oracle.visible(
        7, 7, visibility=visibility, query_sequences=sequences, key_sequences=sequences
    )
    want, _ = oracle.attention(
        oracle.rotate(q, angles, "halves"), oracle.rotate(k, angles, "halves"), v, sees=sees
    )
    k[sequences < 0] = np.nan  # padding is never read
    v[sequences < 0] = np.nan
    got = gnomon.attention(q, k, v, gnomon.lower(spec, positions, visibility=visibility))
    np.testing.assert_allclose(got, want, 0, 2.0**-20 * np.nanmax(np.abs(v)))
    np.testing.assert_array_equal(got[sequences < 0], 0)


def test_a_query_that_sees_no_key_gives_zeros(rng: np.random.Generator) -> None:
    q, k, v = (rng.standard_normal((1, 4, 2, 8), np.float32) for _ in range(3))
    mask = np.array([[1, 0, 1, 0]])
    positions = gnomon.Positions.from_padding_mask(mask)
    lse = np.empty((1, 2, 4), np.float32)
    for sinks in ((), (0.5, -1.0)):
        plan = gnomon.lower(None, positions, visibility="causal", sinks=sinks)
        out = gnomon.attention(q, k, v, plan, lse=lse)
        np.testing.assert_array_equal(out[0, [1, 3]], 0)
        assert np.isfinite(out).all()
        expected = np.array(sinks or (-np.inf, -np.inf))
        np.testing.assert_allclose(lse[0, :, 1], expected, 1e-6)


def test_int8_keys_and_values_with_scales(rng: np.random.Generator) -> None:
    q = rng.standard_normal((1, 5, 4, 16), np.float32)
    k, v = (rng.integers(-127, 128, (1, 5, 2, 16), np.int8) for _ in range(2))
    k_scales, v_scales = (rng.uniform(0.005, 0.02, (1, 5, 2)).astype(np.float32) for _ in range(2))
    plan = gnomon.lower(None, 5, visibility="causal")
    got = gnomon.attention(q, k, v, plan, k_scales=k_scales, v_scales=v_scales)
    wide = [k * k_scales[..., None].astype(float), v * v_scales[..., None].astype(float)]
    want, _ = oracle.attention(q, *wide, sees=oracle.visible(5, 5, visibility="causal"))
    np.testing.assert_allclose(got, want, 0, 2.0**-17 * np.abs(wide[1]).max())
    with pytest.raises(ValueError, match="scales"):
        gnomon.attention(q, k, v, plan)


def relative_case(name: str) -> tuple[gnomon.Encoding, list[np.ndarray]]:
    specs = {
        "shaw": gnomon.Shaw(
            heads=2, head_dim=8, value_dim=8, left=3, right=2, meets="queries_and_weights"
        ),
        "relative-key-query": gnomon.Shaw(
            head_dim=8, value_dim=0, left=5, right=5, meets="queries_and_keys",
            order="future_first", outside="refused",
        ),
        "transformer-xl": gnomon.TransformerXl(
            heads=2, head_dim=8, width=16, sinusoid="half_split"
        ),
        "conformer": gnomon.TransformerXl(
            heads=2, head_dim=8, width=16, sinusoid="interleaved", clamp=4
        ),
        "deberta": gnomon.Deberta(heads=2, head_dim=8, width=16, span=4, distance="raw"),
        "decomposed": gnomon.Decomposed(head_dim=8, height=2, width=3),
    }
    random = np.random.default_rng(11)
    spec = specs[name]
    values = [
        (0.3 * random.standard_normal((one.rows, one.columns))).astype("f4")
        for one in spec.parameters()
    ]
    return spec, values


def relative_want(name: str, p: list[np.ndarray], q, k, v, sees) -> np.ndarray:  # noqa: ANN001
    """The released models' formulas with whole [T, S, D] arrays."""
    p = [one.astype(float) for one in p]
    tokens = q.shape[1]
    d = oracle.distances(np.arange(tokens), np.arange(tokens))
    if name == "shaw":
        row = np.clip(d, -3, 2) + 3
        keys, values = (one.reshape(2, 6, 8)[:, row] for one in p)
        return oracle.attention(q, k, v, sees=sees, key_vectors=keys, value_vectors=values)[0]
    if name == "relative-key-query":
        vectors = p[0][-d + 5][None]
        return oracle.attention(
            q, k, v, sees=sees, key_vectors=vectors, query_vectors=vectors
        )[0]
    if name == "deberta":
        row = np.clip(-d + 4, 0, 7)
        keys = (p[0] @ p[1].T)[row].reshape(tokens, tokens, 2, 8)
        queries = (p[0] @ p[2].T + p[3])[row].reshape(tokens, tokens, 2, 8)
        return oracle.attention(
            q, k, v, sees=sees, scale=(8 * 3) ** -0.5, key_vectors=np.moveaxis(keys, 2, 0),
            query_vectors=np.moveaxis(queries, 2, 0),
        )[0]
    if name == "decomposed":
        dy, dx = oracle.grid_offsets(2, 3)
        vectors = (p[0][dy + 1] + p[1][dx + 2]) * 8**0.5  # not scaled, unlike q . k
        return oracle.attention(q, k, v, sees=sees, key_vectors=vectors[None])[0]
    past = -d.astype(float) if name == "transformer-xl" else np.clip(-d, -4, 4).astype(float)
    angles = past[..., None] * oracle.inverse_frequencies(16, 1e4)
    parts = (np.sin(angles), np.cos(angles))
    if name == "transformer-xl":
        sinusoid = np.concatenate(parts, -1)
    else:
        sinusoid = np.stack(parts, -1).reshape(*d.shape, 16)
    w, u, shift = p
    keys = np.einsum("tsc,hdc->htsd", sinusoid, w.reshape(2, 8, 16))
    bias = np.einsum("htsd,hd->hts", keys, shift - u) * 8**-0.5
    return oracle.attention(q + u, k, v, sees=sees, key_vectors=keys, bias=bias)[0]


RELATIVE = [
    "shaw", "relative-key-query", "transformer-xl", "conformer", "deberta", "decomposed",
]


@pytest.mark.parametrize("name", RELATIVE)
@pytest.mark.parametrize("visibility", ["causal", "bidirectional"])
def test_relative_vectors(name: str, visibility: str, rng: np.random.Generator) -> None:
    spec, values = relative_case(name)
    q, k, v = (rng.standard_normal((2, 6, 2, 8)) for _ in range(3))
    sees = oracle.visible(6, 6, visibility=visibility)
    plan = gnomon.lower(spec, 6, parameters=values, visibility=visibility, softmax_scale=None)
    assert plan.has_relative
    want = relative_want(name, values, q, k, v, sees)
    np.testing.assert_allclose(gnomon.attention(q, k, v, plan), want, 0, 1e-11)
    single = [one.astype(np.float32) for one in (q, k, v)]
    np.testing.assert_allclose(gnomon.attention(*single, plan), want, 0, 1e-4)


GRADIENTS = {
    "none": None,
    "rotary": gnomon.Rotary(rotary_dim=8, pairing="halves"),
    "xpos": gnomon.XPos(rotary_dim=8, pairing="adjacent", scale_base=16.0),
    "vjepa2": gnomon.Vjepa2(head_dim=8, grid=(1, 2, 3)),
    "alibi": gnomon.Alibi(heads=2),
    "t5": gnomon.T5Bias(heads=2, direction="bidirectional", buckets=8, max_distance=6),
    "kerple": gnomon.Kerple(heads=2, kernel="logarithmic"),
    "dynamic": gnomon.DynamicBias(heads=2, hidden=4, scale="logarithmic"),
    "fire": gnomon.Fire(heads=2, hidden=4, threshold=2.0),
    "swin": gnomon.Swin(heads=2, height=2, width=3),
    "swin-v2": gnomon.SwinV2(heads=2, height=2, width=3, hidden=4),
    "layout": gnomon.LayoutBias(heads=2, text_buckets=8, page_buckets=8, columns=3),
    "clipped": gnomon.ClippedBias(heads=2, left=3, right=1),
    **{name: relative_case(name)[0] for name in RELATIVE},
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_finite_differences(name: str, rng: np.random.Generator) -> None:
    """Central differences of the attention itself, in float64, along random directions."""
    spec = GRADIENTS[name]
    mean = [one.initial_mean for one in spec.parameters()] if spec else []
    values = [
        (m + 0.3 * rng.standard_normal((one.rows, one.columns))).astype("f4")
        for m, one in zip(mean, spec.parameters() if spec else (), strict=True)
    ]
    q, k, v, g = (rng.standard_normal((2, 6, 2, 8)) for _ in range(4))

    def plan_of(parameters: list[np.ndarray]) -> gnomon.Plan:
        return gnomon.lower(spec, 6, parameters=parameters, visibility="bidirectional")

    def loss(q, k, v, parameters) -> float:  # noqa: ANN001
        return float((gnomon.attention(q, k, v, plan_of(parameters)) * g).sum())

    plan = plan_of(values)
    lse = np.empty((2, 2, 6))
    out = gnomon.attention(q, k, v, plan, lse=lse)
    grads = [np.full_like(one, np.nan) for one in (q, k, v)]
    parameter_grads = [np.zeros_like(one) for one in values]
    gnomon.attention_backward(
        q, k, v, plan, out, lse, g, q_grad=grads[0], k_grad=grads[1], v_grad=grads[2],
        parameter_grads=parameter_grads,
    )
    inputs = [q, k, v]
    for at in range(3):
        way = rng.standard_normal(q.shape)
        moved = [[one + s * 1e-5 * way * (i == at) for i, one in enumerate(inputs)]
                 for s in (1, -1)]
        slope = (loss(*moved[0], values) - loss(*moved[1], values)) / 2e-5
        np.testing.assert_allclose((grads[at] * way).sum(), slope, 1e-5, 1e-5, err_msg="qkv"[at])
    for at, (value, grad) in enumerate(zip(values, parameter_grads, strict=True)):
        step = np.float32(2.0**-9)  # parameters are float32: an exact step
        way = rng.choice([-1, 1], value.shape).astype("f4")
        ends = [(value + s * step * way).astype("f4") for s in (1, -1)]
        moved = [[end if i == at else one for i, one in enumerate(values)] for end in ends]
        slope = (loss(q, k, v, moved[0]) - loss(q, k, v, moved[1])) / float(2 * step)
        got = (grad * ((ends[0] - ends[1]) / (2 * step))).sum()
        np.testing.assert_allclose(got, slope, 5e-3, 5e-3, err_msg=f"parameter {at}")


def test_gradients_with_masks_groups_and_sinks(rng: np.random.Generator) -> None:
    sinks = [0.3, -0.2, 0.1, 0.5]
    q, g = (rng.standard_normal((1, 5, 4, 8)) for _ in range(2))
    k, v = (rng.standard_normal((1, 9, 2, 8)) for _ in range(2))

    def plan_of(sinks: list[float]) -> gnomon.Plan:
        return gnomon.lower(
            None, 5, 9, visibility="causal", left=3, cap=2.0, sinks=sinks, softmax_scale=0.7
        )

    lse = np.empty((1, 4, 5))
    out = gnomon.attention(q, k, v, plan_of(sinks), lse=lse)
    grads = [np.full_like(one, np.nan) for one in (q, k, v)]
    sinks_grad = np.full(4, np.nan)
    gnomon.attention_backward(
        q, k, v, plan_of(sinks), out, lse, g, q_grad=grads[0], k_grad=grads[1], v_grad=grads[2],
        sinks_grad=sinks_grad,
    )
    for at, one in enumerate((q, k, v)):
        way = rng.standard_normal(one.shape)
        ends = []
        for sign in (1, -1):
            moved = [q, k, v]
            moved[at] = one + sign * 1e-5 * way
            ends.append((gnomon.attention(*moved, plan_of(sinks)) * g).sum())
        np.testing.assert_allclose((grads[at] * way).sum(), (ends[0] - ends[1]) / 2e-5, 1e-6, 1e-6)
    for head in range(4):
        ends = []
        for sign in (1, -1):
            moved = [s + sign * 1e-5 * (h == head) for h, s in enumerate(sinks)]
            ends.append((gnomon.attention(q, k, v, plan_of(moved)) * g).sum())
        np.testing.assert_allclose(sinks_grad[head], (ends[0] - ends[1]) / 2e-5, 1e-5, 1e-7)


@pytest.mark.parametrize(
    "name", ["sinusoidal", "learned", "axial", "fourier", "fourier-learned", "detr", "degree"]
)
def test_the_table_is_added_and_has_gradients(name: str, rng: np.random.Generator) -> None:
    spec = gnomon.usual(name, width=16, heads=2, length=9)
    values = [
        (one.initial_mean + 0.3 * rng.standard_normal((one.rows, one.columns))).astype("f4")
        for one in spec.parameters()
    ]
    tokens = 9
    x, g = (rng.standard_normal((2, tokens, 16), np.float32) for _ in range(2))

    def plan_of(values: list[np.ndarray]) -> gnomon.Plan:
        return gnomon.lower(spec, tokens, parameters=values, visibility="causal")

    plan = plan_of(values)
    before = x.copy()
    gnomon.add_position(x, plan)
    np.testing.assert_array_equal(x, before + plan.table)
    grads = [np.ones_like(one) for one in values]  # gradients are added
    gnomon.add_position_backward(g, plan, grads)
    for at, (value, grad) in enumerate(zip(values, grads, strict=True)):
        step = np.float32(2.0**-8)
        way = rng.choice([-1, 1], value.shape).astype("f4")
        ends = [(value + s * step * way).astype("f4") for s in (1, -1)]
        tables = [
            plan_of([end if i == at else one for i, one in enumerate(values)]).table.astype(float)
            for end in ends
        ]
        slope = ((tables[0] - tables[1]) * g.sum(0)).sum() / float(2 * step)
        got = ((grad - 1) * ((ends[0] - ends[1]) / (2 * step))).sum()
        np.testing.assert_allclose(got, slope, 1e-2, 1e-2, err_msg=f"parameter {at}")


@pytest.mark.parametrize(
    "wrong",
    [
        {"visibility": "both"},
        {"visibility": "causal", "left": -1},
        {"visibility": "causal", "cap": 0.0},
        {"visibility": "causal", "cap": -1.0},
        {"visibility": "causal", "softmax_scale": float("nan")},
        {"visibility": "causal", "sinks": [0.0]},
    ],
)
def test_wrong_options_are_refused(wrong: dict) -> None:
    x = np.zeros((1, 3, 2, 4), np.float32)
    with pytest.raises(ValueError, match=r"^\["):
        gnomon.attention(x, x, x, gnomon.lower(None, 3, **wrong))


def test_visibility_is_required() -> None:
    with pytest.raises(TypeError):
        gnomon.lower(None, 3)


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((1, 3, 2, 4), (1, 3, 2, 5), (1, 3, 2, 4)),
        ((1, 3, 3, 4), (1, 3, 2, 4), (1, 3, 2, 4)),
        ((1, 3, 2, 4), (2, 3, 2, 4), (2, 3, 2, 4)),
        ((1, 3, 2, 4), (1, 4, 2, 4), (1, 3, 2, 4)),
        ((1, 4, 2, 4), (1, 4, 2, 4), (1, 4, 2, 4)),
        ((3, 2, 4), (3, 2, 4), (3, 2, 4)),
    ],
)
def test_wrong_shapes_are_refused(q: tuple, k: tuple, v: tuple) -> None:
    plan = gnomon.lower(gnomon.Rotary(rotary_dim=4, pairing="halves"), 3, visibility="causal")
    with pytest.raises(ValueError, match=r"^\["):
        gnomon.attention(*(np.zeros(shape, np.float32) for shape in (q, k, v)), plan)
