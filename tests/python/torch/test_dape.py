"""gnomon.torch.Dape against the formula by operators of PyTorch, and its gradients."""

from __future__ import annotations

import pytest
import torch

import gnomon
import gnomon.torch as gt

B, T, H, HK, D = 2, 70, 4, 2, 8
KINDS = [None, "alibi", "kerple", "fire", "t5"]


def module_of(kind: str | None, kernel: int = 1) -> gt.Dape:
    torch.manual_seed(1)
    module = gt.Dape(kind, heads=H, width=32, length=T, hidden=6, kernel=kernel,
                     negative_slope=0.1)
    with torch.no_grad():
        for one in module.parameters():
            one += 0.3 * torch.randn_like(one)
    return module


def heads(tokens: int = T) -> list[torch.Tensor]:
    torch.manual_seed(2)
    return [torch.randn(B, n, tokens, D) for n in (H, HK, HK)]


def dense(module: gt.Dape, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The definition, with matrices [T, T] and the bias of a module for each pair."""
    k, v = (one.repeat_interleave(H // HK, 1) for one in (k, v))
    s = q @ k.transpose(-1, -2) * D**-0.5
    b = torch.zeros_like(s)
    if module.position is not None:
        b = module.position.bias(q.shape[2], k.shape[2], dtype=q.dtype).expand_as(s)
    x = torch.cat((s, b), 1)
    if isinstance(module.first, torch.nn.Linear):
        x = x.movedim(1, -1)
    else:
        x = x.tril()
    y = module.second(torch.nn.functional.leaky_relu(module.first(x), module.negative_slope))
    scores = s + b + (y.movedim(-1, 1) if isinstance(module.first, torch.nn.Linear) else y)
    after = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(after, -torch.inf).softmax(-1) @ v


@pytest.mark.parametrize(("kind", "kernel"), [*((kind, 1) for kind in KINDS), (None, 3),
                                              ("alibi", 3), ("kerple", 5)])
def test_outputs_and_gradients_are_those_of_the_formula(kind: str | None, kernel: int) -> None:
    """The code of the authors: Linear, or Conv2d of a lower triangle, whose padding changes the
    last kernel // 2 queries."""
    module = module_of(kind, kernel)
    kept = T - kernel // 2
    results = []
    for attend in (lambda *x: module.attend(*x, visibility="causal"),
                   lambda *x: dense(module, *x)):
        x = [one.requires_grad_() for one in heads()]
        module.zero_grad()
        out = attend(*x)[:, :, :kept]
        torch.manual_seed(3)
        (out * torch.randn(B, H, kept, D)).sum().backward()
        grads = [one.grad for one in (*x, *module.parameters())]
        results.append([out.detach(), *grads])
    assert len(results[0]) == 4 + len(list(module.parameters()))
    for got, want in zip(*results, strict=True):
        assert got is not None and want is not None
        # That of the last constant is 0, because a softmax does not change with it.
        torch.testing.assert_close(got, want, atol=2e-4, rtol=2e-4)


def test_layouts_types_and_windows() -> None:
    module, x = module_of("kerple"), heads()
    want = module.attend(*x, visibility="causal", left=20)
    got = module.attend(*(one.transpose(1, 2) for one in x), visibility="causal", left=20,
                        layout="tokens_heads")
    torch.testing.assert_close(got.transpose(1, 2), want, atol=0, rtol=0)
    half = module.attend(*(one.bfloat16() for one in x), visibility="causal", left=20)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), want, atol=0.1, rtol=0)
    assert (want - module.attend(*x, visibility="causal")).abs().max() > 1e-3


@pytest.mark.parametrize(("kind", "kernel"), [*((kind, 1) for kind in KINDS), ("alibi", 3)])
def test_decoding_equals_the_full_pass(kind: str | None, kernel: int) -> None:
    module, (q, k, v) = module_of(kind, kernel), heads()
    full = module.attend(q, k, v, visibility="causal")
    for t in (0, 1, 40, T - 1):
        one = module.attend(q[:, :, t:t + 1], k[:, :, :t + 1], v[:, :, :t + 1],
                            visibility="causal")
        torch.testing.assert_close(one, full[:, :, t:t + 1], atol=2e-6, rtol=0)


@pytest.mark.parametrize("kernel", [1, 5])
def test_packed_sequences_are_separate(kernel: int) -> None:
    module, x = module_of("alibi", kernel), heads()
    together = module.attend(*x, visibility="causal", positions=gnomon.Positions.packed([30, 40]))
    for begin, end in ((0, 30), (30, 70)):
        alone = module.attend(*(one[:, :, begin:end] for one in x), visibility="causal")
        torch.testing.assert_close(together[:, :, begin:end], alone, atol=2e-6, rtol=0)


def test_state_and_errors() -> None:
    module = module_of("kerple")
    other = gt.Dape("kerple", heads=H, hidden=6)
    other.load_state_dict(module.state_dict())
    assert {"first.weight", "first.bias", "second.weight", "second.bias"} < set(
        module.state_dict())
    with pytest.raises(ValueError, match="q must have elements of f32, f16 or bf16, got f64"):
        module.attend(*(one.double() for one in heads()), visibility="causal")
    with pytest.raises(ValueError, match="softmax only, got a rotation"):
        gt.Dape(gnomon.Rotary(rotary_dim=D, pairing="halves"), heads=H).attend(
            *heads(), visibility="causal")
    with pytest.raises(ValueError, match="q must be on the CPU, got meta"):
        module.attend(*(one.to("meta") for one in heads()), visibility="causal")
