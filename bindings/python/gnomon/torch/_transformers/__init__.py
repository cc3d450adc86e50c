"""The parts of `gnomon.torch.patch`: masks, attention and rotation of transformers models."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def not_compiled(function: Callable) -> Callable:
    """Returns a function that torch.compile calls but does not trace.

    As torch.compiler.disable, but without its cost in eager mode (about 3 us a call).
    """
    disabled = torch.compiler.disable(function)

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling():
            return disabled(*arguments, **options)
        return function(*arguments, **options)

    return call
