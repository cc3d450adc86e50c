"""Positional encodings for Transformers.

    import numpy as np, gnomon

    rope = gnomon.Rotary(rotary_dim=128, pairing="halves", base=500000.0)  # Llama 3
    table = gnomon.RotaryTable(rope, 512)              # positions 0 to 511
    q = np.ones((512, 32, 128), np.float32)            # [T, H, D]
    gnomon.rotate(q, table)                            # in place

Functions take arrays of NumPy, PyTorch, JAX and CuPy (through DLPack), without copies, and release
the GIL. Wrong arguments raise ValueError with one sentence that names the rule and the value.

Submodules: gnomon.model (released models), gnomon.torch, gnomon.jax, gnomon.plot, gnomon.lab.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _core, specs
from ._core import (
    CompressedKeys,
    FormatError,
    Graph,
    KvCache,
    PagedKvCache,
    Plan,
    Positions,
    RotaryFrequencies,
    RotaryTable,
    SegmentMemory,
    add_position,
    add_position_backward,
    attention,
    attention_backward,
    compress_keys,
    compress_keys_backward,
    compressed_attention,
    compressed_attention_backward,
    convolve,
    dape_attention,
    dape_attention_backward,
    isa,
    lower,
    prepare,
    resize_table,
    rotary_frequencies,
    rotate,
    rotate_append,
    select_keys,
    set_threads,
    threads,
    token_terms,
)
from ._check import Check, check
from ._list import EncodingInfo, encodings, find_encoding
from ._spec import Encoding, Parameter, Scaling, usual
from .specs.attention import *  # noqa: F403
from .specs.bias import *  # noqa: F403
from .specs.embedding import *  # noqa: F403
from .specs.relative import *  # noqa: F403
from .specs.rotary import *  # noqa: F403
from .specs.scaling import *  # noqa: F403

__version__ = _core.__version__

_SUBMODULES = ("jax", "lab", "model", "plot", "torch")

if TYPE_CHECKING:
    from . import jax as jax, lab as lab, model as model, plot as plot, torch as torch

__all__ = [
    "Check",
    "CompressedKeys",
    "Encoding",
    "EncodingInfo",
    "FormatError",
    "Graph",
    "KvCache",
    "PagedKvCache",
    "Parameter",
    "Plan",
    "Positions",
    "RotaryFrequencies",
    "RotaryTable",
    "Scaling",
    "SegmentMemory",
    "add_position",
    "add_position_backward",
    "attention",
    "attention_backward",
    "check",
    "compress_keys",
    "compress_keys_backward",
    "compressed_attention",
    "compressed_attention_backward",
    "convolve",
    "dape_attention",
    "dape_attention_backward",
    "encodings",
    "find_encoding",
    "isa",
    "lower",
    "prepare",
    "resize_table",
    "rotary_frequencies",
    "rotate",
    "rotate_append",
    "select_keys",
    "set_threads",
    "threads",
    "token_terms",
    "usual",
]
__all__ += specs.attention.__all__
__all__ += specs.bias.__all__
__all__ += specs.embedding.__all__
__all__ += specs.relative.__all__
__all__ += specs.rotary.__all__
__all__ += specs.scaling.__all__


def _shown_by(function: str) -> Any:
    """Returns a `_repr_mimebundle_` that imports _display at its first call."""
    def bundle(self: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from . import _display

        return getattr(_display, function)(self)

    return bundle


Encoding._repr_mimebundle_ = _shown_by("spec_bundle")  # type: ignore[attr-defined]
Plan._repr_mimebundle_ = _shown_by("plan_bundle")  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    """Imports a submodule at its first use, so that `import gnomon` imports no other package."""
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'gnomon' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES])
