"""The gradient of a trained bias by the kernel for CUDA devices, beside FlexAttention."""

from __future__ import annotations

import emulated
import pytest
import torch

import gnomon
import gnomon.torch as gt
from gnomon.torch import _bias_gradient, _device, flex

GPU = torch.cuda.is_available()


@pytest.fixture
def device(monkeypatch):
    """The GPU; without one, the CPU with the kernels of the emulator."""
    torch.manual_seed(0)
    if GPU:
        return "cuda"
    module = emulated.module()
    monkeypatch.setattr(_device, "kernels", lambda x: module if x.dtype in _device._KINDS else None)
    monkeypatch.setattr(_device, "stream", lambda x: 0)
    return "cpu"


def trained(spec):
    return [torch.randn(one.rows, one.columns) * 0.3 + 0.1 for one in spec.parameters()]


T5 = gnomon.T5Bias(heads=4, direction="causal", buckets=8, max_distance=16)
CASES = {
    "t5": (T5, {"visibility": "causal", "softmax_scale": 1.0}, 24, 24),
    "t5 with a cache and a window": (T5, {"visibility": "causal", "left": 9}, 9, 24),
    "kerple": (gnomon.Kerple(heads=4, kernel="logarithmic"), {"visibility": "causal"}, 20, 20),
    "fire": (gnomon.Fire(heads=4, hidden=6, threshold=8.0), {"visibility": "causal"}, 20, 20),
    "swin": (gnomon.Swin(heads=4, height=4, width=5, class_tokens=1),
             {"visibility": "bidirectional"}, 21, 21),
    "with a cap": (T5, {"visibility": "causal", "cap": 2.0}, 16, 16),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_attention_of_the_cpu(device, name):
    spec, options, queries, keys = CASES[name]
    q, k, v = torch.randn(2, 4, queries, 16), torch.randn(2, 2, keys, 16), \
        torch.randn(2, 2, keys, 32)
    weights = torch.randn(2, 4, queries, 32)
    table = trained(spec)
    here = [one.clone().requires_grad_() for one in table]
    want = torch.autograd.grad((gt.attention(q, k, v, spec, here, **options) * weights).sum(), here)
    there = [one.to(device).requires_grad_() for one in table]
    arguments = [one.to(device) for one in (q, k, v)]
    runs = [torch.autograd.grad(
        (flex.attend(*arguments, spec, there, **options) * weights.to(device)).sum(), there)
        for _ in range(2)]
    for one, again, expected in zip(*runs, want):
        assert torch.equal(one, again)
        assert (one.cpu() - expected).abs().max() <= 2e-4 * (1 + expected.abs().max())


def test_the_kernel_is_used(device, monkeypatch):
    calls = []
    original = _bias_gradient.attach
    monkeypatch.setattr(_bias_gradient, "attach",
                        lambda *given: calls.append(1) or original(*given))
    q = torch.randn(1, 4, 8, 16, device=device)
    table = [one.to(device).requires_grad_() for one in trained(T5)]
    flex.attend(q, q, q, T5, table)
    assert calls == [1]
    flex.attend(q, q, q, T5, [one.detach() for one in table])  # nothing is trained
    q = torch.randn(1, 4, 8, 20, device=device)
    flex.attend(q, q, q, T5, table)  # D is not a multiple of 8
    assert calls == [1]
