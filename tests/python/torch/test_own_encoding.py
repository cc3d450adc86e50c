"""Encodings of a user's own beside those of Gnomon: docs/python/own-encoding.md."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import gnomon
import gnomon.torch

H, D = 3, 8


class Network(nn.Module):
    """The bias of each head is a network of the distance."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, H))

    def forward(self, distance: Tensor) -> Tensor:  # [N] -> [H, N]
        return self.layers(distance[:, None] / 8).T


def inputs(queries: int, keys: int) -> list[Tensor]:
    torch.manual_seed(1)
    shapes = [(2, H, queries, D), (2, H, keys, D), (2, H, keys, D)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("queries, keys, left, right", [
    (21, 21, 20, 0), (21, 21, 20, 20), (21, 21, 5, 3), (1, 21, 20, 0), (7, 21, 20, 13)])
def test_a_strip_of_ones_own_is_a_dense_bias(queries: int, keys: int, left: int,
                                             right: int) -> None:
    """Results and all gradients to 1e-6 of scaled_dot_product_attention in double."""
    q, k, v = inputs(queries, keys)
    network = Network().double()
    wanted = [q, k, v, *network.parameters()]
    spec = gnomon.ClippedBias(heads=H, left=left, right=right)
    strip = network(torch.arange(-right, left + 1.0, dtype=torch.float64))
    visibility = "bidirectional" if right else "causal"
    out = gnomon.torch.attention(q, k, v, spec, [strip], visibility=visibility)

    past = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
    bias = network(past.flatten().clamp(-right, left).double()).view(H, queries, keys)
    if not right:
        bias = bias.masked_fill(past < 0, -torch.inf)
    expected = nn.functional.scaled_dot_product_attention(q, k, v, bias)
    assert (out - expected).abs().max() < 1e-6

    weights = torch.randn_like(out)
    for found, want in zip(torch.autograd.grad(out, wanted, weights),
                           torch.autograd.grad(expected, wanted, weights), strict=True):
        assert (found - want).abs().max() < 1e-6 * max(1, want.abs().max())


def test_a_strip_beside_a_rotation_and_a_mask() -> None:
    q, k, v = inputs(16, 16)
    strip = torch.randn(H, 16, dtype=torch.float64, requires_grad=True)
    rope = gnomon.Rotary(rotary_dim=D, pairing="adjacent")
    sequences = torch.tensor([0] * 6 + [1] * 10)
    out = gnomon.torch.attention(q, k, v, [rope, gnomon.ClippedBias(heads=H, left=15)], [strip],
                                 left=7, sequences=sequences)

    angles = torch.arange(16.0).double()[:, None] * 10000.0 ** (-torch.arange(0, D, 2).double() / D)
    turned = [torch.view_as_real(torch.view_as_complex(x.reshape(2, H, 16, D // 2, 2))
                                 * torch.polar(torch.ones_like(angles), angles)).flatten(3)
              for x in (q, k)]
    past = torch.arange(16)[:, None] - torch.arange(16)
    seen = (past >= 0) & (past <= 7) & (sequences[:, None] == sequences)
    bias = strip[:, past.clamp(min=0)].masked_fill(~seen, -torch.inf)
    expected = nn.functional.scaled_dot_product_attention(*turned, v, bias)
    assert (out - expected).abs().max() < 1e-6
    weights = torch.randn_like(out)
    (found,), (want,) = (torch.autograd.grad(one, [strip], weights) for one in (out, expected))
    assert (found - want).abs().max() < 1e-6
