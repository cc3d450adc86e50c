"""PyTorch 1.13, which has no fused attention: textbook code."""

from __future__ import annotations

import torch

from contender import Contender
from contenders.textbook_attention import DenseBias, eager


def contenders(threads: int) -> list[Contender]:
    torch.set_num_threads(threads)
    return [DenseBias("PyTorch 1.13 eager, textbook", eager, 3)]


def versions() -> dict[str, str]:
    return {"an older torch": torch.__version__}
