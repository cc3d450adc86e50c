"""Time of small calls from Python: NumPy and PyTorch, with and without gradients.

    python tools/python/overhead.py

Prints a Markdown table. Each time is the least mean over 100 calls, of 300 repetitions, so that
other work on the machine counts little. Rows of empty operators show the cost of PyTorch itself.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable

import numpy as np
import torch

import gnomon
import gnomon.torch as gt


def microseconds(call: Callable[[], object], repetitions: int) -> float:
    """Returns the least mean time of 100 calls."""
    best = float("inf")
    for _ in range(repetitions):
        begin = time.perf_counter()
        for _ in range(100):
            call()
        best = min(best, time.perf_counter() - begin)
    return best * 1e4


def rows() -> list[tuple[str, Callable[[], object]]]:
    """Returns the calls with their names, on arrays [1, 1, 1, 64]."""
    rope = gnomon.Rotary(rotary_dim=64, pairing="halves")
    table = gnomon.RotaryTable(rope, 1)
    plan = gnomon.lower(rope, 1, visibility="causal")
    array = np.ones((1, 1, 1, 64), np.float32)
    out = np.empty_like(array)
    x = torch.ones(1, 1, 1, 64)
    trained = x.clone().requires_grad_()
    cos, sin = torch.ones(1, 1, 64), torch.zeros(1, 1, 64)
    embeddings = torch.ones(1, 1, 64)
    sinusoid = gnomon.Sinusoidal(width=64, recipe="interleaved")
    return [
        ("NumPy: `np.add(x, 0, out=x)`, for comparison", lambda: np.add(array, 0, out=array)),
        ("NumPy: `gnomon.rotate(x, table)`, in place", lambda: gnomon.rotate(array, table)),
        ("NumPy: `gnomon.attention(q, k, v, plan, out=out)`",
         lambda: gnomon.attention(array, array, array, plan, out=out)),
        ("PyTorch: `x.view(-1)`, for comparison", lambda: x.view(-1)),
        ("PyTorch: `x.add_(0)`, for comparison", lambda: x.add_(0)),
        ("PyTorch: `torch.empty_like(x)`, for comparison", lambda: torch.empty_like(x)),
        ("PyTorch: `scaled_dot_product_attention`, for comparison",
         lambda: torch.nn.functional.scaled_dot_product_attention(x, x, x)),
        ("`gnomon.rotate(x, table)` of a tensor, in place", lambda: gnomon.rotate(x, table)),
        ("`gnomon.torch.rotate(x, table)`", lambda: gt.rotate(x, table)),
        ("`gnomon.torch.rotate(x, spec)`", lambda: gt.rotate(x, rope)),
        ("`gnomon.torch.rotate(x, spec, 7)`", lambda: gt.rotate(x, rope, 7)),
        ("`gnomon.torch.rotate(x, spec, inplace=True)`",
         lambda: gt.rotate(x, rope, inplace=True)),
        ("`gnomon.torch.rotate(x, spec)`, x requires a gradient", lambda: gt.rotate(trained, rope)),
        ("`gnomon.torch.apply_rotary_pos_emb(q, k, cos, sin)`",
         lambda: gt.apply_rotary_pos_emb(x, x, cos, sin)),
        ("`gnomon.torch.attention(q, k, v, spec)`", lambda: gt.attention(x, x, x, rope)),
        ("`gnomon.torch.attention(q, k, v, spec)`, q requires a gradient",
         lambda: gt.attention(trained, x, x, rope)),
        ("`gnomon.torch.add_position(x, spec)`", lambda: gt.add_position(embeddings, sinusoid)),
        ("`torch.ops.gnomon.rotate(x, ...)`, the operator",
         lambda: torch.ops.gnomon.rotate(x, rope.to_json(), [], 0, 0, False, False)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=300)
    repetitions = parser.parse_args().repetitions
    torch.set_num_threads(1)
    print(f"Python {platform.python_version()}, PyTorch {torch.__version__}, "
          f"NumPy {np.__version__}, {gnomon.isa()}\n")
    print("| call | microseconds |\n|---|---:|")
    for name, call in rows():
        print(f"| {name} | {microseconds(call, repetitions):.2f} |")


if __name__ == "__main__":
    main()
