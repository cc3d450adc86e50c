"""rotate and add_position.

Each function has two paths. The direct path calls the library without the dispatcher of PyTorch;
it takes plain tensors of the CPU in eager mode. All other calls (torch.compile, torch.export,
torch.func, fake tensors, other devices) take the operators torch.ops.gnomon.*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _disable_current_modes

from .. import _core
from .._core import Positions, RotaryFrequencies, RotaryTable
from .._spec import Encoding
from . import _composed, _kernels, _plans
from ._registry import call

Layout = Literal["tokens_heads", "heads_tokens"]
Visibility = Literal["causal", "bidirectional"]
RotaryLike = Encoding | RotaryFrequencies | RotaryTable
PositionsLike = int | Tensor | Sequence[Tensor] | Positions | None

_ALL = 1 << 62
_ops = torch.ops.gnomon
_keys_of = torch._C._dispatch_keys
_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._are_functorch_transforms_active
_tracing = torch._C._get_tracing_state
_compiling = torch.compiler.is_dynamo_compiling
_empty_like = torch.empty_like
_rotate_rows = _core.rotate_rows
_with_gradients = torch.is_grad_enabled


def _plain_keys(inference: bool) -> Any:
    """Returns the dispatch keys of a plain tensor, also if a mode is active during the import."""
    with _disable_current_modes(), torch.inference_mode(inference):
        return _keys_of(torch.empty(0, device="cpu"))


_PLAIN, _INFERENCE = _plain_keys(False), _plain_keys(True)


def _direct(x: Tensor) -> bool:
    """Whether x is a plain tensor of the CPU, and nothing observes the operators on it."""
    keys = _keys_of(x)
    return not ((keys != _PLAIN and keys != _INFERENCE) or _modes() or _transforms()
                or forward_ad._current_level >= 0 or _tracing())


def _has_tangent(*tensors: Tensor | None) -> bool:
    """Whether forward-mode differentiation follows a tensor. Operators would drop its tangent."""
    return forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(one).tangent is not None for one in tensors if one is not None)


def _refuse_tangents(operation: str, *tensors: Tensor | None) -> None:
    if not _compiling() and _has_tangent(*tensors):
        raise ValueError(f"[{operation}] gradients must be in reverse mode, "
                         "got a tensor with a tangent (forward mode)")


def heads_tokens(layout: str) -> bool:
    """Returns whether the layout is [B, H, T, D], 'heads_tokens'."""
    if layout == "tokens_heads":
        return False
    if layout == "heads_tokens":
        return True
    raise ValueError(f"[torch] layout must be one of tokens_heads, heads_tokens, got {layout}")


# -- rotate ------------------------------------------------------------------------------------


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, table: RotaryTable, begin: int | None, by_heads: bool,
                inverse: bool) -> Tensor:
        ctx.rest = table, begin, by_heads, not inverse
        return _kernels.rotated_by(x, table, begin, by_heads, inverse)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return _rotate_by(grad, *ctx.rest), None, None, None, None


def _rotate_by(x: Tensor, table: RotaryTable, begin: int | None, by_heads: bool,
               inverse: bool) -> Tensor:
    """Rotates by rows of a table, out of place. begin: None: all rows."""
    if not _compiling() and _direct(x):
        if x.requires_grad and _with_gradients():
            return _Rotate.apply(x, table, begin, by_heads, inverse)
        return _kernels.rotated_by(x, table, begin, by_heads, inverse)
    factors = _factors(x, table, begin, by_heads)
    if not _compiling() and _has_tangent(x):
        return _kernels.rotated(x, *factors, by_heads, inverse)
    return call("rotate_with", x, *factors, by_heads, inverse)


def _factors(x: Tensor, table: RotaryTable, begin: int | None, by_heads: bool) -> tuple[Any, ...]:
    """Returns the arguments of the operator rotate_with."""
    tokens = x.shape[2 if by_heads else 1]
    cos, sin = _plans.cos_sin(table, begin or 0, tokens if begin is not None else _ALL, x)
    if cos.shape[1] != tokens:
        raise ValueError(f"[rotate] x must have the table's {cos.shape[1]} tokens, got {tokens}")
    return cos, sin, _plans.pairing(table), _plans.head_offset(table)


class _RotateWith(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor, pairing: str, by_heads: bool,
                inverse: bool, head_offset: int) -> Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.rest = pairing, by_heads, not inverse, head_offset
        return _kernels.rotated_with(x, cos, sin, pairing, head_offset, by_heads, inverse)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        back = rotate_with(grad, *ctx.saved_tensors, *ctx.rest)
        return back, None, None, None, None, None, None


def rotate_with(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, by_heads: bool,
                inverse: bool = False, head_offset: int = 0) -> Tensor:
    """Rotates x by given cos and sin, [T, R/2] or [B or 1, T, R/2]. Differentiable in all."""
    if (cos.requires_grad or sin.requires_grad or x.dtype == cos.dtype == torch.float64
            or (not _compiling() and _has_tangent(x, cos, sin))):
        return _kernels.rotated(x, cos, sin, pairing, head_offset, by_heads, inverse)
    if _compiling() or not (_direct(x) and _direct(cos) and _direct(sin)):
        return call("rotate_with", x, cos, sin, pairing, head_offset, by_heads, inverse)
    if x.requires_grad and _with_gradients():
        return _RotateWith.apply(x, cos, sin, pairing, by_heads, inverse, head_offset)
    return _kernels.rotated_with(x, cos, sin, pairing, head_offset, by_heads, inverse)


def _axes(positions: Any) -> list[Tensor]:
    if isinstance(positions, tuple):
        return [axis for one in positions for axis in _axes(one)]
    if isinstance(positions, Positions):
        return [torch.from_numpy(positions.ids)]
    return [positions if isinstance(positions, Tensor) else torch.as_tensor(positions)]


def _fractional(x: Tensor, text: Any, axes: list[Tensor], by_heads: bool, inverse: bool,
                length: int, inplace: bool) -> Tensor:
    axes = _composed.on_device(x, axes)
    cos, sin, pairing, head_offset = _composed.factors(text, axes, length)
    if x.dtype != torch.float64:
        cos, sin = cos.float(), sin.float()
    out = rotate_with(x, cos, sin, pairing, by_heads, inverse, head_offset)
    return x.copy_(out) if inplace else out


def rotate(x: Tensor, encoding: RotaryLike, positions: PositionsLike = None, *,
           layout: Layout = "heads_tokens", inverse: bool = False, length: int = 0,
           inplace: bool = False) -> Tensor:
    """Rotates queries or keys by their positions (RoPE).

    x: [B, H, T, D], or [B, T, H, D] for the layout 'tokens_heads', any strides; float32, float16,
        bfloat16 or float64. The result has the type of x, also under autocast.
    encoding: a rotary spec, RotaryFrequencies, or a prepared RotaryTable of T tokens.
    positions: None (0 to T - 1), the position of the first token, integers [T] or [B, T], or a
        tuple of them, one for each position axis (M-RoPE: t, h, w). None with a RotaryTable.
        float64 tensors are fractional positions; the result is differentiable in them.
    inverse: rotates by the opposite angle.
    length: declared context length for dynamic NTK and LongRoPE; 0: that of the spec.
    inplace: changes x and returns it. x must not require a gradient.

    Differentiable in x, to any order. |x' - exact| <= 3 * 2^-24 (|a| + |b|) for the pair (a, b);
    16-bit types are rounded once more. By the library on the CPU and on CUDA devices (positions
    on the device are not read by the host), otherwise by torch operators with the same table.
    Cost: memory-bound; tables are cached by their positions.
    Raises ValueError if shapes do not fit. Source: Su et al. 2021, arXiv:2104.09864.
    """
    by_heads = layout == "heads_tokens" or heads_tokens(layout)
    text, axes, offset = None, (), 0
    if isinstance(encoding, RotaryTable):
        if positions is not None:
            raise ValueError("[rotate] positions must be None with a RotaryTable, which has its "
                             f"own, got {type(positions).__name__}")
    else:
        text = _plans.text_of(encoding)
        if positions is not None:
            if isinstance(positions, (int, torch.SymInt)):
                offset = positions
            else:
                axes = _axes(positions)
    gradient = x.requires_grad and _with_gradients()
    if inplace and gradient:
        raise ValueError(
            "[rotate] x must not require a gradient if inplace is True, got a tensor that does")
    _kernels.check_heads(x)
    if axes:
        _kernels.check_positions("rotate", x, axes, by_heads)
        if any(one.is_floating_point() or one.is_complex() for one in axes):
            return _fractional(x, text, axes, by_heads, inverse, length, inplace)
    if not _compiling() and _direct(x):
        if text is None:
            table, begin = encoding, None
        elif axes:
            table, begin = _plans.rotary_at(text, length, axes), 0
        else:
            table, begin = _plans.rotary(text, length, offset, x.size(2 if by_heads else 1))
        if gradient:
            return _Rotate.apply(x, table, begin, by_heads, inverse)
        if inplace:
            _kernels.check_writable(x)
            _rotate_rows(x, x, table, begin, by_heads, inverse)
            _kernels.mark_changed(x)
            return x
        if x.is_contiguous():
            out = _empty_like(x)
            _rotate_rows(x, out, table, begin, by_heads, inverse)
            return out
        return _kernels.rotated_by(x, table, begin, by_heads, inverse)
    if text is None:
        if not inplace:
            return _rotate_by(x, encoding, None, by_heads, inverse)
        _ops.rotate_with_(x, *_factors(x, encoding, None, by_heads), by_heads, inverse)
        return x
    if inplace:
        _ops.rotate_(x, text, axes, offset, length, by_heads, inverse)
        return x
    if not _compiling() and _has_tangent(x):
        table, begin = _kernels.table_of(x, text, axes, offset, length, by_heads)
        return _rotate_by(x, table, begin, by_heads, inverse)
    return call("rotate", x, text, axes, offset, length, by_heads, inverse)


def _all_direct(*tensors: Tensor | None) -> bool:
    for one in tensors:
        if one is not None and not _direct(one):
            return False
    return True


# -- add_position ------------------------------------------------------------------------------


def add_position(x: Tensor, encoding: Encoding | Sequence[Encoding],
                 parameters: Sequence[Tensor] = (), *, offset: int = 0,
                 positions: Tensor | None = None) -> Tensor:
    """Adds the table of a position embedding to the embeddings of tokens.

    x: [B, T, C] or [T, C], any strides.
    encoding: a spec of an embedding (gnomon.Sinusoidal, gnomon.Learned, ...).
    parameters: the trained matrices, in the order of spec.parameters(). Computed in float32, or
        in float64 for a Learned table if x and the table are float64 (eager mode).
    offset: the position of the first token. positions: instead, integers [T] or [B, T];
        float64 for fractional positions of a Sinusoidal (time steps).

    Returns a contiguous tensor of the shape and type of x. Differentiable once in the parameters,
    to any order in x. Deterministic. Cost: O(B T C), memory-bound. Raises ValueError if a
    position exceeds the capacity of the encoding, the width differs, or the encoding is not added
    to the embeddings.
    """
    texts = _plans.texts_of(encoding)
    if positions is not None and positions.is_floating_point():
        return _composed.add_fractional(x, texts, positions)
    if x.dtype == torch.float64 and len(parameters) == 1 and not _compiling() and (
            parameters[0].dtype == torch.float64 and _composed.is_learned(texts)
            and _all_direct(x, parameters[0])):
        _kernels.check_table(x, parameters[0], positions, texts, offset)
        return _composed.add_position(x, parameters, positions, texts, offset)
    if (not _compiling() and _all_direct(x, *parameters)
            and not (_with_gradients() and torch._C._any_requires_grad(x, *parameters))):
        return _kernels.added(x, parameters, positions, texts, offset)
    _refuse_tangents("add_position", x, *parameters)
    return call("add_position", x, list(parameters), positions, texts, offset)

