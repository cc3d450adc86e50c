"""Rotations by angles of heads, against timm, the released formulas and operators of PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
from timm.layers import RotaryEmbeddingMixed, apply_rot_embed_cat
from timm.layers.pos_embed_sincos import init_random_2d_freqs

import gnomon
import gnomon.torch as gt


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def weighted(out):
    return (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)).sum()


def plus_plus(pairing: str = "halves") -> gt.RotaryPlusPlus:
    return gt.RotaryPlusPlus(heads=4, rotary_dim=8, pairing=pairing)


def modules() -> list[gt.PositionEncoding]:
    comrope = [gt.ComRope(heads=4, rotary_dim=8, form=form, grid=[3, 4])
               for form in ("axial_partition", "linearly_dependent")]
    return [plus_plus(), gt.RotaryMixed(heads=4, rotary_dim=8, pairing="adjacent", grid=[3, 4]),
            *comrope]


NAMES = ["rotary-plus-plus", "rotary-mixed", "comrope-ap", "comrope-ld"]
EACH = pytest.mark.parametrize("module", modules(), ids=NAMES)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def test_rope_plus_plus_is_the_released_formula():
    """imagx of github.com/OpenMOSS/rope_pp: q cos + q' sin, in odd heads q sin - q' cos."""
    q, k = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8)
    angle = torch.arange(6)[:, None] / 10000 ** (torch.arange(0, 8, 2) / 8)
    cos, sin = torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()
    real, imaginary = q * cos + rotate_half(q) * sin, q * sin - rotate_half(q) * cos
    want = torch.stack([real[:, 0], imaginary[:, 1], real[:, 2], imaginary[:, 3]], 1)
    got, keys = plus_plus().rotate(q, k)
    torch.testing.assert_close(got, want, atol=2e-6, rtol=0)
    torch.testing.assert_close(keys, k * cos + rotate_half(k) * sin, atol=2e-6, rtol=0)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_mixed_rotary_is_that_of_timm(indexing):
    heads, width, height = 3, 4, 5
    theirs = RotaryEmbeddingMixed(8 * heads, 1, heads, feat_shape=[height, width],
                                  grid_indexing=indexing)
    ours = gt.RotaryMixed(heads=heads, rotary_dim=8, pairing="adjacent", grid=[height, width])
    with torch.no_grad():
        ours.freqs_x.copy_(theirs.freqs[0, 0])
        ours.freqs_y.copy_(theirs.freqs[1, 0])
    x = torch.randn(2, heads, height * width, 8)
    want = apply_rot_embed_cat(x, theirs.get_embed([height, width])[0])
    # timm's first coordinate meets freqs[0]; 'ij' names the row first.
    at = theirs.t_y.long(), theirs.t_x.long()
    got, _ = ours.rotate(x, x, at)
    torch.testing.assert_close(got, want, atol=3e-6, rtol=0)
    if indexing == "xy" and torch.equal(at[1], torch.arange(height * width) % width):
        torch.testing.assert_close(ours.rotate(x, x)[0], got, atol=0, rtol=0)  # cells of the grid
    weighted(want).backward()
    weighted(got).backward()
    for own, their in ((ours.freqs_x, theirs.freqs.grad[0, 0]),
                       (ours.freqs_y, theirs.freqs.grad[1, 0])):
        torch.testing.assert_close(own.grad, their, atol=2e-4, rtol=1e-5)


def test_initial_frequencies_are_timm_s_in_other_directions():
    ours = gt.RotaryMixed(heads=2, rotary_dim=16, pairing="adjacent", seed=3)
    theirs = init_random_2d_freqs(16, 1, 2)[:, 0]
    torch.testing.assert_close(ours.freqs_x.square() + ours.freqs_y.square(),
                               theirs.square().sum(0))
    dots = ours.freqs_x[:, :4] * ours.freqs_x[:, 4:] + ours.freqs_y[:, :4] * ours.freqs_y[:, 4:]
    torch.testing.assert_close(dots, torch.zeros(2, 4), atol=1e-6, rtol=0)
    again = gt.RotaryMixed(heads=2, rotary_dim=16, pairing="adjacent", seed=3)
    assert torch.equal(again.freqs_x, ours.freqs_x)
    with torch.no_grad():
        again.freqs_x.zero_()
    again.reset_parameters()
    assert torch.equal(again.freqs_x, ours.freqs_x)


@pytest.mark.parametrize("form", ["axial_partition", "linearly_dependent"])
def test_comrope_scores_are_those_of_matrix_exponentials(form):
    """As github.com/Longin-Yu/ComRoPE: R = exp(sum_a x_a B_a), positions (cell + 0.5) / extent."""
    heads, pairs, grid = 2, 4, (3, 5)
    module = gt.ComRope(heads=heads, rotary_dim=2 * pairs, form=form, grid=grid)
    p = module.freqs.detach().double()
    if form == "linearly_dependent":
        factors = module.multiplier.detach().double()
    else:
        factors = (torch.arange(pairs) % 2 == torch.arange(2)[:, None]).double()
        factors = factors[None, :, :, None, None]
    generators = (p - p.transpose(-1, -2)) * factors
    cells = torch.arange(15)
    at = torch.stack([(cells // 5 + 0.5) / 3, (cells % 5 + 0.5) / 5], -1).double()
    turns = torch.matrix_exp(torch.einsum("ta,hajcd->thjcd", at, generators))
    q, k = torch.randn(2, 1, heads, 15, 2 * pairs, dtype=torch.float64)
    want = [torch.einsum("thjcd,bhtjd->bhtjc", turns, x.unflatten(-1, (pairs, 2))).flatten(-2)
            for x in (q, k)]
    got = module.rotate(q, k)
    torch.testing.assert_close(got[0] @ got[1].transpose(-1, -2),
                               want[0] @ want[1].transpose(-1, -2), atol=1e-6, rtol=0)


@EACH
def test_attention_is_that_of_rotated_queries_and_keys(module):
    q, k, v = (torch.randn(2, 4, 7, 10, requires_grad=True) for _ in range(3))
    positions = torch.tensor([0, 0, 4, 5, 6, 2, 3])
    sequences = torch.tensor([-1, -1, 0, 0, 0, 1, 1])
    options = dict(visibility="causal", left=3, positions=positions, sequences=sequences)
    got = module.attend(q, k, v, **options)
    turned = module.rotate(q, k, positions)
    want = gt.attention(*turned, v, visibility="causal", left=3, sequences=sequences)
    torch.testing.assert_close(got, want, atol=2e-6, rtol=0)
    by_operators = module.attend(q, k, v, **options, bias=torch.zeros(1, 1, 7, 7))
    torch.testing.assert_close(by_operators, want, atol=2e-6, rtol=0)
    leaves = [q, k, v, *module.parameters()]
    expected = torch.autograd.grad(weighted(want), leaves)
    for out in (got, by_operators):
        for one, other in zip(torch.autograd.grad(weighted(out), leaves), expected, strict=True):
            torch.testing.assert_close(one, other, atol=3e-5, rtol=1e-4)


@EACH
def test_decoding_equals_the_full_pass(module):
    q, k, v = (torch.randn(1, 4, 6, 8) for _ in range(3))
    whole = module.attend(q, k, v, visibility="causal")
    last = module.attend(q[:, :, -1:], k, v, visibility="causal")
    torch.testing.assert_close(last, whole[:, :, -1:], atol=1e-6, rtol=0)


def test_grouped_heads():
    q, k = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8)
    mixed = gt.RotaryMixed(heads=2, rotary_dim=8, pairing="adjacent", grid=[3, 4])
    out = mixed.attend(q, k, k, visibility="causal")
    each = mixed.attend(q[:, ::2], k, k, visibility="causal")
    torch.testing.assert_close(out[:, ::2], each, atol=1e-6, rtol=0)
    many = gt.RotaryMixed(heads=4, rotary_dim=8, pairing="adjacent", grid=[3, 4])
    with pytest.raises(ValueError, match="heads of .* must be a multiple of 4"):
        many.attend(q, k, k, visibility="causal")
    assert plus_plus().attend(q, k, k, visibility="causal").shape == q.shape
    assert math.isfinite(float(plus_plus().attend(q, k, k, visibility="causal").sum()))


@EACH
def test_flex_has_phases_and_refuses_trained_angles(module):
    from gnomon.torch import flex

    q, k, v = (torch.randn(1, 4, 6, 8) for _ in range(3))
    if isinstance(module, gt.RotaryPlusPlus):
        got = flex.attend(q, k, v, module.spec, visibility="causal")
        want = module.attend(q, k, v, visibility="causal")
        torch.testing.assert_close(got, want, atol=2e-6, rtol=0)
    else:
        with pytest.raises(ValueError, match="rotations by trained angles"):
            flex.attend(q, k, v, module.spec, module.matrices(), visibility="causal")


@pytest.mark.parametrize("fields, message", [
    (dict(heads=0, rotary_dim=8), "heads must be at least 1, got 0"),
    (dict(heads=2, rotary_dim=6), "rotary_dim must be a multiple of 4, got 6"),
    (dict(heads=2, rotary_dim=8, grid=[3]), "grid must have 2 axes, height and width, got 1"),
])
def test_errors(fields, message):
    with pytest.raises(ValueError, match=message):
        gt.RotaryMixed(pairing="adjacent", **fields)
    assert gnomon.RotaryMixed  # the spec itself is a plain value
