"""Encodings that depend on the tokens: modules against the original code, caches, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gnomon
import gnomon.torch as gt

B, T, H, D, C = 2, 12, 4, 8, 32
KINDS = [one.name for one in gnomon.encodings() if gnomon.token_terms(gnomon.usual(
    one.name, width=C, heads=H, length=T))]


def module_of(kind: str) -> gt.PositionEncoding:
    torch.manual_seed(1)
    module = gt.PositionEncoding(gnomon.usual(kind, width=C, heads=H, length=T))
    with torch.no_grad():
        for one in module.parameters():
            one += 0.3 * torch.randn_like(one)
    return module


def heads(tokens: int = T) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(2)
    return tuple(torch.randn(B, H, tokens, D) for _ in range(3))


def forgetting(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, log_gates: torch.Tensor,
               scale: float) -> torch.Tensor:
    """The definition, in double: weights of softmax(scale q k + g_(j+1) + ... + g_i)."""
    scores = scale * q.double() @ k.double().transpose(-1, -2)
    tokens = scores.shape[-1]
    for i in range(tokens):
        for j in range(tokens):
            scores[:, :, i, j] += log_gates[:, :, j + 1:i + 1].double().sum(-1)
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v.double()


@pytest.mark.parametrize("kind", ["fox", "cable"])
def test_forget_gates_are_those_of_the_papers(kind: str) -> None:
    module, x = module_of(kind), torch.randn(B, T, C)
    q, k, v = heads()
    weight, *bias = module.parameters()
    z = x @ weight.T + (bias[0] if bias else 0)
    gates = torch.nn.functional.logsigmoid(z if kind == "fox" else -z).transpose(1, 2)
    # CABLE's code has no 1 / sqrt(D).
    want = forgetting(q, k, v, gates, D**-0.5 if kind == "fox" else 1.0)
    got = module.attend(q, k, v, visibility="causal", hidden=x)
    torch.testing.assert_close(got.double(), want, atol=2e-6, rtol=0)


def test_fox_is_that_of_flash_linear_attention(naive) -> None:
    """fla.ops.forgetting_attn.naive, with grouped heads."""
    forget = naive("forgetting_attn").naive_forgetting_attn
    q = torch.randn(B, T, H, D)
    k, v = torch.randn(B, T, 2, D), torch.randn(B, T, 2, D)
    gates = torch.nn.functional.logsigmoid(torch.randn(B, T, H))
    leaves = [one.clone().requires_grad_() for one in (q, k, v, gates)]
    want = forget(*leaves[:3], leaves[3])
    want = want[0] if isinstance(want, tuple) else want
    mine = [one.clone().requires_grad_() for one in (q, k, v, gates)]
    got = gt.attention(*mine[:3], gnomon.Fox(heads=H, width=C), [torch.zeros(H, C),
                       torch.zeros(H, 1)], layout="tokens_heads",
                       terms={"log_gates": mine[3].transpose(1, 2)})
    torch.testing.assert_close(got, want, atol=3e-6, rtol=0)
    grad = torch.randn_like(got)
    for one, other in zip(torch.autograd.grad(got, mine, grad),
                          torch.autograd.grad(want, leaves, grad)):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


def selective_reference(module: gt.PositionEncoding, x: torch.Tensor, q: torch.Tensor,
                        k: torch.Tensor) -> list[torch.Tensor]:
    """q and k rotated as in the module of arXiv:2511.17388, in double: the l2 norm of each head,
    two linear layers, a causal depthwise convolution, a sum, T_n = 500000^(-2n/d), halves."""
    down, up, conv = (one.detach().double() for one in module.parameters())
    n = x.double().unflatten(-1, (H, C // H))
    n = (n / (n.square().sum(-1, keepdim=True) + 1e-6).sqrt()).flatten(-2)
    phi = (n @ down.T @ up.T).transpose(1, 2)
    phi = torch.nn.functional.conv1d(torch.nn.functional.pad(phi, (3, 0)), conv.view(-1, 1, 4),
                                     groups=phi.shape[1])
    temperature = 1 / 500000 ** (torch.arange(0, D, 2, dtype=torch.float64) / D)
    angle = phi.cumsum(-1).unflatten(1, (H, D // 2)).transpose(2, 3) * temperature
    cos, sin = angle.cos(), angle.sin()
    found = []
    for one in (q.double(), k.double()):
        a, b = one[..., :D // 2], one[..., D // 2:]
        found.append(torch.cat([a * cos - b * sin, a * sin + b * cos], -1))
    return found


def test_selective_rotary_is_that_of_the_released_code() -> None:
    module, x = module_of("selective"), torch.randn(B, T, C)
    q, k, v = heads()
    q2, k2 = selective_reference(module, x, q, k)
    want = torch.nn.functional.scaled_dot_product_attention(q2, k2, v.double(), is_causal=True)
    got = module.attend(q, k, v, visibility="causal", hidden=x)
    torch.testing.assert_close(got.double(), want, atol=2e-6, rtol=0)
    # By operators of PyTorch, for double.
    got = module.attend(q, k, v, visibility="causal", hidden=x,
                        bias=torch.zeros(1, 1, T, T))
    torch.testing.assert_close(got.double(), want, atol=2e-6, rtol=0)
    with pytest.raises(ValueError, match="the heads of angles must divide those of x, 2, got 4"):
        module.attend(q, k[:, :2], v[:, :2], visibility="causal", hidden=x)
    with pytest.raises(ValueError, match="must be used by attend, with hidden, got selective"):
        module.rotate(q, k)


def test_contextual_rotary_is_that_of_the_released_code() -> None:
    """llama-mha-grape-m-ctx.py in double: sums without the token itself, and its direction."""
    module, x = module_of("rotary-contextual"), torch.randn(B, T, C)
    q, k, v = heads()
    log_freq, weight, bias = (one.detach().double() for one in module.parameters())
    omega = torch.sigmoid((x.double() @ weight.T + bias) / 16)
    angle = ((omega.cumsum(1) - omega)[..., None] * log_freq.exp()).transpose(1, 2)
    cos, sin = angle.cos(), angle.sin()
    q2, k2 = (torch.cat([a * cos + b * sin, -a * sin + b * cos], -1)
              for a, b in (one.double().chunk(2, -1) for one in (q, k)))
    want = torch.nn.functional.scaled_dot_product_attention(q2, k2, v.double(), is_causal=True)
    got = module.attend(q, k, v, visibility="causal", hidden=x)
    torch.testing.assert_close(got.double(), want, atol=2e-6, rtol=0)
    by_operators = module.attend(q, k, v, visibility="causal", hidden=x,
                                 bias=torch.zeros(1, 1, T, T))
    torch.testing.assert_close(by_operators.double(), want, atol=2e-6, rtol=0)
    grouped = module.attend(q, k[:, ::2], v[:, ::2], visibility="causal", hidden=x)
    torch.testing.assert_close(grouped[:, ::2], module.attend(
        q[:, ::2], k[:, ::2], v[:, ::2], visibility="causal", hidden=x), atol=1e-6, rtol=0)


def test_the_rotation_of_mamba3_is_that_of_the_released_code() -> None:
    """angle_dt.py of mamba_ssm in double: sums of tanh(angle) pi dt, modulo 2 pi, and its pairs."""
    module, x = module_of("rotary-mamba3"), torch.randn(B, T, C)
    q, k, v = heads()
    w_angle, w_dt, bias = (module.get_parameter(name).detach().double() for name in (
        "angle_proj.weight", "dt_proj.weight", "dt_bias"))
    dt = torch.nn.functional.softplus(x.double() @ w_dt.T + bias)
    vals = torch.tanh(x.double() @ w_angle.T)[:, :, None] * torch.pi * dt[..., None]
    angle = (vals.cumsum(1) % (2 * torch.pi)).transpose(1, 2)
    cos, sin = angle.cos(), angle.sin()
    rotated = []
    for one in (q.double(), k.double()):
        a, b = one[..., 0::2], one[..., 1::2]
        rotated.append(torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2))
    want = torch.nn.functional.scaled_dot_product_attention(*rotated, v.double(), is_causal=True)
    for bias_term in (None, torch.zeros(1, 1, T, T)):  # by the kernels, by operators
        got = module.attend(q, k, v, visibility="causal", hidden=x, bias=bias_term)
        torch.testing.assert_close(got.double(), want, atol=2e-6, rtol=0)


def grape_bias(module: gt.PositionEncoding, x: torch.Tensor) -> torch.Tensor:
    """The bias [B, H, T, T] of the classes of arXiv:2512.07805's code, in double: a matrix of
    distances times gates (of x, in place of keys), or differences of cumulative sums."""
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / H) for h in range(H)], dtype=torch.float64)
    slopes = slopes.view(1, H, 1, 1)
    ids = torch.arange(T)
    after = ids[None] > ids[:, None]
    if module.mixture[0].kind == "grape-additive":
        u, omega = (one.detach().double() for one in module.parameters())
        u = torch.nn.functional.normalize(u, dim=-1, eps=1e-6)
        gate = torch.nn.functional.softplus(x.double() @ u.T / C**0.5).transpose(1, 2)
        away = (ids[:, None] - ids[None]).clamp_min(0).double()
        return -away * torch.nn.functional.softplus(omega).view(1, H, 1, 1) * slopes \
            * gate[:, :, None]
    weight, = (one.detach().double() for one in module.parameters())
    p = (x.double() @ weight.T).unflatten(-1, (H, -1)).transpose(1, 2)
    size = p.shape[-1]
    a, b = torch.nn.functional.rms_norm(p, (size,), eps=2 ** -23).chunk(2, -1)
    cos, sin = (one.view(T, 1) for one in (ids.double().cos(), ids.double().sin()))
    turned = torch.cat((a * cos + b * sin, b * cos - a * sin), -1)
    edges = torch.nn.functional.logsigmoid(p @ turned.transpose(-2, -1) / size) * slopes
    edges = edges.masked_fill(after, 0)
    return edges.sum(-1, keepdim=True) - edges.cumsum(-1)


@pytest.mark.parametrize("kind", ["grape-additive", "grape-path"])
def test_grape_is_that_of_the_released_code(kind: str) -> None:
    module, x = module_of(kind), torch.randn(B, T, C)
    q, k, v = heads()
    bias = grape_bias(module, x)
    assert bias.abs().max() > 0.1
    after = torch.ones(T, T, dtype=torch.bool).triu(1)
    want = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), attn_mask=bias.masked_fill(after, -torch.inf))
    got = module.attend(q, k, v, visibility="causal", hidden=x)
    torch.testing.assert_close(got.double(), want, atol=2e-6, rtol=0)
    # By operators of PyTorch: parameters in double.
    got = module.double().attend(q.double(), k.double(), v.double(), visibility="causal",
                                 hidden=x.double())
    torch.testing.assert_close(got, want, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_equals_the_full_pass(kind: str) -> None:
    """Each query in a call of its own, with the hidden rows of all keys so far."""
    module, x = module_of(kind), torch.randn(B, T, C)
    q, k, v = heads()
    of_keys = any(tokens != "queries" for *_, tokens in gnomon.token_terms(module.mixture[0]))
    whole = module.attend(q, k, v, visibility="causal", hidden=x)
    for t in range(T):
        one = module.attend(q[:, :, t:t + 1], k[:, :, :t + 1], v[:, :, :t + 1],
                            visibility="causal", hidden=x[:, 0 if of_keys else t:t + 1])
        torch.testing.assert_close(one[:, :, 0], whole[:, :, t], atol=2e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_flow_to_the_input_and_the_parameters(kind: str) -> None:
    """Differences of the output along a direction, against autograd."""
    module = module_of(kind)
    q, k, v = heads()
    x = torch.randn(B, T, C, requires_grad=True)
    weight = torch.randn(B, H, T, D)
    leaves = [x, *module.parameters()]

    def loss() -> torch.Tensor:
        return (module.attend(q, k, v, visibility="causal", hidden=x).double() * weight).sum()

    grads = torch.autograd.grad(loss(), leaves, allow_unused=True)
    torch.manual_seed(3)
    for leaf, grad in zip(leaves, grads):
        direction = torch.randn_like(leaf)
        with torch.no_grad():
            leaf += 2e-3 * direction
            up = loss()
            leaf -= 4e-3 * direction
            slope = float(up - loss()) / 4e-3
            leaf += 2e-3 * direction
        along = 0.0 if grad is None else float((grad.double() * direction).sum())
        assert along == pytest.approx(slope, rel=2e-2, abs=3e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_and_padded_sequences_are_separate(kind: str) -> None:
    module, x = module_of(kind), torch.randn(B, T, C)
    q, k, v = heads()
    sequences = torch.tensor([-1] * 2 + [0] * 4 + [1] * 6)
    packed = module.attend(q, k, v, visibility="causal", hidden=x, sequences=sequences)
    for begin, end in ((2, 6), (6, 12)):
        alone = module.attend(*(one[:, :, begin:end] for one in (q, k, v)), visibility="causal",
                              hidden=x[:, begin:end], positions=torch.arange(begin, end))
        torch.testing.assert_close(packed[:, :, begin:end], alone, atol=2e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_is_required_with_a_row_for_each_token(kind: str) -> None:
    module = module_of(kind)
    with pytest.raises(ValueError, match=rf"hidden must be given for {module.mixture[0].kind}"):
        module.attend(*heads(), visibility="causal")
    with pytest.raises(ValueError, match="hidden must be \\[B, [ST], C\\] with 12 tokens"):
        module.attend(*heads(), visibility="causal", hidden=torch.randn(B, T - 1, C))


def test_terms_have_names() -> None:
    with pytest.raises(ValueError, match="terms must have names of token terms, got gate; nearest: "
                                         "gates"):
        gt.attention(*heads(), terms={"gate": torch.ones(B, H, T)})
    plan = gnomon.lower(gnomon.Fox(heads=1, width=4), 3, visibility="causal",
                        parameters=[np.zeros((1, 4), np.float32), np.zeros((1, 1), np.float32)])
    x = np.ones((1, 3, 1, 4), np.float32)
    with pytest.raises(ValueError, match="terms must be a dict of arrays"):
        gnomon.attention(x, x, x, plan, terms=[x])
