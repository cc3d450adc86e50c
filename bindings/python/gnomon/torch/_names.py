"""Names and shapes of trained parameters in state dicts: those of the released models."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from .. import _core
from .._spec import Encoding, Parameter


class Stored(NamedTuple):
    """A parameter of an encoding as a state dict contains it.

    path: its name, with dots. shape: its shape. transposed: if the matrix [rows, columns] is the
    transpose of the stored one.
    """

    parameter: Parameter
    path: str
    shape: tuple[int, ...]
    transposed: bool

    def matrix(self, stored: Tensor) -> Tensor:
        """Returns the matrix [rows, columns] of a stored tensor; differentiable, no copy."""
        if self.transposed:
            return stored.t()
        return stored.reshape(self.parameter.rows, self.parameter.columns)

    def tensor(self, values: Tensor) -> Tensor:
        """Returns the stored tensor of a matrix, given row by row."""
        matrix = values.view(self.parameter.rows, self.parameter.columns)
        return (matrix.t() if self.transposed else matrix).reshape(self.shape)


def stored(spec: Encoding) -> list[Stored]:
    """Returns the parameters of a spec, in the order of spec.parameters(), as they are stored."""
    return [Stored(parameter, *place) for parameter, place in
            zip(spec.parameters(), _core.stored_parameters(spec), strict=True)]
