"""Trained rotary frequencies against timm, rotary-embedding-torch and the frequencies of a spec."""

from __future__ import annotations

import pickle

import pytest
import torch
from formulas import tokens_first
from rotary_embedding_torch import RotaryEmbedding
from timm.layers import RotaryEmbeddingMixed, apply_rot_embed_cat
from transformers.models.mistral_large4.configuration_mistral_large4 import MistralLarge4TextConfig
from transformers.models.mistral_large4.modeling_mistral_large4 import (
    MistralLarge4TextRotaryEmbedding,
    apply_rotary_pos_emb_interleave,
)

import gnomon
import gnomon.torch as gt


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def weighted(out):
    return (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)).sum()


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_mixed_frequencies_are_those_of_timm(indexing):
    heads, depth, width, height = 3, 2, 4, 5
    theirs = RotaryEmbeddingMixed(8 * heads, depth, heads, feat_shape=[height, width],
                                  grid_indexing=indexing)
    x = torch.randn(2, heads, height * width, 8)
    rows = theirs.get_embed([height, width])
    at = theirs.t_x.double(), theirs.t_y.double()
    for layer in range(depth):
        ours = gt.LearnedRotary(8, pairing="adjacent", axes=2, heads=heads)
        with torch.no_grad():
            ours.frequencies.copy_(theirs.freqs[:, layer])
        want = apply_rot_embed_cat(x, rows[layer])
        got, _ = ours.rotate(x, x, at)
        torch.testing.assert_close(got, want, atol=3e-6, rtol=0)
        theirs.freqs.grad = None
        weighted(want).backward(retain_graph=True)
        weighted(got).backward()
        torch.testing.assert_close(ours.frequencies.grad, theirs.freqs.grad[:, layer], atol=2e-4,
                                   rtol=1e-5)


@pytest.mark.parametrize("offset", [0, 17])
def test_learned_frequencies_are_those_of_rotary_embedding_torch(offset):
    theirs = RotaryEmbedding(8, learned_freq=True)
    ours = gt.LearnedRotary(8, pairing="adjacent")
    torch.testing.assert_close(ours.frequencies, theirs.freqs)
    with torch.no_grad():
        theirs.freqs.mul_(torch.rand(4) + 0.5)
        ours.frequencies.copy_(theirs.freqs)
    x = torch.randn(2, 3, 6, 12)
    want = theirs.rotate_queries_or_keys(x, offset=offset)
    got, _ = ours(x, x, offset)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.autograd.grad(weighted(got), ours.frequencies)[0],
                               torch.autograd.grad(weighted(want), theirs.freqs)[0], atol=1e-3,
                               rtol=1e-5)


def test_the_first_frequencies_are_those_of_the_spec():
    rope = gnomon.Rotary(rotary_dim=8, pairing="halves", head_offset=2)
    module = gt.LearnedRotary(8, pairing="halves", head_offset=2, dtype=torch.float64)
    x = torch.randn(2, 3, 6, 12)
    for at in (None, 100_000, torch.tensor([5, 0, 3, 1, 1, 9]), torch.rand(2, 6).double()):
        q, k = module.rotate(x[:, :, 4:], x, at)
        torch.testing.assert_close(k, gt.rotate(x, rope, at), atol=1e-6, rtol=0)
        torch.testing.assert_close(q, k[:, :, 4:], atol=1e-6, rtol=0)
    swapped = module.rotate(*(x.transpose(1, 2),) * 2, layout="tokens_heads")[0]
    torch.testing.assert_close(swapped.transpose(1, 2), gt.rotate(x, rope), atol=1e-6, rtol=0)
    axes = gt.LearnedRotary(8, pairing="halves", axes=2, dtype=torch.float64)
    at = torch.arange(6), torch.zeros(6).double()
    even = tokens_first(x.double(), at[0])
    got = axes.rotate(x.double(), x.double(), at)[0]
    torch.testing.assert_close(got[..., [0, 2, 4, 6]], even[..., [0, 2, 4, 6]])
    assert torch.equal(got[..., [1, 3, 5, 7]], x.double()[..., [1, 3, 5, 7]])


def test_gradients():
    x = torch.randn(1, 2, 3, 6, dtype=torch.float64, requires_grad=True)
    frequencies = torch.rand(2, 2, 2, dtype=torch.float64, requires_grad=True)
    at = torch.rand(3, dtype=torch.float64, requires_grad=True), torch.arange(3)

    def run(x, frequencies, first):
        return gt.rotate_by_frequencies(x, frequencies, (first, at[1]), pairing="adjacent")

    inputs = x, frequencies, at[0]
    assert torch.autograd.gradcheck(run, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(run, inputs)
    single = [x.detach().float(), frequencies.detach().float(), at[0].detach()]
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*single), run(*single))
    mapped = torch.vmap(run, (None, 0, None))(x, torch.stack([frequencies, 2 * frequencies]), at[0])
    torch.testing.assert_close(mapped[1], run(x, 2 * frequencies, at[0]))


def test_casts_do_not_round_frequencies():
    module = gt.LearnedRotary(64, pairing="halves")
    want = module.frequencies.detach().clone()
    assert torch.equal(module.bfloat16().frequencies, want)
    assert torch.equal(pickle.loads(pickle.dumps(module.half())).frequencies, want)
    assert module.double().frequencies.dtype == torch.float64
    meta = gt.LearnedRotary(64, pairing="halves", device="meta")
    meta.to_empty(device="cpu").reset_parameters()
    assert torch.equal(meta.frequencies, want)
    x = torch.randn(1, 1, 4, 64, dtype=torch.bfloat16)
    assert module.float().rotate(x, x)[0].dtype == torch.bfloat16


@pytest.mark.parametrize("call, message", [
    (lambda x, f: gt.rotate_by_frequencies(x, f.half(), pairing="halves"), "since 16 bits round"),
    (lambda x, f: gt.rotate_by_frequencies(x, f[None], pairing="halves"), r"\[A, H or 1, R/2\]"),
    (lambda x, f: gt.rotate_by_frequencies(x, f, pairing="all"), "pairing must be one of"),
    (lambda x, f: gt.rotate_by_frequencies(x, f, torch.arange(4), pairing="halves"), "T = 5"),
    (lambda x, f: gt.rotate_by_frequencies(x, f, (torch.arange(5),) * 2, pairing="halves"),
     "one tensor for each position axis, 1, got 2"),
    (lambda x, f: gt.rotate_by_frequencies(x, f.expand(1, 3, 4), pairing="halves"), "1 or 2 heads"),
    (lambda x, f: gt.rotate_by_frequencies(x[..., :6], f, pairing="halves"), "must have at least"),
    (lambda x, f: gt.rotate_by_frequencies(x.int(), f, pairing="halves"), "got torch.int32"),
    (lambda x, f: gt.LearnedRotary(7, pairing="halves"), "rotary_dim must be even"),
    (lambda x, f: gt.LearnedRotary(8, pairing="halves", dtype=torch.half), "dtype must be float32"),
    (lambda x, f: gt.LearnedRotary(8, pairing="halves", heads=0), "heads must be at least 1"),
])
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.randn(1, 2, 5, 8), torch.rand(4))


def test_alpha_is_that_of_mistral_large_4():
    """transformers' module, which stores alpha in checkpoints, without YaRN."""
    config = MistralLarge4TextConfig(
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    theirs = MistralLarge4TextRotaryEmbedding(config)
    pairs = theirs.alpha.numel()
    module = gt.RotaryLearned(rotary_dim=2 * pairs, pairing="adjacent")
    with torch.no_grad():
        theirs.alpha.uniform_(-1, 1)
        module.alpha.copy_(theirs.alpha)
    positions = torch.tensor([[0, 1, 5, 40]])
    q, k = torch.randn(1, 2, 4, 2 * pairs), torch.randn(1, 1, 4, 2 * pairs)
    want = apply_rotary_pos_emb_interleave(q, k, *theirs(q, positions))
    for one, other in zip(module.rotate(q, k, positions), want, strict=True):
        pairs_apart = one.unflatten(-1, (pairs, 2)).transpose(-1, -2).flatten(-2)
        torch.testing.assert_close(pairs_apart, other, atol=2e-5, rtol=0)


@pytest.mark.parametrize("pairing", ["halves", "adjacent"])
def test_learned_frequencies_of_the_list(pairing):
    """gnomon.torch.RotaryLearned in attention: alpha 0 is rotary, and its gradient is that of
    rotate_by_frequencies; decoding and packing included."""
    module = gt.RotaryLearned(rotary_dim=8, pairing=pairing, head_offset=2)
    q, k, v = (torch.randn(2, 3, 7, 12, requires_grad=True) for _ in range(3))
    plain = gt.attention(q, k, v, gnomon.Rotary(rotary_dim=8, pairing=pairing, head_offset=2),
                         visibility="causal")
    torch.testing.assert_close(module.attend(q, k, v, visibility="causal"), plain, atol=0, rtol=0)
    with torch.no_grad():
        module.alpha.copy_(torch.tensor([0.3, -0.2, 1.0, -1.0]))
    sequences = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    positions = torch.tensor([4, 5, 6, 0, 1, 2, 9])
    got = module.attend(q, k, v, visibility="causal", positions=positions, sequences=sequences)
    turned = module.rotate(q, k, positions)
    want = gt.attention(*turned, v, visibility="causal", sequences=sequences)
    torch.testing.assert_close(got, want, atol=2e-6, rtol=0)
    leaves = [q, k, v, module.alpha]
    for one, other in zip(torch.autograd.grad(weighted(got), leaves),
                          torch.autograd.grad(weighted(want), leaves)):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)
    by_operators = module.attend(q, k, v, visibility="causal", positions=positions,
                                 sequences=sequences, bias=torch.zeros(1, 1, 7, 7))
    torch.testing.assert_close(by_operators, want, atol=2e-6, rtol=0)
    torch.testing.assert_close(torch.autograd.grad(weighted(by_operators), [module.alpha])[0],
                               torch.autograd.grad(weighted(module.attend(
                                   q, k, v, visibility="causal", positions=positions,
                                   sequences=sequences)), [module.alpha])[0], atol=2e-5, rtol=1e-4)
