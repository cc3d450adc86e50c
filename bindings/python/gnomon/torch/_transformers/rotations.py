"""Finds the attention and the rotary modules of a model, and checks them by its description."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from transformers import PreTrainedModel

from gnomon.model import from_pretrained

from .attend import eager_function
from .change import Change, Replaced
from .rotary import Angles, ExactRotary

_FUNCTIONS = ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave")
_PARAMETERS = ["q", "k", "cos", "sin"]


# Names of the arguments of an eager attention function whose effect `attention_forward` has.
_ARGUMENTS = frozenset(("module", "query", "key", "value", "attention_mask", "scaling", "dropout",
                        "kwargs", "softcap", "s_aux", "position_bias", "is_causal",
                        "sliding_window"))


@functools.cache
def _calls_interface(cls: type) -> bool:
    """Whether a method of a class calls the attention interface of transformers."""
    return any("ALL_ATTENTION_FUNCTIONS" in inspect.unwrap(one).__code__.co_names
               for base in cls.__mro__ if base not in PreTrainedModel.__mro__
               for one in vars(base).values()
               if inspect.isfunction(one) and hasattr(inspect.unwrap(one), "__code__"))


def attentions(model: nn.Module, known: tuple[type, ...],
               ) -> tuple[list[tuple[str, nn.Module]], list[tuple[str, str]]]:
    """Returns the attention modules that Gnomon can compute, by name, and the classes of others.

    Refuses a model without.
    """
    found = []
    others = []
    for name, module in model.named_modules():
        if isinstance(module, known) or _calls_interface(type(module)):
            found.append((name, module))
        elif type(module).__name__.endswith("Attention") and not any(
                _calls_interface(type(one)) for one in module.modules()):
            others.append((name, type(module).__name__))
    if not found:
        names = ", ".join(sorted({cls for _, cls in others}))
        own = f"the own code of {names}" if others else "no attention"
        raise ValueError(f"[patch] the attention of {model.config.model_type} must call the "
                         f"attention interface of transformers, got {own}")
    for name, module in found:
        if isinstance(module, known):
            continue
        unknown = set(inspect.signature(eager_function(module)).parameters) - _ARGUMENTS
        if unknown:
            raise ValueError(f"[patch] the attention of {name} ({type(module).__name__}) must have "
                             f"the arguments of softmax attention, got {', '.join(unknown)}")
    return found, others


def descriptions(model: nn.Module, found: list[tuple[str, nn.Module]]) -> Any:
    """Returns a function from a config to its description or None.

    Refuses a model without a description: of itself, or of the configs of its attention modules.
    """
    known: dict[int, Any] = {}

    def describe(config: Any) -> Any:
        if id(config) not in known:
            try:
                known[id(config)] = None if config is None else from_pretrained(config)
            except ValueError:
                known[id(config)] = None
        return known[id(config)]

    if describe(model.config) is None:
        parts = {id(one.config): one.config for _, one in found if hasattr(one, "config")}
        if not parts or any(describe(one) is None for one in parts.values()):
            from_pretrained(model.config)  # raises
    return describe


class _Left(Exception):
    """Why the rotation of transformers stays in place."""


@functools.cache
def _exact(cls: type) -> type:
    return type("Gnomon" + cls.__name__, (Replaced, ExactRotary, cls), {})


def _frequencies(module: nn.Module) -> dict[str | None, Tensor]:
    """Returns the frequencies of a rotary module by layer type; None if it has one set."""
    found: dict[str | None, Tensor] = {}
    for name, one in module.named_buffers(recurse=False):
        if name.endswith("original_inv_freq"):
            found[name.removesuffix("original_inv_freq").rstrip("_") or None] = one
    return found


def _check_frequencies(name: str, theirs: Tensor, angles: Angles) -> None:
    """Raises unless the frequencies of a module are those of its config."""
    ours = torch.from_dlpack(angles.frequencies.inv_freq)
    if theirs.shape != ours.shape:
        raise _Left(f"{len(theirs)} frequencies, and {len(ours)} in the description")
    # A cast of the model rounds the buffers too (transformers issue 45902).
    allowed = max(4 * torch.finfo(theirs.dtype).eps, 1e-5)
    # A rotation by the opposite angles has negative frequencies in the description (nanochat).
    difference = (theirs.double() - ours.abs()).abs()
    if not bool((difference <= allowed * ours.abs().clamp_min(1e-30)).all()):
        raise ValueError(f"[patch] the frequencies of {name} must be those of the config, "
                         f"got a difference of {float(difference.max())}")


def _check_factors(module: nn.Module, layer_type: str | None, angles: Angles) -> None:
    """Raises unless cos and sin of a module are those of the description. Sets the form."""
    x, positions = torch.zeros(1, 3, 1), torch.tensor([[0, 1, 5]])
    given = {} if layer_type is None else {"layer_type": layer_type}
    try:
        theirs = copy.deepcopy(module)(x, positions, **given)
        cos, sin = theirs
    except Exception as error:
        raise _Left(f"{type(module).__name__} does not give cos and sin of positions") from error
    if not isinstance(cos, Tensor) or cos.is_complex() or cos.ndim != 3:
        raise _Left("cos and sin are not of the shape [B, T, R]")
    try:
        ours = copy.deepcopy(angles).turn(positions)
    except ValueError as error:  # M-RoPE
        raise _Left(str(error)) from error
    angles.negative = bool((torch.from_dlpack(angles.frequencies.inv_freq) < 0).any())
    for angles.form in ("halves", "adjacent", "once"):
        mine = angles.stored(ours)
        if all(a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=0, atol=2e-2 if
               module_is_cast(module) else 1e-5) for a, b in zip(mine, (cos, sin))):
            return
    raise _Left("cos and sin are stored in another form")


def module_is_cast(module: nn.Module) -> bool:
    return any(one.dtype in (torch.bfloat16, torch.float16) for one in module.buffers())


def _check_rotation(name: str, original: Any, angles: Angles, head_dim: int) -> None:
    """Sets the widths of q and k for which a Turn rotates as the function of the model's file."""
    turn = copy.deepcopy(angles).turn(torch.tensor([[0, 1, 5]]))
    cos, sin = angles.stored(turn)
    widths = []
    for width in {2 * len(angles.frequencies.inv_freq), head_dim}:
        x = torch.linspace(-1, 1, 2 * 3 * width).view(1, 2, 3, width).sin()
        try:
            q, k = original(x, 2 * x, cos, sin)
            if torch.allclose(turn.rotate(x), q, rtol=0, atol=1e-5) and torch.allclose(
                    turn.rotate(2 * x), k, rtol=0, atol=1e-5):
                widths.append(width)
        except Exception:  # a width that the function does not take
            continue
    if widths:
        angles.widths[name] = tuple(widths)


def _rotary_of(description: Any, types: Any, layer_type: str | None) -> tuple[Any, int]:
    """Returns the rotary spec and head_dim of the first layer of a type that has one."""
    for layer in description.layers:
        if layer_type is not None and (types or ())[layer.index:layer.index + 1] != [layer_type]:
            continue
        for one in layer.position:
            if "queries and keys" in one.enters:
                return one, layer.head_dim
    raise _Left("the description has no rotation")


def _functions(file: str) -> Iterator[tuple[str, Any]]:
    for name in _FUNCTIONS:
        function = getattr(sys.modules[file], name, None)
        if function is not None:
            function = getattr(function, "gnomon_original", function)
            if list(inspect.signature(function).parameters)[:4] == _PARAMETERS:
                yield name, function


def patch_rotations(model: nn.Module, describe: Any, change: Change) -> None:
    """Gives the rotary modules of a model exact tables, and their files the rotation.

    The rotation of transformers stays if it has another form.
    """
    for name, module in list(model.named_modules()):
        buffers = _frequencies(module)
        if isinstance(module, ExactRotary) or not buffers:
            continue
        file = type(module).__module__
        try:
            config = getattr(module, "config", None)
            types = list(getattr(config, "layer_types", None) or ())
            description = describe(config)
            if description is None:
                raise _Left("its config has no description")
            angles = {}
            for layer_type, theirs in buffers.items():
                spec, head_dim = _rotary_of(description, types, layer_type)
                try:
                    one = angles[layer_type] = Angles(spec)
                except ValueError as error:
                    raise _Left(str(error)) from error
                _check_frequencies(name, theirs, one)
                _check_factors(module, layer_type, one)
                for function, original in _functions(file):
                    _check_rotation(function, original, one, head_dim)
            if not all(one.widths for one in angles.values()):
                raise _Left("the file has no function that rotates pairs of the description")
        except _Left as reason:
            change.left.append((name, f"{type(module).__name__} of transformers ({reason})"))
            continue
        change.set_class(name, module, _exact(type(module)), gnomon_angles=angles)
        for function in sorted({one for each in angles.values() for one in each.widths}):
            change.install(file, function)
