"""Tables of embeddings, resizing and window biases against diffusers, timm and PyTorch."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import torch
from diffusers.models.embeddings import (
    get_2d_sincos_pos_embed,
    get_3d_sincos_pos_embed,
    get_timestep_embedding,
)
from timm.layers import RelPosBias, RelPosMlp, build_sincos2d_pos_embed, resample_abs_pos_embed
from torch.nn.functional import interpolate

import gnomon
from gnomon import _program


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(5)


def table_of(spec: gnomon.Encoding, tokens: object) -> np.ndarray:
    return gnomon.lower(spec, tokens, visibility="bidirectional").table


# --- diffusers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [16, 17, 320])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize(("scale", "period"), [(1.0, 10000), (100.0, 1000)])
def test_timesteps(width: int, flip: bool, shift: float, scale: float, period: int) -> None:
    steps = [0, 1, 17, 500, 999]
    want = get_timestep_embedding(
        torch.tensor(steps), width, flip_sin_to_cos=flip, downscale_freq_shift=shift, scale=scale,
        max_period=period,
    )
    spec = gnomon.Sinusoidal(
        width=width, recipe="timestep", order="cosine_first" if flip else "sine_first",
        shift=shift, scale=scale, base=float(period),
    )
    # diffusers computes the angle in float32: an error of angle 2^-23 or so.
    error = 1e-6 + 999 * scale * 2.0**-22
    np.testing.assert_allclose(table_of(spec, steps), want.numpy(), 0, error)


def grid_spec(width: int, height: int, columns: int, class_tokens: int = 0, scale: float = 1.0):
    """Half of the channels for the column, half for the row: MAE and diffusers."""
    one = gnomon.Sinusoidal(width=width // 2, recipe="half_split", scale=scale)
    return gnomon.SinusoidalGrid(
        join="concatenated", axes=[gnomon.GridAxis(column=c, sinusoidal=one) for c in (1, 0)],
        grid=(height, columns), class_tokens=class_tokens,
    )


@pytest.mark.parametrize("class_tokens", [0, 1])
@pytest.mark.parametrize("size", [4, 7])
@pytest.mark.parametrize("base_size", [16, 4])
def test_grids(size: int, class_tokens: int, base_size: int) -> None:
    want = get_2d_sincos_pos_embed(
        32, size, cls_token=class_tokens > 0, extra_tokens=class_tokens, base_size=base_size
    )
    spec = grid_spec(32, size, size, class_tokens, base_size / size)
    got = table_of(spec, size * size + class_tokens)
    np.testing.assert_allclose(got, want.numpy(), 0, 2e-6)


def test_grids_that_are_not_square() -> None:
    want = get_2d_sincos_pos_embed(32, (3, 5), base_size=1)
    one = [
        gnomon.GridAxis(
            column=column,
            sinusoidal=gnomon.Sinusoidal(width=16, recipe="half_split", scale=1 / cells),
        )
        for column, cells in ((1, 5), (0, 3))
    ]
    spec = gnomon.SinusoidalGrid(join="concatenated", axes=one, grid=(3, 5))
    np.testing.assert_allclose(table_of(spec, 15), want.numpy(), 0, 2e-6)


@pytest.mark.parametrize(("height", "width", "frames"), [(3, 3, 2), (2, 5, 4)])
def test_videos_of_cogvideox(height: int, width: int, frames: int) -> None:
    want = get_3d_sincos_pos_embed(64, (width, height), frames)  # the size is (width, height)
    spec = gnomon.SinusoidalVideo(
        recipe="cogvideox", width=64, grid_height=height, grid_width=width
    )
    got = table_of(spec, frames * height * width)
    np.testing.assert_allclose(got, want.reshape(-1, 64).numpy(), 0, 2e-6)


# --- timm -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 4), (3, 5)])
def test_sincos_of_timm(shape: tuple[int, int]) -> None:
    """The row first. `interleave_sin_cos` interleaves the halves of both axes, not the pairs."""
    want = build_sincos2d_pos_embed(list(shape), dim=32, interleave_sin_cos=True)
    one = gnomon.Sinusoidal(width=16, recipe="half_split")
    spec = gnomon.SinusoidalGrid(
        join="concatenated", axes=[gnomon.GridAxis(column=c, sinusoidal=one) for c in (0, 1)],
        grid=shape,
    )
    got = table_of(spec, shape[0] * shape[1])
    np.testing.assert_allclose(got, want.reshape(-1, 32).numpy(), 0, 2e-6)


@pytest.mark.parametrize("prefix", [0, 1])
@pytest.mark.parametrize("window", [(2, 2), (3, 5), (7, 7)])
def test_window_bias_of_timm(window: tuple[int, int], prefix: int) -> None:
    """Swin's and BEiT's, with and without a class token."""
    module = RelPosBias(window, 4, prefix_tokens=prefix)
    with torch.no_grad():
        module.relative_position_bias_table.normal_()
    table = module.relative_position_bias_table.detach().numpy()
    spec = gnomon.Swin(heads=4, height=window[0], width=window[1], class_tokens=prefix)
    tokens = window[0] * window[1] + prefix
    plan = gnomon.lower(spec, tokens, parameters=[table], visibility="bidirectional")
    np.testing.assert_array_equal(plan.bias(), module.get_bias()[0].detach().numpy())


@pytest.mark.parametrize("window", [(4, 4), (3, 5)])
def test_window_mlp_of_timm(window: tuple[int, int]) -> None:
    """Swin v2's network."""
    module = RelPosMlp(window, 4, hidden_dim=32, mode="swin").eval()
    with torch.no_grad():
        for one in module.parameters():
            one.normal_()
    first, second = module.mlp.fc1, module.mlp.fc2
    matrices = [
        first.weight, first.bias[:, None], second.weight, torch.zeros(4, 1)
    ]
    spec = gnomon.SwinV2(heads=4, height=window[0], width=window[1], hidden=32)
    plan = gnomon.lower(
        spec, window[0] * window[1],
        parameters=[one.detach().numpy() for one in matrices], visibility="bidirectional",
    )
    np.testing.assert_allclose(plan.bias(), module.get_bias()[0].detach().numpy(), 0, 2e-4)


# --- Resizing, by the program ---------------------------------------------------------------------


def resized(table: torch.Tensor, folder: pathlib.Path, *options: str) -> np.ndarray:
    np.save(folder / "in.npy", table.numpy())
    _program.run(
        "resize", str(folder / "in.npy"), *options, "-o", str(folder / "out.npy")
    )
    return np.load(folder / "out.npy")


SIZES = [((4, 4), (8, 8)), ((4, 4), (7, 5)), ((6, 6), (4, 4)), ((3, 5), (9, 4)), ((14, 14), (5, 9))]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("prefix", [0, 1, 5])
@pytest.mark.parametrize(("old", "new"), SIZES)
def test_resize_of_timm(
    old: tuple[int, int],
    new: tuple[int, int],
    prefix: int,
    interpolation: str,
    antialias: bool,
    tmp_path: pathlib.Path,
) -> None:
    table = torch.randn(1, old[0] * old[1] + prefix, 8)
    want = resample_abs_pos_embed(
        table, list(new), list(old), num_prefix_tokens=prefix, interpolation=interpolation,
        antialias=antialias,
    )
    got = resized(
        table, tmp_path, "--from", f"{old[0]}x{old[1]}", "--to", f"{new[0]}x{new[1]}",
        "--kernel", "linear" if interpolation == "bilinear" else "cubic",
        "--corners", "half-pixel", "--antialias", "on" if antialias else "off",
        "--extra-rows", str(prefix),
    )
    np.testing.assert_allclose(got, want.numpy(), 0, 4e-6)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("old", "new"), SIZES)
def test_resize_with_aligned_corners(
    old: tuple[int, int], new: tuple[int, int], mode: str, tmp_path: pathlib.Path
) -> None:
    table = torch.randn(old[0] * old[1], 8, dtype=torch.float64)
    image = table.reshape(1, *old, 8).permute(0, 3, 1, 2)
    want = interpolate(image, size=new, mode=mode, align_corners=True)
    got = resized(
        table, tmp_path, "--from", f"{old[0]}x{old[1]}", "--to", f"{new[0]}x{new[1]}",
        "--kernel", "linear" if mode == "bilinear" else "cubic", "--corners", "aligned",
    )
    np.testing.assert_allclose(got, want.permute(0, 2, 3, 1).reshape(-1, 8).numpy(), 0, 1e-12)


@pytest.mark.parametrize(("old", "new"), [(10, 25), (30, 12)])
def test_resize_of_one_axis(old: int, new: int, tmp_path: pathlib.Path) -> None:
    table = torch.randn(old, 8, dtype=torch.float64)
    want = interpolate(table.T[None], size=new, mode="linear")[0].T
    got = resized(table, tmp_path, "--preset", "linear", "--from", str(old), "--to", str(new))
    np.testing.assert_allclose(got, want.numpy(), 0, 1e-12)


def test_resize_of_vit_in_transformers(tmp_path: pathlib.Path) -> None:
    from transformers import ViTConfig
    from transformers.models.vit.modeling_vit import ViTEmbeddings

    module = ViTEmbeddings(ViTConfig(hidden_size=16, image_size=64, patch_size=16)).eval()
    with torch.no_grad():
        module.position_embeddings.normal_()
    image = torch.zeros(1, 17, 16)
    want = module.interpolate_pos_encoding(image, 96, 80).detach()
    got = resized(
        module.position_embeddings.detach(), tmp_path, "--preset", "vit", "--from", "4x4",
        "--to", "6x5",
    )
    np.testing.assert_allclose(got, want.numpy(), 0, 4e-6)
