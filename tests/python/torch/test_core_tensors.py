"""gnomon.* with tensors of PyTorch: what autograd would miss is refused, the rest is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

import gnomon
from gnomon import _core

ROPE = gnomon.Rotary(rotary_dim=4, pairing="halves")
TABLE = gnomon.RotaryTable(ROPE, 3)
T5 = gnomon.T5Bias(heads=2, direction="causal", buckets=4, max_distance=9)
LEARNED = gnomon.Learned(rows=3, width=8)
PLAN = gnomon.lower(ROPE, 3, visibility="causal")
ADDED = gnomon.lower(LEARNED, 3, parameters=[np.ones((3, 8), "f4")], visibility="causal")

LAYER = gnomon.model.from_pretrained({
    "model_type": "llama", "num_attention_heads": 2, "hidden_size": 8, "num_hidden_layers": 1,
    "max_position_embeddings": 16}).lower(0, 3)


def heads() -> torch.Tensor:
    return torch.ones(1, 3, 2, 4)


def sums() -> torch.Tensor:
    return torch.ones(1, 2, 3)


# Each argument that takes an array of numbers: the function, its name in errors, the function of
# gnomon.torch that computes gradients, the right tensor.
ARGUMENTS: dict[str, tuple[str, str, Callable[[Any], object], Callable[[], torch.Tensor]]] = {
    "rotate x": ("x", "rotate", lambda x: gnomon.rotate(x, TABLE), heads),
    "rotate x to out": ("x", "rotate", lambda x: gnomon.rotate(x, TABLE, out=heads()), heads),
    "rotate k": ("k", "rotate", lambda x: gnomon.rotate(heads(), TABLE, k=x), heads),
    "rotate out": ("out", "rotate", lambda x: gnomon.rotate(heads(), TABLE, out=x), heads),
    "attention q": ("q", "attention",
                    lambda x: gnomon.attention(x, heads(), heads(), PLAN), heads),
    "attention k": ("k", "attention",
                    lambda x: gnomon.attention(heads(), x, heads(), PLAN), heads),
    "attention v": ("v", "attention",
                    lambda x: gnomon.attention(heads(), heads(), x, PLAN), heads),
    "attention out": ("out", "attention", lambda x: gnomon.attention(
        heads(), heads(), heads(), PLAN, out=x), heads),
    "attention lse": ("lse", "attention", lambda x: gnomon.attention(
        heads(), heads(), heads(), PLAN, lse=x), sums),
    "attention_backward q": ("q", "attention", lambda x: gnomon.attention_backward(
        x, heads(), heads(), PLAN, heads(), sums(), heads(), q_grad=heads(), k_grad=heads(),
        v_grad=heads()), heads),
    "attention_backward q_grad": ("q_grad", "attention", lambda x: gnomon.attention_backward(
        heads(), heads(), heads(), PLAN, heads(), sums(), heads(), q_grad=x, k_grad=heads(),
        v_grad=heads()), heads),
    "add_position x": ("x", "add_position", lambda x: gnomon.add_position(x, ADDED),
                       lambda: torch.ones(1, 3, 8)),
    "add_position_backward grad": (
        "grad", "add_position", lambda x: gnomon.add_position_backward(
            x, ADDED, [torch.zeros(3, 8)]), lambda: torch.ones(1, 3, 8)),
    "add_position_backward parameter_grads": (
        "parameter_grads", "attention", lambda x: gnomon.add_position_backward(
            torch.ones(1, 3, 8), ADDED, [x]), lambda: torch.zeros(3, 8)),
    "prepare q": ("q", "attention", lambda x: gnomon.prepare(x, None, None, LAYER), heads),
    "lower parameters": ("parameters", "attention", lambda x: gnomon.lower(
        T5, 3, parameters=[x], visibility="causal"), lambda: torch.ones(4, 2)),
    "rotate_rows x": ("x", "rotate", lambda x: _core.rotate_rows(
        x, heads(), TABLE, None, False, False), heads),
    "rotate_with x": ("x", "rotate", lambda x: _core.rotate_with(
        x, heads(), torch.ones(3, 2), torch.ones(3, 2), "halves", 0, False, False), heads),
}
every_argument = pytest.mark.parametrize("argument", ARGUMENTS)


def refusal(name: str, function: str, got: str) -> str:
    return rf"\] {name} must be outside of autograd: use gnomon\.torch\.{function}, .*, got {got}"


@every_argument
def test_a_tensor_that_requires_a_gradient_is_refused(argument: str) -> None:
    name, function, call, made = ARGUMENTS[argument]
    call(made())
    leaf = made().requires_grad_()
    for x in (leaf, leaf * 1, torch.nn.Parameter(made())):
        before = x.detach().clone()
        with pytest.raises(ValueError, match=refusal(name, function, "a tensor that requires")):
            call(x)
        assert torch.equal(x.detach(), before)
        call(x.detach())


@every_argument
def test_without_gradients_a_leaf_is_used(argument: str) -> None:
    _, _, call, made = ARGUMENTS[argument]
    with torch.no_grad():
        call(torch.nn.Parameter(made()))


@every_argument
def test_a_tensor_with_a_tangent_is_refused(argument: str) -> None:
    name, function, call, made = ARGUMENTS[argument]
    with forward_ad.dual_level():
        x = forward_ad.make_dual(made(), made())
        with pytest.raises(ValueError, match=refusal(name, function, "a tensor that has a tan")):
            call(x)
        call(made())
        call(forward_ad.unpack_dual(x).primal)


@every_argument
@pytest.mark.parametrize("transform", ["vmap", "grad", "jvp"])
def test_a_tensor_of_a_transform_is_refused(argument: str, transform: str) -> None:
    _, _, call, made = ARGUMENTS[argument]

    def use(x: torch.Tensor) -> torch.Tensor:
        call(x)
        return x.sum()

    rule = r"\] \w+ must be outside of (torch.func transforms|autograd): use " \
        r"gnomon\.torch\."  # tensors that a transform makes are of the transform
    with pytest.raises(ValueError, match=rule):
        if transform == "vmap":
            torch.func.vmap(use)(made()[None])
        elif transform == "grad":
            torch.func.grad(use)(made())
        else:
            torch.func.jvp(use, (made(),), (made(),))


def test_a_change_without_gradients_is_seen_by_backward() -> None:
    """As PyTorch's own operators in place: the backward pass refuses, rather than be wrong."""
    x = heads().requires_grad_()
    y = x.exp()  # saves y
    with torch.no_grad():
        gnomon.rotate(y, TABLE)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@every_argument
@pytest.mark.parametrize("kind", ["meta", "sparse"])
def test_a_tensor_without_memory_of_the_cpu_is_refused(argument: str, kind: str) -> None:
    name, function, call, made = ARGUMENTS[argument]
    x = made().to("meta") if kind == "meta" else made().to_sparse()
    with pytest.raises(ValueError, match=rf"\] {name} must be a dense tensor on the CPU: use "
                       rf"gnomon\.torch\.{function} for other devices, got torch\..* on "):
        call(x)


@pytest.mark.filterwarnings("ignore")
def test_a_tensor_without_values_is_refused() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = heads()
    with pytest.raises(ValueError, match=r"\[rotate\] x must have values: use gnomon\.torch\.rot"):
        gnomon.rotate(fake, TABLE)


@every_argument
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bool, torch.complex64,
                                   torch.uint8, torch.float8_e4m3fn])
def test_elements_that_are_no_floats_are_refused(argument: str, dtype: torch.dtype) -> None:
    name, _, call, made = ARGUMENTS[argument]
    with pytest.raises(ValueError, match=r"^\[\w+\] .*, got "):
        call(made().to(dtype))


def test_positions_are_integers() -> None:
    for ids in (torch.arange(3), torch.arange(3, dtype=torch.int32)):
        assert np.array_equal(gnomon.Positions(ids).ids, [[0, 1, 2]])
    for ids in (torch.ones(3, dtype=torch.complex64), torch.ones(3).to(torch.bfloat16)):
        with pytest.raises(ValueError, match="must be integers"):
            gnomon.Positions(ids)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_tensors_outside_of_autograd_have_the_values_of_numpy(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 3, 2, 4).to(dtype)
    expected = x.double().clone().numpy()
    gnomon.rotate(expected, TABLE)
    for got in (x.clone(), x.transpose(1, 2).contiguous().transpose(1, 2)):
        gnomon.rotate(got, TABLE)
        torch.testing.assert_close(got.double().numpy(), expected, rtol=0,
                                   atol=4 * torch.finfo(dtype).eps + 1e-6)
