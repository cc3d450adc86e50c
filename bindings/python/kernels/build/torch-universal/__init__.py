"""Rotation and attention of Gnomon for the package `kernels` of Hugging Face.

This folder is a build variant that `kernels` imports. gnomon.torch does the work and must be
installed. The functions have the names and arguments of the kernels on the Hub (flash-attn,
rotary); layers.py has layers for `kernelize`.

Letters: B batch, H query heads, Hk key heads, T queries, S keys, D head dimension.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from gnomon.torch import apply_rotary_emb, apply_rotary_pos_emb, attention, rotate

from . import layers

__all__ = ["apply_rotary_emb", "apply_rotary_pos_emb", "attention", "flash_attn_func",
           "flash_attn_varlen_func", "layers", "rotate"]


def _options(dropout_p: float, softmax_scale: float | None, causal: bool,
             window_size: Sequence[int], softcap: float, sinks: Tensor | None,
             **refused: Any) -> dict[str, Any]:
    """Returns the options of `attention`. Raises ValueError for those that it does not have."""
    for name, got in refused.items():
        if got is not None and got is not False:
            raise ValueError(f"[kernels] {name} must have its default, got {got}")
    left, right = (None if one < 0 else one for one in window_size)
    return {"visibility": "causal" if causal else "bidirectional", "left": left,
            "right": None if causal else right, "softmax_scale": softmax_scale,
            "cap": softcap or None, "sinks": sinks, "dropout": dropout_p}


def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0,
                    softmax_scale: float | None = None, causal: bool = False,
                    window_size: Sequence[int] = (-1, -1), softcap: float = 0.0,
                    alibi_slopes: Tensor | None = None, deterministic: bool = False,
                    return_attn_probs: bool = False, s_aux: Tensor | None = None) -> Tensor:
    """Attention with the arguments of the function of this name in flash-attn, on the CPU.

    q: [B, T, H, D]; k, v: [B, S, Hk, D]; returns [B, T, H, D]. causal: bottom-right for T < S.
    window_size: (left, right) rows, -1 for no limit. softcap: 0 for none. s_aux: sinks [H].
    Differentiable in q, k, v and s_aux; always deterministic. Raises ValueError for alibi_slopes
    (use `attention` with gnomon.Alibi) and return_attn_probs.
    """
    options = _options(dropout_p, softmax_scale, causal, window_size, softcap, s_aux,
                       alibi_slopes=alibi_slopes, return_attn_probs=return_attn_probs)
    return attention(q, k, v, layout="tokens_heads", **options)


def flash_attn_varlen_func(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor,
                           cu_seqlens_k: Tensor, max_seqlen_q: int, max_seqlen_k: int,
                           dropout_p: float = 0.0, softmax_scale: float | None = None,
                           causal: bool = False, window_size: Sequence[int] = (-1, -1),
                           softcap: float = 0.0, alibi_slopes: Tensor | None = None,
                           deterministic: bool = False, return_attn_probs: bool = False,
                           block_table: Any = None, s_aux: Tensor | None = None) -> Tensor:
    """flash_attn_func for packed sequences: sequence i has rows cu_seqlens[i] to cu_seqlens[i + 1].

    q: [sum of T, H, D]; k, v: [sum of S, Hk, D]; cu_seqlens_q, cu_seqlens_k: integers [N + 1].
    max_seqlen_q and max_seqlen_k are not needed. block_table must be None (no paged cache).
    """
    options = _options(dropout_p, softmax_scale, causal, window_size, softcap, s_aux,
                       alibi_slopes=alibi_slopes, return_attn_probs=return_attn_probs,
                       block_table=block_table)
    return attention(q, k, v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, **options)
