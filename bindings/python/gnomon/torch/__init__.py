"""Positional encodings in PyTorch: functions, operators and drop-in forms.

    import torch, gnomon, gnomon.torch

    rope = gnomon.Rotary(rotary_dim=64, pairing="halves", base=500000.0)
    q, k, v = torch.randn(3, 1, 8, 16, 64).unbind()      # [B, H, T, D]

    rotated = gnomon.torch.rotate(q, rope)               # positions 0 to 15
    out = gnomon.torch.attention(q, k, v, rope)          # rotation inside, causal

Tables are computed in double from the spec when they are first needed, and shared by all calls.
"""

from __future__ import annotations

import importlib
from typing import Any

from . import _operators as _operators
from ._append import rotate_append
from ._attention import attention
from ._dape import Dape
from ._drop_ins import apply_rotary_emb, apply_rotary_pos_emb, rope_init
from ._functions import add_position, rotate
from ._learned import LearnedRotary, rotate_by_frequencies
from ._modules import PositionEncoding, PositionScheme
from ._named import *  # noqa: F403
from ._named import __all__ as _named
from ._registry import decompositions
from .patch import PatchReport, patch, register_attention, unpatch

__all__ = [
    "Dape",
    "LearnedRotary",
    "PatchReport",
    "PositionEncoding",
    "PositionScheme",
    "add_position",
    "apply_rotary_emb",
    "apply_rotary_pos_emb",
    "attention",
    "decompositions",
    "flex",
    "patch",
    "register_attention",
    "rope_init",
    "rotate",
    "rotate_append",
    "rotate_by_frequencies",
    "unpatch",
    *_named,
]


def __getattr__(name: str) -> Any:
    if name == "flex":  # its import takes longer than that of all others
        return importlib.import_module(".flex", __name__)
    raise AttributeError(f"module 'gnomon.torch' has no attribute '{name}'")
