"""Edges of the life of a process that uses gnomon: edges.py NAME COUNT [fresh].

Runs a scenario COUNT times, each in a child that this process forks (which saves the imports),
or with `fresh` in a new interpreter. A repeat is bad if its exit status is not the expected one,
if it writes to stderr, or if it hangs: all its threads, and those of its children, sleep during
60 s without using the processor, or they use it for 120 s. (A limit
of time would count repeats of a busy machine as bad.)
Prints the number of bad repeats.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("OMP_NUM_THREADS", "3")  # read at the first call

import gnomon  # noqa: E402

LIMIT = float(os.environ.get("GNOMON_EDGE_LIMIT", "60"))  # seconds without progress
drawn = np.random.default_rng(1)
q, k, v = (drawn.standard_normal((1, 96, 4, 32)).astype("f4") for _ in range(3))
long_q, long_k, long_v = (np.tile(one, (1, 20, 1, 1)) for one in (q, k, v))
PLANS: dict[int, gnomon.Plan] = {}


def plan(tokens: int) -> gnomon.Plan:
    if tokens not in PLANS:
        PLANS[tokens] = gnomon.lower(gnomon.Alibi(heads=4), tokens, visibility="causal")
    return PLANS[tokens]


def result() -> np.ndarray:
    return gnomon.attention(q, k, v, plan(96))


def want() -> np.ndarray:
    """Softmax attention by its formula, without gnomon."""
    at = np.arange(96)
    slopes = 2.0 ** (-8.0 * np.arange(1, 5) / 4)
    scores = np.einsum("bthd,bshd->bhts", q.astype("f8"), k.astype("f8")) / np.sqrt(32)
    scores -= slopes[:, None, None] * (at[:, None] - at)
    scores = np.where(at[:, None] >= at, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("bhts,bshd->bthd", weights, v.astype("f8"))


WANT = want()


def check(got: np.ndarray) -> None:
    np.testing.assert_allclose(got, WANT, rtol=0, atol=4e-5)


def compute(*_: Any) -> bool:
    check(result())
    return True


def compute_forever() -> None:
    while True:
        gnomon.attention(q, k, v, plan(96))


def start_daemons(count: int) -> None:
    plan(96)
    for _ in range(count):
        threading.Thread(target=compute_forever, daemon=True).start()


def wait(milliseconds: float) -> None:
    time.sleep(random.random() * milliseconds / 1000)


# --- The end of the process -----------------------------------------------------------------------


def exit_with_daemon_threads() -> None:
    start_daemons(3)
    wait(5)


def exit_by_system_exit_in_a_call() -> None:
    """A thread ends the process while the main thread is inside a kernel."""
    threading.Thread(target=lambda: (wait(5), os._exit(0)), daemon=True).start()
    compute_forever()


def exit_with_executor() -> None:
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        done = [executor.submit(compute) for _ in range(6)]
    assert all(one.result() for one in done)


def exit_with_live_objects() -> None:
    """Caches, views, plans and cycles that live until the modules are torn down."""
    import __main__

    cache = gnomon.KvCache(capacity=96, heads=4, head_dim=32)
    paged = gnomon.PagedKvCache(blocks=4, heads=4, head_dim=32)
    cache.append(k, v)
    table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=32, pairing="halves"), 96)

    class Last:
        def __init__(self) -> None:
            self.me, self.kept = self, [cache, cache.keys, paged, paged.keys, table.cos]
            self.plan, self.call, self.arrays = plan(96), gnomon.attention, (q, k, v)

        def __del__(self) -> None:
            self.call(*self.arrays, self.plan)

    __main__.last = Last()
    __main__.view = cache.values
    atexit.register(compute)
    atexit.register(cache.clear)
    start_daemons(1)


def exit_by_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(
        target=lambda: (wait(5), os.kill(os.getpid(), signal.SIGTERM)), daemon=True
    ).start()
    compute_forever()


# --- Forks ----------------------------------------------------------------------------------------


def in_child(function: Callable[[], Any]) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0, "a child failed"


def fork_before_use() -> None:
    in_child(compute)
    compute()


def fork_during_use() -> None:
    start_daemons(2)
    wait(3)
    in_child(compute)
    compute()


def fork_after_use() -> None:
    compute()
    in_child(lambda: (compute(), in_child(compute), compute()))
    compute()


def fork_with_threads() -> None:
    """A child with another number of threads, a table and a cache."""
    gnomon.set_threads(2)
    compute()

    def child() -> None:
        gnomon.set_threads(3)
        compute()
        cache = gnomon.KvCache(capacity=96, heads=4, head_dim=32)
        cache.append(k, v)
        np.testing.assert_array_equal(cache.keys, k)
        start_daemons(1)
        in_child(compute)

    in_child(child)


def _pool(method: str) -> None:
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(compute, range(4)) == [True] * 4


def pool_of_fork() -> None:
    compute()
    _pool("fork")


def pool_of_forkserver() -> None:
    _pool("forkserver")


def pool_of_spawn() -> None:
    _pool("spawn")


# --- Signals --------------------------------------------------------------------------------------


def _long_call() -> tuple[np.ndarray, np.ndarray]:
    out = np.full(long_q.shape, np.nan, "f4")
    lse = np.full((1, 4, long_q.shape[1]), np.nan, "f4")
    gnomon.attention(long_q, long_k, long_v, plan(long_q.shape[1]), out=out, lse=lse)
    return out, lse


def interrupt() -> None:
    """KeyboardInterrupt comes after the call, whose result is complete."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = np.full(long_q.shape, np.nan, "f4")
    the_plan = plan(long_q.shape[1])
    sender = threading.Thread(target=lambda: (wait(8), os.kill(os.getpid(), signal.SIGINT)))
    interrupted = False
    try:
        sender.start()
        for _ in range(1000):
            gnomon.attention(long_q, long_k, long_v, the_plan, out=out)
    except KeyboardInterrupt:
        interrupted = True
    sender.join()
    assert interrupted
    assert np.isfinite(out).all() or np.isnan(out).all()  # never a part
    compute()


def alarms() -> None:
    """A timer interrupts calls every millisecond."""
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    while len(seen) < 5:
        compute()
    signal.setitimer(signal.ITIMER_REAL, 0)
    compute()


def children_end() -> None:
    seen = []
    signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))
    children = []
    for _ in range(3):
        children.append(os.fork())
        if children[-1] == 0:
            os._exit(0)
    for _ in range(3):
        compute()
    for child in children:
        os.waitpid(child, 0)
    assert seen


# --- Threads --------------------------------------------------------------------------------------


def plans_die_in_use() -> None:
    """Threads call with plans and tables whose last other owner goes away meanwhile."""
    shared: list[Any] = [None]
    failures: list[BaseException] = []

    def renew() -> None:
        shared[0] = gnomon.lower(gnomon.Alibi(heads=4), 96, visibility="causal")

    def use() -> None:
        try:
            for _ in range(8):
                check(gnomon.attention(q, k, v, shared[0]))
        except BaseException as error:
            failures.append(error)

    renew()
    threads = [threading.Thread(target=use) for _ in range(3)]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads):
        renew()
        gc.collect(0)
    assert not failures, failures


def sub_interpreters() -> None:
    """An interpreter inside this one imports gnomon, or is refused with ImportError."""
    code = (
        "try:\n import gnomon\nexcept ImportError: pass\n"
        "else:\n assert gnomon.RotaryTable(gnomon.Rotary(rotary_dim=4, pairing='halves'), 2)"
    )
    compute()
    try:
        import _interpreters  # Python 3.13
    except ImportError:
        import _xxsubinterpreters as _interpreters
    options = ["legacy"] if sys.version_info >= (3, 13) else []
    one = _interpreters.create(*options)
    error = _interpreters.run_string(one, code)
    assert error is None, error
    _interpreters.destroy(one)
    compute()


def hangs() -> None:
    """Shows that a repeat that waits forever is counted. Not one of SCENARIOS."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def fails() -> None:
    """Shows that a bad repeat is counted. Not one of SCENARIOS."""
    raise AssertionError


SCENARIOS = {
    name: one
    for name, one in list(globals().items())
    if name.startswith(("exit_", "fork_", "pool_of_"))
} | {one.__name__: one for one in (interrupt, alarms, children_end, plans_die_in_use,
                                   sub_interpreters)}  # fmt: skip
EXPECTED = {"exit_by_sigterm": -signal.SIGTERM}


def ticks(child: int) -> tuple[int, bool]:
    """The processor time of a process and its descendants, and whether one may run."""
    total, runs = 0, False
    try:
        tasks = list(Path(f"/proc/{child}/task").iterdir())
        for task in tasks:
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])
            runs |= fields[0] in "RD"
        children = (tasks[0] / "children").read_text().split()
    except (OSError, IndexError):
        return total, True  # it is ending
    for one in children:
        more, other = ticks(int(one))
        total, runs = total + more, runs or other
    return total, runs


def status_of(child: int) -> int:
    progress, before, still = time.monotonic(), -1, 0
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0005)
        if time.monotonic() > progress + LIMIT / 100:
            used, runs = ticks(child)
            if used > 120 * os.sysconf("SC_CLK_TCK"):
                break
            if runs or used != before:
                progress, before, still = time.monotonic(), used, 0
            elif (still := still + 1) >= 100:
                break
            else:
                progress = time.monotonic()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 1000  # it hangs


def main(name: str, count: int, fresh: bool) -> None:
    bad = 0
    for repeat in range(count):
        with tempfile.TemporaryFile() as errors:
            if fresh:
                child = subprocess.Popen([sys.executable, "-W", "ignore", __file__, name, "0"],
                                         stderr=errors).pid  # fmt: skip
            else:
                child = os.fork()
                if child == 0:
                    os.dup2(errors.fileno(), 2)
                    random.seed(repeat)
                    gnomon.set_threads(1 + repeat % 3)
                    globals()[name]()
                    return  # the interpreter ends in its usual way
            status = status_of(child)
            errors.seek(0)
            text = errors.read().decode(errors="replace")
            if status != EXPECTED.get(name, 0) or text:
                bad += 1
                print(f"{name}, repeat {repeat}: status {status}\n{text[-2000:]}")
    print(f"{name}: {bad} of {count} bad")
    sys.exit(bad > 0)


if __name__ == "__main__":
    if sys.argv[2] == "0":
        globals()[sys.argv[1]]()
    else:
        main(sys.argv[1], int(sys.argv[2]), "fresh" in sys.argv)
