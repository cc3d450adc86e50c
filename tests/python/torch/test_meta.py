"""Meta initialization, to_empty and casts change no frequency and no constant bias."""

from __future__ import annotations

import pytest
import tiny
import torch

import gnomon.torch

B, H, T, D = 2, 4, 16, 16
NAMES = [one.name for one in gnomon.encodings()]


def qkv(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return torch.randn(3, B, H, T, D).to(dtype).unbind()


@pytest.mark.parametrize("name", NAMES)
def test_meta_then_to_empty_and_reset(name: str) -> None:
    sizes = {"width": H * D, "heads": H, "length": T}
    with torch.device("meta"):
        one = gnomon.torch.PositionEncoding(name, **sizes)
    assert all(p.is_meta for p in one.parameters())
    with torch.no_grad():
        one.to_empty(device="cpu")
        for p in one.parameters():
            p.fill_(float("nan"))  # the contents of empty memory
    torch.manual_seed(5)
    one.reset_parameters()
    torch.manual_seed(5)
    other = gnomon.torch.PositionEncoding(name, **sizes)
    x = torch.randn(B, T, H * D)
    assert torch.equal(one.embed(x), other.embed(x))
    assert torch.equal(one.attend(*qkv(), visibility="causal", hidden=x),
                       other.attend(*qkv(), visibility="causal", hidden=x))


@pytest.mark.parametrize("name", ["rotary", "rotary-scaled", "xpos", "alibi", "sandwich"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_cast_changes_no_constant(name: str, dtype: torch.dtype) -> None:
    one = gnomon.torch.PositionEncoding(name, width=H * D, heads=H, length=T)
    cast = gnomon.torch.PositionEncoding(name, width=H * D, heads=H, length=T).to(dtype)
    if one.enters == "scores":
        assert torch.equal(cast.bias(T), one.bias(T))
    else:
        q, k, _ = qkv(dtype)
        first = 1000 if name == "xpos" else 100_000  # its factors grow with the position
        exact = one.rotate(q.double(), k.double(), first)
        for found, expected in zip(cast.rotate(q, k, first), exact, strict=True):
            # Computed in float32 and rounded once: at most one ulp from the rounded exact value.
            torch.testing.assert_close(found, expected.to(dtype), rtol=torch.finfo(dtype).eps,
                                       atol=1e-6)
            assert (found == expected.to(dtype)).float().mean() > 0.99


def test_a_cast_changes_no_sinusoid() -> None:
    one = gnomon.torch.Sinusoidal(width=8, recipe="interleaved").bfloat16()
    found = one.embed(torch.zeros(1, 1, 8, dtype=torch.float64), 123_457)[0, 0]
    angles = 123_457 * 10000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    expected = torch.stack([angles.sin(), angles.cos()], -1).flatten()
    torch.testing.assert_close(found, expected, rtol=0, atol=2**-24)


def test_a_cast_of_a_trained_table_rounds_it_once() -> None:
    one = gnomon.torch.T5Bias(heads=H, direction="causal")
    expected = one.bias(T).bfloat16().float()
    assert torch.equal(one.bfloat16().bias(T), expected)
    q, k, v = qkv(torch.bfloat16)
    out = one.attend(q, k, v, visibility="causal")
    assert out.dtype == torch.bfloat16 and out.isfinite().all()
    out.float().sum().backward()
    assert one.relative_attention_bias.weight.grad.dtype == torch.bfloat16


def test_meta_tensors_pass_through_a_model() -> None:
    with torch.device("meta"):
        model = tiny.Model()
        logits = model(torch.zeros(2, tiny.LENGTH, dtype=torch.int64))
    assert logits.is_meta and logits.shape == (2, tiny.LENGTH, tiny.WORDS)


def test_a_model_from_meta_equals_the_model() -> None:
    with torch.device("meta"):
        model = tiny.Model()
    model.to_empty(device="cpu")
    other = tiny.Model()
    tiny.reset(model)
    tiny.reset(other)
    ids = torch.randint(tiny.WORDS, (2, tiny.LENGTH))
    assert torch.equal(model(ids), other(ids))
