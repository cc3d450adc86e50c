"""What only a GPU shows: CUDA graphs, streams, and agreement with the CPU at full size."""

from __future__ import annotations

import functools

import pytest
import torch

import gnomon
import gnomon.torch as gt
from gnomon.torch import flex

ROPE = gnomon.Rotary(rotary_dim=128, pairing="halves", base=500000.0)
rotate = functools.partial(gt.rotate, layout="tokens_heads")


def inputs(tokens, dtype=torch.bfloat16):
    torch.manual_seed(0)
    q = torch.randn(1, tokens, 32, 128, device="cuda", dtype=dtype)
    return q, torch.randn(1, tokens, 8, 128, device="cuda", dtype=dtype)


def test_calls_can_be_captured_into_a_graph():
    q, k = inputs(4)
    q, k = q[0], k[0]
    keys, values = torch.zeros(2, 8, 16, 8, 128, device="cuda", dtype=q.dtype)
    at, slots = torch.arange(4, device="cuda"), torch.arange(4, device="cuda")

    def call():
        gt.rotate_append(q, k, k, ROPE, at, keys, values, slots=slots)
        rotate(q[None], ROPE, at)

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    keys.zero_()
    slots += 20
    graph.replay()
    assert keys[1].any() and not keys[0, 0].any() and not keys[2:].any()


def test_calls_run_on_the_current_stream():
    stream = torch.cuda.Stream()
    q, _ = inputs(64)
    at = torch.arange(64, device="cuda")
    want = rotate(q, ROPE, at)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        late = q.clone()
        got = rotate(late, ROPE, at)
    stream.synchronize()
    assert torch.equal(got, want)


def test_full_size_equals_the_cpu():
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 4e-2)):
        q, _ = inputs(8192, dtype)
        got = rotate(q, ROPE)
        want = rotate(q.cpu(), ROPE)
        assert (got.cpu().float() - want.float()).abs().max() <= tolerance
        at = torch.arange(8192, device="cuda")
        assert torch.equal(got, rotate(q, ROPE, at))


def test_gradients_equal_those_of_the_cpu():
    q, _ = inputs(512, torch.float32)
    q.requires_grad_()
    weights = torch.randn_like(q)
    (grad,) = torch.autograd.grad((rotate(q, ROPE) * weights).sum(), q)
    here = q.detach().cpu().requires_grad_()
    (want,) = torch.autograd.grad((rotate(here, ROPE) * weights.cpu()).sum(), here)
    assert (grad.cpu() - want).abs().max() <= 1e-5


def test_compiled_calls_equal_eager_ones():
    q, _ = inputs(256)
    at = torch.arange(256, device="cuda")
    compiled = torch.compile(lambda x, p: rotate(x, ROPE, p), fullgraph=True)
    assert torch.equal(compiled(q, at), rotate(q, ROPE, at))


def test_small_heads_are_refused():
    q, v = (torch.randn(1, 4, 8, size, device="cuda") for size in (16, 8))
    with pytest.raises(ValueError, match=r"\[flex\] head dimensions must be at least 16"):
        flex.attend(q, q, v, gnomon.Alibi(heads=4))
