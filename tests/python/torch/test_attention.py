"""attention against formulas in float64."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from formulas import buckets, dense, expected, inputs, tokens_first, tolerance

import gnomon
import gnomon.torch as gt

ROPE = gnomon.Rotary(rotary_dim=8, pairing="halves")
T5 = gnomon.T5Bias(heads=4, direction="causal", buckets=8, max_distance=16)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("queries", [7, 3])
def test_attention_rotates(dtype, queries):
    q, k, v = inputs(queries, dtype=dtype, value_dim=6)
    want = expected(tokens_first(q, torch.arange(7 - queries, 7)), tokens_first(k, torch.arange(7)),
                    v, dense(queries, 7))
    out = gt.attention(q, k, v, ROPE)
    assert out.shape == (2, 4, queries, 6) and out.dtype == dtype
    torch.testing.assert_close(out.double(), want, atol=4 * tolerance(dtype), rtol=0)
    swapped = gt.attention(*(one.transpose(1, 2) for one in (q, k, v)), ROPE,
                           layout="tokens_heads")
    assert torch.equal(swapped.transpose(1, 2), out)


def test_attention_biases_windows_and_no_position():
    q, k, v = inputs()
    distance = torch.arange(7)[None] - torch.arange(7)[:, None]
    slopes = 2.0 ** (-2 * torch.arange(1, 5, dtype=torch.float64))
    alibi = slopes[:, None, None] * distance
    table = torch.randn(8, 4)  # [buckets, H]
    t5 = table.T.double()[:, buckets(distance)]
    for encoding, parameters, bias in ((None, [], 0.0), (gnomon.Alibi(heads=4), [], alibi),
                                       (T5, [table], t5)):
        for left in (None, 2):
            want = expected(q, k, v, dense(7, 7, left) + bias)
            out = gt.attention(q, k, v, encoding, parameters, left=left)
            torch.testing.assert_close(out.double(), want, atol=1e-5, rtol=0)
    both = gt.attention(q, k, v, [ROPE, gnomon.Alibi(heads=4)], visibility="bidirectional")
    at = torch.arange(7)
    want = expected(tokens_first(q, at), tokens_first(k, at), v, -slopes[:, None, None]
                    * distance.abs())
    torch.testing.assert_close(both.double(), want, atol=1e-5, rtol=0)


def test_attention_cap_scale_and_sinks():
    q, k, v = inputs(key_heads=4)
    sinks = torch.randn(4, requires_grad=True)
    scores = torch.einsum("bhtd,bhsd->bhts", q.double(), k.double()) * 0.5
    scores = 3 * torch.tanh(scores / 3) + dense(7, 7)
    sink = sinks.double().view(1, 4, 1, 1).expand(2, 4, 7, 1)
    want = torch.cat((scores, sink), -1).softmax(-1)[..., :-1] @ v.double()
    out = gt.attention(q, k, v, softmax_scale=0.5, cap=3.0, sinks=sinks)
    torch.testing.assert_close(out.double(), want, atol=1e-5, rtol=0)
    grad = torch.randn_like(out)
    expected_grad, = torch.autograd.grad(want, sinks, grad.double())
    got, = torch.autograd.grad(out, sinks, grad)
    torch.testing.assert_close(got, expected_grad, atol=1e-5, rtol=1e-5)


def test_attention_padding_packing_and_cross_attention():
    q, k, v = inputs()
    sequences = torch.tensor([[-1, -1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1]])
    positions = torch.tensor([[0, 0, 0, 1, 2, 3, 4], [0, 1, 2, 0, 1, 2, 3]])
    out = gt.attention(q, k, v, ROPE, sequences=sequences, positions=positions)
    short = gt.attention(q[:1, :, 2:], k[:1, :, 2:], v[:1, :, 2:], ROPE)
    torch.testing.assert_close(out[:1, :, 2:], short, atol=1e-5, rtol=0)
    assert not out[0, :, :2].any()
    parts = [gt.attention(q[1:, :, s], k[1:, :, s], v[1:, :, s], ROPE)
             for s in (slice(0, 3), slice(3, 7))]
    torch.testing.assert_close(out[1:], torch.cat(parts, 2), atol=1e-5, rtol=0)
    # More queries than keys, and padded keys.
    q = torch.randn(2, 4, 9, 8)
    of = torch.tensor([[0, 0, 0, 0, -1, -1, -1], [0] * 7])
    out = gt.attention(q, k, v, visibility="bidirectional", sequences=of,
                       query_sequences=torch.zeros(9, dtype=torch.long),
                       query_positions=torch.arange(9))
    want = expected(q[:1], k[:1, :, :4], v[:1, :, :4], torch.zeros(9, 4, dtype=torch.float64))
    torch.testing.assert_close(out[:1].double(), want, atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="more queries than keys, 7, got 9"):
        gt.attention(q, k, v, visibility="bidirectional", sequences=of)


def test_attention_gradients_in_double():
    q, k, v = (one.requires_grad_() for one in inputs(4, 5, dtype=torch.float64))
    for encoding in (None, ROPE, [ROPE, gnomon.Alibi(heads=4)]):
        assert torch.autograd.gradcheck(lambda *x: gt.attention(*x, encoding), (q, k, v))
    assert torch.autograd.gradcheck(
        lambda *x: gt.attention(*(one.transpose(1, 2) for one in x), ROPE, left=2,
                                layout="tokens_heads"), (q, k, v))


def test_attention_takes_any_strides():
    given = (torch.randn(2, 4, 7, 16)[..., ::2].requires_grad_(),
             torch.randn(2, 1, 7, 8).expand(2, 4, 7, 8).requires_grad_(),
             torch.randn(8, 7, 4, 2).permute(3, 2, 1, 0).requires_grad_())
    plain = [one.detach().contiguous().requires_grad_() for one in given]
    out, want = gt.attention(*given, ROPE), gt.attention(*plain, ROPE)
    assert torch.equal(out, want)
    grad = torch.randn(7, 8).expand(2, 4, 7, 8)
    for got, right in zip(torch.autograd.grad(out, given, grad),
                          torch.autograd.grad(want, plain, grad)):
        assert torch.equal(got, right)


def test_attention_of_no_tokens():
    q, k, v = inputs(0)
    assert gt.attention(q, k, v, ROPE).shape == (2, 4, 0, 8)
    q, k, v = (one[:0].requires_grad_() for one in inputs())
    gt.attention(q, k, v, ROPE).sum().backward()
    assert q.grad.shape == q.shape
    q, k, v = inputs(3)
    narrow = inputs(value_dim=1)[2].expand(2, 2, 7, 1)
    assert gt.attention(*inputs()[:2], narrow).shape == (2, 4, 7, 1)
    empty = gt.attention(q, k[:, :, :0], v[:, :, :0], visibility="bidirectional",
                         query_positions=torch.arange(3))
    assert not empty.any()


@pytest.mark.parametrize("kind", ["sum", "random"])
def test_attention_gradients_of_parameters(kind):
    q, k, v = (one.requires_grad_() for one in inputs())
    table = torch.randn(8, 4, requires_grad=True)
    distance = torch.arange(7)[None] - torch.arange(7)[:, None]
    want = expected(q, k, v, dense(7, 7) + table.T.double()[:, buckets(distance)])
    out = gt.attention(q, k, v, T5, [table])
    grad = torch.ones(()).expand(out.shape) if kind == "sum" else torch.randn(out.shape)
    for got, right in zip(torch.autograd.grad(out, (q, k, v, table), grad),
                          torch.autograd.grad(want, (q, k, v, table), grad.double())):
        torch.testing.assert_close(got.double(), right.double(), atol=2e-5, rtol=1e-5)


def test_attention_gates():
    q, k, v = inputs(key_heads=4)
    spec = gnomon.WavLm(heads=4, direction="bidirectional", buckets=8, max_distance=16, head_dim=8)
    parameters = [torch.randn(one.rows, one.columns) for one in spec.parameters()]
    gates = torch.rand(1, 4, 7, requires_grad=True)
    bias = torch.from_numpy(gnomon.lower(spec, 7, parameters=parameters,
                                         visibility="bidirectional").bias())
    want = expected(q, k, v, gates.double()[..., None] * bias)
    out = gt.attention(q, k, v, spec, parameters, visibility="bidirectional", terms={"gates": gates})
    torch.testing.assert_close(out.double(), want, atol=1e-5, rtol=0)
    grad = torch.randn_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, gates, grad)[0],
                               torch.autograd.grad(want, gates, grad.double())[0],
                               atol=1e-5, rtol=1e-5)


def test_attention_gradients_have_the_same_bits_for_any_threads():
    torch.manual_seed(1)
    q, k, v = (one.requires_grad_() for one in inputs(70, 70))
    table = torch.randn(8, 4, requires_grad=True)
    results = []
    most = gnomon.threads()
    try:
        for count in (1, 2, 2):
            gnomon.set_threads(count)
            out = gt.attention(q, k, v, [ROPE, T5], [table])
            results.append(torch.autograd.grad(out.sum(), (q, k, v, table)))
    finally:
        gnomon.set_threads(most)
    for other in results[1:]:
        assert all(map(torch.equal, results[0], other))


@pytest.mark.parametrize("name", [one.name for one in gnomon.encodings()])
def test_all_encodings_of_the_list(name, random_terms):
    """The results of the plan, and gradients with the same bits for any number of threads."""
    visibility = "causal" if gnomon.find_encoding(name).causal else "bidirectional"
    spec = gnomon.usual(name, width=32, heads=4, length=16)
    parameters = [leaf.requires_grad_() for leaf in
                  (one.initial_mean + 0.5 * torch.randn(one.rows, one.columns)
                   for one in spec.parameters())]
    plan = gnomon.lower(spec, 16, parameters=[one.detach() for one in parameters],
                        visibility=visibility)
    if "embeddings" in spec.enters:
        x = torch.randn(2, 16, 32, requires_grad=True)
        rows = torch.from_numpy(plan.table)
        run = lambda: gt.add_position(x, spec, parameters)  # noqa: E731
        torch.testing.assert_close(run(), x + rows, atol=1e-6, rtol=0)
        leaves = [x, *parameters]
    else:
        q, k, v = (torch.randn(2, 16, 4, 8, requires_grad=True) for _ in range(3))
        terms = {key: torch.from_numpy(one).requires_grad_()
                 for key, one in random_terms(spec, 2, 16).items()}
        run = lambda: gt.attention(q, k, v, spec, parameters, terms=terms,  # noqa: E731
                                   layout="tokens_heads", visibility=visibility)
        want = gnomon.attention(q.detach(), k.detach(), v.detach(), plan,
                                terms={key: one.detach() for key, one in terms.items()})
        assert torch.equal(run(), torch.from_numpy(want))
        leaves = [q, k, v, *parameters, *terms.values()]
    results, most = [], gnomon.threads()
    try:
        for count in (1, 2):
            gnomon.set_threads(count)
            results.append(torch.autograd.grad(run().pow(2).sum(), leaves))
    finally:
        gnomon.set_threads(most)
    assert all(map(torch.equal, *results))
    assert all(torch.isfinite(one).all() for one in results[0])


def test_second_order_is_refused():
    q, k, v = (one.requires_grad_() for one in inputs())
    grad, = torch.autograd.grad(gt.attention(q, k, v, ROPE).sum(), q, create_graph=True)
    with pytest.raises(ValueError, match=r"\[attention\] gradients must be of first order"):
        grad.sum().backward()


@pytest.mark.parametrize("call, message", [
    (lambda q, k, v: gt.attention(q, k, v, T5), "1 parameter|parameters|matrices|values"),
    (lambda q, k, v: gt.attention(q[:, :3], k, v), "Hk|heads"),
    (lambda q, k, v: gt.attention(q, k, v, visibility="all"), "visibility must be one of"),
    (lambda q, k, v: gt.attention(q[0], k, v), "q must have 4 axes, got 3"),
    (lambda q, k, v: gt.attention(q, k, v, positions=torch.rand(7)), "must be integers"),
])
def test_attention_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call(*inputs())


# -- modes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["torch.device('meta')", "torch.inference_mode()",
                                  "torch._subclasses.FakeTensorMode()"])
def test_import_inside_a_mode(mode):
    script = (f"import torch, torch._subclasses\nwith {mode}:\n    import gnomon.torch\n"
              "from gnomon.torch._functions import _direct\n"
              "assert _direct(torch.zeros(1))\n"
              "with torch.inference_mode():\n    assert _direct(torch.zeros(1))")
    subprocess.run([sys.executable, "-c", script], check=True)


def test_default_type_and_device_do_not_matter():
    q, k, v = (one.requires_grad_() for one in inputs())
    table, sinks = torch.randn(8, 4, requires_grad=True), torch.randn(4, requires_grad=True)
    of = torch.zeros(7, dtype=torch.int)

    def gradients():
        out = gt.attention(gt.rotate(q, ROPE, layout="heads_tokens"), k, v, T5, [table],
                           sinks=sinks, sequences=of)
        return torch.autograd.grad(out.sum(), (q, k, v, table, sinks))

    want = gradients()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            assert all(map(torch.equal, gradients(), want))
    finally:
        torch.set_default_dtype(torch.float32)
