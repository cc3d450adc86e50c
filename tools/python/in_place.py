"""Rotates a float32 array of 1 GB in place and prints the peak memory of the process.

    python tools/python/in_place.py [GIGABYTES]
"""

import resource
import sys
import time

import numpy as np

import gnomon


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # GB


def main() -> None:
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    tokens = int(gigabytes * 1e9) // (32 * 128 * 4)
    x = np.ones((tokens, 32, 128), np.float32)
    address = x.ctypes.data
    table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=128, pairing="halves"), tokens)
    before = peak()
    start = time.perf_counter()
    gnomon.rotate(x, table)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    np.add(x, 0, out=x)
    add = time.perf_counter() - start
    assert x.ctypes.data == address
    print(f"array {x.nbytes / 1e9:.3f} GB, peak memory before {before:.3f} GB, "
          f"after {peak():.3f} GB; rotation {seconds:.3f} s, np.add(x, 0, out=x) {add:.3f} s")


if __name__ == "__main__":
    main()
