"""Memory: arrays are used in place. Peaks are those of a fresh process."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
