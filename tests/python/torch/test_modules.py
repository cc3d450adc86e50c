"""PositionEncoding, PositionScheme and the named modules."""

from __future__ import annotations

import copy
import inspect
import math
import pickle

import pytest
import tiny
import torch
from torch.nn.functional import scaled_dot_product_attention

import gnomon
import gnomon.torch
from gnomon.torch import PositionEncoding, PositionScheme

B, H, T, D = 2, 4, 16, 16
NAMES = [one.name for one in gnomon.encodings()]


def qkv(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return torch.randn(3, B, H, T, D, dtype=dtype).unbind()


def module(name: str) -> PositionEncoding:
    torch.manual_seed(2)
    return PositionEncoding(name, width=H * D, heads=H, length=T)


def causal(bias: torch.Tensor) -> torch.Tensor:
    hidden = torch.ones(bias.shape[-2:], dtype=torch.bool).triu(1)
    return bias.masked_fill(hidden, -math.inf)


@pytest.mark.parametrize("name", NAMES)
def test_every_encoding_attends_and_embeds(name: str) -> None:
    one, (q, k, v) = module(name), qkv()
    x = torch.randn(B, T, H * D, dtype=torch.float64)
    out = one.attend(q, k, v, visibility="causal", hidden=x)
    assert out.shape == q.shape and out.isfinite().all()
    again = one.attend(*(y.transpose(1, 2) for y in (q, k, v)), visibility="causal",
                       layout="tokens_heads", hidden=x)
    torch.testing.assert_close(again.transpose(1, 2), out, rtol=0, atol=1e-12)
    assert torch.equal(one.embed(x), x) == ("embeddings" not in one.enters)


@pytest.mark.parametrize("name, fields, message", [
    ("T5Bias", {"heads": 0, "direction": "causal"}, "at least 1 row and 1 column, got 32 x 0"),
    ("T5Bias", {"heads": 2, "direction": "causal", "buckets": -3}, "buckets must .* got -3 x 2"),
    ("Alibi", {"heads": -1}, "heads must be at least 1, got -1"),
    ("Sinusoidal", {"width": -2, "recipe": "interleaved"}, "width must be at least 1, got -2"),
    ("MRope", {"rotary_dim": 8, "pairing": "halves", "sections": (1, 1, 1), "order": "sequential"},
     "sections must be 4 pairs in sum, got 3"),
    ("Learned", {"rows": -1, "width": 8}, "table must have .* got -1 x 8"),
    ("Rotary", {"rotary_dim": 7, "pairing": "halves"}, "rotary_dim must be even, got 7"),
    ("XPos", {"rotary_dim": 7, "pairing": "halves"}, "rotary_dim must be even, got 7"),
])
def test_impossible_specs_are_refused_at_construction(name, fields, message) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(gnomon.torch, name)(**fields)


@pytest.mark.parametrize("name", NAMES)
def test_bias_and_rotation_agree_with_attend(name: str) -> None:
    one, (q, k, v) = module(name), qkv()
    if gnomon.find_encoding(name).causal or gnomon.token_terms(one.mixture):
        return  # the scores depend on the tokens
    if name == "pope":
        with pytest.raises(ValueError, match="must add a bias to the scores, got pope"):
            one.bias(T)
        return
    if one.enters == "scores" and name not in ("swin-v2", "wavlm"):
        bias = one.bias(T, dtype=torch.float64)
        expected = scaled_dot_product_attention(q, k, v, causal(bias))
    elif one.enters == "queries and keys":
        bias = None
        expected = scaled_dot_product_attention(*one.rotate(q, k), v, is_causal=True)
    else:
        return
    out = one.attend(q, k, v, visibility="causal")
    # Parameters are float32 inside attention, so the bias differs by their rounding only.
    torch.testing.assert_close(out, expected, rtol=0, atol=3e-7)


@pytest.mark.parametrize("name", ["t5", "clipped", "kerple", "kerple-power", "dynamic",
                                  "dynamic-log", "fire", "swin", "beit", "layout", "graphormer"])
def test_gradient_of_the_bias_agrees_with_that_of_attention(name: str) -> None:
    one, (q, k, v) = module(name), qkv(torch.float32)
    weights = torch.randn(B, H, T, D)
    parameters = list(one.parameters())

    def gradients(out: torch.Tensor) -> list[torch.Tensor]:
        return list(torch.autograd.grad((out * weights).sum(), parameters))

    dense = scaled_dot_product_attention(q, k, v, causal(one.bias(T)))
    mine, fused = gradients(dense), gradients(one.attend(q, k, v, visibility="causal"))
    for name, a, b in zip(dict(one.named_parameters()), mine, fused, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("name", ["t5", "fire", "swin-v2", "kerple", "dynamic"])
def test_gradcheck_of_the_bias_in_double(name: str) -> None:
    one = PositionEncoding(name, width=8, heads=2, length=4, dtype=torch.float64,
                           **({"hidden": 3} if name in ("fire", "swin-v2", "dynamic") else {}))
    torch.manual_seed(3)
    if name == "kerple":
        with torch.no_grad():
            for p in one.parameters():
                p.uniform_(0.5, 1.5)
    if name == "fire":  # away from the discontinuity of the multiplier
        with torch.no_grad():
            one.L_multiplier.fill_(1.3)
    names = [n for n, _ in one.named_parameters()]

    def bias(*values: torch.Tensor) -> torch.Tensor:
        given = dict(zip(names, values, strict=True))
        return torch.func.functional_call(one, given, (4,), {"dtype": torch.float64})

    used = [p.detach().clone().requires_grad_() for p in one.parameters()]
    assert torch.autograd.gradcheck(bias, used)


def test_kerple_gradient_never_leaves_the_bounds() -> None:
    one = gnomon.torch.Kerple(heads=2, kernel="power")
    with torch.no_grad():
        one.bias_a.copy_(torch.tensor([-1.0, 0.5]).view(2, 1, 1))  # r1: below 0.01, inside
    (-one.bias(4).sum()).backward()  # a step lowers r1
    assert one.bias_a.grad[0] == 0 and one.bias_a.grad[1] > 0
    one.zero_grad()
    one.bias(4).sum().backward()
    assert one.bias_a.grad[0] < 0


def test_bias_of_positions() -> None:
    one = gnomon.torch.T5Bias(heads=2, direction="bidirectional")
    whole = one.bias(12)
    at = torch.tensor([3, 7, 11])
    assert torch.equal(one.bias(at), whole[:, at][:, :, at])
    assert torch.equal(one.bias(3, 12), whole[:, 9:])
    both = one.bias(torch.stack([at, at + 1]))
    assert both.shape == (2, 2, 3, 3) and torch.equal(both[0], both[1])


def test_rotation_of_positions() -> None:
    one = gnomon.torch.Rotary(rotary_dim=D, pairing="adjacent")
    q, k, _ = qkv()
    rotated = one.rotate(q, k)
    part = one.rotate(q[:, :, 5:], k[:, :, 5:], 5)
    for a, b in zip(rotated, part, strict=True):
        torch.testing.assert_close(a[:, :, 5:], b, rtol=0, atol=0)
    at = torch.arange(T).flip(0).expand(B, T)
    turned = one.rotate(q.flip(2), k.flip(2), at)
    for a, b in zip(rotated, turned, strict=True):
        torch.testing.assert_close(a, b.flip(2), rtol=0, atol=0)
    last, all_keys = one.rotate(q[:, :, -1:], k)
    torch.testing.assert_close(last, rotated[0][:, :, -1:], rtol=0, atol=0)
    torch.testing.assert_close(all_keys, rotated[1], rtol=0, atol=0)


def test_rotation_in_bfloat16_uses_the_exact_table() -> None:
    one = gnomon.torch.Rotary(rotary_dim=D, pairing="halves").bfloat16()
    q = torch.randn(1, 1, 1, D).bfloat16()
    rotated, _ = one.rotate(q, q, 100_003)
    angles = 100_003 * 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    a, b = q.double().chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    exact = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    assert torch.equal(rotated, exact.bfloat16())


def test_xpos_rotates_queries_and_keys_by_different_tables() -> None:
    one = gnomon.torch.XPos(rotary_dim=D, pairing="halves")
    q, k, _ = qkv()

    def scores(offset: int) -> torch.Tensor:
        rotated_q, rotated_k = one.rotate(q, k, offset)
        return rotated_q @ rotated_k.transpose(-1, -2)

    torch.testing.assert_close(scores(0), scores(7), rtol=0, atol=1e-5)
    same, other = one.rotate(q, q)
    assert not torch.allclose(same, other)


def test_several_position_axes() -> None:
    one = gnomon.torch.MRope(rotary_dim=D, pairing="halves", sections=(2, 3, 3),
                             order="sequential")
    plain = gnomon.torch.Rotary(rotary_dim=D, pairing="halves")
    q, k, _ = qkv()
    at = torch.arange(T).expand(B, T)
    for a, b in zip(one.rotate(q, k, (at, at, at)), plain.rotate(q, k), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
    other = one.rotate(q, k, (at, at + 3, at))[0]
    assert not torch.allclose(other, plain.rotate(q, k)[0])


def test_wavlm_gates_need_the_input() -> None:
    one, (q, k, v) = module("wavlm"), qkv()
    with pytest.raises(ValueError, match="hidden must be given"):
        one.attend(q, k, v, visibility="bidirectional")
    x = torch.randn(B, T, H * D, requires_grad=True)
    one.attend(q, k, v, visibility="bidirectional", hidden=x).sum().backward()
    assert x.grad.abs().sum() > 0 and one.gru_rel_pos_const.grad.abs().sum() > 0


def test_names_need_only_the_sizes_that_matter() -> None:
    assert PositionEncoding("fire", heads=8).mixture == (gnomon.Fire(heads=8),)
    assert PositionEncoding("t5", heads=8, buckets=16).mixture[0].buckets == 16
    assert PositionEncoding("sinusoidal", width=64).mixture[0].width == 64
    assert len(PositionEncoding("rotary+t5", width=64, heads=4, length=16).mixture) == 2
    cases = (("rotary", {"heads": 8}, "width"), ("swin", {"heads": 8}, "length"),
             ("learned", {"length": 8}, "width"), ("alibi", {}, "heads"))
    for name, sizes, missing in cases:
        with pytest.raises(ValueError, match=f"{missing} must be given for {name}"):
            PositionEncoding(name, **sizes)
    with pytest.raises(ValueError, match="fields must be among"):
        PositionEncoding("t5", heads=8, bucket=16)
    with pytest.raises(ValueError, match="got a spec and further arguments"):
        PositionEncoding(gnomon.Alibi(heads=8), heads=8)
    with pytest.raises(ValueError, match="each encoding must occur once"):
        PositionEncoding([gnomon.Alibi(heads=8), gnomon.Alibi(heads=4)])


def test_methods_refuse_other_encodings() -> None:
    q, k, _ = qkv()
    with pytest.raises(ValueError, match="must enter the queries and keys, got alibi"):
        module("alibi").rotate(q, k)
    with pytest.raises(ValueError, match="must enter the scores, got rotary"):
        module("rotary").bias(T)
    with pytest.raises(ValueError, match="must not depend on the queries"):
        module("transformer-xl").bias(T)
    with pytest.raises(ValueError, match="must enter the queries and keys"):
        module("t5").frequencies()


def test_a_trained_bias_without_a_formula_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoding is linear in its parameters, or gnomon.torch has its formula. No guess."""
    from gnomon.torch import _lowering

    for name in ("fire", "kerple", "dynamic", "swin-v2"):
        module = PositionEncoding(name, heads=2, width=16, length=16)
        module.bias(16)
        with monkeypatch.context() as patch:
            patch.setattr(_lowering, "_NETWORKS", {})
            with pytest.raises(ValueError, match=r"^\[bias\] the bias must be linear in its "
                               "parameters or have a formula in gnomon.torch, got "):
                module.bias(16)


def test_forward_is_the_natural_method() -> None:
    q, k, v = qkv()
    x = torch.randn(B, T, H * D)
    assert torch.equal(module("sinusoidal")(x), module("sinusoidal").embed(x))
    assert torch.equal(module("rotary")(q, k)[0], module("rotary").rotate(q, k)[0])
    assert torch.equal(module("t5")(T), module("t5").bias(T))
    shaw = module("shaw")
    assert torch.equal(shaw(q, k, v, visibility="causal"), shaw.attend(q, k, v,
                                                                     visibility="causal"))


def test_frequencies_are_those_of_the_spec() -> None:
    one = module("rotary-scaled").bfloat16()
    expected = gnomon.rotary_frequencies(one.mixture[0], 64)
    assert one.frequencies(64) == expected


def test_initial_distribution() -> None:
    torch.manual_seed(0)
    one = gnomon.torch.Learned(rows=200, width=100)
    assert abs(one.weight.std().item() / 0.02 - 1) < 0.02
    swin = gnomon.torch.SwinV2Bias(heads=3, height=2, width=2)
    assert torch.equal(swin.logit_scale, torch.full((3, 1, 1), math.log(10.0)))


@pytest.mark.parametrize("name", NAMES)
def test_pickle_and_deepcopy(name: str) -> None:
    one, (q, k, v) = module(name), qkv()
    x = torch.randn(B, T, H * D)
    out = one.attend(q, k, v, visibility="causal", hidden=x)
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert other.mixture == one.mixture
        assert torch.equal(other.attend(q, k, v, visibility="causal", hidden=x), out)


def test_no_module_has_a_buffer() -> None:
    for name in NAMES:
        one = module(name)
        assert not list(one.buffers())
        expected = sum(p.rows * p.columns for p in one.mixture[0].parameters())
        assert sum(p.numel() for p in one.parameters()) == expected


def test_named_modules() -> None:
    one = gnomon.torch.SwinBias(heads=2, height=3, width=3)
    assert one.spec == gnomon.Swin(heads=2, height=3, width=3)
    assert "height=3" in repr(one)
    names = list(inspect.signature(gnomon.torch.T5Bias).parameters)
    assert names == ["heads", "direction", "buckets", "max_distance", "device", "dtype"]
    kinds = {getattr(gnomon.torch, n).spec_type.kind for n in gnomon.torch.__all__
             if hasattr(getattr(gnomon.torch, n), "spec_type")}
    assert kinds == set(gnomon.specs.KINDS) - {"none"}


def test_scheme_shares_parameters_as_the_encodings_do() -> None:
    sizes = {"width": H * D, "heads": H, "length": T}
    scheme = PositionScheme("learned+t5/swin+learned", layers=4, **sizes)
    assert scheme.layer(0) is scheme.layer(2) and scheme.layer(1) is not scheme.layer(3)
    assert list(scheme.state_dict()) == [
        "table.weight", "layer0.relative_attention_bias.weight",
        "layer1.relative_position_bias_table", "layer3.relative_position_bias_table"]
    rotary = PositionScheme("rotary*3/none", layers=8, **sizes)
    assert [name for name, _ in rotary.named_children()] == ["table", "layer0", "layer3"]
    q, k, v = qkv()
    assert torch.equal(rotary.attend(3, q, k, v, visibility="causal"),
                       gnomon.torch.attention(q, k, v))
    assert torch.equal(rotary.attend(4, q, k, v, visibility="causal"),
                       rotary.layer(0).attend(q, k, v, visibility="causal"))
    given = PositionScheme([gnomon.Alibi(heads=H), None])
    assert torch.equal(given.bias(0, T), given.layer(0).bias(T))
    with pytest.raises(ValueError, match="layer must be 0 to 1"):
        given.layer(2)
    with pytest.raises(ValueError, match="layers must be given for a text"):
        PositionScheme("rotary", **sizes)
    with pytest.raises(ValueError, match="all layers must have"):
        PositionScheme([gnomon.Learned(rows=8, width=4), gnomon.Learned(rows=9, width=4)])


def test_a_model_compiles() -> None:
    model = tiny.Model()
    tiny.reset(model)
    ids = torch.randint(tiny.WORDS, (2, tiny.LENGTH))
    expected, loss = model(ids), tiny.loss_of(model, ids)
    wanted = torch.autograd.grad(loss, list(model.parameters()))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(ids), expected, rtol=0, atol=1e-6)
    found = torch.autograd.grad(tiny.loss_of(compiled, ids), list(model.parameters()))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
