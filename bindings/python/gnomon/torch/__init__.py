"""Positional encodings in PyTorch: functions, operators and drop-in forms.

    import torch, gnomon, gnomon.torch

    rope = gnomon.Rotary(rotary_dim=64, pairing="halves", base=500000.0)
    q = torch.randn(1, 16, 8, 64)                        # [B, T, H, D]
    q = gnomon.torch.rotate(q, rope)                     # positions 0 to 15

    q, k, v = torch.randn(3, 1, 8, 16, 64).unbind()      # [B, H, T, D]
    out = gnomon.torch.attention(q, k, v, rope)          # rotation inside, causal

Tables are computed in double from the spec when they are first needed, and shared by all calls.
"""

from __future__ import annotations

from ._drop_ins import apply_rotary_emb, apply_rotary_pos_emb, rope_init
from ._functions import add_position, attention, rotate

__all__ = [
    "add_position",
    "apply_rotary_emb",
    "apply_rotary_pos_emb",
    "attention",
    "rope_init",
    "rotate",
]
