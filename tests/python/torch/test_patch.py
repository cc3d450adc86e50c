"""gnomon.torch.patch against the attention of transformers."""

from __future__ import annotations

import copy
import re
import sys
import warnings
from typing import Any

import pytest
import torch
from patch_models import DECODERS, MODELS, TOLERANCE, inputs, logits, make, pair, same, tokens

import gnomon.torch


@pytest.fixture(autouse=True)
def no_warnings() -> Any:
    """A warning means that transformers computed the attention."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=r".*\[patch\]")
        yield


@pytest.mark.parametrize("family", MODELS)
def test_logits(family: str) -> None:
    eager, patched = pair(family)
    arguments = inputs(family, tokens(2, 23))
    same(logits(patched, arguments), logits(eager, arguments))


@pytest.mark.parametrize("family", ["bloom", "t5"])
def test_logits_in_double(family: str) -> None:
    eager = make(family).double()
    patched = copy.deepcopy(eager)
    gnomon.torch.patch(patched)
    arguments = inputs(family, tokens(2, 40))
    # transformers computes ALiBi's slopes in float32.
    same(logits(patched, arguments), logits(eager, arguments), 1e-6 if family == "bloom" else 1e-12)


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("side", ["left", "right", "middle"])
def test_padding(family: str, side: str) -> None:
    eager, patched = pair(family)
    mask = torch.ones(3, 19, dtype=torch.long)
    for row, padding in enumerate((0, 5, 11)):
        begin = dict(left=0, right=19 - padding, middle=4)[side]
        mask[row, begin:begin + padding] = 0
    arguments = inputs(family, tokens(3, 19), mask)
    got, want = logits(patched, arguments), logits(eager, arguments)
    assert got.isfinite().all()
    same(got, want)  # also at padding tokens


@pytest.mark.parametrize("family", DECODERS)
def test_cache(family: str) -> None:
    eager, patched = pair(family)
    ids = tokens(2, 24)
    want = logits(eager, {"input_ids": ids})
    parts, past = [], None
    for begin, end in ((0, 11), (11, 12), (12, 17), (17, 18), (18, 19), (19, 24)):
        with torch.no_grad():
            out = patched(ids[:, begin:end], past_key_values=past, use_cache=True)
        parts.append(out.logits.double())
        past = out.past_key_values
    same(torch.cat(parts, 1), want)


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("padded", [False, True])
def test_generate(family: str, padded: bool) -> None:
    eager, patched = pair(family)
    ids = tokens(2, 13)
    mask = torch.ones_like(ids)
    if padded:
        mask[1, :6] = ids[1, :6] = 0
    options = dict(attention_mask=mask, max_new_tokens=12, do_sample=False)
    assert torch.equal(patched.generate(ids, **options), eager.generate(ids, **options))


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gemma3_text", "gpt_neox", "t5"])
def test_generate_static_cache(family: str) -> None:
    eager, patched = pair(family)
    ids = tokens(2, 5)
    options = dict(max_new_tokens=12, do_sample=False, cache_implementation="static",
                   disable_compile=True)
    assert torch.equal(patched.generate(ids, **options), eager.generate(ids, **options))


def test_generate_beams() -> None:
    eager, patched = pair("llama")
    options = dict(max_new_tokens=8, do_sample=False, num_beams=3)
    ids = tokens(2, 9)
    assert torch.equal(patched.generate(ids, **options), eager.generate(ids, **options))


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3_text", "phi", "gpt_neox"])
def test_packed_positions(family: str) -> None:
    eager, patched = pair(family)
    lengths = (9, 3, 12)
    ids = tokens(1, sum(lengths))
    positions = torch.cat([torch.arange(one) for one in lengths])[None]
    # With a cache, transformers does not look for packed sequences.
    arguments = {"input_ids": ids, "position_ids": positions, "use_cache": False}
    got = logits(patched, arguments)
    same(got, logits(eager, arguments))
    alone = [logits(eager, {"input_ids": one}) for one in ids.split(lengths, 1)]
    same(got, torch.cat(alone, 1))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("family", MODELS)
def test_training_step(family: str, implementation: str) -> None:
    """With left padding, the last padding token predicts the first token."""
    if implementation == "sdpa" and family in ("bloom", "gemma2"):
        implementation = "eager"  # transformers has no sdpa attention for them
    unpatched = make(family, implementation)
    patched = copy.deepcopy(unpatched)
    gnomon.torch.patch(patched)
    ids = tokens(2, 17)
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    losses, grads = [], []
    for model in (unpatched, patched):
        losses.append(model(**inputs(family, ids, mask), labels=ids.flip(1).repeat(
            1, 2 if family == "t5" else 1)).loss)
        losses[-1].backward()
        grads.append({name: one.grad for name, one in model.named_parameters()})
    same(losses[1], losses[0], 1e-6)
    largest = max(float(one.abs().max()) for one in grads[0].values() if one is not None)
    for name, want in grads[0].items():
        if want is None:
            assert grads[1][name] is None
            continue
        assert float((grads[1][name] - want).abs().max()) <= 2e-5 * largest, name
    if family == "t5":
        for stack in ("encoder", "decoder"):
            name = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            same(grads[1][name], grads[0][name], 1e-4)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_training_step_with_padded_decoder(implementation: str) -> None:
    """T5's table has gradients from queries that see no key, in the eager attention."""
    unpatched = make("t5", implementation)
    patched = copy.deepcopy(unpatched)
    gnomon.torch.patch(patched)
    ids = tokens(2, 9)
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    grads = []
    for model in (unpatched, patched):
        with warnings.catch_warnings():
            if implementation == "eager" and model is patched:
                warnings.filterwarnings("ignore", message=".*queries that see no key")
            model(ids, decoder_attention_mask=mask, labels=ids).loss.backward()
        name = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        grads.append((model.get_parameter(name).grad, model.shared.weight.grad))
    for got, want in zip(grads[1], grads[0]):
        same(got, want)


def test_gradient_checkpointing() -> None:
    eager, patched = pair("t5")
    arguments = inputs("t5", tokens(2, 9)) | {"use_cache": False}
    grads = []
    for model in (eager, patched):
        model.train()
        model.activation_checkpointing_enable({"use_reentrant": False})
        model(**arguments).logits.square().mean().backward()
        name = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        grads.append(model.get_parameter(name).grad)
    same(grads[1], grads[0], 1e-4)


@pytest.mark.parametrize("family", MODELS)
def test_bfloat16(family: str) -> None:
    exact, patched = pair(family)
    patched.bfloat16()
    eager = copy.deepcopy(exact).bfloat16()
    arguments = inputs(family, tokens(2, 23))
    want = logits(exact, arguments)
    error = float((logits(patched, arguments) - want).abs().mean())
    # The patched model is as near to float32 as the eager model is.
    assert error <= 1.1 * float((logits(eager, arguments) - want).abs().mean())


@pytest.mark.parametrize("family", MODELS)
def test_unpatch(family: str) -> None:
    model = make(family)
    other = copy.deepcopy(model)
    file = sys.modules[type(model).__module__]
    function = getattr(file, "apply_rotary_pos_emb", None)
    arguments = inputs(family, tokens(2, 23))
    before = logits(model, arguments)
    keys = list(model.state_dict())
    gnomon.torch.patch(model)
    assert list(model.state_dict()) == keys
    assert not torch.equal(logits(model, arguments), before)
    assert torch.equal(logits(other, arguments), before)  # another model of the same class
    gnomon.torch.patch(other)
    gnomon.torch.unpatch(model)
    assert torch.equal(logits(model, arguments), before)
    gnomon.torch.unpatch(other)
    assert getattr(file, "apply_rotary_pos_emb", None) is function
    assert model.config._attn_implementation == "eager"
    assert not [one for one in model.modules() if "Gnomon" in type(one).__name__]


@pytest.mark.parametrize("family", MODELS)
def test_report(family: str) -> None:
    model = make(family)
    report = gnomon.torch.patch(model, check=True, tokens=40)
    assert report.family == model.config.model_type and report.tokens == 40
    assert 0 < report.difference and report.relative < TOLERANCE
    assert f"{report.difference:.2e}" in str(report)
    names = dict(t5="SelfAttention", bloom="self_attention", gpt_neox="attention")
    text = "\n".join(report.replaced)
    assert ("rotary_emb: " in text) == (family not in ("bloom", "t5"))
    assert re.search(names.get(family, "self_attn") + r" \(3\): attention: eager -> gnomon_eager",
                     text)
    assert not report.left


SCALINGS = {
    "linear": dict(factor=4.0),
    "dynamic": dict(factor=2.0),
    "yarn": dict(factor=4.0, original_max_position_embeddings=16),
    "llama3": dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=16),
    "longrope": dict(short_factor=[1.0 + i / 16 for i in range(8)],
                     long_factor=[2.0 + i for i in range(8)],
                     original_max_position_embeddings=16),
}


def scaled(scaling: str, **changes: Any) -> tuple[Any, Any]:
    """Returns models whose original length is 16 of 32."""
    rope = dict(rope_type=scaling, rope_theta=10000.0) | SCALINGS[scaling]
    if scaling == "longrope":  # Phi-3 takes the original length from the config
        return pair("phi3", max_position_embeddings=32, original_max_position_embeddings=16,
                    sliding_window=None, rope_parameters=rope)
    return pair("llama", max_position_embeddings=32, rope_parameters=rope)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_scalings(scaling: str) -> None:
    eager, patched = scaled(scaling)
    # Dynamic NTK has a state: the longest length, until a sequence fits the trained length.
    for length in (12, 48, 40, 60, 33, 12, 16, 17, 36):
        arguments = {"input_ids": tokens(1, length)}
        same(logits(patched, arguments), logits(eager, arguments))


def test_long_and_short_factors() -> None:
    """LongRoPE changes its factors after the original length, 16 tokens."""
    eager, patched = scaled("longrope")
    frequencies = []
    for length in (16, 17):
        logits(eager, {"input_ids": tokens(1, length)})
        frequencies.append(eager.model.rotary_emb.inv_freq.clone())
        cos, _ = patched.model.rotary_emb(torch.zeros(1), torch.arange(length)[None])
        want = frequencies[-1].cos() * eager.model.rotary_emb.attention_scaling
        assert torch.allclose(cos[0, 1, :8], want, rtol=0, atol=1e-6)
    assert not torch.allclose(*frequencies)
    for start in (10, 15, 16, 20):  # transformers drops the cache at the original length
        options = dict(max_new_tokens=12, do_sample=False)
        ids = tokens(2, start)
        assert torch.equal(patched.generate(ids, **options), eager.generate(ids, **options))


def test_no_dense_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """T5 runs without its bias [H, T, S], and no mask becomes a tensor [T, S]."""
    from gnomon.torch._transformers.masks import Mask
    from transformers.models.t5.modeling_t5 import T5Attention

    def fails(*_: Any, **__: Any) -> None:
        raise AssertionError("dense")

    models = {family: pair(family)[1] for family in ("t5", "bloom", "mistral")}
    monkeypatch.setattr(T5Attention, "compute_bias", fails)
    monkeypatch.setattr(Mask, "dense", fails)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *a, **b: fails() if len(a) and len(
        a[0] if isinstance(a[0], tuple) else a) == 4 else zeros(*a, **b))
    for family, model in models.items():
        logits(model, inputs(family, tokens(2, 15)))


def test_fallbacks_warn() -> None:
    for family in ("llama", "gemma2", "bloom", "t5"):
        eager, patched = pair(family)
        arguments = inputs(family, tokens(2, 11)) | {"output_attentions": True}
        with pytest.warns(UserWarning, match="output_attentions"), torch.no_grad():
            got = patched(**arguments)
        want = eager(**arguments)
        same(got.logits, want.logits)
        name = "decoder_attentions" if family == "t5" else "attentions"
        same(got[name][1], want[name][1])


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_neox"])
def test_dense_mask_warns(family: str) -> None:
    eager, patched = pair(family)
    mask = torch.ones(1, 1, 9, 9, dtype=torch.bool).tril()
    mask[..., 3:, 2] = False
    added = torch.zeros(mask.shape).masked_fill_(~mask, torch.finfo(torch.float32).min)
    ids = tokens(1, 9)
    want = logits(eager, {"input_ids": ids, "attention_mask": added})
    for one in (mask, added):
        with pytest.warns(UserWarning, match="dense"):
            same(logits(patched, {"input_ids": ids, "attention_mask": one}), want)


def test_dropout_warns() -> None:
    for family, changes in (("llama", dict(attention_dropout=0.5)),
                            ("bloom", dict(attention_dropout=0.5)), ("t5", dict(dropout_rate=0.5))):
        eager, patched = pair(family, **changes)
        arguments = inputs(family, tokens(2, 11))
        same(logits(patched, arguments), logits(eager, arguments))
        results = []
        for model in (eager, patched):
            torch.manual_seed(0)
            model.train()
            if model is eager:
                results.append(model(**arguments).logits)
            else:
                with pytest.warns(UserWarning, match="dropout"):
                    results.append(model(**arguments).logits)
        same(results[1], results[0])
