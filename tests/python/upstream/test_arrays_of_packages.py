"""Arrays of PyTorch and JAX as arguments of the functions for NumPy."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import gnomon

TABLE = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=4, pairing="halves"), 5)
PLAN = gnomon.lower(gnomon.Rotary(rotary_dim=4, pairing="halves"), 5, visibility="causal")


def rotated(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    gnomon.rotate(x, TABLE, out=out)
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_tensors_are_rotated_in_place(dtype: torch.dtype, rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.standard_normal((2, 3, 5, 4))).to(dtype)  # [B, H, T, D]
    want = rotated(x.double().numpy().transpose(0, 2, 1, 3))
    address = x.data_ptr()
    gnomon.rotate(x.transpose(1, 2), TABLE)
    assert x.data_ptr() == address
    error = {torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6}.get(dtype, 1e-6)
    np.testing.assert_allclose(x.double().numpy().transpose(0, 2, 1, 3), want, 0, error)


def test_arrays_of_jax_are_read(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 5, 2, 4), np.float32)
    out = np.empty_like(x)
    gnomon.rotate(jnp.asarray(x), TABLE, out=out)
    np.testing.assert_array_equal(out, rotated(x))
    mixed = gnomon.attention(jnp.asarray(x), torch.from_numpy(x), x, PLAN)
    np.testing.assert_array_equal(mixed, gnomon.attention(x, x, x, PLAN))


def test_arrays_of_jax_are_not_written() -> None:
    x = jnp.ones((1, 5, 2, 4))
    for call in (
        lambda: gnomon.rotate(x, TABLE),
        lambda: gnomon.rotate(np.ones(x.shape, np.float32), TABLE, out=x),
        lambda: gnomon.prepare(x, None, None, PLAN),
        lambda: gnomon.attention(x, x, x, PLAN, out=x),
    ):
        with pytest.raises(ValueError, match="must be writable.*got an array of JAX"):
            call()
    np.testing.assert_array_equal(x, np.ones(x.shape))


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(1, 5, 1, 4).expand(1, 5, 2, 4),
        torch.ones(1, 5, 2, 4, device="meta"),
        torch.ones(1, 5, 2, 4).to_sparse(),
        torch.ones(1, 5, 2, 4, dtype=torch.int32),
        torch.ones(1, 5, 2, 4).to(torch.float8_e4m3fn),
    ],
    ids=["expanded", "meta", "sparse", "int32", "float8"],
)
def test_other_tensors_are_refused(x: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"^\[rot(ate|ary)\] x must"):
        gnomon.rotate(x, TABLE)


def test_empty_tensors_are_allowed() -> None:
    gnomon.rotate(torch.ones(0, 5, 2, 4), TABLE)
    gnomon.rotate(torch.ones(1, 5, 0, 4), TABLE)


def test_arrays_of_ml_dtypes_are_e4m3() -> None:
    bits = np.arange(0, 112, dtype=np.uint8).reshape(1, 7, 1, 16)
    q, scale = np.ones((1, 1, 1, 16), np.float32), np.ones(1, np.float32)
    plan = gnomon.lower(None, 1, 7, visibility="bidirectional")
    both = [gnomon.attention(q, one, one, plan, k_scales=scale, v_scales=scale)
            for one in (bits, bits.view(ml_dtypes.float8_e4m3fn))]
    np.testing.assert_array_equal(*both)
