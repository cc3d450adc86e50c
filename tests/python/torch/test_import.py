"""PyTorch and Gnomon in one process, in either order of import."""

from __future__ import annotations

import subprocess
import sys

import pytest

USE = """
import numpy, pathlib
x = numpy.linspace(-1, 1, 1024 * 32 * 128, dtype=numpy.float32).reshape(1024, 32, 128)
y = torch.from_numpy(x.copy())
rope = gnomon.Rotary(rotary_dim=128, pairing="halves")
table = gnomon.RotaryTable(rope, 1024)
product = y.reshape(-1, 128) @ torch.ones(128, 128)       # starts PyTorch's threads
gnomon.rotate(x, table)                                   # starts Gnomon's
gnomon.rotate(y, table)
assert (torch.from_numpy(x) == y).all()
maps = pathlib.Path("/proc/self/maps").read_text()
print(len({line.split()[-1] for line in maps.splitlines() if "libgomp" in line}))
"""


@pytest.mark.parametrize("order", ["import torch, gnomon", "import gnomon, torch",
                                   "import gnomon; gnomon.threads(); import torch",
                                   "import gnomon.torch, torch"])
def test_order_of_import(order: str) -> None:
    shown = subprocess.run([sys.executable, "-c", order + USE], check=True, capture_output=True,
                           text=True)
    assert shown.stdout.strip() == "1"  # PyTorch's OpenMP runtime only


def test_a_forked_worker_rotates() -> None:
    code = """
import gnomon, torch
from torch.utils.data import DataLoader, Dataset
table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=128, pairing="halves"), 1024)
class Rotated(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i):
        x = torch.full((1024, 8, 128), float(i))
        gnomon.rotate(x, table)
        return x
rotated = Rotated()
here = [rotated[i] for i in range(4)]      # the threads of this process have started
there = list(DataLoader(rotated, batch_size=None, num_workers=2))
assert all((a == b).all() for a, b in zip(here, there))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
