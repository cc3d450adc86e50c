"""ggml's memory, as numpy sees it."""

from __future__ import annotations

import ctypes

import ggml
import numpy as np


class Memory:
    """A context of ggml, freed with its last reader."""

    def __init__(self, size: int) -> None:
        self.context = ggml.ggml_init(ggml.ggml_init_params(size, None, False))

    def array(self, tensor: ctypes.Structure, like: np.ndarray) -> np.ndarray:
        """The elements of a tensor, not copied."""
        raw = (ctypes.c_char * like.nbytes).from_address(ggml.ggml_get_data(tensor))
        return np.frombuffer(raw, like.dtype).reshape(like.shape)

    def __del__(self) -> None:
        ggml.ggml_free(self.context)
