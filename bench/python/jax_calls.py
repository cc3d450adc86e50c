"""Times of gnomon.jax on the CPU: the overhead of a call, and attention against jax.nn.

    OMP_NUM_THREADS=2 python bench/python/jax_calls.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gnomon
import gnomon.jax


def best(function: Callable[..., Any], *operands: Any, calls: int, rounds: int = 7) -> float:
    """Seconds for a call, the least of several rounds."""
    jax.block_until_ready(function(*operands))
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            out = function(*operands)
        jax.block_until_ready(out)
        times.append((time.perf_counter() - start) / calls)
    return min(times)


def chain(step: Callable[[Any], Any], count: int) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for _ in range(count):
            x = step(x)
        return x

    return jax.jit(run)


def overhead() -> None:
    rope, alibi = gnomon.Rotary(rotary_dim=16, pairing="halves"), gnomon.Alibi(heads=4)
    x = jnp.ones((1, 1, 4, 16))  # one token, 4 heads

    def rotate(x: Any) -> Any:
        return gnomon.jax.rotate(x, rope)

    def attention(x: Any) -> Any:
        return gnomon.jax.attention(x, x, x, alibi)

    print("microseconds for one token     outside jit    a jit call    inside jit    NumPy call")
    own = np.ones(x.shape, np.float32)
    out = np.empty_like(own)
    table, plan = gnomon.RotaryTable(rope, 1), gnomon.lower(alibi, 1, visibility="causal")
    numpy = {"rotate": lambda: gnomon.rotate(own, table),
             "attention": lambda: gnomon.attention(own, own, own, plan, out=out)}
    for name, step in (("rotate", rotate), ("attention", attention)):
        times = (best(step, x, calls=200), best(jax.jit(step), x, calls=2000),
                 best(chain(step, 100), x, calls=50) / 100, best(numpy[name], calls=2000))
        print(f"{name:<28}" + "".join(f"{1e6 * one:14.2f}" for one in times))
    print(f"{'x + 1, by JAX':<42}{1e6 * best(jax.jit(lambda x: x + 1), x, calls=2000):14.2f}")


def against_jax() -> None:
    print("\nmilliseconds, [1, 1024, 8, 64] float32, causal, ALiBi      forward    with gradient")
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 1024, 8, 64), np.float32)
    alibi = gnomon.Alibi(heads=8)
    bias = gnomon.jax.bias(alibi, 1024, 1024)[None]
    functions = {
        "gnomon.jax.attention": lambda q, k, v: gnomon.jax.attention(q, k, v, alibi),
        "jax.nn.dot_product_attention": lambda q, k, v: jax.nn.dot_product_attention(
            q, k, v, bias=bias, is_causal=True),
    }
    for name, function in functions.items():
        gradient = jax.grad(lambda *a, f=function: (f(*a) ** 2).sum(), (0, 1, 2))
        times = [best(jax.jit(one), q, k, v, calls=1, rounds=5) for one in (function, gradient)]
        print(f"{name:<52}" + "".join(f"{1e3 * one:15.1f}" for one in times))


if __name__ == "__main__":
    print(f"gnomon {gnomon.__version__} ({gnomon.isa()}), jax {jax.__version__}")
    overhead()
    against_jax()
