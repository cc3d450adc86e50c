"""Encodings that change the product of a query and a key: Wall, PaTH and PoPE against other code."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import types

import pytest
import torch

import gnomon
import gnomon.torch as gt

B, T, H, HK, D, C = 2, 21, 4, 2, 8, 32


def heads() -> list[torch.Tensor]:
    torch.manual_seed(2)
    return [torch.randn(B, T, H, D), torch.randn(B, T, HK, D), torch.randn(B, T, HK, D)]


def compare(got: torch.Tensor, want: torch.Tensor, mine: list[torch.Tensor],
            others: list[torch.Tensor]) -> None:
    torch.testing.assert_close(got, want, atol=5e-6, rtol=0)
    grad = torch.randn_like(got)
    for one, other in zip(torch.autograd.grad(got, mine, grad),
                          torch.autograd.grad(want, others, grad), strict=True):
        torch.testing.assert_close(one, other, atol=5e-5, rtol=1e-4)


def leaves(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [one.clone().requires_grad_() for one in tensors]


@pytest.fixture
def without_triton(monkeypatch):
    """The modules of fla that naive.py of Wall imports, whose package requires triton."""
    constants = types.ModuleType("fla.ops.utils.constant")
    constants.RCP_LN2 = 1.4426950216
    sums = types.ModuleType("fla.ops.utils.cumsum")
    sums.chunk_global_cumsum = lambda g, cu_seqlens=None, scale=1.0: (g * scale).cumsum(1)
    for name in ("fla.ops", "fla.ops.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "fla.ops.utils.constant", constants)
    monkeypatch.setitem(sys.modules, "fla.ops.utils.cumsum", sums)


def test_wall_is_that_of_flash_linear_attention(naive, without_triton) -> None:
    """fla.ops.wall_attn.naive, with grouped heads, a window and sinks."""
    wall = naive("wall_attn").naive_wall_attn
    gates = torch.nn.functional.logsigmoid(torch.randn(B, T, H, D) + 1)
    sinks = torch.randn(H)
    mine, others = leaves([*heads(), gates, sinks]), leaves([*heads(), gates, sinks])
    want = wall(*others[:4], scale=D**-0.5, window_size=9, sink_bias=others[4])
    got = gt.attention(*mine[:3], gnomon.Wall(heads=H, head_dim=D, width=C),
                       [torch.zeros(H * D, C), torch.zeros(H * D, 1)], layout="tokens_heads",
                       left=8, sinks=mine[4], terms={"channel_gates": mine[3]})
    compare(got, want, mine, others)


def test_path_is_that_of_flash_linear_attention(naive) -> None:
    """fla.ops.path_attn.naive, with grouped heads. Its padding requires chunks that divide T."""
    path = naive("path_attn").naive_path_attn
    w = torch.nn.functional.normalize(torch.randn(B, T, HK, D), dim=-1)
    betas = 2 * torch.sigmoid(torch.randn(B, T, HK))
    mine, others = leaves([*heads(), w, betas]), leaves([*heads(), w, betas])
    # Query heads of one key head follow each other, as in fla's kernels; its naive version
    # repeats whole groups of key heads.
    q, k, v, w, b = others
    each = [one.repeat_interleave(H // HK, 2) for one in (k, v, w, b)]
    want = path(q, *each, torch.zeros(B, T, H), D**-0.5, chunk_size=7)
    spec = gnomon.PathAttention(heads=HK, head_dim=D, width=C)
    zeros = [torch.zeros(rows, columns) for _, rows, columns, *_ in spec.parameters()]
    got = gt.attention(*mine[:3], spec, zeros, layout="tokens_heads",
                       terms={"householder": mine[3], "betas": mine[4].transpose(1, 2)})
    compare(got, want, mine, others)


@pytest.fixture
def pope():
    """pope.py of pope-pytorch; other files of its package require einx."""
    package = importlib.util.find_spec("PoPE_pytorch")
    file = pathlib.Path(package.submodule_search_locations[0], "pope.py")
    made = importlib.util.spec_from_file_location("pope_pytorch_pope", file)
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


def test_pope_is_that_of_pope_pytorch(pope) -> None:
    q, k, v = (torch.randn(B, H, T, D) for _ in range(3))
    bias = -torch.rand(H, D) * 3
    bias[0, 0] = -9  # clamped
    mine, others = leaves([q, k, v, bias]), leaves([q, k, v, bias])
    module = pope.PoPE(D, heads=H)
    module.bias = torch.nn.Parameter(others[3].detach())
    others[3] = module.bias
    of_q, of_k = pope.PoPE.apply_pope_to_qk(module(T), *others[:2])
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    scores = (of_q @ of_k.transpose(-1, -2) * D**-0.5).masked_fill(hidden, -torch.inf)
    want = scores.softmax(-1) @ others[2]
    got = gt.attention(*mine[:3], gnomon.Pope(heads=H, head_dim=D), [mine[3]],
                       visibility="causal")
    compare(got, want, mine, others)


@pytest.mark.parametrize("kind", ["wall", "path", "pope"])
def test_unsupported_paths_are_refused_by_name(kind: str) -> None:
    spec = gnomon.usual(kind, width=C, heads=H, length=T)
    module = gt.PositionEncoding(spec)
    q, k, v = (torch.randn(B, H, T, D) for _ in range(3))
    x = None if kind == "pope" else torch.randn(B, T, C)
    with pytest.raises(ValueError, match="have no dropout|must have no dropout"):
        module.attend(q, k, v, visibility="causal", hidden=x, dropout=0.1)
    with pytest.raises(ValueError, match=f"a score_mod cannot change, got {kind}"):
        gt.flex.score_mod(spec, T, parameters=list(module.parameters()))
