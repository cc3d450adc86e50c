"""Memory: arrays are used in place. Peaks are those of a fresh process."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import tracemalloc
import types
from typing import Any

import numpy as np
import pytest

import gnomon

ROPE = gnomon.Rotary(rotary_dim=4, pairing="halves")

PREAMBLE = """
import resource, numpy as np, gnomon
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
size = 256 * 2**20
tokens = size // (32 * 128 * 4)
x = np.ones((1, tokens, 32, 128), np.float32)
"""
CASES = {
    "rotate": """
table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=128, pairing="halves"), tokens)
before = peak()
gnomon.rotate(x, table)
""",
    "rotate heads first": """
table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=128, pairing="halves"), 32)
before = peak()
gnomon.rotate(x.transpose(0, 2, 1, 3), table)
""",
    "rotate by dlpack": """
class Other:
    def __dlpack__(self, **options): return x.__dlpack__(**options)
    def __dlpack_device__(self): return x.__dlpack_device__()
table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=128, pairing="adjacent"), tokens)
before = peak()
gnomon.rotate(Other(), table)
""",
    "prepare": """
import gnomon.model
plan = gnomon.model.from_pretrained({
    "model_type": "llama", "num_attention_heads": 1, "hidden_size": 128, "num_hidden_layers": 1,
    "max_position_embeddings": 16}).lower(0, tokens)
before = peak()
gnomon.prepare(x, None, None, plan)
""",
    "attention": """
keys = x.reshape(1, -1, 1, 128)
q = np.ones((1, 1, 1, 128), np.float32)
plan = gnomon.lower(None, 1, keys.shape[1], visibility="causal")
before = peak()
gnomon.attention(q, keys, keys, plan)
""",
}


@pytest.mark.parametrize("name", CASES)
def test_256_mib_are_not_copied(name: str) -> None:
    program = PREAMBLE + CASES[name] + "print((peak() - before) / size)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 0.1, done.stdout


def test_plans_and_tables_are_freed() -> None:
    program = """
import resource, numpy as np, gnomon
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
spec = gnomon.Rotary(rotary_dim=128, pairing="halves")
x = np.ones((1, 1024, 1, 128), np.float32)
def work():
    table = gnomon.RotaryTable(spec, 1024)
    gnomon.rotate(x, table)
    table.cos, table.frequencies, gnomon.lower(spec, 1024, visibility="causal").query_rotary
    gnomon.attention(x, x, x, gnomon.lower(gnomon.Alibi(heads=1), 1024, visibility="causal"))
    try:
        gnomon.rotate(x.astype("i4"), table)
    except ValueError:
        pass
for _ in range(20):
    work()
before = peak()
for _ in range(100):
    work()
print(peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 8 * 2**20, done.stdout  # one leaked table: 512 KiB each turn


def test_references_and_memory_of_calls() -> None:
    """Successful and refused calls keep no reference to their arguments, and no memory.

    GNOMON_SOAK_CALLS: the number of calls; default 40000.
    """
    x, table = np.ones((1, 3, 2, 4), np.float32), gnomon.RotaryTable(ROPE, 3)
    plan, cache = gnomon.lower(ROPE, 3, visibility="causal"), gnomon.KvCache(
        capacity=4, heads=2, head_dim=4, encoding=ROPE)
    paged = gnomon.PagedKvCache(blocks=4, heads=2, head_dim=4)
    ids, terms, numbers = np.arange(3), {"gates": x, 3: x}, [0, 1, 2]
    paged.start()
    capsule = types.SimpleNamespace(  # a type that is not known
        __dlpack__=None, x=x)

    class Other:
        def __init__(self, x: np.ndarray) -> None:
            self.x = x

        def __dlpack__(self, **options: Any) -> Any:
            return self.x.__dlpack__(**options)

    other = Other(x)
    calls = [
        lambda: gnomon.rotate(x, table),
        lambda: gnomon.rotate(other, table),
        lambda: gnomon.rotate(other, table, out=x),
        lambda: gnomon.rotate(capsule, table),
        lambda: gnomon.rotate(x, table, k=x),
        lambda: gnomon.rotate(x[:, :2], table),
        lambda: gnomon.attention(x, other, x, plan, lse=np.empty((1, 2, 3), "f4")),
        lambda: gnomon.attention(x, x, x, plan, terms=terms),
        lambda: gnomon.attention(x, x, None, plan),
        lambda: gnomon.Positions(ids, numbers),
        lambda: gnomon.Positions(other),
        lambda: gnomon.lower(ROPE, numbers, visibility="causal").query_rotary.cos.sum(),
        lambda: gnomon.lower(ROPE, ids, visibility="?"),
        lambda: (cache.clear(), cache.append(x, other, ids), cache.keys.sum()),
        lambda: cache.append(x, x),
        lambda: (paged.append(x[0], x[0], 0, [0, 3]), paged.keys.sum(), paged.truncate(0, 0)),
        lambda: pickle.loads(pickle.dumps(table)),
        lambda: gnomon.convolve(x[0], np.ones((4, 2), "f4")),
        lambda: gnomon.Alibi(heads="x"),
    ]
    held = [x, table, plan, cache, paged, ids, terms, numbers, other, capsule, ROPE, type(other)]

    def run(count: int) -> None:
        for i in range(count):
            try:
                calls[i % len(calls)]()
            except (ValueError, TypeError):
                pass

    rounds = int(os.environ.get("GNOMON_SOAK_CALLS", "40000")) // len(calls) // 4
    tracemalloc.start()
    run(rounds * len(calls))
    gc.collect()
    before = [sys.getrefcount(one) for one in held]
    grown = []  # free lists and tables fill in the first parts, a leak grows in all of them
    for _ in range(3):
        memory = tracemalloc.get_traced_memory()[0]
        run(rounds * len(calls))
        gc.collect()
        grown.append(tracemalloc.get_traced_memory()[0] - memory)
    tracemalloc.stop()
    assert [sys.getrefcount(one) for one in held] == before
    assert min(grown) < 16 * rounds, f"{grown} bytes in {rounds} rounds each"
