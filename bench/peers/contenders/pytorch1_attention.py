"""PyTorch 1.13, which has no fused attention: textbook code."""

from __future__ import annotations

import torch

from contender import Contender, Peer
from contenders.textbook_attention import DenseBias, eager


class PyTorchPeer(Peer):
    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        torch.set_num_threads(threads)

    def contenders(self) -> list[Contender]:
        return [DenseBias("PyTorch 1.13 eager, textbook", eager, 3)]

    def versions(self) -> dict[str, str]:
        return {"an older torch": torch.__version__}


peer = PyTorchPeer
