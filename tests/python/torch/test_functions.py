"""rotate and add_position against formulas in float64, and the caches of tables and plans."""

from __future__ import annotations

import functools

import pytest
import torch
from formulas import inputs, rotation, tokens_first, tolerance
from torch.autograd import forward_ad

import gnomon
import gnomon.torch as gt
from gnomon.torch import _kernels, _plans

ROPE = gnomon.Rotary(rotary_dim=8, pairing="halves")
rotate = functools.partial(gt.rotate, layout="tokens_heads")
T5 = gnomon.T5Bias(heads=4, direction="causal", buckets=8, max_distance=16)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


# -- rotate ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pairing", ["halves", "adjacent"])
@pytest.mark.parametrize("layout", ["tokens_heads", "heads_tokens"])
def test_rotate_is_the_formula(dtype, pairing, layout):
    rope = gnomon.Rotary(rotary_dim=8, pairing=pairing, head_offset=2)
    x = torch.randn(2, 5, 3, 12).to(dtype)
    want = rotation(x, torch.arange(7, 12), pairing, head_offset=2)
    given = x if layout == "tokens_heads" else x.transpose(1, 2).contiguous()
    before = given.clone()
    out = rotate(given, rope, 7, layout=layout)
    assert out.dtype == dtype and torch.equal(given, before)
    out = out if layout == "tokens_heads" else out.transpose(1, 2)
    torch.testing.assert_close(out.double(), want, atol=tolerance(dtype), rtol=tolerance(dtype))


def test_rotate_takes_any_strides():
    packed = torch.randn(2, 5, 3, 4, 8)  # [B, T, (q, k, v), H, D]
    q = packed[:, :, 1]
    assert torch.equal(rotate(q, ROPE), rotate(q.contiguous(), ROPE))
    scattered = torch.randn(2, 5, 4, 16)[..., ::2]
    assert torch.equal(rotate(scattered, ROPE), rotate(scattered.contiguous(), ROPE))
    shared = torch.randn(2, 5, 1, 8).expand(2, 5, 4, 8)
    assert torch.equal(rotate(shared, ROPE), rotate(shared.contiguous(), ROPE))
    heads = torch.randn(2, 5, 4, 8).transpose(1, 2)
    out = rotate(heads, ROPE, layout="heads_tokens")
    assert out.stride() == heads.stride()  # keeps the layout in memory
    assert rotate(torch.randn(2, 0, 4, 8), ROPE).shape == (2, 0, 4, 8)


def test_rotate_at_positions():
    x = torch.randn(2, 3, 4, 8)
    for at in (torch.tensor([5, 0, 70000]), torch.tensor([[1, 2, 3], [9, 9, 0]])):
        want = rotation(x, at)
        torch.testing.assert_close(rotate(x, ROPE, at).double(), want, atol=1e-6, rtol=1e-6)
        assert torch.equal(rotate(x, ROPE, at.int()), rotate(x, ROPE, at))
        assert torch.equal(rotate(x, ROPE, gnomon.Positions(at.numpy())),
                           rotate(x, ROPE, at))
    far = 1 << 30
    want = rotation(x, torch.arange(far, far + 3))
    torch.testing.assert_close(rotate(x, ROPE, far).double(), want, atol=1e-6, rtol=1e-6)
    want = rotation(x, torch.arange(-3, 0))
    torch.testing.assert_close(rotate(x, ROPE, -3).double(), want, atol=1e-6, rtol=1e-6)


def test_rotate_follows_changed_positions():
    x, at = torch.randn(1, 3, 1, 8), torch.tensor([0, 1, 2])
    rotate(x, ROPE, at)
    at.numpy()[:] = [4, 5, 6]  # PyTorch does not see this change
    assert torch.equal(rotate(x, ROPE, at), rotate(x, ROPE, 4))


def test_rotate_by_several_axes():
    rope = gnomon.MRope(rotary_dim=8, pairing="halves", sections=(2, 1, 1),
                        order="sequential")
    x = torch.randn(1, 3, 2, 8)
    t, h, w = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5]), torch.tensor([6, 8, 7])
    out = rotate(x, rope, (t, h, w))
    for pair, at in enumerate((t, t, h, w)):
        want = rotation(x, at)
        torch.testing.assert_close(out[..., pair::4].double(), want[..., pair::4], atol=1e-6,
                                   rtol=1e-6)


def test_the_default_layout_is_heads_tokens():
    x = torch.randn(2, 3, 5, 8)
    assert torch.equal(gt.rotate(x, ROPE), rotate(x.transpose(1, 2), ROPE).transpose(1, 2))


@pytest.mark.parametrize("positions", [None, 2, torch.tensor([5, 0, 3, 3])])
def test_rotate_by_a_grid(positions):
    parts = [gnomon.AxialPart(axis=axis, rotary_dim=4) for axis in (0, 1)]
    spec = gnomon.AxialRotary(parts=parts, pairing="halves", order="blocks", grid=(2, 3))
    x = torch.randn(2, 3, 4, 8)
    cell = positions if isinstance(positions, torch.Tensor) else torch.arange(4) + (positions or 0)
    got = gt.rotate(x, spec, positions)
    # halves (i, i + 4): pairs 0 and 1 rotate by the row, 2 and 3 by the column
    row, column = (tokens_first(x[..., [i, i + 1, i + 4, i + 5]].double(), at, rotary_dim=4)
                   for i, at in ((0, cell // 3), (2, cell % 3)))
    want = torch.stack((row, column), -2).unflatten(-1, (2, 2)).transpose(-2, -3).flatten(-3)
    torch.testing.assert_close(got.double(), want, atol=1e-6, rtol=1e-6)
    by_axes = gt.rotate(x, spec, (cell // 3, cell % 3))
    torch.testing.assert_close(got, by_axes)


def test_rotate_step_by_step_has_the_bits_of_the_whole():
    x = torch.randn(1, 200, 2, 8)
    whole = rotate(x, ROPE)
    for t in (0, 1, 63, 64, 65, 199):
        assert torch.equal(rotate(x[:, t:t + 1], ROPE, t), whole[:, t:t + 1])
    assert torch.equal(rotate(x[:, 50:], ROPE, 50), whole[:, 50:])


def test_fractional_positions():
    at = torch.tensor([[0.0, 0.5, 1.25, -3.75, 1e5 + 0.125], [4.5] * 5], dtype=torch.float64)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        x = torch.randn(2, 3, 5, 8).to(dtype)
        got = gt.rotate(x, ROPE, at)
        assert got.dtype == dtype
        close = 1e-9 if dtype == torch.float64 else 3 * tolerance(dtype)
        torch.testing.assert_close(got.double(), tokens_first(x, at), atol=close, rtol=0)
        y = x.clone()
        assert gt.rotate(y, ROPE, at, inplace=True) is y and torch.equal(y, got)
    x = torch.randn(2, 3, 5, 8)
    torch.testing.assert_close(gt.rotate(x, ROPE, torch.arange(5.0).double()), gt.rotate(x, ROPE))
    q, k = gt.Rotary(rotary_dim=8, pairing="halves").rotate(x[:, :, 3:], x, at)
    torch.testing.assert_close(q, gt.rotate(x, ROPE, at)[:, :, 3:])
    compiled = torch.compile(lambda x, at: gt.rotate(x, ROPE, at), fullgraph=True,
                             backend="aot_eager")
    torch.testing.assert_close(compiled(x, at), gt.rotate(x, ROPE, at))
    double = x[:1, :1].double().requires_grad_(), at[1:].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, at: gt.rotate(x, ROPE, at), double)
    mrope = gnomon.MRope(rotary_dim=8, pairing="halves", sections=(2, 1, 1), order="sequential")
    torch.testing.assert_close(gt.rotate(x, mrope, (at, at, at)), gt.rotate(x, ROPE, at))


def test_rotate_by_table_and_frequencies():
    x = torch.randn(2, 5, 3, 8)
    want = rotate(x, ROPE)
    assert torch.equal(rotate(x, gnomon.RotaryTable(ROPE, 5)), want)
    frequencies = gnomon.rotary_frequencies(ROPE)
    assert torch.equal(rotate(x, frequencies), want)
    yarn = gnomon.ScaledRotary(rotary_dim=8, pairing="halves", length=256,
                               scaling=gnomon.YarnScaling(factor=4.0, original_length=64))
    assert torch.equal(rotate(x, yarn), rotate(x, gnomon.rotary_frequencies(yarn)))
    assert not torch.equal(rotate(x, yarn), want)


def test_rotate_in_place():
    x = torch.randn(2, 3, 5, 8)
    want = rotate(x, ROPE, 4, layout="heads_tokens")
    for rope in (ROPE, gnomon.RotaryTable(ROPE, gnomon.Positions.consecutive(5, 4))):
        y = x.clone()
        at = 4 if rope is ROPE else None
        assert rotate(y, rope, at, layout="heads_tokens", inplace=True) is y
        assert torch.equal(y, want)
        with pytest.raises(ValueError, match="must not require a gradient if inplace"):
            rotate(x.clone().requires_grad_(), rope, at, layout="heads_tokens", inplace=True)
        with pytest.raises(ValueError, match="must not share memory"):
            rotate(x[:, :1].expand(2, 4, 5, 8), rope, at, layout="heads_tokens", inplace=True)


@pytest.mark.parametrize("change", [
    lambda x: rotate(x, ROPE, inplace=True),
    lambda x: rotate(x, gnomon.RotaryTable(ROPE, 5), inplace=True),
    lambda x: torch.ops.gnomon.rotate_(x, ROPE.to_json(), [], 0, 0, False, False),
    lambda x: gt.apply_rotary_emb(x, torch.ones(5, 4), torch.zeros(5, 4), inplace=True),
])
def test_changes_in_place_are_seen_by_autograd(change):
    x, w = torch.randn(2, 5, 3, 8), torch.ones((), requires_grad=True)
    out = (x * w).sum()  # keeps x
    change(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()
    with torch.inference_mode():
        change(torch.randn(2, 5, 3, 8))


@pytest.mark.parametrize("encoding", [ROPE, gnomon.RotaryTable(ROPE, 5)], ids=["spec", "table"])
def test_rotate_gradients(encoding):
    x = torch.randn(2, 5, 3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: rotate(x, encoding), x)
    assert torch.autograd.gradgradcheck(lambda x: rotate(x, encoding), x)
    rotate(x, encoding).sum().backward()  # an expanded gradient: strides of zero
    want = rotation(torch.ones_like(x), torch.arange(5), sign=-1)
    torch.testing.assert_close(x.grad, want, atol=1e-6, rtol=1e-6)
    jacobian = torch.autograd.functional.jacobian(lambda x: rotate(x, encoding).sum((0, 2)), x,
                                                  vectorize=True)
    torch.testing.assert_close(jacobian.sum((0, 1)), want, atol=1e-6, rtol=1e-6)


def test_forward_mode_has_tangents_or_is_refused():
    x, tangent = torch.randn(1, 2, 2, 8), torch.randn(1, 2, 2, 8)
    for encoding in (ROPE, gnomon.RotaryTable(ROPE, 2)):
        out, got = torch.func.jvp(lambda x: rotate(x, encoding), (x,), (tangent,))
        torch.testing.assert_close(out, rotate(x, encoding))
        torch.testing.assert_close(got, rotate(tangent, encoding))
        with forward_ad.dual_level():
            dual = rotate(forward_ad.make_dual(x, tangent), encoding)
            torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, got)
    with pytest.raises(ValueError, match="must be in reverse mode"):
        torch.func.jvp(lambda x: gt.attention(x, x, x), (x,), (tangent,))
    spec = gnomon.Sinusoidal(width=8, recipe="interleaved")
    with pytest.raises(ValueError, match="must be in reverse mode"):
        torch.func.jvp(lambda x: gt.add_position(x, spec), (x[0],), (tangent[0],))


def test_rotate_sees_lazy_negation():
    z = torch.randn(1, 2, 1, 8, dtype=torch.complex64)
    x = z.conj().imag  # has the negative bit
    assert x.is_neg()
    assert torch.equal(rotate(x, ROPE), rotate(x.resolve_neg(), ROPE))


def test_rotate_without_kernel_agrees_with_the_kernel():
    """The path of other devices, here on the CPU."""
    for pairing in ("halves", "adjacent"):
        table = gnomon.RotaryTable(gnomon.Rotary(rotary_dim=8, pairing=pairing), 5)
        cos, sin = torch.tensor(table.cos), torch.tensor(table.sin)
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            x = torch.randn(2, 5, 3, 12).to(dtype)
            for inverse in (False, True):
                plain = _kernels.rotated(x, cos, sin, pairing, 0, False, inverse)
                torch.testing.assert_close(plain, rotate(x, table, inverse=inverse))
                heads = _kernels.rotated(x.transpose(1, 2), cos, sin, pairing, 0, True, inverse)
                assert torch.equal(heads.transpose(1, 2), plain)


def test_rotate_on_meta_and_fake_tensors():
    x = torch.empty(2, 5, 3, 8, device="meta")
    out = rotate(x, ROPE)
    assert out.is_meta and out.shape == x.shape
    from torch._subclasses import FakeTensorMode
    with FakeTensorMode():
        q = torch.empty(2, 4, 5, 8).transpose(1, 2)
        out = rotate(q, ROPE)
        assert out.stride() == q.stride()
        assert gt.attention(q, q, q, ROPE, layout="tokens_heads").shape == q.shape


@pytest.mark.parametrize("call, message", [
    (lambda x: rotate(x, ROPE, layout="bhtd"), r"\[torch\] layout must be one of .*got bhtd"),
    (lambda x: rotate(x[..., :6], ROPE), "at least head_offset"),
    (lambda x: rotate(x, gnomon.RotaryTable(ROPE, 4)), "must have the table's 4 tokens, got 5"),
    (lambda x: rotate(x, gnomon.RotaryTable(ROPE, 5), 1), "positions must be None"),
    (lambda x: rotate(x, T5), "encoding must be rotary"),
    (lambda x: rotate(x, 3), "encoding must be a spec.*got int"),
    (lambda x: rotate(x, ROPE, torch.ones(5)), "must be integers or float64 .*float32"),
    (lambda x: rotate(x, gnomon.usual("rotary-axial", width=32, heads=4, length=8), torch.ones(5).double()),
     "positions must be a tuple of 2"),
    (lambda x: rotate(x, ROPE, torch.ones(5, dtype=torch.cfloat)), "positions must be .*complex64"),
    (lambda x: gt.XPos(rotary_dim=8, pairing="halves").rotate(x, x, torch.ones(3)),
     "positions must be integers .*gnomon.torch.rotate takes"),
    (lambda x: gt.attention(x, x, x, ROPE, positions=torch.ones(3)), "must be integers .*rotate"),
    (lambda x: rotate(x, ROPE, torch.arange(4)), r"\[T\] or \[B, T\] with T = 5.* got \[4\]"),
    (lambda x: rotate(x, ROPE, torch.arange(50)), r"with T = 5 .*axis 1 of x.* got \[50\]"),
    (lambda x: gt.rotate(x, ROPE, torch.arange(5)), r"with T = 3 .*axis 2 of x.* got \[5\]"),
    (lambda x: rotate(x, ROPE, torch.zeros(3, 5, dtype=int)), r"B = 2, got \[3, 5\]"),
    (lambda x: torch.ops.gnomon.rotate(x, ROPE.to_json(), [torch.arange(9)], 0, 0, False, False),
     r"with T = 5 .* got \[9\]"),
    (lambda x: rotate(x, gnomon.XPos(rotary_dim=8, pairing="halves")),
     r"use gnomon.torch.XPos\(...\).rotate"),
    (lambda x: rotate(x, gnomon.Vjepa2(head_dim=8, grid=(1, 1, 5))), r"Vjepa2\(...\).rotate"),
    (lambda x: gnomon.Rotary(rotary_dim=8, pairing="halves", base=torch.nn.Parameter(x[0, 0, 0, 0])
                             ),
     r"base must not require a gradient, .*gnomon.torch.LearnedRotary"),
    (lambda x: gt.Rotary(rotary_dim=torch.ones((), requires_grad=True), pairing="halves"),
     r"rotary_dim must not require a gradient"),
    (lambda x: gnomon.Rotary(rotary_dim=7, pairing="halves"), "rotary_dim must be even, got 7"),
    (lambda x: rotate(x.int(), ROPE), "f32, f16, bf16 or f64"),
    (lambda x: rotate(x[0], ROPE), "4 axes"),
])
def test_rotate_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.randn(2, 5, 3, 8))


# -- add_position ------------------------------------------------------------------------------


def test_add_position_is_the_sinusoid():
    spec = gnomon.Sinusoidal(width=8, recipe="interleaved")
    x = torch.randn(2, 5, 8)
    angle = torch.arange(3, 8).double()[:, None] * 10000.0 ** (-torch.arange(0, 8, 2).double() / 8)
    table = torch.stack((angle.sin(), angle.cos()), -1).flatten(1)
    out = gt.add_position(x, spec, offset=3)
    torch.testing.assert_close(out.double(), x.double() + table, atol=1e-6, rtol=0)
    assert torch.equal(gt.add_position(x, spec, positions=torch.arange(3, 8)), out)
    strided = torch.randn(2, 8, 5).transpose(1, 2)
    assert torch.equal(gt.add_position(strided, spec), gt.add_position(strided.contiguous(), spec))
    half = gt.add_position(x.bfloat16(), spec, offset=3)
    torch.testing.assert_close(half.double(), x.bfloat16().double() + table, atol=2e-2, rtol=1e-2)


@pytest.mark.parametrize("recipe", ["interleaved", "half_split", "timestep"])
def test_add_position_at_fractional_positions(recipe):
    spec = gnomon.Sinusoidal(width=8, recipe=recipe, shift=0.0)
    at = torch.tensor([0.0, 2.5, 999.125], dtype=torch.float64)
    angle = at[:, None] * 10000.0 ** (-torch.arange(0, 8, 2).double() / 8)
    if recipe == "interleaved":
        table = torch.stack((angle.sin(), angle.cos()), -1).flatten(1)
    else:
        table = torch.cat((angle.sin(), angle.cos()), -1)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        x = torch.randn(2, 3, 8).to(dtype).requires_grad_()
        got = gt.add_position(x, spec, positions=at)
        torch.testing.assert_close(got.double(), x.double() + table, atol=2 * tolerance(dtype),
                                   rtol=1e-2 if dtype == torch.bfloat16 else 0)
        assert torch.equal(torch.autograd.grad(got.sum(), x)[0], torch.ones_like(x))
    both = gt.add_position(x, spec, positions=at.expand(2, 3))
    assert torch.equal(both, got)
    y = x.detach().float()
    assert torch.equal(torch.vmap(lambda y: gt.add_position(y, spec, positions=at))(y),
                       gt.add_position(y, spec, positions=at))
    assert torch.equal(gt.add_position(y, spec, positions=torch.arange(3.0).double()),
                       gt.add_position(y, spec))
    module = gt.PositionEncoding(spec)
    assert torch.equal(module.embed(y, positions=at), gt.add_position(y, spec, positions=at))


def test_add_position_gradients():
    spec = gnomon.Learned(rows=16, width=8)
    table = torch.randn(16, 8, requires_grad=True)
    x = torch.randn(2, 3, 8, requires_grad=True)
    at = torch.tensor([[0, 1, 2], [2, 2, 15]])
    out = gt.add_position(x, spec, [table], positions=at)
    assert torch.equal(out, x + table[at])
    grad = torch.randn_like(out)
    got = torch.autograd.grad(out, (x, table), grad)
    want = torch.autograd.grad(x + table[at], (x, table), grad)
    torch.testing.assert_close(got, want)
    out = gt.add_position(x, spec, [table])
    got = torch.autograd.grad(out.sum(), table)[0]  # an expanded gradient
    assert torch.equal(got[:, 0], torch.tensor([2.0] * 3 + [0.0] * 13))
    double = table.detach().double().requires_grad_()
    gt.add_position(x, spec, [double]).sum().backward()
    assert double.grad.dtype == torch.float64
    grad, = torch.autograd.grad(gt.add_position(x, spec, [table]).pow(2).sum(), table,
                                create_graph=True)
    with pytest.raises(ValueError, match=r"\[add_position\] gradients must be of first order"):
        grad.sum().backward()


def test_gradcheck_of_a_learned_table():
    spec = gnomon.Learned(rows=6, width=4, offset=1)
    x, table = (torch.randn(*shape, dtype=torch.float64, requires_grad=True)
                for shape in ((2, 3, 4), (6, 4)))
    for options in ({"offset": 2}, {"positions": torch.tensor([[0, 1, 4], [2, 2, 0]])}):
        def run(x, table, options=options):
            return gt.add_position(x, spec, [table], **options)

        assert torch.autograd.gradcheck(run, (x, table))
        with torch.no_grad():
            assert torch.allclose(run(x, table), run(x.float(), table.float()).double(), atol=1e-6)
    for options in ({"offset": 3}, {"positions": torch.tensor([0, 5, 1])}):
        for kind in (torch.float64, torch.float32):
            with pytest.raises(ValueError, match="6|capacity|position"):
                gt.add_position(x.to(kind), spec, [table.to(kind)], **options)


def test_add_position_errors():
    x = torch.randn(2, 5, 8)
    with pytest.raises(ValueError, match="must be added to the embeddings, got .* scores"):
        gt.add_position(x, gnomon.Alibi(heads=4))
    for positions, message in ((torch.ones(5).double(), "must have a sinusoidal encoding, got learned"),
                               (torch.arange(9), "9|positions"), (torch.arange(3), "3|positions")):
        with pytest.raises(ValueError, match=message):
            gt.add_position(x, gnomon.Learned(rows=16, width=8), [torch.randn(16, 8)],
                            positions=positions)
    with pytest.raises(ValueError, match="4"):
        gt.add_position(x, gnomon.Learned(rows=4, width=8), [torch.randn(4, 8)])


# -- caches ------------------------------------------------------------------------------------


def test_nothing_is_lowered_twice(monkeypatch):
    q, k, v = inputs()
    x = torch.randn(1, 7, 2, 8)
    y = torch.randn(1, 7, 8)
    sinusoidal = gnomon.Sinusoidal(width=8, recipe="interleaved")
    at = torch.arange(7)

    def calls():
        gt.attention(q, k, v, gnomon.Rotary(rotary_dim=8, pairing="halves"))
        gt.attention(q, k, v, ROPE, positions=at, sequences=torch.zeros(7, dtype=torch.int))
        rotate(x, gnomon.Rotary(rotary_dim=8, pairing="halves"), 3)
        rotate(x, ROPE, at.clone())
        rotate(x, gnomon.rotary_frequencies(ROPE))
        gt.add_position(y, sinusoidal)

    calls()

    def refuse(*_, **__):
        raise AssertionError("lowered again")

    monkeypatch.setattr(_plans, "lower", refuse)
    monkeypatch.setattr(_plans, "RotaryTable", refuse)
    calls()
    with pytest.raises(AssertionError, match="lowered again"):
        gt.attention(q, k, v, ROPE, positions=at + 1)


def test_caches_have_a_budget():
    cache = _plans.Cache(100)
    for key in range(10):
        cache.put(key, str(key), 30)
        cache.get(0)
    assert cache.get(0) == "0" and cache.get(9) == "9" and cache.get(1) is None
    assert len(cache) == 3 and cache.used == 90
    cache.put("large", "value", 1000)
    assert cache.get("large") == "value" and len(cache) == 1
