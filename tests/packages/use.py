"""Uses the installed Python package: a rotation compared with NumPy in double, and the program."""

import json
import sys

import numpy as np

import gnomon
import gnomon.model

T, H, D = 128, 4, 64
base = 500000.0
rng = np.random.default_rng(1)
q = rng.standard_normal((1, T, H, D)).astype(np.float32)
angles = np.arange(T)[:, None] * base ** (-np.arange(0, D, 2) / D)
cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
a, b = q[0, ..., : D // 2].astype(np.float64), q[0, ..., D // 2 :].astype(np.float64)
expected = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=D, pairing="halves", base=base), T)
gnomon.rotate(q, table)
error = np.abs(q[0] - expected).max()
assert error < 2e-6, error

config = json.load(open(sys.argv[1]))
described = gnomon.model.from_pretrained(config).describe()  # calls the program
assert "llama" in described, described
print(
    f"packages: gnomon {gnomon.__version__}: the rotation differs from NumPy by {error:.1e} at most"
)
