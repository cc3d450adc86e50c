"""A plan, and a run of it with invented numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

SETTINGS = {
    "preset": "default", "task": "text", "encodings": ["none", "rotary"], "extend": [],
    "texts": ["a.txt"], "tokens": "bytes", "train_length": 4, "eval_lengths": [4, 8], "layers": 2,
    "width": 16, "heads": 2, "seeds": [1, 2], "steps": 6, "batch": 3, "learning_rate": 0.01,
    "position_rate": 10, "eval_segments": 5, "device": "cpu"}
PLAN = {"settings": SETTINGS, "fingerprint": "0123", "command": "gnomon lab", "gnomon": "0.1.0"}
CURVE = [{"step": 3, "train_bits": 7.5}, {"step": 6, "train_bits": 6.5, "validation_bits": 6.0}]


def evaluation() -> dict[str, Any]:
    def test(length: int, *bits: float) -> dict[str, Any]:
        return {"length": length, "applicable": True, "tail_bits": float(np.mean(bits)),
                "window_bits": 4.0, "accuracy": 0.25, "windows": 2 * 8 // length,
                "tail_by_segment": list(bits)}
    return {"lengths": [test(4, 3.0, 4.0), test(8, 5.0, math.inf)],
            "by_position": {"length": 8, "positions": [1.0, 2.0], "bits": [5.0, math.nan]}}
