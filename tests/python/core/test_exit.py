"""The process ends, or forks, while other threads compute."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEFORE = """
import os, sys, threading, time
import numpy as np
import gnomon

random = np.random.default_rng(1)
q, k, v = (random.standard_normal((1, 8, 4, 32)).astype("f4") for _ in range(3))
plan = gnomon.lower(None, 8, visibility="causal")

def compute():
    while True:
        gnomon.attention(q, k, v, plan)

worker = threading.Thread(target=compute, daemon=True)
worker.start()
"""

FORK = """
def serve():
    gnomon.attention(q, k, v, plan)
    os._exit(0)

for _ in range(100):
    child = os.fork()
    if child == 0:
        serve()
    end = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, 9)
            sys.exit("a forked child waits forever")
        time.sleep(0.001)
os._exit(0)
"""


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True,
                          text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("threads", [1, 3])
def test_the_process_ends_while_daemon_threads_compute(threads: int) -> None:
    for repeat in range(10):
        run(BEFORE + f"gnomon.set_threads({threads})\ntime.sleep({repeat / 100})\n")


@pytest.mark.parametrize("threads", [1, 3])
def test_a_forked_child_computes(threads: int) -> None:
    """multiprocessing does this on Linux, until Python 3.14."""
    run(f"import gnomon\ngnomon.set_threads({threads})" + BEFORE + FORK)
