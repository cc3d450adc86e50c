"""Masks, biases, dropout, float64 parameters, packed batches and autocast of attention."""

from __future__ import annotations

import math

import pytest
import torch
from formulas import buckets, dense, expected, inputs, tokens_first, tolerance
from torch.nn.functional import dropout, scaled_dot_product_attention

import gnomon
import gnomon.torch as gt
from gnomon.torch import flex

ROPE = gnomon.Rotary(rotary_dim=8, pairing="halves")
T5 = gnomon.T5Bias(heads=4, direction="causal", buckets=8, max_distance=16)
AT = torch.arange(7)
DISTANCE = AT[None] - AT[:, None]
CAUSAL = dense(7, 7)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def leaf(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def gradients(out, leaves):
    factors = torch.linspace(-1, 1, out.numel()).view(out.shape)
    return torch.autograd.grad((out * factors).sum(), leaves)


# -- masks and biases --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 4, 7, 7), (1, 4, 7, 7), (2, 1, 1, 7), (7, 7), (4, 1, 7),
                                   (7,), (1,)])
@pytest.mark.parametrize("kind", ["bool", "float", "bias"])
def test_masks_and_biases_broadcast(shape, kind):
    q, k, v = inputs()
    given = torch.randn(shape) if kind != "bool" else torch.rand(shape) > 0.3
    added = torch.zeros(shape).masked_fill(~given, -math.inf) if kind == "bool" else given
    name = "bias" if kind == "bias" else "attn_mask"
    for visibility, mask in (("causal", CAUSAL), ("bidirectional", 0)):
        want = expected(q, k, v, added.double() + mask + torch.zeros(7, 7))
        got = gt.attention(q, k, v, visibility=visibility, **{name: given})
        torch.testing.assert_close(got.double(), want.nan_to_num(0), atol=4e-6, rtol=0)
    swapped = gt.attention(*(one.transpose(1, 2) for one in (q, k, v)), visibility="bidirectional",
                           layout="tokens_heads", **{name: given})
    assert torch.equal(swapped.transpose(1, 2), got)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_masks_join_the_bias_and_the_rotation(dtype):
    q, k, v = inputs(dtype=dtype)
    table, bias, mask = torch.randn(8, 4), torch.randn(2, 1, 7, 7), torch.rand(7, 7) > 0.3
    at = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [3, 4, 5, 6, 7, 8, 9]])
    want = expected(*(torch.cat([tokens_first(x[i:i + 1], at[i]) for i in range(2)])
                      for x in (q, k)), v, table.T.double()[:, buckets(DISTANCE)] + bias + CAUSAL
                    + torch.zeros(7, 7).masked_fill(~mask, -math.inf)).nan_to_num(0)
    got = gt.attention(q, k, v, [ROPE, T5], [table], attn_mask=mask, bias=bias, positions=at)
    torch.testing.assert_close(got.double(), want, atol=8 * tolerance(dtype), rtol=0)
    module = gt.PositionEncoding([ROPE, T5])
    with torch.no_grad():
        module.t5.relative_attention_bias.weight.copy_(table)
    again = module.attend(q, k, v, visibility="causal", attn_mask=mask, bias=bias, positions=at)
    assert torch.equal(again, got)


@pytest.mark.parametrize("name", ["wavlm", "swin-v2", "shaw", "alibi"])
def test_a_bias_of_zero_changes_nothing(name):
    spec = gnomon.usual(name, width=32, heads=4, length=16)
    parameters = [(one.initial_mean + 0.5 * torch.randn(one.rows, one.columns)).requires_grad_()
                  for one in spec.parameters()]
    leaves = [*(leaf(2, 4, 16, 8, dtype=torch.float32) for _ in range(3)), *parameters]
    gates = torch.rand(2, 4, 16, requires_grad=True) if name == "wavlm" else None
    leaves += [] if gates is None else [gates]
    options = {"visibility": "bidirectional", "terms": {"gates": gates}}
    want = gt.attention(*leaves[:3], spec, parameters, **options)
    got = gt.attention(*leaves[:3], spec, parameters, **options, bias=torch.zeros(16, 16))
    torch.testing.assert_close(got, want, atol=1e-5, rtol=0)
    torch.testing.assert_close(gradients(got, leaves), gradients(want, leaves), atol=5e-5,
                               rtol=1e-4)


@pytest.mark.parametrize("shape", [(2, 4, 7, 7), (4, 7, 7), (2, 1, 1, 7)])
def test_the_gradient_of_a_bias(shape):
    q, k, v = (leaf(*one.shape, dtype=torch.float32) for one in inputs())
    bias, table = leaf(*shape, dtype=torch.float32), leaf(8, 4, dtype=torch.float32)
    leaves = [q, k, v, bias, table]
    double = [one.detach().double().requires_grad_() for one in leaves]
    want = expected(*double[:3], double[3] + CAUSAL + double[4].T[:, buckets(DISTANCE)])
    want = gradients(want, double)
    for run in (gt.attention, torch.compile(gt.attention, backend="aot_eager", fullgraph=True)):
        got = gradients(run(q, k, v, T5, [table], bias=bias), leaves)
        for one, other in zip(got, want, strict=True):
            torch.testing.assert_close(one.double(), other, atol=2e-5, rtol=1e-4)


# -- dropout and float64 -----------------------------------------------------------------------


def test_dropout_is_that_of_pytorch():
    q, k, v = (leaf(2, 4, 7, 8) for _ in range(3))
    bias = leaf(4, 7, 7)
    torch.manual_seed(1)
    got = gt.attention(q, k, v, ROPE, bias=bias, dropout=0.4)
    grads = gradients(got, (q, k, v, bias))
    torch.manual_seed(1)
    scores = tokens_first(q, AT) @ tokens_first(k, AT).mT / math.sqrt(8) + bias + CAUSAL
    want = dropout(scores.softmax(-1), 0.4) @ v
    torch.testing.assert_close(got, want, atol=1e-12, rtol=0)
    torch.testing.assert_close(grads, gradients(want, (q, k, v, bias)), atol=1e-12, rtol=0)
    torch.manual_seed(1)
    again = scaled_dot_product_attention(tokens_first(q, AT), tokens_first(k, AT), v, bias + CAUSAL,
                                         dropout_p=0.4)
    torch.testing.assert_close(got, again, atol=1e-12, rtol=0)
    torch.manual_seed(1)
    module = gt.PositionEncoding(ROPE)
    torch.testing.assert_close(module.attend(q, k, v, visibility="causal", bias=bias, dropout=0.4),
                               got, atol=0, rtol=0)
    assert not torch.equal(gt.attention(q, k, v, ROPE, bias=bias, dropout=0.4), got)


@pytest.mark.parametrize("options", [
    {}, {"visibility": "bidirectional", "left": 2, "right": 1}, {"cap": 2.0, "softmax_scale": 0.3},
    {"sequences": torch.tensor([[-1, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, -1, -1]])},
    {"positions": torch.tensor([4, 0, 0, 3, 9, 1, 2]), "visibility": "bidirectional"},
    {"sinks": torch.randn(4)}, {"layout": "tokens_heads"},
])
@pytest.mark.parametrize("name", ["none", "rotary", "mrope", "xpos", "vjepa2", "rotary-axial",
                                  "alibi", "t5", "fire", "kerple", "swin", "swin-v2", "wavlm",
                                  "layout", "fox", "cable"])
def test_operators_of_pytorch_agree_with_the_kernels(name, options, random_terms):
    """The path of dropout and float64 parameters, against the kernels."""
    if name != "none" and gnomon.find_encoding(name).causal and "visibility" in options:
        options = options | {"visibility": "causal"}
    reads = "bidirectional" if "visibility" in options else "causal"
    specs = [gnomon.usual(name, width=32, heads=4, length=16, reads=reads)][:name != "none"]
    parameters = [one.initial_mean + 0.3 * torch.randn(one.rows, one.columns)
                  for spec in specs for one in spec.parameters()]
    q, k, v = (one.transpose(1, 2) if "layout" in options else one
               for one in (torch.randn(2, 4, 7, 8, dtype=torch.float64) for _ in range(3)))
    terms = {key: torch.from_numpy(one) for spec in specs
             for key, one in random_terms(spec, 2, 7).items()}
    want = gt.attention(q, k, v, specs, parameters, terms=terms, **options)
    got = gt.attention(q, k, v, specs, [one.double() for one in parameters], terms=terms,
                       **options, bias=torch.zeros(1, dtype=torch.float64))
    torch.testing.assert_close(got, want, atol=5e-6, rtol=0)


@pytest.mark.parametrize("name", ["t5", "clipped", "kerple", "dynamic", "fire", "swin", "swin-v2",
                                  "layout", "graphormer", "wavlm"])
def test_gradcheck_of_parameters(name):
    spec = gnomon.usual(name, width=16, heads=2, length=4, reads="bidirectional")
    random = torch.rand if name == "kerple" else torch.randn  # inside its bounds
    parameters = [(one.initial_mean + 0.3 * random(one.rows, one.columns, dtype=torch.float64)
                   ).requires_grad_() for one in spec.parameters()]
    q, k, v = (leaf(1, 2, 4, 8) for _ in range(3))
    gates = leaf(1, 2, 4) if name == "wavlm" else None
    given = [*parameters, *([] if gates is None else [gates])]

    def run(q, *given):
        return gt.attention(q, k, v, spec, given[:len(parameters)], visibility="bidirectional",
                            terms=None if gates is None else {"gates": given[-1]})

    assert torch.autograd.gradcheck(run, (q, *given), fast_mode=True)


# -- packed batches ----------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", [None, ROPE, gnomon.Alibi(heads=4), [ROPE, T5]])
@pytest.mark.parametrize("visibility", ["causal", "bidirectional"])
def test_packed_batches_are_the_loop(encoding, visibility):
    table = [torch.randn(8, 4)] if isinstance(encoding, list) else []
    ends_q, ends_k = torch.tensor([0, 2, 2, 7, 8]), torch.tensor([0, 5, 6, 11, 15])
    q, k, v = torch.randn(8, 4, 8), torch.randn(15, 2, 8), torch.randn(15, 2, 6)
    if isinstance(encoding, list):
        visibility = "causal"
    for ends, keys in ((ends_q, None), (ends_q, ends_k.int())):
        many = k if keys is not None else k[:8]
        got = gt.attention(q, many, v[:len(many)], encoding, table, visibility=visibility,
                           cu_seqlens_q=ends, cu_seqlens_k=keys)
        assert got.shape == (8, 4, 6)
        of_keys = ends if keys is None else keys
        for i in range(4):
            rows, columns = slice(ends[i], ends[i + 1]), slice(of_keys[i], of_keys[i + 1])
            want = gt.attention(*(x[None].transpose(1, 2) for x in (q[rows], many[columns],
                                                                   v[columns])),
                                encoding, table, visibility=visibility)
            torch.testing.assert_close(got[rows], want[0].transpose(0, 1), atol=2e-6, rtol=0)


@pytest.mark.parametrize("ends, message", [
    ([0, 3, 9], "from 0 to the number of rows, 8"), ([0, 5, 3, 8], "must increase"),
    ([1, 8], "from 0"), ([0.0, 8.0], "must be integers"), ([[0, 8]], "must be integers"),
])
def test_boundaries_are_checked(ends, message):
    x = torch.randn(8, 2, 4)
    with pytest.raises(ValueError, match=f"cu_seqlens_q {message}|{message}"):
        gt.attention(x, x, x, cu_seqlens_q=torch.tensor(ends))


# -- autocast ----------------------------------------------------------------------------------


def test_autocast_is_that_of_scaled_dot_product_attention():
    for kind in (torch.float32, torch.float64, torch.bfloat16):
        q, k, v = (one.detach().to(kind).requires_grad_() for one in (torch.randn(1, 2, 7, 8),) * 3)
        with torch.autocast("cpu", torch.bfloat16):
            out = gt.attention(q, k, v)
            want = scaled_dot_product_attention(q, k, v, is_causal=True)
            both = torch.compile(gt.attention, backend="aot_eager", fullgraph=True)(q, k, v)
            x = gt.rotate(q, ROPE)
        assert out.dtype == want.dtype == both.dtype and x.dtype == kind
        assert torch.equal(out, both)
        torch.testing.assert_close(out, want, atol=2e-2, rtol=0)
        out.sum().backward()
        assert q.grad.dtype == kind


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, message", [
    ({"sequences": torch.zeros(6, dtype=int)}, r"sequences must be \[S\] .* S = 7 .* got \[6\]"),
    ({"sequences": torch.zeros(3, 7, dtype=int)}, r"B = 2, got \[3, 7\]"),
    ({"positions": torch.arange(8)}, r"positions must be \[S\] or .* S = 7 .* got \[8\]"),
    ({"query_positions": torch.arange(8)}, r"query_positions must .* T = 7 .* got \[8\]"),
    ({"query_sequences": torch.zeros(7, dtype=int)}, "sequences must be given with query_seq"),
    ({"attn_mask": torch.ones(6, 7) > 0}, r"attn_mask must broadcast .*2, 4, 7, 7.*got \[6, 7\]"),
    ({"attn_mask": torch.ones(7, dtype=int)}, "attn_mask must have .* a float type or bool"),
    ({"bias": torch.ones(7, 7) > 0}, "bias must have elements of a float type, got torch.bool"),
    ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
    ({"dropout": -0.1}, "dropout must be at least 0"),
    ({"cu_seqlens_q": torch.tensor([0, 7])}, "cu_seqlens_q must increase|must be .total, H, D."),
    ({"cu_seqlens_k": torch.tensor([0, 7])}, "cu_seqlens_q must be given with cu_seqlens_k"),
])
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        gt.attention(*inputs(), **options)


def test_more_queries_than_keys_need_no_order_or_positions() -> None:
    q, k = torch.randn(2, 2, 5, 16), torch.randn(2, 2, 3, 16)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, k)
    for run in (gnomon.torch.attention, flex.attend):
        out = run(q, k, k, visibility="bidirectional")
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-6)
        for options in ({"visibility": "causal"}, {"visibility": "bidirectional", "left": 1},
                        {"visibility": "bidirectional", "encoding": gnomon.Alibi(heads=2)}):
            with pytest.raises(ValueError, match="more queries than keys, 3, got 5"):
                run(q, k, k, **options)


def test_frequencies_are_refused_by_attention() -> None:
    q = torch.randn(1, 2, 5, 8)
    with pytest.raises(ValueError, match="with gnomon.torch.rotate first"):
        gnomon.torch.attention(q, q, q, gnomon.rotary_frequencies(ROPE))
