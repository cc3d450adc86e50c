"""gnomon.jax.attention: values and gradients against the dense formulas in float64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax_oracles as oracles
import numpy as np
import pytest
from jax_oracles import random

import gnomon
import gnomon.jax

WIDTH, HEADS, LENGTH = 64, 4, 16


def single(*shape: int, seed: int = 0) -> np.ndarray:
    return random(*shape, seed=seed).astype(np.float32)


CASES: dict[str, Any] = {  # spec, parameters, oracle(q, k, v, *parameters, visibility)
    "none": (None, []),
    "rotary": (gnomon.Rotary(rotary_dim=8, pairing="adjacent"), []),
    "alibi": (gnomon.Alibi(heads=4), []),
    "t5": (gnomon.T5Bias(heads=4, direction="bidirectional"), [single(32, 4)]),
    "kerple": (
        gnomon.Kerple(heads=4, kernel="logarithmic"),
        [abs(single(4, 1)), abs(single(4, 1, seed=1))],
    ),
    "shaw": (
        gnomon.Shaw(head_dim=8, value_dim=8, left=3, right=3, meets="queries_and_weights"),
        [single(7, 8), single(7, 8, seed=1)],
    ),
}


def oracle(
    name: str, q: Any, k: Any, v: Any, parameters: Any, visibility: str, **options: Any
) -> Any:
    T, S = q.shape[1], k.shape[1]
    mask = oracles.visible(T, S, visibility, options.pop("left", None), options.pop("right", None))
    if name == "rotary":
        q = oracles.rotated(q, np.arange(S - T, S), pairing="adjacent")
        k = oracles.rotated(k, np.arange(S), pairing="adjacent")
    elif name == "alibi":
        options["bias"] = oracles.alibi_bias(4, T, S)
    elif name == "t5":
        options["bias"] = oracles.t5_bias(parameters[0], T, S, bidirectional=True)
    elif name == "kerple":
        options["bias"] = oracles.kerple_bias(*parameters, T, S)
    elif name == "shaw":
        options["relative_k"] = oracles.clipped_vectors(parameters[0], T, S, 3)
        options["relative_v"] = oracles.clipped_vectors(parameters[1], T, S, 3)
    return oracles.attention(q, k, v, mask=mask, **options)


@pytest.mark.parametrize("visibility", ["causal", "bidirectional"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_in_double(name: str, visibility: str) -> None:
    spec, parameters = CASES[name]
    q, k, v = random(2, 5, 4, 8), random(2, 9, 2, 8, seed=1), random(2, 9, 2, 8, seed=2)
    weight = random(2, 5, 4, 8, seed=3)
    with jax.enable_x64(True):

        def ours(q: Any, k: Any, v: Any, p: Any) -> Any:
            return gnomon.jax.attention(q, k, v, spec, p, visibility=visibility)

        def dense(q: Any, k: Any, v: Any, p: Any) -> Any:
            return oracle(name, q, k, v, p, visibility)

        wide = [one.astype(np.float64) for one in parameters]
        np.testing.assert_allclose(ours(q, k, v, parameters), dense(q, k, v, wide), atol=1e-6)
        for function in (jax.grad, lambda f, n: jax.jit(jax.grad(f, n))):
            got = function(lambda *a: (ours(*a) * weight).sum(), (0, 1, 2, 3))(q, k, v, parameters)
            want = jax.grad(lambda *a: (dense(*a) * weight).sum(), (0, 1, 2, 3))(q, k, v, wide)
            for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
                # Tables of cos and sin and gradients of parameters are float32.
                np.testing.assert_allclose(one, other, atol=1e-6 * max(1, abs(other).max()))


@pytest.mark.parametrize(
    "options",
    [
        {"left": 3},
        {"left": 2, "right": 1, "visibility": "bidirectional"},
        {"cap": 1.5},
        {"softmax_scale": 0.7},
        {"sinks": random(4).astype(np.float32)},
    ],
    ids=lambda one: next(iter(one)),
)
def test_options(options: dict[str, Any]) -> None:
    q, k, v = random(1, 6, 4, 8), random(1, 6, 4, 8, seed=1), random(1, 6, 4, 8, seed=2)
    given = {"visibility": "causal"} | options
    wanted = {"scale" if key == "softmax_scale" else key: value for key, value in given.items()}
    with jax.enable_x64(True):
        got = gnomon.jax.attention(q, k, v, **given)
        np.testing.assert_allclose(got, oracle("none", q, k, v, [], **wanted), atol=1e-12)


def test_gradients_of_sinks_and_gates() -> None:
    q, k, v = random(2, 6, 4, 8), random(2, 6, 4, 8, seed=1), random(2, 6, 4, 8, seed=2)
    sinks, gates = single(4), single(2, 4, 6)
    slopes = gnomon.Alibi(heads=4)
    with jax.enable_x64(True):

        def dense(sinks: Any, gates: Any) -> Any:
            rows = [
                oracle(
                    "none",
                    q[b : b + 1],
                    k[b : b + 1],
                    v[b : b + 1],
                    [],
                    "causal",
                    sinks=sinks,
                    bias=gates[b][:, :, None] * oracles.alibi_bias(4, 6, 6),
                )
                for b in range(2)
            ]
            return (jnp.concatenate(rows) ** 2).sum()

        def ours(sinks: Any, gates: Any) -> Any:
            return (gnomon.jax.attention(q, k, v, slopes, sinks=sinks, terms={"gates": gates}) ** 2).sum()

        want = jax.grad(dense, (0, 1))(sinks.astype(float), gates.astype(float))
        for one, other in zip(jax.grad(ours, (0, 1))(sinks, gates), want):
            np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    "dtype, unit", [("float32", 2.0**-22), ("bfloat16", 2.0**-8), ("float16", 2.0**-11)]
)
def test_types(dtype: str, unit: float) -> None:
    q, k, v = (jnp.asarray(random(2, 7, 4, 8, seed=i), dtype) for i in range(3))
    spec, parameters = CASES["t5"]

    def ours(q: Any, k: Any, v: Any) -> Any:
        return gnomon.jax.attention(q, k, v, spec, parameters)

    out, back = jax.vjp(ours, q, k, v)
    assert out.dtype == dtype
    with jax.enable_x64(True):
        wide = [jnp.asarray(one, jnp.float64) for one in (q, k, v)]
        table = [jnp.asarray(one, jnp.float64) for one in parameters]
        want, want_back = jax.vjp(lambda *a: oracle("t5", *a, table, "causal"), *wide)
        np.testing.assert_allclose(np.asarray(out, float), want, atol=2 * unit * abs(want).max())
        for one, other in zip(back(out), want_back(want)):
            assert one.dtype == dtype
            np.testing.assert_allclose(
                np.asarray(one, float), other, atol=16 * unit * abs(other).max()
            )


def test_keys_of_another_type() -> None:
    q, k, v = (
        single(1, 4, 2, 8),
        *(jnp.asarray(single(1, 6, 2, 8, seed=i), jnp.bfloat16) for i in (1, 2)),
    )
    loss = lambda q, k, v: (gnomon.jax.attention(q, k, v) ** 2).sum()  # noqa: E731
    grads = jax.grad(loss, (0, 1, 2))(q, k, v)
    assert [one.dtype for one in grads] == ["float32", "bfloat16", "bfloat16"]
    wanted = jax.grad(loss, (0, 1, 2))(q, k.astype(jnp.float32), v.astype(jnp.float32))
    for one, other in zip(grads, wanted):
        np.testing.assert_allclose(np.asarray(one, np.float32), other, rtol=2**-8, atol=1e-6)


def encoding_of(name: str) -> tuple[gnomon.Encoding, list[np.ndarray]]:
    spec = gnomon.usual(name, width=WIDTH, heads=HEADS, length=LENGTH)
    parameters = [
        (p.initial_mean + p.initial_deviation * random(p.rows, p.columns, seed=i))
        for i, p in enumerate(spec.parameters())
    ]
    return spec, [one.astype(np.float32) for one in parameters]


NAMES = [one.name for one in gnomon.encodings()]


@pytest.mark.parametrize("name", NAMES)
def test_every_encoding_equals_gnomon_attention(name: str, random_terms: Any) -> None:
    spec, parameters = encoding_of(name)
    q, k, v = (single(2, LENGTH, HEADS, WIDTH // HEADS, seed=i) for i in range(3))
    reads: Any = "causal" if gnomon.find_encoding(name).causal else "bidirectional"
    plan = gnomon.lower(spec, LENGTH, parameters=parameters, visibility=reads)
    terms = random_terms(spec, 2, LENGTH)
    want = gnomon.attention(q, k, v, plan, terms=terms)

    def ours(q: Any, k: Any, v: Any, p: Any) -> Any:
        return gnomon.jax.attention(q, k, v, spec, p, visibility=reads, terms=terms)

    assert np.array_equal(ours(q, k, v, parameters), want)
    assert np.array_equal(jax.jit(ours)(q, k, v, parameters), want)
    turned = gnomon.jax.attention(
        *(one.transpose(0, 2, 1, 3) for one in (q, k, v)),
        spec,
        parameters,
        visibility=reads,
        terms=terms,
        layout="heads_tokens",
    )
    assert np.array_equal(turned.transpose(0, 2, 1, 3), want)


# The parameters of encodings that depend on tokens enter through the terms alone.
@pytest.mark.parametrize("name", [one for one in NAMES if encoding_of(one)[1]
                                  and not gnomon.find_encoding(one).causal])
def test_gradients_of_parameters_against_differences(name: str, random_terms: Any) -> None:
    spec, parameters = encoding_of(name)
    # Away from kinks: FIRE's threshold starts at a position.
    parameters = [one + np.float32(0.03) for one in parameters]
    q, k, v, weight = (random(2, LENGTH, HEADS, WIDTH // HEADS, seed=i) for i in range(4))
    into_table = "embeddings" in spec.enters
    reads: Any = "causal" if gnomon.find_encoding(name).causal else "bidirectional"
    terms = random_terms(spec, 2, LENGTH)
    # Tables are float32. The others have a small step, because some have a ReLU.
    step = 2.0**-10 if into_table else 2.0**-16
    with jax.enable_x64(True):

        @jax.jit
        def loss(p: Any) -> Any:
            if into_table:
                return (gnomon.jax.table(spec, LENGTH, p) * random(LENGTH, WIDTH)).sum()
            return (
                gnomon.jax.attention(q, k, v, spec, p, visibility=reads, terms=terms) * weight
            ).sum()

        grads = jax.grad(loss)(parameters)
        for i, one in enumerate(parameters):
            direction = np.sign(random(*one.shape, seed=9)).astype(np.float32)
            moved = [one + np.float32(sign * step) * direction for sign in (1, -1)]
            # The steps as rounded to float32.
            steps = (moved[0].astype(float) - moved[1].astype(float)) / 2
            up, down = (float(loss([*parameters[:i], new, *parameters[i + 1 :]])) for new in moved)
            parts = np.asarray(grads[i], float) * steps
            assert abs(parts.sum() - (up - down) / 2) <= 2e-4 * max(
                abs(parts).sum(), 1e-3 * step
            ), (spec.parameters()[i].name, parts.sum(), (up - down) / 2)
