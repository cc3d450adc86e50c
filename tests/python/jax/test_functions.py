"""gnomon.jax: rotation, tables, biases; jit, vmap, positions."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import jax
import jax.numpy as jnp
import jax_oracles as oracles
import numpy as np
import pytest
from jax_oracles import random

import gnomon
import gnomon.jax

ROPE = gnomon.Rotary(rotary_dim=8, pairing="halves")


def single(*shape: int, seed: int = 0) -> np.ndarray:
    return random(*shape, seed=seed).astype(np.float32)


# Rotation.


@pytest.mark.parametrize("pairing", ["halves", "adjacent"])
def test_rotation_in_double(pairing: str) -> None:
    x = random(2, 5, 3, 8)
    spec = gnomon.Rotary(rotary_dim=8, pairing=pairing)
    with jax.enable_x64(True):
        for positions in (np.arange(5), np.array([[0, 7, 1, 900, 5], [3, 3, 2, 1, 100000]])):
            want = oracles.rotated(x, positions, pairing=pairing)
            for got in (
                gnomon.jax.rotate(x, spec, positions),
                jax.jit(lambda x, p: gnomon.jax.rotate(x, spec, p))(x, positions),
            ):
                np.testing.assert_allclose(got, want, atol=2.0**-22)  # cos and sin are float32
        np.testing.assert_array_equal(
            gnomon.jax.rotate(x, spec), gnomon.jax.rotate(x, spec, np.arange(5))
        )
        back = gnomon.jax.rotate(gnomon.jax.rotate(x, spec), spec, inverse=True)
        np.testing.assert_allclose(back, x, atol=1e-6)


def test_gradient_of_rotation_of_any_order() -> None:
    x, weight = random(2, 5, 3, 8), random(2, 5, 3, 8, seed=1)
    with jax.enable_x64(True):

        def ours(x: Any) -> Any:
            return ((gnomon.jax.rotate(x, ROPE) * weight) ** 3).sum()

        def dense(x: Any) -> Any:
            return ((oracles.rotated(x, np.arange(5)) * weight) ** 3).sum()

        np.testing.assert_allclose(jax.grad(ours)(x), jax.grad(dense)(x), atol=1e-4)
        second = [jax.grad(lambda x, f=f: (jax.grad(f)(x) ** 2).sum())(x) for f in (ours, dense)]
        np.testing.assert_allclose(*second, rtol=1e-4, atol=1e-4)


def test_the_rotation_is_linear_for_jax() -> None:
    """jvp, vjp, linear_transpose and their compositions with jit and vmap."""
    x, t, weight = single(2, 5, 3, 8), single(2, 5, 3, 8, seed=1), single(2, 5, 3, 8, seed=2)
    at = np.array([[0, 7, 1, 900, 5], [3, 3, 2, 1, 9]])
    for f, positions in ((lambda x: gnomon.jax.rotate(x, ROPE), np.arange(5)),
                         (lambda x: gnomon.jax.rotate(x, ROPE, at), at),
                         (jax.jit(lambda x: gnomon.jax.rotate(x, ROPE)), np.arange(5))):
        turned, back = (oracles.rotated(one, positions * sign).astype(np.float32)
                        for one, sign in ((t, 1), (weight, -1)))
        near = {"atol": 2.0**-16, "rtol": 1e-5}
        np.testing.assert_allclose(jax.jvp(f, (x,), (t,))[1], turned, **near)
        np.testing.assert_allclose(jax.linearize(f, x)[1](t), turned, **near)
        np.testing.assert_allclose(jax.vjp(f, x)[1](weight)[0], back, **near)
        np.testing.assert_allclose(jax.linear_transpose(f, x)(weight)[0], back, **near)
        # Forward over reverse: of sum (f(x) weight)^3, at x along t.
        def cubes(x: Any, f: Any = f) -> Any:
            return ((f(x) * weight) ** 3).sum()

        _, product = jax.jvp(jax.grad(cubes), (x,), (t,))
        inner = 6 * weight**3 * oracles.rotated(x, positions) * turned
        want = oracles.rotated(inner, -positions)
        np.testing.assert_allclose(product, want, rtol=1e-4, atol=1e-4)


def test_vmap_of_tangents_over_x_and_positions() -> None:
    x, at = single(2, 5, 3, 8), np.array([[0, 7, 1, 900, 5], [3, 3, 2, 1, 9]])

    def tangent(x: Any, positions: Any) -> Any:
        return jax.jvp(lambda x: gnomon.jax.rotate(x, ROPE, positions), (x,), (2 * x,))[1]

    want = 2 * oracles.rotated(x, at)
    np.testing.assert_allclose(jax.jit(jax.vmap(tangent))(x, at), want, atol=2.0**-16)
    crossed = jax.vmap(jax.vmap(tangent, (None, 0)), (0, None))(x, at)
    np.testing.assert_array_equal(crossed[0, 0], tangent(x[0], at[0]))
    np.testing.assert_array_equal(crossed[1, 0], tangent(x[1], at[0]))
    jacobian = jax.jacfwd(lambda a: gnomon.jax.rotate(a[None, None], ROPE, at[0, 1:2])[0, 0])
    np.testing.assert_allclose(jacobian(x[0, 0, 0]) @ x[0, 0, 0], oracles.rotated(
        x[:1, :1, :1], at[0, 1:2])[0, 0, 0], atol=2.0**-16)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_rotation_equals_gnomon_rotate(dtype: str) -> None:
    x = jnp.asarray(random(2, 5, 3, 8), dtype)
    want = np.array(x)
    gnomon.rotate(want, gnomon.RotaryTable(ROPE, 5))
    for got in (
        gnomon.jax.rotate(x, ROPE),
        jax.vmap(lambda x: gnomon.jax.rotate(x, ROPE))(x),
        gnomon.jax.rotate(x.transpose(0, 2, 1, 3), ROPE, layout="heads_tokens").transpose(
            0, 2, 1, 3
        ),
    ):
        assert got.dtype == dtype
        np.testing.assert_array_equal(np.asarray(got), want)


def test_rotation_by_axes() -> None:
    spec = gnomon.MRope(rotary_dim=8, pairing="halves", sections=(1, 1, 2), order="sequential")
    axes = tuple(np.array([[i, 2, 3 * i, 7], [1, i, 5, 0]]) for i in range(3))
    x = single(2, 4, 3, 8)
    want = x.copy()
    gnomon.rotate(want, gnomon.RotaryTable(spec, axes))
    np.testing.assert_array_equal(gnomon.jax.rotate(x, spec, axes), want)
    each = jax.vmap(lambda x, *axes: gnomon.jax.rotate(x, spec, axes))(x, *axes)
    np.testing.assert_array_equal(each, want)


# vmap: against a loop, bit by bit.


T5 = gnomon.T5Bias(heads=4, direction="bidirectional")


@pytest.mark.parametrize(
    "axes",
    [
        (0, 0, 0, None, None, None),
        (0, None, None, None, None, None),
        (0, 0, 0, 0, None, None),
        (None, None, None, 0, None, None),
        (0, 0, 0, None, 0, None),
        (1, 2, 0, None, None, 0),
        (0, 0, 0, 0, 0, 0),
    ],
)
def test_vmap_of_attention_and_its_gradient(axes: tuple[int | None, ...]) -> None:
    shapes = [(2, 5, 4, 8), (2, 5, 2, 8), (2, 5, 2, 8), (32, 4), (4,), (2, 5)]

    def loss(q: Any, k: Any, v: Any, table: Any, sinks: Any, positions: Any) -> Any:
        out = gnomon.jax.attention(
            q, k, v, T5, [table], sinks=sinks, positions=positions, visibility="bidirectional"
        )
        return (out**2).sum(), out

    n = 3
    operands = []
    for i, (shape, axis) in enumerate(zip(shapes, axes)):
        whole = shape if axis is None else (*shape[:axis], n, *shape[axis:])
        one = single(*whole, seed=i)
        operands.append(np.argsort(one, -1) if i == 5 else one)
    both = jax.grad(loss, (0, 1, 2, 3, 4), has_aux=True)
    got = jax.jit(jax.vmap(both, axes))(*operands)
    for at in range(n):
        one = [x if axis is None else np.take(x, at, axis) for x, axis in zip(operands, axes)]
        for left, right in zip(jax.tree.leaves(got), jax.tree.leaves(both(*one))):
            np.testing.assert_array_equal(left[at], right)


def test_nested_vmap_and_gradient_of_vmap() -> None:
    q, k, table = single(2, 3, 5, 4, 8), single(3, 5, 4, 8), single(2, 32, 4)

    def one(q: Any, k: Any, table: Any) -> Any:  # [T, H, D]
        return gnomon.jax.attention(q, k, k, T5, [table])

    two = jax.vmap(jax.vmap(one, (0, 0, None)), (0, None, 0))
    got = two(q, k, table)
    grads = jax.grad(lambda *a: (two(*a) ** 2).sum(), (0, 1, 2))(q, k, table)
    wanted = [np.zeros_like(x) for x in (q, k, table)]
    for i in range(2):
        for j in range(3):
            np.testing.assert_array_equal(got[i, j], one(q[i, j], k[j], table[i]))
            parts = jax.grad(lambda *a: (one(*a) ** 2).sum(), (0, 1, 2))(q[i, j], k[j], table[i])
            wanted[0][i, j] += parts[0]
            wanted[1][j] += parts[1]
            wanted[2][i] += parts[2]
    for left, right in zip(grads, wanted):
        np.testing.assert_allclose(left, right, atol=1e-5)


def test_scan_and_checkpoint() -> None:
    q, tables = single(1, 5, 4, 8), single(3, 32, 4)

    def layer(x: Any, table: Any) -> Any:
        return x + gnomon.jax.attention(x, x, x, T5, [table]), None

    def loss(tables: Any, layer: Any) -> Any:
        return (jax.lax.scan(layer, q, tables)[0] ** 2).sum()

    want = jax.grad(loss)(tables, layer)
    got = jax.jit(jax.grad(lambda t: loss(t, jax.checkpoint(layer))))(tables)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


# Positions.


def test_sequences_hide_tokens_of_others() -> None:
    q, k, v = (random(2, 6, 4, 8, seed=i) for i in range(3))
    sequences = np.array([[0, 0, 0, 1, 1, -1], [-1, -1, 2, 2, 2, 2]])
    positions = np.array([[0, 1, 2, 0, 1, 0], [0, 0, 0, 1, 2, 3]])
    mask = (sequences[:, :, None] == sequences[:, None]) & (sequences[:, None] >= 0)
    mask &= oracles.visible(6, 6, "causal")
    with jax.enable_x64(True):
        turned = [oracles.rotated(x, positions) for x in (q, k)]
        want = oracles.attention(*turned, v, mask=mask)
        both = gnomon.Positions(positions, sequences)
        attention = gnomon.jax.attention
        for got in (
            attention(q, k, v, ROPE, positions=positions, sequences=sequences),
            attention(
                q, k, v, ROPE, positions=(positions, positions), sequences=(sequences, sequences)
            ),
            jax.vmap(lambda q, k, v, p, s: attention(q, k, v, ROPE, positions=p, sequences=s))(
                q, k, v, positions, sequences
            ),
        ):
            np.testing.assert_allclose(got, want, atol=1e-6)
        for one in (positions, both.ids):
            assert one.shape == (2, 6)
        np.testing.assert_allclose(attention(q, k, v, ROPE, positions=both), want, atol=1e-6)


def test_decoding_with_a_traced_length() -> None:
    """A cache of fixed size: keys beyond the length are padding."""
    keys, values, queries = (random(1, 7, 4, 8, seed=i) for i in range(3))
    with jax.enable_x64(True):
        prompt = gnomon.jax.attention(queries, keys, values, ROPE)

        @jax.jit
        def step(length: Any, q: Any) -> Any:
            rows = jnp.arange(7)
            return gnomon.jax.attention(
                q,
                keys,
                values,
                ROPE,
                visibility="bidirectional",
                positions=(length[None], rows),
                sequences=(jnp.zeros(1, int), jnp.where(rows <= length, 0, -1)),
            )

        for t in range(7):
            np.testing.assert_allclose(
                step(t, queries[:, t : t + 1])[:, 0], prompt[:, t], atol=1e-6
            )


def test_plans_follow_their_operands() -> None:
    """More parameters than plans are kept; each call has its own."""
    q = single(1, 5, 4, 8)
    tables = [single(32, 4, seed=i) for i in range(40)]
    first = [np.asarray(gnomon.jax.attention(q, q, q, T5, [one])) for one in tables]
    for one, want in zip(tables, first):
        plan = gnomon.lower(T5, 5, parameters=[one], visibility="causal")
        np.testing.assert_array_equal(gnomon.attention(q, q, q, plan), want)
        np.testing.assert_array_equal(gnomon.jax.attention(q, q, q, T5, [one]), want)


def test_calls_from_several_threads() -> None:
    q = single(1, 40, 4, 8)
    tables = [single(32, 4, seed=i) for i in range(8)]
    call = jax.jit(lambda t: gnomon.jax.attention(q, q, q, T5, [t]))
    want = [np.asarray(call(one)) for one in tables]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda i: np.asarray(call(tables[i % 8])), range(80)))
    for i, one in enumerate(got):
        np.testing.assert_array_equal(one, want[i % 8])


# Tables and biases.


def test_sinusoidal_table() -> None:
    spec = gnomon.Sinusoidal(width=16, recipe="interleaved")
    np.testing.assert_allclose(
        gnomon.jax.table(spec, 9), oracles.sinusoid(np.arange(9), 16), atol=1e-7
    )
    ids = np.array([[3, 1, 100000], [0, 0, 7]])
    np.testing.assert_allclose(gnomon.jax.table(spec, ids), oracles.sinusoid(ids, 16), atol=1e-7)
    x = single(2, 3, 16)
    for offset in (0, 5):
        want = x + oracles.sinusoid(np.arange(offset, offset + 3), 16)
        for got in (
            gnomon.jax.add_position(x, spec, offset=offset),
            jax.jit(lambda x, o: gnomon.jax.add_position(x, spec, offset=o))(x, offset),
        ):
            np.testing.assert_allclose(got, want, atol=1e-6)
    half = jnp.asarray(x, jnp.bfloat16)
    got, plan = np.array(half), gnomon.lower(spec, 3, visibility="causal")
    gnomon.add_position(got, plan)
    np.testing.assert_array_equal(np.asarray(gnomon.jax.add_position(half, spec)), got)


def test_gradient_of_a_learned_table() -> None:
    spec, rows = gnomon.Learned(rows=6, width=4), single(6, 4)
    x, weight = single(2, 3, 4), single(2, 3, 4, seed=1)
    ids = np.array([[5, 1, 5], [0, 1, 2]])

    def ours(x: Any, rows: Any) -> Any:
        return (gnomon.jax.add_position(x, spec, [rows], positions=ids) * weight).sum()

    def dense(x: Any, rows: Any) -> Any:
        return ((x + rows[ids]) * weight).sum()

    for got, want in zip(jax.grad(ours, (0, 1))(x, rows), jax.grad(dense, (0, 1))(x, rows)):
        np.testing.assert_allclose(got, want, atol=1e-6)
    each = jax.vmap(jax.grad(lambda r, i: (gnomon.jax.table(spec, i, [r]) ** 2).sum()), (None, 0))(
        rows, ids
    )
    want = [jax.grad(lambda r, i=i: (r[i] ** 2).sum())(rows) for i in ids]
    np.testing.assert_allclose(each, np.stack(want), atol=1e-6)


def test_bias_and_its_gradient() -> None:
    table, weight = single(32, 4), single(4, 5, 9)
    got = gnomon.jax.bias(T5, 5, 9, [table])
    np.testing.assert_array_equal(got, oracles.t5_bias(table, 5, 9, bidirectional=True))
    grad = jax.jit(jax.grad(lambda t: (gnomon.jax.bias(T5, 5, 9, [t]) * weight).sum()))(table)
    want = jax.grad(lambda t: (oracles.t5_bias(t, 5, 9, bidirectional=True) * weight).sum())(table)
    np.testing.assert_allclose(grad, want, atol=1e-5)
    alibi = gnomon.jax.bias(gnomon.Alibi(heads=4), 3, 3)
    np.testing.assert_allclose(alibi, oracles.alibi_bias(4, 3, 3), rtol=1e-7)
    each = jax.vmap(lambda t: gnomon.jax.bias(T5, 5, 9, [t]))(np.stack([table, 2 * table]))
    np.testing.assert_array_equal(each[1], 2 * got)


@pytest.mark.parametrize("name", [one.name for one in gnomon.encodings() if one.enters == "scores"])
def test_every_bias_and_its_gradient(name: str) -> None:
    """The gradient of the whole bias, added to scores outside, is that of attention."""
    spec = gnomon.usual(name, width=32, heads=4, length=16)
    parameters = [
        (0.03 + p.initial_mean + p.initial_deviation * random(p.rows, p.columns, seed=i)).astype(
            np.float32
        )
        for i, p in enumerate(spec.parameters())
    ]
    plan = gnomon.lower(spec, 16, parameters=parameters, visibility="bidirectional")
    if plan.bias() is None:  # scores depend on contents
        assert name in ("pope", "grape-additive", *(one.name for one in gnomon.encodings() if one.causal))
        with pytest.raises(ValueError, match="encoding must have a bias"):
            gnomon.jax.bias(spec, 16, 16, parameters)
        return
    np.testing.assert_array_equal(
        gnomon.jax.bias(spec, 16, 16, parameters), plan.bias().astype(np.float32)
    )
    weight = single(4, 16, 16)
    grads = jax.grad(lambda p: (gnomon.jax.bias(spec, 16, 16, p) * weight).sum())(parameters)
    for i, one in enumerate(parameters):
        step = 2.0**-16 * np.sign(random(*one.shape)).astype(np.float32)
        moved = [
            gnomon.lower(
                spec,
                16,
                parameters=[*parameters[:i], new, *parameters[i + 1 :]],
                visibility="bidirectional",
            ).bias()
            for new in (one + step, one - step)
        ]
        steps = ((one + step).astype(float) - (one - step).astype(float)) / 2
        parts = np.asarray(grads[i], float) * steps
        want = ((moved[0] - moved[1]) / 2 * weight).sum()
        assert abs(parts.sum() - want) <= 1e-3 * max(abs(parts).sum(), 1e-6), spec.parameters()[
            i
        ].name
