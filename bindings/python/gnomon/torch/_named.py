"""A module for each encoding: PositionEncoding of one spec, with the fields of the spec."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import torch

from .. import specs
from .._spec import Encoding
from ._modules import PositionEncoding


class Named(PositionEncoding):
    """A PositionEncoding of one spec. Arguments: the fields of the spec, device and dtype."""

    spec_type: ClassVar[type[Encoding]]

    def __init__(self, *, device: Any = None, dtype: torch.dtype | None = None,
                 **fields: Any) -> None:
        super().__init__(self.spec_type(**fields), device=device, dtype=dtype)

    @property
    def spec(self) -> Encoding:
        """The spec of the encoding."""
        return self.mixture[0]

    def __init_subclass__(cls) -> None:
        spec = cls.spec_type
        cls.__doc__ = (f"A module of gnomon.{spec.__name__}; see PositionEncoding.\n\n"
                       f"{inspect.getdoc(spec)}\n\ndevice, dtype: of the trained parameters.")
        options = [one for name, one in inspect.signature(Named.__init__).parameters.items()
                   if name in ("device", "dtype")]
        given = inspect.signature(spec).parameters.values()
        cls.__signature__ = inspect.Signature([*given, *options])  # type: ignore[attr-defined]


class Index(Named):
    spec_type = specs.Index


class Sinusoidal(Named):
    spec_type = specs.Sinusoidal


class UniversalTransformer(Named):
    spec_type = specs.UniversalTransformer


class Learned(Named):
    spec_type = specs.Learned


class AxialLearned(Named):
    spec_type = specs.AxialLearned


class FourierLine(Named):
    spec_type = specs.FourierLine


class LearnedFourier(Named):
    spec_type = specs.LearnedFourier


class DetrPage(Named):
    spec_type = specs.DetrPage


class SinusoidalGrid(Named):
    spec_type = specs.SinusoidalGrid


class SinusoidalVideo(Named):
    spec_type = specs.SinusoidalVideo


class CrossModal(Named):
    spec_type = specs.CrossModal


class PathLaplacian(Named):
    spec_type = specs.PathLaplacian


class PathRandomWalk(Named):
    spec_type = specs.PathRandomWalk


class PathDegree(Named):
    spec_type = specs.PathDegree


class Rotary(Named):
    spec_type = specs.Rotary


class ScaledRotary(Named):
    spec_type = specs.ScaledRotary


class AxialRotary(Named):
    spec_type = specs.AxialRotary


class MRope(Named):
    spec_type = specs.MRope


class Vjepa2(Named):
    spec_type = specs.Vjepa2


class XPos(Named):
    spec_type = specs.XPos


class RotaryLearned(Named):
    spec_type = specs.RotaryLearned


class RotaryPlusPlus(Named):
    spec_type = specs.RotaryPlusPlus


class RotaryMixed(Named):
    spec_type = specs.RotaryMixed


class ComRope(Named):
    spec_type = specs.ComRope


class SelectiveRotary(Named):
    spec_type = specs.SelectiveRotary


class RotaryContextual(Named):
    spec_type = specs.RotaryContextual


class RotaryMamba3(Named):
    spec_type = specs.RotaryMamba3


class Alibi(Named):
    spec_type = specs.Alibi


class T5Bias(Named):
    spec_type = specs.T5Bias


class ClippedBias(Named):
    spec_type = specs.ClippedBias


class Kerple(Named):
    spec_type = specs.Kerple


class Sandwich(Named):
    spec_type = specs.Sandwich


class DynamicBias(Named):
    spec_type = specs.DynamicBias


class Fire(Named):
    spec_type = specs.Fire


class SwinBias(Named):
    spec_type = specs.Swin


class SwinV2Bias(Named):
    spec_type = specs.SwinV2


class WavLm(Named):
    spec_type = specs.WavLm


class StickBreaking(Named):
    spec_type = specs.StickBreaking


class LayoutBias(Named):
    spec_type = specs.LayoutBias


class Fox(Named):
    spec_type = specs.Fox


class GrapeAdditive(Named):
    spec_type = specs.GrapeAdditive


class GrapePath(Named):
    spec_type = specs.GrapePath


class Wall(Named):
    spec_type = specs.Wall


class PathAttention(Named):
    spec_type = specs.PathAttention


class Pope(Named):
    spec_type = specs.Pope


class Graphormer(Named):
    spec_type = specs.Graphormer


class Shaw(Named):
    spec_type = specs.Shaw


class TransformerXl(Named):
    spec_type = specs.TransformerXl


class Deberta(Named):
    spec_type = specs.Deberta


class Cope(Named):
    spec_type = specs.Cope


class Decomposed(Named):
    spec_type = specs.Decomposed


class RelativeLogits(Named):
    spec_type = specs.RelativeLogits


__all__ = [
    "Alibi",
    "AxialLearned",
    "AxialRotary",
    "ClippedBias",
    "ComRope",
    "Cope",
    "CrossModal",
    "Deberta",
    "Decomposed",
    "DetrPage",
    "DynamicBias",
    "Fire",
    "FourierLine",
    "Fox",
    "GrapeAdditive",
    "GrapePath",
    "Graphormer",
    "Index",
    "Kerple",
    "LayoutBias",
    "Learned",
    "LearnedFourier",
    "MRope",
    "PathAttention",
    "PathDegree",
    "PathLaplacian",
    "PathRandomWalk",
    "Pope",
    "RelativeLogits",
    "Rotary",
    "RotaryContextual",
    "RotaryLearned",
    "RotaryMamba3",
    "RotaryMixed",
    "RotaryPlusPlus",
    "Sandwich",
    "ScaledRotary",
    "SelectiveRotary",
    "Shaw",
    "Sinusoidal",
    "SinusoidalGrid",
    "SinusoidalVideo",
    "StickBreaking",
    "SwinBias",
    "SwinV2Bias",
    "T5Bias",
    "TransformerXl",
    "UniversalTransformer",
    "Vjepa2",
    "Wall",
    "WavLm",
    "XPos",
]
