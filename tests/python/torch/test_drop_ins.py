"""The drop-in forms against transformers and against formulas in float64."""

from __future__ import annotations

import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, Phi3Config, PhiConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama import modeling_llama

import gnomon.torch as gt


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def factors(batch=2, tokens=5, dim=8, dtype=torch.float32):
    """cos and sin as a model of transformers makes them, [B, T, D]."""
    config = LlamaConfig(hidden_size=4 * dim, num_attention_heads=4)
    ids = torch.arange(tokens).expand(batch, -1) + torch.arange(batch)[:, None] * 3
    rotary = modeling_llama.LlamaRotaryEmbedding(config)
    return rotary(torch.zeros(1, dtype=dtype), ids)


@pytest.mark.parametrize("dtype, close", [(torch.float64, 1e-12), (torch.float32, 1e-6),
                                          (torch.bfloat16, 4e-2)])
@pytest.mark.parametrize("unsqueeze_dim", [1, 2])
def test_apply_rotary_pos_emb_is_that_of_transformers(dtype, close, unsqueeze_dim):
    q, k = torch.randn(2, 4, 5, 8).to(dtype), torch.randn(2, 2, 5, 8).to(dtype)
    if unsqueeze_dim == 2:
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    cos, sin = factors(dtype=torch.float32 if dtype == torch.float64 else dtype)
    q.requires_grad_(), k.requires_grad_()
    got = gt.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    want = modeling_llama.apply_rotary_pos_emb(q.double(), k.double(), cos.double(), sin.double(),
                                               unsqueeze_dim=unsqueeze_dim)
    for one, right, x in zip(got, want, (q, k)):
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), right, atol=close, rtol=close)
        torch.testing.assert_close(torch.autograd.grad(one.sum(), x)[0],
                                   torch.autograd.grad(right.sum(), x)[0], atol=close, rtol=close)


def test_bfloat16_is_rounded_once():
    q = torch.randn(2, 4, 5, 8, dtype=torch.bfloat16)
    cos, sin = factors(dtype=torch.bfloat16)
    exact = modeling_llama.apply_rotary_pos_emb(q.double(), q.double(), cos.double(),
                                                sin.double())[0]
    ours = gt.apply_rotary_pos_emb(q, q, cos, sin)[0]
    theirs = modeling_llama.apply_rotary_pos_emb(q, q, cos, sin)[0]
    assert (ours.double() - exact).abs().max() < (theirs.double() - exact).abs().max()
    torch.testing.assert_close(ours, exact.bfloat16(), atol=1e-7, rtol=2 ** -7)


@pytest.mark.parametrize("inplace", [False, True])
def test_double_cos_and_sin_are_not_rounded(inplace):
    angle = torch.rand(2, 5, 4, dtype=torch.float64)
    cos, sin = (torch.cat((one, one), -1) for one in (angle.cos(), angle.sin()))
    q = torch.randn(2, 4, 5, 8, dtype=torch.float64)
    want = modeling_llama.apply_rotary_pos_emb(q, q, cos, sin)[0]
    torch.testing.assert_close(gt.apply_rotary_pos_emb(q, q, cos, sin)[0], want, atol=1e-14, rtol=0)
    x = q[:1].transpose(1, 2).clone()
    got = gt.apply_rotary_emb(x, cos[0, :, :4], sin[0, :, :4], inplace=inplace)
    want = modeling_llama.apply_rotary_pos_emb(q[:1], q[:1], cos[:1], sin[:1])[0].transpose(1, 2)
    torch.testing.assert_close(got, want, atol=1e-14, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("of_factors", [torch.float32, torch.float16, torch.bfloat16,
                                        torch.float64])
def test_types_and_strides_of_cos_and_sin(dtype, of_factors):
    q = torch.randn(2, 4, 5, 8).to(dtype)
    cos, sin = (one.to(of_factors) for one in factors())
    want = gt.apply_rotary_pos_emb(q, q.requires_grad_(), cos, sin)[0]
    q = q.detach()
    strided = [torch.stack((one, one + 9), -1)[..., 0] for one in (cos, sin)]
    for c, s in ((cos, sin), strided, [one.transpose(0, 1).clone().transpose(0, 1)
                                       for one in (cos, sin)]):
        for one in gt.apply_rotary_pos_emb(q, q, c, s):
            assert torch.equal(one, want)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("offsets", [0, 3, torch.tensor([0, 4, 2, 1])])
def test_packed_sequences_are_the_loop(interleaved, offsets):
    ends = torch.tensor([0, 3, 3, 8, 9], dtype=torch.int32)
    x, angle = torch.randn(9, 2, 12, requires_grad=True), torch.rand(10, 4)
    cos, sin = angle.cos(), angle.sin()
    got = gt.apply_rotary_emb(x, cos, sin, interleaved, seqlen_offsets=offsets, cu_seqlens=ends,
                              max_seqlen=5)
    firsts = offsets.tolist() if isinstance(offsets, torch.Tensor) else [offsets] * 4
    want = torch.cat([gt.apply_rotary_emb(x[None, begin:end], cos, sin, interleaved,
                                          seqlen_offsets=first)[0]
                      for begin, end, first in zip(ends, ends[1:], firsts)])
    assert torch.equal(got, want)
    assert torch.equal(*(torch.autograd.grad(one.pow(2).sum(), x)[0] for one in (got, want)))
    y = x.detach().clone()
    gt.apply_rotary_emb(y, cos, sin, interleaved, True, offsets, ends)
    assert torch.equal(y, got)


@pytest.mark.parametrize("options, message", [
    ({"cu_seqlens": torch.tensor([0, 4])}, "cu_seqlens must increase from 0 to .* 5"),
    ({"cu_seqlens": torch.tensor([0, 5]), "max_seqlen": 4}, "max_seqlen must be .* 5, got 4"),
    ({"cu_seqlens": torch.tensor([0, 5]), "seqlen_offsets": 6}, "rows for positions 6 to 10"),
    ({"cu_seqlens": torch.tensor([0, 5]), "seqlen_offsets": torch.arange(2)}, "1 sequences, got 2"),
    ({"seqlen_offsets": torch.tensor([8])}, "rows for positions 8 to"), ({}, "4 axes"),
])
def test_packed_errors(options, message):
    x, cos = torch.randn(5, 2, 8), torch.ones(10, 4)
    x = x[None] if "cu_seqlens" not in options and options else x
    with pytest.raises(ValueError, match=message):
        gt.apply_rotary_emb(x, cos, cos, **options)


def test_tables_with_position_ids_and_partial_rotation():
    q = torch.randn(2, 4, 5, 12)
    cos, sin = (one[0] for one in factors(1, 9))
    ids = torch.tensor([[0, 1, 2, 3, 4], [8, 7, 6, 5, 4]])
    got = gt.apply_rotary_pos_emb(q, q, cos, sin, ids)[0]
    want = modeling_llama.apply_rotary_pos_emb(q[..., :8], q[..., :8], cos[ids], sin[ids])[0]
    torch.testing.assert_close(got[..., :8], want)
    assert torch.equal(got[..., 8:], q[..., 8:])


def test_gradients_of_cos_and_sin():
    q = torch.randn(2, 4, 5, 8, dtype=torch.float64)
    cos, sin = (one.double().requires_grad_() for one in factors())
    got = gt.apply_rotary_pos_emb(q, q, cos, sin)[0]
    want = modeling_llama.apply_rotary_pos_emb(q, q, cos, sin)[0]
    half = cos.shape[-1] // 2
    for one in (cos, sin):
        ours = torch.autograd.grad(got.pow(3).sum(), one, retain_graph=True)[0]
        theirs = torch.autograd.grad(want.pow(3).sum(), one, retain_graph=True)[0]
        # The halves are copies of the same frequencies: here the first has the whole gradient.
        torch.testing.assert_close(ours[..., :half], theirs[..., :half] + theirs[..., half:])


def by_flash_attn(x, cos, sin, interleaved):
    """The rotation that flash-attn's documentation states; cos and sin [B, T, R/2]."""
    cos, sin = cos.unsqueeze(2).double(), sin.unsqueeze(2).double()
    rotary_dim = 2 * cos.shape[-1]
    x, rest = x[..., :rotary_dim].double(), x[..., rotary_dim:].double()
    if interleaved:
        a, b = x[..., ::2], x[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    else:
        a, b = x.chunk(2, -1)
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    return torch.cat((turned, rest), -1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("offsets", [0, 3, torch.tensor([1, 4])])
def test_apply_rotary_emb(interleaved, offsets):
    x = torch.randn(2, 5, 3, 12, requires_grad=True)
    angle = torch.arange(9)[:, None] * torch.tensor([1.0, 0.1, 0.01, 0.001])
    cos, sin = angle.cos(), angle.sin()
    rows = torch.as_tensor(offsets).expand(2)[:, None] + torch.arange(5)
    want = by_flash_attn(x, cos[rows], sin[rows], interleaved)
    out = gt.apply_rotary_emb(x, cos, sin, interleaved, seqlen_offsets=offsets)
    torch.testing.assert_close(out.double(), want, atol=1e-6, rtol=1e-6)
    grad = torch.randn_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, x, grad)[0],
                               torch.autograd.grad(want, x, grad.double())[0])
    y = x.detach().clone()
    assert gt.apply_rotary_emb(y, cos, sin, interleaved, True, offsets) is y
    assert torch.equal(y, out)
    with pytest.raises(ValueError, match="must not require a gradient if inplace"):
        gt.apply_rotary_emb(x, cos, sin, interleaved, True, offsets)
    with pytest.raises(ValueError, match="rows for positions 5 to 9, got 9 rows"):
        gt.apply_rotary_emb(x, cos, sin, interleaved, seqlen_offsets=5)


def test_drop_ins_compile():
    q = torch.randn(2, 4, 5, 8, requires_grad=True)
    cos, sin = factors()
    compiled = torch.compile(lambda q: gt.apply_rotary_pos_emb(q, q, cos, sin)[0], fullgraph=True,
                             backend="aot_eager")
    assert torch.equal(compiled(q), gt.apply_rotary_pos_emb(q, q, cos, sin)[0])


SCALINGS = {
    "linear": dict(factor=4.0),
    "dynamic": dict(factor=2.0),
    "yarn": dict(factor=4.0, original_max_position_embeddings=64),
    "llama3": dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=64),
}


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("seq_len", [None, 1000])
def test_rope_init_is_that_of_transformers(kind, seq_len):
    config = LlamaConfig(hidden_size=64, num_attention_heads=4, max_position_embeddings=256,
                         rope_parameters=dict(rope_type=kind, rope_theta=10000.0,
                                              **SCALINGS[kind]))
    inv_freq, factor = gt.rope_init(config, "cpu", seq_len)
    want, right = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len)
    assert inv_freq.dtype == torch.float32
    torch.testing.assert_close(inv_freq, want, rtol=2e-6, atol=0)
    assert factor == pytest.approx(right)


def test_rope_init_of_partial_and_longrope():
    config = PhiConfig(hidden_size=64, num_attention_heads=4)
    want = modeling_llama_like_frequencies(config.rope_parameters["rope_theta"], 8)
    torch.testing.assert_close(gt.rope_init(config)[0], want)
    config = Phi3Config(hidden_size=64, num_attention_heads=4, max_position_embeddings=256,
                        original_max_position_embeddings=64, pad_token_id=0,
                        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0,
                                             short_factor=[1.0 + i for i in range(8)],
                                             long_factor=[2.0 + i for i in range(8)],
                                             original_max_position_embeddings=64))
    for seq_len in (32, 200):
        inv_freq, factor = gt.rope_init(config, None, seq_len)
        want, right = ROPE_INIT_FUNCTIONS["longrope"](config, "cpu", seq_len)
        torch.testing.assert_close(inv_freq, want, rtol=2e-6, atol=0)
        assert factor == pytest.approx(right)


def modeling_llama_like_frequencies(base, rotary_dim):
    exponent = torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim
    return (1 / base ** exponent).float()


def test_rope_init_of_a_layer_type():
    config = Gemma3TextConfig(hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                              head_dim=16, num_hidden_layers=12)
    for kind in ("sliding_attention", "full_attention"):
        base = config.rope_parameters[kind]["rope_theta"]
        want = modeling_llama_like_frequencies(base, 16)
        torch.testing.assert_close(gt.rope_init(config, layer_type=kind)[0], want)
    with pytest.raises(ValueError, match="layer of type chunked must have a rotary"):
        gt.rope_init(config, layer_type="chunked")
