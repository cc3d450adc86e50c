"""Rotary frequencies that are trained: one set, one for each head, or mixed over several axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .. import _core, specs
from . import _composed, _kernels
from ._functions import Layout, PositionsLike, _axes, heads_tokens


def rotate_by_frequencies(x: Tensor, frequencies: Tensor, positions: PositionsLike = None, *,
                          pairing: Literal["halves", "adjacent"], head_offset: int = 0,
                          layout: Layout = "heads_tokens", inverse: bool = False) -> Tensor:
    """Rotates queries or keys by frequencies that are a tensor.

    x: [B, H, T, D], or [B, T, H, D] for the layout 'tokens_heads'; float32, float16, bfloat16 or
        float64.
    frequencies: radians per position, float32 or float64: [R/2], or [A, H or 1, R/2] for A position
        axes, whose angles are added (mixed: Heo et al. 2024).
    positions: None (0 to T - 1), the position of the first token, [T] or [B, T], integers or
        fractional (float64), or a tuple of A of them.
    pairing: 'halves' (i, i + R/2) or 'adjacent' (2i, 2i + 1).

    Differentiable in x, frequencies and fractional positions, to any order. Angles are computed in
    float64, cos and sin are rounded once. By operators of PyTorch on every device, in O(B H T D)
    memory. Raises ValueError if shapes or types do not fit.
    Source: Heo et al. 2024, "Rotary Position Embedding for Vision Transformer", arXiv:2403.13298.
    """
    by_heads = layout == "heads_tokens" or heads_tokens(layout)
    _kernels.check_heads(x)
    if not x.is_floating_point() or x.element_size() < 2:
        raise ValueError(f"[rotate] x must have elements of f32, f16, bf16 or f64, got {x.dtype}")
    if frequencies.device != x.device:
        raise ValueError(f"[rotate] frequencies must be on the device of x, {x.device}, "
                         f"got {frequencies.device}")
    if frequencies.dtype not in (torch.float32, torch.float64):
        raise ValueError("[rotate] frequencies must be float32 or float64, since 16 bits round "
                         f"angles, got {frequencies.dtype}")
    if pairing not in ("halves", "adjacent"):
        raise ValueError(f"[rotate] pairing must be one of halves, adjacent, got {pairing}")
    if frequencies.dim() not in (1, 3):
        raise ValueError("[rotate] frequencies must be [R/2] or [A, H or 1, R/2], "
                         f"got {list(frequencies.shape)}")
    by_axis = frequencies if frequencies.dim() == 3 else frequencies[None, None]
    tokens, heads = x.shape[2 if by_heads else 1], x.shape[1 if by_heads else 2]
    if by_axis.shape[1] not in (1, heads):
        raise ValueError(f"[rotate] frequencies must be of 1 or {heads} heads, "
                         f"got {by_axis.shape[1]}")
    if positions is None or isinstance(positions, (int, torch.SymInt)):
        at = [torch.arange(tokens, device=x.device) + (positions or 0)]
    else:
        at = _composed.on_device(x, _axes(positions))
        _kernels.check_positions("rotate", x, at, by_heads)
    if len(at) != by_axis.shape[0]:
        raise ValueError("[rotate] positions must be a tuple of one tensor for each position axis, "
                         f"{by_axis.shape[0]}, got {len(at)}")
    angle: Any = 0  # [B or 1, H or 1, T, R/2]
    for one, rates in zip(at, by_axis.double(), strict=True):
        one = one.double() if one.dim() == 2 else one.double()[None]
        angle = angle + one[:, None, :, None] * rates[:, None]
    return _kernels.rotated(x, angle.cos(), angle.sin(), pairing, head_offset, by_heads, inverse)


class LearnedRotary(nn.Module):
    """Rotary with trained frequencies, as timm's mixed RoPE and `learned_freq` of other packages.

    rotary_dim: R, even. pairing, head_offset: as gnomon.Rotary.
    axes: A, position axes whose angles are added. heads: H for frequencies of each head; None: all
        heads share them.
    base: the frequencies begin as those of gnomon.Rotary; with several axes pair i begins with axis
        i mod A only.
    device, dtype: of `frequencies`, float32 or float64. Casts of the module to 16 bits leave them
        as they are.

    `frequencies`: the only parameter, radians per position, [R/2], or [A, H or 1, R/2] if axes or
    heads are given.
    """

    def __init__(self, rotary_dim: int, *, pairing: Literal["halves", "adjacent"],
                 base: float = 10000.0, head_offset: int = 0, axes: int = 1,
                 heads: int | None = None, device: Any = None,
                 dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.spec = specs.Rotary(rotary_dim=rotary_dim, pairing=pairing, base=base,
                                 head_offset=head_offset)
        for name, one in (("axes", axes), ("heads", 1 if heads is None else heads)):
            if one < 1:
                raise ValueError(f"[rotary] {name} must be at least 1, got {one}")
        pairs = rotary_dim // 2
        shape = (pairs,) if axes == 1 and heads is None else (axes, heads or 1, pairs)
        self.frequencies = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        if self.frequencies.dtype not in (torch.float32, torch.float64):
            raise ValueError("[rotary] dtype must be float32 or float64, "
                             f"got {self.frequencies.dtype}")
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Sets the frequencies to those of gnomon.Rotary."""
        usual = torch.from_numpy(_core.rotary_frequencies(self.spec).inv_freq)
        if self.frequencies.dim() == 3:
            axes = self.frequencies.shape[0]
            own = torch.arange(len(usual)) % axes == torch.arange(axes)[:, None]
            usual = (usual * own)[:, None].expand(self.frequencies.shape)
        self.frequencies.copy_(usual)

    def rotate(self, q: Tensor, k: Tensor, positions: PositionsLike = None, *,
               layout: Layout = "heads_tokens") -> tuple[Tensor, Tensor]:
        """Returns the rotated queries and keys; the queries are the last T of the S keys.

        q: [B, H, T, D], k: [B, Hk, S, D] ('heads_tokens') or [B, T, H, D], ... ('tokens_heads').
        positions: of the keys, as for rotate_by_frequencies.
        """
        _kernels.check_heads(q)
        _kernels.check_heads(k)
        axis = 2 if layout == "heads_tokens" else 1
        first = k.shape[axis] - q.shape[axis]
        of_queries: Any = positions
        if positions is None or isinstance(positions, (int, torch.SymInt)):
            of_queries = (positions or 0) + first
        elif first:
            of_queries = tuple(one[..., first:] for one in _axes(positions))
        return (self._rotated(q, of_queries, layout), self._rotated(k, positions, layout))

    forward = rotate

    def extra_repr(self) -> str:
        return f"{self.spec!r}, frequencies: {list(self.frequencies.shape)}"

    def _rotated(self, x: Tensor, positions: PositionsLike, layout: Layout) -> Tensor:
        return rotate_by_frequencies(x, self.frequencies, positions, pairing=self.spec.pairing,
                                     head_offset=self.spec.head_offset, layout=layout)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        def kept(one: Tensor) -> Tensor:
            found = fn(one)
            return one.to(found.device) if found.dtype in (torch.float16, torch.bfloat16) else found

        return super()._apply(kept, recurse)
