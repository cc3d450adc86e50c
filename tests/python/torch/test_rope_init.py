"""gnomon.torch.rope_init against ROPE_INIT_FUNCTIONS of transformers, for every type and length."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, Phi3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import gnomon.torch

ORIGINAL, LONGEST = 64, 256
TYPES: dict[str, dict[str, Any]] = {
    "linear": dict(factor=4.0),
    "dynamic": dict(factor=2.0),
    "yarn": dict(factor=4.0, original_max_position_embeddings=ORIGINAL),
    "llama3": dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=ORIGINAL),
    "proportional": dict(partial_rotary_factor=0.5, factor=1.0),
    "longrope": dict(short_factor=[1.0 + i for i in range(8)],
                     long_factor=[2.0 + 3 * i for i in range(8)],
                     original_max_position_embeddings=ORIGINAL),
}
LENGTHS = [None, 1, ORIGINAL - 1, ORIGINAL, ORIGINAL + 1, LONGEST, LONGEST + 1, 1000]


def config_of(kind: str) -> Any:
    sizes = dict(hidden_size=64, num_attention_heads=4, max_position_embeddings=LONGEST,
                 rope_parameters=dict(rope_type=kind, rope_theta=10000.0) | TYPES[kind])
    if kind == "longrope":  # Phi-3 takes the original length from the config
        return Phi3Config(original_max_position_embeddings=ORIGINAL, pad_token_id=0, **sizes)
    return LlamaConfig(**sizes)


@pytest.mark.parametrize("seq_len", LENGTHS)
@pytest.mark.parametrize("kind", TYPES)
def test_is_that_of_transformers(kind: str, seq_len: int | None) -> None:
    config = config_of(kind)
    got, got_factor = gnomon.torch.rope_init(config, "cpu", seq_len)
    want, want_factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, want, rtol=2e-6, atol=0)
    assert got_factor == pytest.approx(want_factor, rel=1e-6)


def test_short_and_long_factors_are_reached() -> None:
    config = config_of("longrope")
    short, long = (gnomon.torch.rope_init(config, None, one)[0] for one in (ORIGINAL, ORIGINAL + 1))
    assert torch.equal(gnomon.torch.rope_init(config)[0], short)
    factors = TYPES["longrope"]
    want = torch.tensor(factors["long_factor"]) / torch.tensor(factors["short_factor"])
    torch.testing.assert_close(short / long, want)
