"""torch.ops.gnomon.*: opcheck, torch.compile, export, vmap, and the schemas."""

from __future__ import annotations

import functools

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import gnomon
import gnomon.torch as gt

OPS = torch.ops.gnomon
ROPE = gnomon.Rotary(rotary_dim=8, pairing="halves")
rotate = functools.partial(gt.rotate, layout="tokens_heads")
T5 = gnomon.T5Bias(heads=4, direction="causal", buckets=8, max_distance=16)
LEARNED = gnomon.Learned(rows=16, width=8)
TABLE = gnomon.RotaryTable(ROPE, 5)


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    torch._dynamo.reset()


def leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def texts(*specs):
    return "[" + ",".join(one.to_json() for one in specs) + "]"


def attention_inputs(parameters=(), specs=(ROPE,), sinks=None, terms=None, positions=None,
                     sequences=None, heads_tokens=True, left=None, bias=None):
    q, k, v = leaf(2, 4, 5, 8), leaf(2, 2, 7, 8), leaf(2, 2, 7, 6)
    if not heads_tokens:
        q, k, v = (one.detach().transpose(1, 2).requires_grad_() for one in (q, k, v))
    terms = terms or {}
    return (q, k, v, list(parameters), sinks, list(terms.values()), bias, None, positions, None,
            sequences, texts(*specs), heads_tokens, "causal", left, None, None, None, 0,
            ",".join(terms))


WAVLM = gnomon.WavLm(heads=4, direction="causal", buckets=8, max_distance=16, head_dim=8)


def trained(spec):
    return [leaf(one.rows, one.columns) for one in spec.parameters()]


SAMPLES = {
    "rotate": [
        lambda: (leaf(2, 5, 3, 8), ROPE.to_json(), [], 3, 0, False, False),
        lambda: (leaf(2, 3, 5, 8, dtype=torch.float64), ROPE.to_json(), [torch.arange(5)], 0, 0,
                 True, True),
        lambda: (torch.randn(2, 5, 3, 3, 8)[:, :, 1].bfloat16(), ROPE.to_json(), [], 0, 0, False,
                 False),
    ],
    "rotate_": [lambda: (torch.randn(2, 5, 3, 8), ROPE.to_json(), [], 3, 0, False, False)],
    "rotate_append_": [
        lambda: (torch.randn(3, 4, 8), torch.randn(3, 2, 8), torch.randn(3, 2, 8),
                 [torch.arange(3)], ROPE.to_json(), 0, torch.zeros(4, 2, 2, 8),
                 torch.zeros(4, 2, 2, 8), torch.tensor([3, -1, 6]), None, None, None, None, None),
        lambda: (None, torch.randn(1, 2, 2, 8), None, [torch.arange(2)], ROPE.to_json(), 0,
                 torch.zeros(4, 2, 2, 8), None, None, torch.tensor([[2, 0]], dtype=torch.int32),
                 torch.tensor([[1, 2]]), None, None, None),
    ],
    "rotate_with": [
        lambda: (leaf(2, 5, 3, 8), torch.rand(5, 4), torch.rand(5, 4), "halves", 0, False, False),
        lambda: (leaf(2, 3, 5, 12), torch.rand(2, 5, 4), torch.rand(2, 5, 4), "adjacent", 2, True,
                 True),
    ],
    "rotate_with_": [lambda: (torch.randn(2, 5, 3, 8), torch.rand(5, 4), torch.rand(5, 4),
                              "halves", 0, False, False)],
    "attention": [
        lambda: attention_inputs(),
        lambda: attention_inputs(heads_tokens=False, left=2),
        lambda: attention_inputs(trained(T5), (ROPE, T5), leaf(4)),
        lambda: attention_inputs(trained(WAVLM), (WAVLM,), None, {"gates": leaf(1, 4, 5)}),
        lambda: attention_inputs(positions=torch.arange(7), sequences=torch.tensor(
            [[-1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]])),
        lambda: attention_inputs(bias=leaf(1, 4, 5, 7)),
    ],
    "add_position": [
        lambda: (leaf(2, 5, 8), trained(LEARNED), None, texts(LEARNED), 3),
        lambda: (torch.randn(2, 8, 5).transpose(1, 2).requires_grad_(), [],
                 torch.arange(10).view(2, 5),
                 texts(gnomon.Sinusoidal(width=8, recipe="interleaved")), 0),
    ],
    "add_position_": [
        lambda: (torch.randn(2, 5, 8), [torch.randn(16, 8)], None, texts(LEARNED), 3)],
    "add_position_backward": [
        lambda: (torch.randn(2, 5, 8), [torch.randn(16, 8)], None, texts(LEARNED), 3)],
}


def backward_sample(sample):
    q, k, v, parameters, sinks, terms, bias, *rest = sample
    args = [one.detach() if isinstance(one, torch.Tensor) else one
            for one in (q, k, v, [one.detach() for one in parameters], sinks,
                         [one.detach() for one in terms], bias)]
    out, lse = OPS.attention(*args, *rest)
    return torch.randn_like(out), *args, out, lse, bias is not None, *rest


SAMPLES["sinusoid"] = [
    lambda: (torch.rand(2, 5, dtype=torch.float64), texts(gnomon.Sinusoidal(
        width=8, recipe="interleaved")))]
SAMPLES["encoding_bias"] = [
    lambda: (trained(T5), None, torch.arange(5), torch.arange(5), texts(ROPE, T5), True),
    lambda: (trained(WAVLM), leaf(2, 4, 5), torch.arange(5), torch.arange(10).view(2, 5),
             texts(WAVLM), False),
]
SAMPLES["encoding_bias_backward"] = [
    lambda: (torch.randn(1, 4, 5, 5), [torch.randn(8, 4)], None, torch.arange(5), torch.arange(5),
             texts(T5), True)]
SAMPLES["attention_backward"] = [
    lambda make=make: backward_sample(make()) for make in SAMPLES["attention"]]


# Those of gnomon.torch.patch.
gt.register_attention()
MASK = torch.tensor([[False, True, True, True, True], [True] * 5])


def patched_inputs(parameters=(), spec=None, sinks=None, padding=None, blind=0):
    q, k, v = leaf(2, 4, 5, 8), leaf(2, 2, 5, 8), leaf(2, 2, 5, 6)
    return (q, k, v, list(parameters), sinks, padding, None, None, None, 0,
            spec.to_json() if spec else "", False, True, True, None, None, None, None, blind)


def patched_backward(sample):
    q, k, v, parameters, sinks, *rest = sample
    args = [one.detach() if isinstance(one, torch.Tensor) else one
            for one in (q, k, v, [one.detach() for one in parameters], sinks)]
    out, lse = OPS.patched_attention(*args, *rest)
    return torch.randn_like(out), *args, out, lse, *rest


SAMPLES["rotary_factors"] = [lambda: (torch.arange(10).view(2, 5), ROPE.to_json(), 4)]
SAMPLES["patched_attention"] = [
    lambda: patched_inputs(),
    lambda: patched_inputs(trained(T5), T5, leaf(4)),
    lambda: patched_inputs(padding=MASK, blind=1),
]
SAMPLES["patched_attention_backward"] = [
    lambda make=make: patched_backward(make()) for make in SAMPLES["patched_attention"]]


@pytest.mark.parametrize("name, make", [(name, make) for name, all_of in SAMPLES.items()
                                        for make in all_of])
def test_opcheck(name, make):
    results = torch.library.opcheck(getattr(OPS, name).default, make())
    assert set(results.values()) == {"SUCCESS"}


def test_all_operators_have_samples():
    names = {name.split("::")[1].split(".")[0] for name in torch._C._dispatch_get_all_op_names()
             if name.startswith("gnomon::")}
    assert names == set(SAMPLES)


def test_schemas_can_move_to_an_extension():
    allowed = {"Tensor", "Optional[Tensor]", "List[Tensor]", "str", "int", "SymInt", "bool",
               "Optional[int]", "Optional[float]"}
    for name in SAMPLES:
        schema = getattr(OPS, name).default._schema
        assert {str(one.type) for one in schema.arguments} <= allowed, schema


CALLS = {
    "rotate": lambda x: rotate(x.sin(), ROPE, layout="heads_tokens"),
    "rotate at positions": lambda x: rotate(
        x.sin(), ROPE, torch.arange(x.shape[2]), layout="heads_tokens"),
    "rotate by frequencies": lambda x: rotate(
        x.sin(), FREQUENCIES, layout="heads_tokens"),
    "rotate in place": lambda x: rotate(x.detach().sin(), ROPE, layout="heads_tokens",
                                           inplace=True) + x,
    "attention": lambda x: gt.attention(x.sin(), x, x, [ROPE, T5], [WEIGHTS], left=4),
    "attention with sequences": lambda x: gt.attention(
        x, x.cos(), x, ROPE, sequences=torch.zeros(x.shape[2], dtype=torch.long)),
    "add_position": lambda x: gt.add_position(x[0].sin(), LEARNED, [ROWS]),
}
FREQUENCIES = gnomon.rotary_frequencies(ROPE)
WEIGHTS = torch.nn.Parameter(torch.randn(8, 4))
ROWS = torch.nn.Parameter(torch.randn(16, 8))


@pytest.mark.parametrize("name", CALLS)
def test_compiles_without_graph_breaks_for_all_lengths(name):
    call = CALLS[name]
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend=counter)
    for tokens in (5, 7, 11):
        x = leaf(2, 4, tokens, 8)
        got, want = compiled(x), call(x)
        assert torch.equal(got, want) and got.stride() == want.stride()
        right, = torch.autograd.grad(want.pow(2).sum(), x)
        torch.testing.assert_close(torch.autograd.grad(got.pow(2).sum(), x)[0], right)
    assert counter.frame_count == 1


def test_compiled_by_inductor():
    def layer(x, w):
        q, k, v = (x @ w).view(2, -1, 3, 4, 8).transpose(1, 3).unbind(2)
        q = rotate(q, ROPE, 2, layout="heads_tokens")
        return gt.attention(q, k, v, T5, [WEIGHTS]).transpose(1, 2).flatten(2) * 2

    w = leaf(32, 96)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for tokens in (5, 9):
        x = leaf(2, tokens, 32)
        want, got = layer(x, w), compiled(x, w)
        torch.testing.assert_close(got, want)
        grad = torch.randn_like(want)
        torch.testing.assert_close(torch.autograd.grad(got, (x, w, WEIGHTS), grad),
                                   torch.autograd.grad(want, (x, w, WEIGHTS), grad),
                                   atol=1e-4, rtol=1e-4)


def test_decoding_does_not_compile_again():
    counter = CompileCounterWithBackend("aot_eager")
    step = torch.compile(lambda x, at: rotate(x, ROPE, at), fullgraph=True, backend=counter)
    x = torch.randn(1, 1, 4, 8)
    for at in range(2, 12):
        assert torch.equal(step(x, at), rotate(x, ROPE, at))
    assert counter.frame_count <= 2  # with a constant, then with a symbolic offset


def test_prepared_table_compiles():
    compiled = torch.compile(lambda x: rotate(x.sin(), TABLE), fullgraph=True,
                             backend="aot_eager")
    x = leaf(2, 5, 3, 8)
    assert torch.equal(compiled(x), rotate(x.sin(), TABLE))
    with pytest.raises(Exception, match="must have the table's 5 tokens, got 4"):
        compiled(x[:, :4])


def test_export():
    class Layer(torch.nn.Module):
        def forward(self, x):
            return gt.attention(rotate(x, ROPE, layout="heads_tokens"), x, x, [T5], [WEIGHTS])

    x = torch.randn(2, 4, 6, 8)
    tokens = torch.export.Dim("tokens", min=2, max=64)
    for strict in (False, True):
        program = torch.export.export(Layer(), (x,), dynamic_shapes={"x": {2: tokens}},
                                      strict=strict)
        y = torch.randn(2, 4, 9, 8)
        assert torch.equal(program.module()(y), Layer()(y))


# -- vmap --------------------------------------------------------------------------------------


def looped(function, in_dims, *args):
    size = next(one.shape[axis] for one, axis in zip(args, in_dims) if axis is not None)
    return torch.stack([function(*[one if axis is None else one.select(axis, i)
                                   for one, axis in zip(args, in_dims)]) for i in range(size)])


AT = torch.tensor([[0, 1, 2, 3, 4], [9, 8, 7, 6, 5]])


@pytest.mark.parametrize("function, in_dims, shapes", [
    (lambda x: rotate(x, ROPE), (0,), [(3, 2, 5, 4, 8)]),
    (lambda x: rotate(x, ROPE, AT), (4,), [(2, 5, 4, 8, 3)]),
    (lambda x: rotate(x, TABLE), (1,), [(2, 3, 5, 4, 8)]),
    (lambda q, k, v: gt.attention(q, k, v, ROPE), (0, 0, 0),
     [(3, 2, 4, 5, 8), (3, 2, 2, 5, 8), (3, 2, 2, 5, 8)]),
    (lambda q, k, v: gt.attention(q, k, v, ROPE, sequences=(AT > 2).long()), (0, None, 2),
     [(3, 2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 3, 5, 8)]),
    (lambda q, w: gt.attention(q, q, q, T5, [w]), (0, 0), [(3, 2, 4, 5, 8), (3, 8, 4)]),
    (lambda q, s: gt.attention(q, q, q, sinks=s), (None, 1), [(2, 4, 5, 8), (4, 3)]),
    (lambda x, w: gt.add_position(x, LEARNED, [w]), (0, None), [(3, 2, 5, 8), (16, 8)]),
    (lambda x, w: gt.add_position(x, LEARNED, [w]), (None, 2), [(2, 5, 8), (16, 8, 3)]),
])
def test_vmap_is_the_loop(function, in_dims, shapes):
    args = [torch.randn(shape) for shape in shapes]
    torch.testing.assert_close(torch.vmap(function, in_dims)(*args),
                               looped(function, in_dims, *args), atol=1e-6, rtol=1e-6)


def test_vmap_over_positions():
    x = torch.randn(3, 2, 5, 4, 8)
    at = torch.stack((torch.arange(5), torch.arange(5) + 3, torch.arange(5) * 7))
    out = torch.vmap(lambda x, at: rotate(x, ROPE, at))(x, at)
    assert torch.equal(out, looped(lambda x, at: rotate(x, ROPE, at), (0, 0), x, at))


def test_gradients_of_each_sample():
    q, w = torch.randn(3, 2, 4, 5, 8), torch.randn(8, 4)

    def loss(w, q):
        return gt.attention(rotate(q, ROPE, layout="heads_tokens"), q, q, T5, [w]).pow(2).sum()

    got = torch.vmap(torch.func.grad(loss), (None, 0))(w, q)
    want = torch.stack([torch.func.grad(loss)(w, one) for one in q])
    torch.testing.assert_close(got, want)
    leafs = [w.clone().requires_grad_(), q[0]]
    torch.testing.assert_close(want[0], torch.autograd.grad(loss(*leafs), leafs[0])[0])


def test_proxy_tracing_records_the_operators():
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.randn(2, 4, 5, 8)
    graph = make_fx(lambda x: gt.attention(rotate(x, ROPE, layout="heads_tokens"), x, x))(x)
    targets = {str(node.target) for node in graph.graph.nodes}
    assert {"gnomon.rotate.default", "gnomon.attention.default"} <= targets


def test_attention_elsewhere_names_flex():
    q = torch.randn(2, 4, 5, 8)
    if torch.cuda.is_available():
        with pytest.raises(ValueError, match="gnomon.torch.flex"):
            gt.attention(*[q.cuda()] * 3)
    assert gt.attention(*[q.to("meta")] * 3).is_meta
