"""vLLM's attention for CPU and that of the plug-in, over the same requests, against float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from gnomon_vllm.attention import GnomonAttentionImpl, alibi_of
from vllm import _custom_ops as ops
from vllm.v1.attention.backends import cpu_attn

HEADS, KEY_HEADS, SIZE, PAGE, BLOCKS = 8, 2, 64, 32, 24
# New tokens and cached tokens of each request: a prompt, a chunk of a prompt, and two steps.
REQUESTS = ((70, 0), (20, 45), (1, 130), (1, 3))
F32, BF16 = torch.float32, torch.bfloat16


@dataclass
class Layer:
    """What vLLM's code reads of a layer."""

    isa: str
    _k_scale_float: float = 1.0
    _v_scale_float: float = 1.0


def batch(rng: np.random.Generator) -> dict[str, Any]:
    """The requests as vLLM describes them, in shuffled blocks."""
    new = np.array([tokens for tokens, _ in REQUESTS])
    lengths = np.array([tokens + cached for tokens, cached in REQUESTS])
    order, used = rng.permutation(BLOCKS), 0
    table = np.zeros((len(REQUESTS), 8), np.int32)
    for row, length in zip(table, lengths, strict=True):
        count = -(-length // PAGE)
        row[:count] = order[used : used + count]
        used += count
    slots = [np.array([row[i // PAGE] * PAGE + i % PAGE for i in range(length)])
             for row, length in zip(table, lengths, strict=True)]
    return {"new": new, "lengths": lengths, "table": torch.from_numpy(table), "slots": slots,
            "starts": torch.from_numpy(np.concatenate([[0], np.cumsum(new)]).astype(np.int32))}


def metadata(of: dict[str, Any], dtype: torch.dtype, isa: str, window: int,
             cache: str) -> cpu_attn.CPUAttentionMetadata:
    lengths = torch.from_numpy(of["lengths"].astype(np.int32))
    schedule = ops.cpu_attn_get_scheduler_metadata(
        num_reqs=len(REQUESTS), num_heads=HEADS, num_kv_heads=KEY_HEADS, head_dim=SIZE,
        seq_lens=lengths, dtype=dtype, query_start_loc=of["starts"], causal=True,
        sliding_window_size=window, isa=isa, enable_kv_split=True, dynamic_causal=None,
        kv_cache_dtype=cache)
    return cpu_attn.CPUAttentionMetadata(
        num_actual_tokens=int(of["new"].sum()), max_query_len=int(of["new"].max()),
        query_start_loc=of["starts"], max_seq_len=int(of["lengths"].max()), seq_lens=lengths,
        block_table=of["table"], slot_mapping=torch.empty(0), scheduler_metadata=schedule)


def exact(q: np.ndarray, k: np.ndarray, v: np.ndarray, *, scale: float, window: int,
          cap: float, slopes: np.ndarray | None, sinks: np.ndarray | None) -> np.ndarray:
    """The last tokens of a sequence. q: [T, H, D]; k, v: [S, Hk, D]."""
    cached = len(k) - len(q)
    k, v = (np.repeat(x, HEADS // KEY_HEADS, axis=1) for x in (k, v))
    score = np.einsum("thd,shd->hts", q, k) * scale
    if cap:
        score = cap * np.tanh(score / cap)
    distance = np.arange(len(k)) - (np.arange(len(q)) + cached)[:, None]
    if slopes is not None:
        score += slopes[:, None, None] * distance
    hidden = distance > 0
    if window > 0:
        hidden |= distance <= -window
    weight = np.exp(np.where(hidden, -np.inf, score))
    total = weight.sum(-1, keepdims=True)
    if sinks is not None:
        total += np.exp(sinks)[:, None, None]
    return np.einsum("hts,shd->thd", weight / total, v)


def errors(dtype: torch.dtype, *, window: int | None = None, cap: float | None = None,
           slopes: list[float] | None = None, sinks: np.ndarray | None = None,
           cache: str = "auto") -> dict[str, float]:
    """The greatest errors, in units of the standard deviation of values."""
    rng = np.random.default_rng(11)
    of = batch(rng)
    drawn = [[torch.from_numpy(rng.standard_normal((length, heads, SIZE))).to(dtype)
              for length in of["lengths"]] for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    q = torch.cat([x[len(x) - new :] for x, new in zip(drawn[0], of["new"], strict=True)])
    k, v = (torch.cat(x) for x in drawn[1:])
    slots = torch.from_numpy(np.concatenate(of["slots"]).astype(np.int64))
    isa = cpu_attn._get_attn_isa(dtype, PAGE, SIZE, cache)
    found, results = {}, {}
    for who, kind in (("vLLM", cpu_attn.CPUAttentionBackendImpl), ("Gnomon", GnomonAttentionImpl)):
        made = kind(HEADS, SIZE, SIZE**-0.5, KEY_HEADS, slopes, window, cache,
                    logits_soft_cap=cap,
                    sinks=None if sinks is None else torch.from_numpy(sinks).float())
        # Rows that no token has written: vLLM multiplies them by weights of 0, Gnomon skips them.
        empty = 0.0 if who == "vLLM" else float("nan")
        pages = torch.full((BLOCKS, KEY_HEADS, PAGE, 2 * SIZE), empty, dtype=dtype)
        if cache != "auto":
            pages = torch.zeros(pages.shape, dtype=torch.uint8)
        layer = Layer(isa, 0.5, 0.25) if cache != "auto" else Layer(isa)
        made.do_kv_cache_update(layer, k, v, pages, slots)
        out = torch.empty_like(q)
        made.forward(layer, q, k, v, pages,
                     metadata(of, dtype, isa, made.sliding_window, cache), out)
        results[who] = out.double().numpy()
    rights = []
    for n, new in enumerate(of["new"]):
        own = [x[n].double().numpy() for x in drawn]
        if cache != "auto":
            own[1:] = [stored(drawn[1][n], 0.5), stored(drawn[2][n], 0.25)]
        rights.append(exact(own[0][len(own[0]) - new :], *own[1:], scale=SIZE**-0.5,
                            window=window or -1, cap=cap or 0, sinks=sinks,
                            slopes=None if slopes is None else np.array(slopes)))
    right = np.concatenate(rights)
    for who, result in results.items():
        found[who] = float(np.abs(result - right).max())
    return found


def stored(x: torch.Tensor, scale: float) -> np.ndarray:
    """As a cache of fp8_e4m3 holds it."""
    limited = (x.float() / scale).clamp(-448, 448)
    return (limited.to(torch.float8_e4m3fn).float() * scale).double().numpy()


SETTINGS: list[dict[str, Any]] = [
    {}, {"window": 16}, {"cap": 20.0}, {"slopes": [2.0 ** -(i + 1) for i in range(8)]},
    {"sinks": np.linspace(-1, 2, HEADS)},
]
IDS = ["plain", "window", "soft cap", "ALiBi", "sinks"]


@pytest.mark.parametrize("settings", SETTINGS, ids=IDS)
def test_float32(settings: dict[str, Any]) -> None:
    found = errors(F32, **settings)
    assert found["Gnomon"] <= 2.0**-17 * 4
    assert found["vLLM"] <= 1e-4


@pytest.mark.parametrize("settings", SETTINGS, ids=IDS)
def test_bfloat16(settings: dict[str, Any]) -> None:
    found = errors(BF16, **settings)
    assert found["Gnomon"] <= 2.0**-7 * 4
    assert found["vLLM"] <= 2.0**-6 * 4


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_cache_of_8_bits(dtype: torch.dtype) -> None:
    found = errors(dtype, cache="fp8_e4m3")
    assert found["Gnomon"] <= (2.0**-7 if dtype == BF16 else 2.0**-17) * 4


def test_slopes() -> None:
    for heads, scale in ((8, 1.0), (12, 1.0), (5, 0.125), (1, 1.0)):
        power = 2 ** math.floor(math.log2(heads))
        slopes = [scale * 2 ** (-8 / power * (i + 1)) for i in range(power)]
        slopes += [scale * 2 ** (-4 / power * (2 * i + 1)) for i in range(heads - power)]
        spec = alibi_of(slopes)
        assert spec.heads == heads
        assert math.isclose(spec.max_bias, 8, rel_tol=1e-6)
        assert math.isclose(spec.bias_scale, scale, rel_tol=1e-6)
    with pytest.raises(NotImplementedError, match="slopes"):
        alibi_of([0.5, 0.25, 0.2, 0.1])


def test_refusals() -> None:
    with pytest.raises(NotImplementedError, match="fp8_e5m2"):
        GnomonAttentionImpl(HEADS, SIZE, 1.0, KEY_HEADS, None, None, "fp8_e5m2")
