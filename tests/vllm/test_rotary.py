"""vLLM's rotary layers and those of the plug-in, against float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gnomon_vllm import rotary
from vllm.model_executor.layers import rotary_embedding as theirs

SIZE = 64
BF16, F32 = torch.bfloat16, torch.float32


def plain(dim: int, base: float) -> np.ndarray:
    return base ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)


def llama3(dim: int, base: float) -> np.ndarray:
    """Factor 8, low 1, high 4, length 8192."""
    inv_freq = plain(dim, base)
    turns = 8192 * inv_freq / (2 * math.pi)
    smooth = np.clip((turns - 1) / 3, 0, 1)
    return (1 - smooth) * inv_freq / 8 + smooth * inv_freq


def yarn(dim: int, base: float) -> np.ndarray:
    """Factor 4, length 32768."""
    def pair(turns: float) -> float:
        return dim * math.log(32768 / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    return plain(dim, base) * (ramp / 4 + 1 - ramp)


# Name, arguments of the class of vLLM, frequencies, the scale of cos and sin.
CASES: list[tuple[str, dict[str, Any], Any, float]] = [
    ("RotaryEmbedding", {"base": 1e4}, plain, 1.0),
    ("RotaryEmbedding", {"base": 1e6, "rotary_dim": 32}, plain, 1.0),
    ("RotaryEmbedding", {"base": 1e4, "is_neox_style": False}, plain, 1.0),
    ("Llama3RotaryEmbedding", {"base": 5e5, "scaling_factor": 8.0, "low_freq_factor": 1.0,
                               "high_freq_factor": 4.0, "orig_max_position": 8192}, llama3, 1.0),
    ("YaRNScalingRotaryEmbedding", {"base": 1e6, "scaling_factor": 4.0,
                                    "max_position_embeddings": 32768}, yarn,
     0.1 * math.log(4) + 1),
    ("LinearScalingRotaryEmbedding", {"base": 1e4, "scaling_factors": 4.0,
                                      "max_position_embeddings": 32768},
     lambda dim, base: plain(dim, base) / 4, 1.0),
]
NAMES = [f"{name} {number}" for number, (name, *_) in enumerate(CASES)]


def layer_of(name: str, arguments: dict[str, Any], dtype: torch.dtype, ours: bool) -> Any:
    base = getattr(theirs, name)
    every = {"head_size": SIZE, "rotary_dim": SIZE, "max_position_embeddings": 131072,
             "is_neox_style": True, "dtype": dtype} | arguments
    return (rotary.made(base) if ours else base)(**every)


def exact(x: np.ndarray, places: np.ndarray, inv_freq: np.ndarray, halves: bool,
          scale: float) -> np.ndarray:
    dim = 2 * len(inv_freq)
    angles = places[:, None].astype(np.float64) * inv_freq
    cos, sin = scale * np.cos(angles)[:, None], scale * np.sin(angles)[:, None]
    first = slice(0, dim // 2) if halves else slice(0, dim, 2)
    second = slice(dim // 2, dim) if halves else slice(1, dim, 2)
    out = x.copy()
    a, b = x[..., first], x[..., second]
    out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
    return out


def errors(case: tuple[str, dict[str, Any], Any, float], dtype: torch.dtype,
           start: int) -> dict[str, float]:
    """The greatest errors of q and k, in units of the greatest element."""
    name, arguments, frequencies, scale = case
    rng = np.random.default_rng(3)
    places = torch.arange(start, start + 20)
    drawn = [torch.from_numpy(rng.standard_normal((20, heads * SIZE))).to(dtype)
             for heads in (4, 2)]
    inv_freq = frequencies(arguments.get("rotary_dim", SIZE), arguments["base"])
    found = {}
    for who in ("vLLM", "Gnomon"):
        layer = layer_of(name, arguments, dtype, who == "Gnomon")
        results = layer(places, *(x.clone() for x in drawn))
        worst = 0.0
        for x, y in zip(drawn, results, strict=True):
            heads = x.double().numpy().reshape(20, -1, SIZE)
            right = exact(heads, places.numpy(), inv_freq, arguments.get("is_neox_style", True),
                          scale)
            unit = np.abs(heads).max()
            worst = max(worst, np.abs(y.double().numpy().reshape(right.shape) - right).max() / unit)
        found[who] = float(worst)
    return found


@pytest.mark.parametrize("start", [0, 5000, 131_000])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_float32(case: Any, start: int) -> None:
    found = errors(case, F32, start)
    assert found["Gnomon"] <= 2.0**-22 * 1.5
    # vLLM multiplies angles in float.
    assert found["vLLM"] <= 1e-6 + 4e-7 * start


@pytest.mark.parametrize("start", [0, 5000, 131_000])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_bfloat16(case: Any, start: int) -> None:
    """One rounding. vLLM rounds cos and sin to bfloat16, too."""
    found = errors(case, BF16, start)
    assert found["Gnomon"] <= 2.0**-8 * 1.2
    assert found["vLLM"] <= 2.0**-6 + 4e-7 * start


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_table_of_all_positions_has_the_rows_of_vllm(case: Any) -> None:
    name, arguments, *_ = case
    tables = [layer_of(name, arguments, F32, ours).cos_sin_cache for ours in (False, True)]
    assert tables[0].shape == tables[1].shape
    assert float((tables[0] - tables[1]).abs()[:1000].max()) <= 1e-3


def test_without_keys() -> None:
    layer = layer_of("RotaryEmbedding", {"base": 1e4}, F32, ours=True)
    q = torch.ones(3, 2 * SIZE)
    found, key = layer(torch.arange(3), q)
    assert key is None
    assert float(found[0].sub(1).abs().max()) == 0
    assert float(found[1].sub(1).abs().max()) > 0.5


def test_registration_is_repeatable() -> None:
    from vllm.model_executor.custom_op import op_registry_oot

    kept = dict(op_registry_oot)
    try:
        rotary.register()
        rotary.register()
        made = theirs.RotaryEmbedding(SIZE, SIZE, 16, 1e4, True, F32)
        assert isinstance(made, rotary.GnomonRotary)
    finally:
        op_registry_oot.clear()
        op_registry_oot.update(kept)
