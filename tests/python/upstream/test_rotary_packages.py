"""Rotations against rotary-embedding-torch, timm, diffusers, transformers and flash-attn."""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys
import tarfile
from collections.abc import Callable

import einops
import numpy as np
import pytest
import torch
from diffusers.models.embeddings import apply_rotary_emb, get_1d_rotary_pos_embed
from rotary_embedding_torch import RotaryEmbedding
from rotary_embedding_torch import apply_rotary_emb as apply_freqs
from timm.layers import RotaryEmbeddingCat, apply_rot_embed_cat, build_rotary_pos_embed
from timm.layers.pos_embed_sincos import apply_rot_embed
from transformers.models.gptj.modeling_gptj import (
    apply_rotary_pos_emb as apply_gptj,
)
from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as apply_llama

import gnomon

ROOT = pathlib.Path(__file__).parents[3]
ERROR = 2e-5  # float32 angles of the packages at positions up to 100


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(5)


def rotated(x: torch.Tensor, table: gnomon.RotaryTable) -> np.ndarray:
    """x [B, H, T, D] after the rotation, in its own memory's copy."""
    out = x.clone()
    gnomon.rotate(out.transpose(1, 2), table)
    return out.numpy()


def assert_close(got: np.ndarray, want: torch.Tensor) -> None:
    np.testing.assert_allclose(got, want.detach().numpy(), 0, ERROR)


# --- rotary-embedding-torch -----------------------------------------------------------------------


@pytest.mark.parametrize("dim", [8, 32])
@pytest.mark.parametrize("offset", [0, 17])
@pytest.mark.parametrize("theta", [10000, 500000])
def test_rotary_embedding_torch(dim: int, offset: int, theta: int) -> None:
    x = torch.randn(2, 3, 50, 32)
    want = RotaryEmbedding(dim, theta=theta).rotate_queries_or_keys(x, offset=offset)
    spec = gnomon.Rotary(rotary_dim=dim, pairing="adjacent", base=theta)
    positions = gnomon.Positions.consecutive(50, offset)
    assert_close(rotated(x, gnomon.RotaryTable(spec, positions)), want)


def test_interpolation() -> None:
    x = torch.randn(2, 3, 50, 16)
    want = RotaryEmbedding(16, interpolate_factor=4.0).rotate_queries_or_keys(x)
    spec = gnomon.ScaledRotary(
        rotary_dim=16, pairing="adjacent", length=50, scaling=gnomon.LinearScaling(factor=4.0)
    )
    assert_close(rotated(x, gnomon.RotaryTable(spec, 50)), want)


def test_theta_rescaling() -> None:
    x = torch.randn(2, 3, 50, 16)
    want = RotaryEmbedding(16, theta_rescale_factor=8.0).rotate_queries_or_keys(x)
    spec = gnomon.ScaledRotary(
        rotary_dim=16, pairing="adjacent", length=50, scaling=gnomon.NtkScaling(factor=8.0)
    )
    assert_close(rotated(x, gnomon.RotaryTable(spec, 50)), want)


def test_cached_keys() -> None:
    q, k = torch.randn(1, 3, 1, 16), torch.randn(1, 3, 40, 16)
    want = RotaryEmbedding(16).rotate_queries_with_cached_keys(q, k)
    spec = gnomon.Rotary(rotary_dim=16, pairing="adjacent")
    plan = gnomon.lower(spec, 1, 40, visibility="causal")
    assert_close(rotated(q, plan.query_rotary), want[0])
    assert_close(rotated(k, plan.key_rotary), want[1])


def test_xpos() -> None:
    """Its frequencies of growth belong to elements i and i + D/2 of halves, ours to pairs."""
    q, k = torch.randn(2, 3, 50, 16), torch.randn(2, 3, 50, 16)
    module = RotaryEmbedding(16, use_xpos=True, xpos_scale_base=64)
    want = module.rotate_queries_and_keys(q, k)
    spec = gnomon.XPos(
        rotary_dim=16, pairing="adjacent", scale_base=64.0, gamma=0.4, centre=25
    )
    plan = gnomon.lower(spec, 50, visibility="causal")
    np.testing.assert_allclose(rotated(q, plan.query_rotary), want[0].numpy(), 0, 4 * ERROR)
    np.testing.assert_allclose(rotated(k, plan.key_rotary), want[1].numpy(), 0, 4 * ERROR)


@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 4)])
def test_axial(shape: tuple[int, ...]) -> None:
    dim = 8
    x = torch.randn(2, 3, *shape, dim * len(shape))
    want = apply_freqs(RotaryEmbedding(dim).get_axial_freqs(*shape), x)
    spec = gnomon.AxialRotary(
        parts=[gnomon.AxialPart(axis=axis, rotary_dim=dim) for axis in range(len(shape))],
        pairing="adjacent", order="blocks", grid=shape,
    )
    cells = int(np.prod(shape))
    plan = gnomon.lower(spec, cells, visibility="bidirectional")
    got = rotated(x.reshape(2, 3, cells, -1), plan.query_rotary)
    assert_close(got, want.reshape(2, 3, cells, -1))


@pytest.mark.parametrize("max_freq", [10, 256])
def test_frequencies_of_pixels(max_freq: int) -> None:
    """Linear bands, coordinates from -1 to 1: given frequencies, continuous positions by scale."""
    cells = 9
    x = torch.randn(2, 3, cells, 8)
    freqs = RotaryEmbedding(8, freqs_for="pixel", max_freq=max_freq).get_axial_freqs(cells)
    want = apply_freqs(freqs, x)
    # Cell i is at 2 i / 8 - 1, so i rotates by 2/8 of the frequency from cell 4 on.
    bands = np.pi * np.linspace(1, max_freq / 2, 4) * 2 / (cells - 1)
    made = gnomon.RotaryFrequencies(pairing="adjacent", inv_freq=list(bands))
    table = gnomon.RotaryTable(made, np.arange(cells) - 4)
    np.testing.assert_allclose(rotated(x, table), want.numpy(), 0, 2e-4)


# --- timm -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5)])
def test_timm(shape: tuple[int, int], half: bool) -> None:
    """EVA-02 and others: y rotates the first half of the pairs, x the second."""
    cells = shape[0] * shape[1]
    x = torch.randn(2, 3, cells, 16)
    sin, cos = build_rotary_pos_embed(list(shape), dim=16, in_pixels=False, rotate_half=half)
    want = apply_rot_embed(x, sin, cos, half=half)
    parts = [gnomon.AxialPart(axis=axis, rotary_dim=8) for axis in (0, 1)]
    spec = gnomon.AxialRotary(
        parts=parts, pairing="halves" if half else "adjacent", order="blocks", grid=shape
    )
    plan = gnomon.lower(spec, cells, visibility="bidirectional")
    assert_close(rotated(x, plan.query_rotary), want)


def test_timm_module_with_a_reference_shape() -> None:
    """A grid of 8 x 8 in the place of the 4 x 4 grid of the training: frequencies divided by 2."""
    x = torch.randn(1, 2, 64, 16)
    module = RotaryEmbeddingCat(
        16, in_pixels=False, feat_shape=[8, 8], ref_feat_shape=[4, 4]
    )
    want = apply_rot_embed_cat(x, module.get_embed())
    halved = 10000.0 ** (-np.arange(4) / 4) / 2
    parts = [gnomon.AxialPart(axis=a, rotary_dim=8, inv_freq=halved) for a in (0, 1)]
    spec = gnomon.AxialRotary(parts=parts, pairing="adjacent", order="blocks", grid=(8, 8))
    plan = gnomon.lower(spec, 64, visibility="bidirectional")
    assert_close(rotated(x, plan.query_rotary), want)


# --- diffusers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("linear", [1.0, 3.0])
@pytest.mark.parametrize("ntk", [1.0, 5.0])
@pytest.mark.parametrize("pairing", ["adjacent", "halves"])
def test_diffusers(pairing: str, linear: float, ntk: float) -> None:
    x = torch.randn(2, 3, 50, 16)
    adjacent = pairing == "adjacent"
    freqs = get_1d_rotary_pos_embed(
        16, 50, use_real=True, linear_factor=linear, ntk_factor=ntk,
        repeat_interleave_real=adjacent,
    )
    want = apply_rotary_emb(x, freqs, use_real_unbind_dim=-1 if adjacent else -2)
    spec = gnomon.ScaledRotary(
        rotary_dim=16, pairing=pairing, base=10000.0 * ntk, length=50,
        scaling=gnomon.LinearScaling(factor=linear),
    )
    assert_close(rotated(x, gnomon.RotaryTable(spec, 50)), want)


def test_diffusers_complex() -> None:
    x = torch.randn(2, 50, 3, 16)  # [B, T, H, D]
    want = apply_rotary_emb(x, get_1d_rotary_pos_embed(16, 50)[None], use_real=False)
    table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=16, pairing="adjacent"), 50)
    gnomon.rotate(x, table)
    assert_close(x.numpy(), want)


def test_flux() -> None:
    """Three axes of 16, 56 and 56 elements, for an image of 4 x 6 patches."""
    from diffusers.models.transformers.transformer_flux import FluxPosEmbed

    y, x_ = np.divmod(np.arange(24), 6)
    axes = np.stack([np.full(24, 3), y, x_], 1)
    freqs = FluxPosEmbed(10000, [16, 56, 56])(torch.tensor(axes))
    x = torch.randn(1, 2, 24, 128)
    want = apply_rotary_emb(x, freqs)
    parts = [gnomon.AxialPart(axis=a, rotary_dim=n) for a, n in enumerate((16, 56, 56))]
    spec = gnomon.AxialRotary(parts=parts, pairing="adjacent", order="blocks")
    table = gnomon.RotaryTable(spec, tuple(axes[:, a] for a in range(3)))
    np.testing.assert_allclose(rotated(x, table), want.numpy(), 0, 2e-6)


# --- transformers ---------------------------------------------------------------------------------


def test_llama_of_transformers() -> None:
    q, k = torch.randn(2, 4, 50, 16), torch.randn(2, 2, 50, 16)
    table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=16, pairing="halves"), 50)
    cos, sin = (torch.from_numpy(np.concatenate([one, one], -1)) for one in (table.cos, table.sin))
    want = apply_llama(q, k, cos, sin)
    gnomon.rotate(q.transpose(1, 2), table, k=k.transpose(1, 2))
    np.testing.assert_allclose(q.numpy(), want[0].numpy(), 0, 2e-6)
    np.testing.assert_allclose(k.numpy(), want[1].numpy(), 0, 2e-6)


def test_gptj_of_transformers() -> None:
    x = torch.randn(2, 50, 3, 16)  # [B, T, H, D]
    sin, cos = create_sinusoidal_positions(50, 16).chunk(2, -1)
    want = apply_gptj(x, sin[None], cos[None])
    gnomon.rotate(x, gnomon.RotaryTable(gnomon.Rotary(rotary_dim=16, pairing="adjacent"), 50))
    assert_close(x.numpy(), want)


# --- flash-attn -----------------------------------------------------------------------------------

FLASH_ATTN = "2.8.3"


@pytest.fixture(scope="module")
def flash_attn_reference() -> Callable[..., torch.Tensor]:
    """`apply_rotary_emb_torch` of flash-attn, out of its source distribution.

    The package needs a GPU to be built, so only this function and `rotate_half` are run. The file
    is downloaded once, by pip, to build/python/sdist; without it and without a network the test
    fails.
    """
    folder = ROOT / "build/python/sdist"
    archive = folder / f"flash_attn-{FLASH_ATTN}.tar.gz"
    if not archive.exists():
        subprocess.run(
            [
                sys.executable, "-m", "pip", "download", "-q", f"flash-attn=={FLASH_ATTN}",
                "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", str(folder),
            ],
            check=True,
            env=os.environ | {"FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"},
        )
    with tarfile.open(archive) as file:
        source = file.extractfile(f"flash_attn-{FLASH_ATTN}/flash_attn/layers/rotary.py").read()
    wanted = {"rotate_half", "apply_rotary_emb_torch"}
    functions = [
        one for one in ast.parse(source).body
        if isinstance(one, ast.FunctionDef) and one.name in wanted
    ]
    names = {"torch": torch, "rearrange": einops.rearrange, "repeat": einops.repeat}
    exec(compile(ast.Module(functions, []), str(archive), "exec"), names)
    return names["apply_rotary_emb_torch"]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rotary_dim", [8, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_flash_attn(
    flash_attn_reference: Callable[..., torch.Tensor],
    interleaved: bool,
    rotary_dim: int,
    dtype: torch.dtype,
) -> None:
    x = torch.randn(2, 50, 3, 16).to(dtype)
    spec = gnomon.Rotary(
        rotary_dim=rotary_dim, pairing="adjacent" if interleaved else "halves"
    )
    table = gnomon.RotaryTable(spec, gnomon.Positions.consecutive(50, 7))
    cos, sin = (torch.from_numpy(one[0].copy()) for one in (table.cos, table.sin))
    want = flash_attn_reference(x.float(), cos, sin, interleaved)
    gnomon.rotate(x, table)
    rounding = {torch.float32: 2e-6, torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6}[dtype]
    np.testing.assert_allclose(x.float().numpy(), want.numpy(), 0, rounding)
