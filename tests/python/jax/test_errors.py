"""gnomon.jax: errors, determinism and imports."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from typing import Any

import jax
import numpy as np
import pytest

import gnomon
import gnomon.jax
from gnomon import _jax_arguments

ROPE = gnomon.Rotary(rotary_dim=8, pairing="halves")
Q = np.zeros((1, 4, 4, 8), np.float32)
ERRORS: list[tuple[str, Any]] = [
    (
        "[attention] the bias must have 4 heads, got 3",
        lambda q: gnomon.jax.attention(q, q, q, gnomon.Alibi(heads=3)),
    ),
    (
        "[lower] visibility must be one of causal, bidirectional, got all",
        lambda q: gnomon.jax.attention(q, q, q, visibility="all"),
    ),
    (
        "[attention] layout must be one of tokens_heads, heads_tokens, got bthd",
        lambda q: gnomon.jax.attention(q, q, q, layout="bthd"),
    ),
    (
        "[attention] q must have at least 3 axes, got 2",
        lambda q: gnomon.jax.attention(q[0, 0], q, q),
    ),
    (
        "[attention] k must have the leading axes of q, (1,), got ()",
        lambda q: gnomon.jax.attention(q, q[0], q),
    ),
    (
        "[attention] sinks must have the shape (4,), got (3,)",
        lambda q: gnomon.jax.attention(q, q, q, sinks=np.zeros(3)),
    ),
    (
        "[attention] positions must have the shape (4,) or (1, 4), got (3,)",
        lambda q: gnomon.jax.attention(q, q, q, positions=np.arange(3)),
    ),
    (
        "[attention] positions must be integers, got float32",
        lambda q: gnomon.jax.attention(q, q, q, positions=np.zeros(4, np.float32)),
    ),
    (
        "[rotate] positions must be below 2^31 unless jax_enable_x64 is set, got 2147483648",
        lambda q: gnomon.jax.rotate(q, ROPE, np.full(4, 2**31)),
    ),
    (
        "[rotary] the encoding must be rotary with one set of frequencies, got alibi",
        lambda q: gnomon.jax.rotate(q, gnomon.Alibi(heads=4)),
    ),
    (
        "[table] encoding must have a table, got ALiBi",
        lambda q: gnomon.jax.table(gnomon.Alibi(heads=4), 3),
    ),
    ("[bias] encoding must have a bias, got Rotary (RoPE)", lambda q: gnomon.jax.bias(ROPE, 3, 3)),
    (
        "[learned] positions must be below the number of rows, 2, got 3",
        lambda q: gnomon.jax.table(
            gnomon.Learned(rows=2, width=4), np.array([0, 3]), [np.zeros((2, 4))]
        ),
    ),
]


@pytest.mark.parametrize("message, call", ERRORS, ids=[one[0] for one in ERRORS])
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_errors_when_traced(message: str, call: Any, traced: bool) -> None:
    with pytest.raises(ValueError) as raised:
        (jax.jit(call) if traced else call)(Q)
    assert str(raised.value).startswith(message)


def test_errors_of_traced_values() -> None:
    spec = gnomon.Learned(rows=2, width=4)
    call = jax.jit(lambda ids: gnomon.jax.table(spec, ids, [np.zeros((2, 4))]))
    assert call(np.array([0, 1])).shape == (2, 4)
    # JAX raises the one or the other, depending on where it waits for the result.
    errors = (jax.errors.JaxRuntimeError, ValueError)
    with pytest.raises(errors, match=r"\[learned\] positions must be below"):
        jax.block_until_ready(call(np.array([0, 3])))


def test_a_second_gradient_of_attention_is_refused() -> None:
    def loss(q: Any) -> Any:
        return (gnomon.jax.attention(q, q, q) ** 2).sum()

    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda q: jax.grad(loss)(q).sum())(Q)


def test_arrays_of_other_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnGpu:
        def devices(self) -> list[Any]:
            return [types.SimpleNamespace(platform="gpu")]

    monkeypatch.setattr(_jax_arguments.jnp, "asarray", lambda _: OnGpu())
    with pytest.raises(ValueError, match=r"\[rotate\] x must be on the CPU, got gpu"):
        gnomon.jax.rotate(Q, ROPE)


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    return done.stdout.strip()


def test_the_same_bits_for_any_number_of_threads() -> None:
    code = """if True:
        import hashlib, jax, numpy as np, gnomon, gnomon.jax
        random = np.random.default_rng(0).standard_normal
        q, table = random((2, 150, 4, 16), np.float32), random((32, 4), np.float32)
        spec = gnomon.T5Bias(heads=4, direction="causal")
        loss = lambda q, t: (gnomon.jax.attention(q, q, q, spec, [t]) ** 2).sum()
        grads = jax.jit(jax.grad(loss, (0, 1)))(q, table)
        print(hashlib.sha256(b"".join(np.asarray(x).tobytes() for x in grads)).hexdigest())"""
    assert len({run(code, OMP_NUM_THREADS=threads) for threads in ("1", "2", "3")}) == 1


def test_import_of_gnomon_imports_no_jax() -> None:
    assert (
        run("import sys, gnomon; print('jax' in sys.modules, 'numpy' in sys.modules)")
        == "False False"
    )
