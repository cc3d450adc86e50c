"""The memory of ggml as numpy arrays."""

from __future__ import annotations

import ctypes

import ggml
import numpy as np


class Memory:
    """A context of ggml, freed with its last reference."""

    def __init__(self, size: int) -> None:
        self.context = ggml.ggml_init(ggml.ggml_init_params(size, None, False))

    def array(self, tensor: ctypes.Structure, like: np.ndarray) -> np.ndarray:
        """The elements of a tensor, without a copy."""
        raw = (ctypes.c_char * like.nbytes).from_address(ggml.ggml_get_data(tensor))
        return np.frombuffer(raw, like.dtype).reshape(like.shape)

    def __del__(self) -> None:
        ggml.ggml_free(self.context)
