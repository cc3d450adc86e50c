"""Functions with the arguments of transformers, Liger-Kernel and flash-attn.

The given cos and sin are used as they are, so results follow the caller's tables. gnomon.torch
.rotate computes exact tables itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import model
from .._core import FormatError
from ..specs import LongRopeScaling
from . import _kernels
from ._attention import boundaries
from ._functions import _all_direct, _compiling, _with_gradients, rotate_with

_ops = torch.ops.gnomon


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor,
                         position_ids: Tensor | None = None,
                         unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    """Rotates q and k as the function of this name in transformers (Llama) and Liger-Kernel.

    q: [B, H, T, D]; k: [B, Hk, T, D]; with unsqueeze_dim=2: [B, T, H, D] and [B, T, Hk, D].
    cos, sin: [B or 1, T, R], the second half of the last axis equal to the first, which alone is
        read. R at most D: the other elements of a head are not changed.
    position_ids: indices of rows [B, T] if cos and sin are tables [N, R]; otherwise ignored.

    Pairs are (i, i + R/2). Computed in float32 (float64 for float64) and rounded once. The types
    of q and k are kept. Differentiable in all four. Raises ValueError if shapes do not fit.
    """
    if unsqueeze_dim not in (1, 2):
        raise ValueError(f"[rotate] unsqueeze_dim must be 1 or 2, got {unsqueeze_dim}")
    if position_ids is not None and cos.dim() == 2:
        cos, sin = cos[position_ids], sin[position_ids]
    half = cos.shape[-1] // 2
    by_heads = unsqueeze_dim == 1
    if (not _compiling() and _all_direct(q, k, cos, sin) and q.dtype != torch.float64
            and not (_with_gradients() and torch._C._any_requires_grad(q, k, cos, sin))):
        return (_kernels.rotated_with_halves(q, cos, sin, half, by_heads),
                _kernels.rotated_with_halves(k, cos, sin, half, by_heads))
    cos, sin = cos.narrow(-1, 0, half), sin.narrow(-1, 0, half)
    if cos.dtype != torch.float32 and q.dtype != torch.float64:
        cos, sin = cos.float(), sin.float()
    return (rotate_with(q, cos, sin, "halves", by_heads),
            rotate_with(k, cos, sin, "halves", by_heads))


def apply_rotary_emb(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False,
                     inplace: bool = False, seqlen_offsets: int | Tensor = 0,
                     cu_seqlens: Tensor | None = None, max_seqlen: int | None = None) -> Tensor:
    """Rotates x as the function of this name in flash-attn.

    x: [B, T, H, D], or [total, H, D] with cu_seqlens.
    cos, sin: [N, R/2], the rows of positions 0 to N - 1; N at least the largest offset + T.
        R at most D.
    interleaved: pairs are (2i, 2i + 1); otherwise (i, i + R/2).
    inplace: changes x and returns it. x must not require a gradient.
    seqlen_offsets: the position of the first token, or integers [B].
    cu_seqlens: integers [B + 1], the first rows of B packed sequences, and `total`. max_seqlen: at
        least the longest of them; not needed.

    Differentiable in x, cos and sin. Raises ValueError if shapes do not fit.
    """
    if cu_seqlens is not None:
        return _rotary_packed(x, cos, sin, interleaved, inplace, seqlen_offsets, cu_seqlens,
                              max_seqlen)
    _kernels.check_heads(x)
    tokens = x.shape[1]
    if isinstance(seqlen_offsets, Tensor):
        rows = seqlen_offsets.unsqueeze(1) + torch.arange(tokens, device=x.device)
        if not _compiling() and rows.numel() and rows.device.type == "cpu" and not (
                0 <= int(rows.min()) <= int(rows.max()) < cos.shape[0]):
            raise ValueError("[rotate] cos and sin must have rows for positions "
                             f"{int(rows.min())} to {int(rows.max())}, got {cos.shape[0]} rows")
        cos, sin = cos[rows], sin[rows]
    else:
        end = seqlen_offsets + tokens
        if seqlen_offsets < 0 or end > cos.shape[0]:
            raise ValueError(f"[rotate] cos and sin must have rows for positions {seqlen_offsets} "
                             f"to {end - 1}, got {cos.shape[0]} rows")
        cos, sin = (one[seqlen_offsets:end] for one in (cos, sin))
    pairing = "adjacent" if interleaved else "halves"
    if not inplace:
        return rotate_with(x, cos, sin, pairing, False)
    if _with_gradients() and (x.requires_grad or cos.requires_grad or sin.requires_grad):
        raise ValueError("[rotate] x, cos and sin must not require a gradient if inplace is True, "
                         "got a tensor that does")
    if x.dtype == cos.dtype == torch.float64:
        return x.copy_(rotate_with(x, cos, sin, pairing, False))
    _ops.rotate_with_(x, cos, sin, pairing, 0, False, False)
    return x


def _rotary_packed(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, inplace: bool,
                   offsets: int | Tensor, cu_seqlens: Tensor, max_seqlen: int | None) -> Tensor:
    if x.dim() != 3:
        raise ValueError("[rotate] x must be [total, H, D] with cu_seqlens, "
                         f"got {list(x.shape)}")
    starts = boundaries("rotate", "cu_seqlens", cu_seqlens, x.shape[0])
    lengths = [end - begin for begin, end in zip(starts, starts[1:])]
    longest = max(lengths, default=0)
    if max_seqlen is not None and max_seqlen < longest:
        raise ValueError(f"[rotate] max_seqlen must be at least the longest sequence, {longest}, "
                         f"got {max_seqlen}")
    firsts = [offsets] * len(lengths) if isinstance(offsets, int) else offsets.tolist()
    if len(firsts) != len(lengths):
        raise ValueError(f"[rotate] seqlen_offsets must have one element for each of the "
                         f"{len(lengths)} sequences, got {len(firsts)}")
    rows = torch.cat([torch.arange(first, first + n, device=cos.device)
                      for first, n in zip(firsts, lengths)]) if lengths else cu_seqlens[:0].long()
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < cos.shape[0]:
        raise ValueError("[rotate] cos and sin must have rows for positions "
                         f"{int(rows.min())} to {int(rows.max())}, got {cos.shape[0]} rows")
    return apply_rotary_emb(x[None], cos[rows], sin[rows], interleaved, inplace)[0]


def rope_init(config: Any, device: torch.device | str | None = None, seq_len: int | None = None,
              layer_type: str | None = None) -> tuple[Tensor, float]:
    """Returns (inv_freq, attention_factor) as a function of ROPE_INIT_FUNCTIONS in transformers.

    config: a config object of transformers, a dict, or a path: all that
        gnomon.model.from_pretrained takes. seq_len: declared context length for dynamic NTK and
        LongRoPE; None: the training length, but the short factors of LongRoPE, as in transformers.
        layer_type: an entry of `layer_types` of the config,
        as 'sliding_attention'; None: the first layer with a rotation.

    inv_freq: float32 [R/2] in radians per position, each rounded once from the exact value.
    attention_factor: the factor on cos and sin.
    Raises ValueError if no layer of that type has a rotation.
    """
    try:
        described = model.from_pretrained(config)
    except FormatError:  # an unknown family; frequencies do not depend on the pairing
        described = model.from_pretrained(config, assume_pairing="halves")
    types = _layer_types(config)
    for layer in described.layers:
        if layer_type is not None and types[layer.index:layer.index + 1] != [layer_type]:
            continue
        for one in layer.position:
            if "queries and keys" not in one.enters:
                continue
            scaling = getattr(one, "scaling", None)
            short = scaling.original_length if isinstance(scaling, LongRopeScaling) else 0
            found = described.frequencies(layer.index, int(seq_len or short), layer.part)
            inv_freq = torch.from_numpy(found.inv_freq).to(device, torch.float32)
            return inv_freq, found.table_scale
    kind = "" if layer_type is None else f" of type {layer_type}"
    raise ValueError(f"[model] a layer{kind} must have a rotary encoding, "
                     f"got none in {described.model_type}")


def _layer_types(config: Any) -> list[str]:
    if isinstance(config, dict):
        return list(config.get("layer_types") or ())
    return list(getattr(config, "layer_types", None) or ())
