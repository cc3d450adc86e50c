"""Specs of all position encodings, in modules by the place where position enters."""

from __future__ import annotations

from .._spec import KINDS as KINDS, SCALINGS as SCALINGS
from . import (
    attention as attention,
    bias as bias,
    embedding as embedding,
    relative as relative,
    rotary as rotary,
    scaling as scaling,
)
from .attention import *  # noqa: F403
from .bias import *  # noqa: F403
from .embedding import *  # noqa: F403
from .relative import *  # noqa: F403
from .rotary import *  # noqa: F403
from .scaling import *  # noqa: F403
