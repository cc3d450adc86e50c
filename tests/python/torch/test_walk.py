"""Contextual positions and stick-breaking, compared with x-transformers, fla-core and operators."""

from __future__ import annotations

import ast
import importlib.util
import math
import pathlib
from typing import Any

import pytest
import torch
from torch import einsum, nn
from torch.nn import Module

import gnomon
import gnomon.torch as gt

B, H, HK, T, D, P = 2, 4, 2, 70, 16, 8


def file_of(package: str, path: str) -> pathlib.Path:
    """Returns a file of an installed package, which is not imported: it may require Triton."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return pathlib.Path(spec.submodule_search_locations[0]) / path


def naive_stick_breaking() -> Any:
    spec = importlib.util.spec_from_file_location(
        "naive_sticks", file_of("fla", "ops/stickbreaking_attn/naive.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.naive_stickbreaking_attn


def cope_class() -> Any:
    """Returns the class CoPE, without the imports of its file."""
    text = file_of("x_transformers", "x_transformers.py").read_text()
    node = next(one for one in ast.parse(text).body
                if isinstance(one, ast.ClassDef) and one.name == "CoPE")
    names = {"Module": Module, "nn": nn, "torch": torch, "einsum": lambda f, *x: einsum(
        f.replace(" ", ""), *x), "exists": lambda x: x is not None}
    exec(compile(ast.Module([node], []), "CoPE", "exec"), names)
    return names["CoPE"]


def inputs(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(B, heads, T, D).to(dtype).requires_grad_() for heads in (H, HK, HK)]


def gradients(out: torch.Tensor, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return list(torch.autograd.grad((out.double() * torch.randn(out.shape).double()).sum(), leaves))


def assert_equal(got: list[torch.Tensor], wanted: list[torch.Tensor], bound: float) -> None:
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one.double(), other.double(), atol=bound, rtol=bound)


def exact_cope(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
               table: torch.Tensor) -> torch.Tensor:
    k, v = (one.repeat_interleave(H // HK, 1) for one in (k, v))
    hidden = torch.ones(T, T).triu(1).bool()
    scores = (q @ k.transpose(-1, -2) / math.sqrt(D)).masked_fill(hidden, -math.inf)
    cope = cope_class()(D, H, P).to(q.dtype)
    del cope.pos_emb
    cope.pos_emb = table  # a tensor with a gradient of its own
    return torch.softmax(scores + cope(q, scores), -1) @ v


@pytest.mark.parametrize("dtype, bound", [(torch.float64, 1e-12), (torch.float32, 2e-4)])
def test_cope_is_that_of_x_transformers(dtype: torch.dtype, bound: float) -> None:
    q, k, v = inputs(dtype)
    table = torch.randn(P, D, dtype=dtype, requires_grad=True)
    leaves = [q, k, v, table]
    encoding = gnomon.Cope(head_dim=D, positions=P)
    out = gt.attention(q, k, v, encoding, [table])
    wanted = exact_cope(*(one.double() for one in leaves))
    assert_equal([out], [wanted], bound)
    assert_equal(gradients(out, leaves), gradients(wanted, leaves), 10 * bound)


@pytest.mark.parametrize("own_key", ["excluded", "included"])
@pytest.mark.parametrize("dtype, bound", [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_stick_breaking_is_that_of_fla(own_key: Any, dtype: torch.dtype, bound: float) -> None:
    q, k, v = leaves = inputs(dtype)
    out = gt.attention(q, k, v, gnomon.StickBreaking(own_key=own_key))
    wanted, _ = naive_stick_breaking()(*(one.double().transpose(1, 2) for one in leaves),
                                       attend_current=own_key == "included")
    wanted = wanted.transpose(1, 2)
    assert_equal([out], [wanted], bound)
    assert_equal(gradients(out, leaves), gradients(wanted, leaves), 10 * bound)


@pytest.mark.parametrize("encoding", [gnomon.Cope(head_dim=D, positions=P),
                                      gnomon.Cope(heads=H, head_dim=D, positions=P),
                                      gnomon.StickBreaking(),
                                      gnomon.StickBreaking(own_key="included")])
@pytest.mark.parametrize("options", [{}, {"left": 20}, {"sequences": torch.arange(T) // 25 - 1}])
def test_operators_of_pytorch_agree(encoding: gnomon.Encoding, options: dict[str, Any]) -> None:
    q, k, v = inputs()
    parameters = [torch.randn(one.rows, one.columns) for one in encoding.parameters()]
    want = gt.attention(q, k, v, encoding, parameters, **options)
    # A tiny probability of dropout takes the operators.
    torch.manual_seed(0)
    out = gt.attention(q, k, v, encoding, parameters, dropout=1e-12, **options)
    torch.testing.assert_close(out, want, atol=1e-4, rtol=1e-4)
    last = gt.attention(q[:, :, -3:], k, v, encoding, parameters, **options)
    assert torch.equal(last, want[:, :, -3:])


def test_modules_start_as_the_sources_do() -> None:
    cope = gt.Cope(head_dim=D)
    assert dict(cope.state_dict())["pos_emb"].shape == (64, D)
    assert not cope.pos_emb.any()
    q, k, v = inputs()
    assert torch.equal(cope.attend(q, k, v, visibility="causal"), gt.attention(q, k, v))
    assert not list(gt.StickBreaking().parameters())
    assert gnomon.find_encoding("contextual position encoding").name == "cope"


def test_refusals_name_the_encoding() -> None:
    q, k, v = (one.detach() for one in inputs())
    sticks = gnomon.StickBreaking()
    with pytest.raises(ValueError, match="stick-breaking attention must be causal, got bidir"):
        gt.attention(q, k, v, sticks, visibility="bidirectional")
    with pytest.raises(ValueError, match="cannot be combined with a bias"):
        gt.attention(q, k, v, sticks, attn_mask=torch.ones(T, T).bool())
    with pytest.raises(ValueError, match="stick-breaking must be causal.*got a softmax cap"):
        gt.attention(q, k, v, sticks, cap=3.0, dropout=0.5)
    with pytest.raises(ValueError, match="weights must be those of a softmax, got stick-breaking"):
        gt.flex.attend(q, k, v, sticks)
    with pytest.raises(ValueError, match="weights must be those of a softmax, got Plan"):
        gt.flex.score_mod(gnomon.lower(sticks, T, visibility="causal"))
    with pytest.raises(ValueError, match="must not depend on the queries, got cope"):
        gt.flex.attend(q, k, v, gnomon.Cope(head_dim=D), [torch.zeros(64, D)])
