"""Threads: the GIL is released, and results do not depend on the number of threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import gnomon


def arrays(tokens: int, heads: int = 4, dtype: str = "f4") -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.standard_normal((2, tokens, heads, 32)).astype(dtype) for _ in range(3)]


def test_the_number_of_threads_is_set() -> None:
    gnomon.set_threads(1)
    assert gnomon.threads() == 1
    gnomon.set_threads(2)
    assert gnomon.threads() == 2
    for count in (-1, 0, 4097, 2**31 - 1):
        with pytest.raises(ValueError, match=r"^\[threads\] count must be 1 to 4096, got"):
            gnomon.set_threads(count)
    with pytest.raises(TypeError):
        gnomon.set_threads("two")


@pytest.mark.parametrize("name", ["rotary", "alibi", "t5", "fire", "shaw", "deberta"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_the_same_bits_for_any_number_of_threads(name: str, dtype: str) -> None:
    spec = gnomon.usual(name, width=128, heads=4, length=300)
    random = np.random.default_rng(2)
    values = [random.standard_normal((p.rows, p.columns)).astype("f4") for p in spec.parameters()]
    q, k, v = arrays(200, dtype=dtype)
    results = []
    for threads in (1, 2, 3):
        gnomon.set_threads(threads)
        plan = gnomon.lower(spec, 200, parameters=values, visibility="causal")
        lse = np.empty((2, 4, 200), "f8" if dtype == "f8" else "f4")
        out = gnomon.attention(q, k, v, plan, lse=lse)
        grads = [np.zeros_like(one) for one in (q, k, v)]
        parameter_grads = [np.zeros_like(one) for one in values]
        gnomon.attention_backward(
            q, k, v, plan, out, lse, out, q_grad=grads[0], k_grad=grads[1], v_grad=grads[2],
            parameter_grads=parameter_grads,
        )
        results.append([out, lse, *grads, *parameter_grads])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_rotation_has_the_same_bits() -> None:
    table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=32, pairing="halves"), 3000)
    results = []
    for threads in (1, 2, 3):
        gnomon.set_threads(threads)
        x = arrays(3000)[0]
        gnomon.rotate(x, table)
        results.append(x)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def long_rotation() -> Callable[[], None]:
    x = np.ones((1, 20000, 8, 128), np.float32)
    table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=128, pairing="halves"), 20000)
    return lambda: gnomon.rotate(x, table)


def long_attention() -> Callable[[], None]:
    q, k, v = arrays(3000)
    plan = gnomon.lower(None, 3000, visibility="bidirectional")
    return lambda: gnomon.attention(q, k, v, plan)


def other_threads_run_during(call: Callable[[], None]) -> bool:
    """No thread is interrupted here: this one goes on only if a call gives up the GIL."""
    inside, seen = threading.Event(), threading.Event()
    results = []

    def compute() -> None:
        inside.set()
        for _ in range(100):  # on a busy machine this thread may wait longer than one call
            call()
            if seen.is_set():
                break
        results.append(seen.is_set())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # seconds
    try:
        worker = threading.Thread(target=compute)
        worker.start()
        inside.wait()
        seen.set()
        worker.join()
    finally:
        sys.setswitchinterval(interval)
    return results[0]


@pytest.mark.parametrize("prepared", [long_rotation, long_attention])
def test_other_python_threads_run_during_a_call(prepared: Callable) -> None:
    assert other_threads_run_during(prepared())
    assert not other_threads_run_during(lambda: None)


def test_many_threads_share_a_plan() -> None:
    plan = gnomon.lower(gnomon.Rotary(rotary_dim=32, pairing="halves"), 50, visibility="causal")
    q, k, v = arrays(50)
    want = gnomon.attention(q, k, v, plan)
    results: list[np.ndarray] = []

    def compute() -> None:
        for _ in range(20):
            results.append(gnomon.attention(q, k, v, plan))

    workers = [threading.Thread(target=compute) for _ in range(4)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert len(results) == 80
    for one in results:
        np.testing.assert_array_equal(one, want)
