"""Every function of gnomon.torch in every condition: right, or refused by a sentence.

The table of docs/python/torch.md is that of this file.
"""

from __future__ import annotations

import pathlib

import pytest
import torch
from conditions import AT, FREQUENCIES, FUNCTIONS, TOKENS
from formulas import tolerance

import gnomon.torch as gt
from gnomon.torch import _kernels

PAGE = pathlib.Path(__file__).parents[3] / "docs/python/torch.md"

TYPE = "must have elements of f32, f16, bf16 or f64|scales of key_cache must be given"
SHAPE = r"positions must be \[[TS]\] or \[B, [TS]\] with [TS] = 5.* got \["
INTEGERS = "must be integers .*gnomon.torch.rotate takes"
TRANSFORM = "must not be inside a transform of torch.func"
FORWARD = "gradients must be in reverse mode"
APPEND, FLEX = "rotate_append", "flex.attend"
ATTENTION = "attention", "PositionEncoding.attend"
TABLES = "add_position", "PositionEncoding.embed"
TRAINED = "rotate_by_frequencies", "LearnedRotary.rotate"


def refusals(sentence, *names):
    return dict.fromkeys(names, sentence)


# The conditions, with the sentences of the functions that refuse them.
CONDITIONS = {
    "gradient": {APPEND: "must not require a gradient, since a cache", FLEX: "on the CPU, where"},
    "surplus positions": refusals(SHAPE, *FUNCTIONS),
    "missing positions": refusals(SHAPE, *FUNCTIONS),
    "fractional positions": refusals(INTEGERS, *ATTENTION, APPEND, FLEX),
    "positions on meta": refusals("must have values|must be on the device of k", *FUNCTIONS),
    "layout tokens_heads": {},
    "unknown layout": refusals("layout must be one of tokens_heads, heads_tokens", *FUNCTIONS),
    "float64": {}, "float16": {}, "bfloat16": {},
    "int64": refusals(TYPE, *FUNCTIONS), "bool": refusals(TYPE, *FUNCTIONS),
    "complex64": refusals(TYPE, *FUNCTIONS), "float8_e4m3fn": refusals(TYPE, *FUNCTIONS),
    "meta": {FLEX: "must have values", **refusals("must be on the device of x", *TRAINED)},
    "any strides": {},
    "autocast": {},
    "torch.compile": {},
    "vmap": refusals(TRANSFORM, APPEND, FLEX),
    "jvp": {**refusals(FORWARD, *ATTENTION, *TABLES), **refusals(TRANSFORM, APPEND, FLEX)},
    "two axes": refusals("must have (4|2 or 3|3 to 4) axes", *FUNCTIONS),
}


def applies(name, condition):
    function = FUNCTIONS[name]
    if "positions" in condition:
        return function.positions
    return function.layout if "layout" in condition else True


CASES = [(name, condition) for name in FUNCTIONS for condition in CONDITIONS
         if applies(name, condition)]


def check(name, out, x, dtype=torch.float32):
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), FUNCTIONS[name].exact(x), atol=8 * tolerance(dtype),
                               rtol=0)


def run(name, condition):
    """Calls the function in the condition and compares the result with the oracle."""
    call, exact, shape = FUNCTIONS[name][:3]
    torch.manual_seed(0)
    x = torch.randn(shape)
    if condition == "gradient":
        x, y = x.requires_grad_(), x.double().requires_grad_()
        out, want = call(x), exact(y)
        factors = torch.randn_like(want)
        got, = torch.autograd.grad((out * factors).sum(), x)
        torch.testing.assert_close(got.double(), torch.autograd.grad((want * factors).sum(), y)[0],
                                   atol=1e-5, rtol=1e-5)
    elif "positions" in condition:
        at = {"surplus": torch.arange(9), "missing": torch.arange(3), "fractional": AT.double(),
              "positions": AT.to("meta")}[condition.split()[0]]
        check(name, call(x, at), x)
    elif condition == "layout tokens_heads":
        check(name, call(x.transpose(1, 2), layout="tokens_heads").transpose(1, 2), x)
    elif condition == "unknown layout":
        call(x, layout="bhtd")
    elif isinstance(dtype := getattr(torch, condition, None), torch.dtype):
        check(name, call(x.to(dtype)), x.to(dtype), dtype)
    elif condition == "vmap":
        both = torch.stack((x, 2 * x))
        for out, one in zip(torch.vmap(call)(both), both):
            check(name, out, one)
    elif condition == "meta":
        out = call(x.to("meta"))
        assert out.is_meta and out.shape == exact(x).shape
    elif condition == "any strides":
        check(name, call(torch.stack((x, x), -1)[..., 0]), x)
        one = x[:1].expand(x.shape)
        check(name, call(one), one)
    elif condition == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            out = call(x)
        check(name, out, x, torch.bfloat16 if name in (*ATTENTION, FLEX) else torch.float32)
    elif condition == "torch.compile":
        torch._dynamo.reset()
        whole = name != FLEX  # breaks the graph
        check(name, torch.compile(call, fullgraph=whole, backend="aot_eager")(x), x)
    elif condition == "jvp":
        tangent = torch.randn_like(x)
        got = torch.func.jvp(call, (x,), (tangent,))[1]
        want = torch.func.jvp(exact, (x.double(),), (tangent.double(),))[1]
        torch.testing.assert_close(got.double(), want, atol=1e-5, rtol=1e-5)
    else:
        assert condition == "two axes"
        call(x[0, 0] if x.dim() == 4 else x[0, :, 0])


@pytest.mark.filterwarnings("ignore::UserWarning")  # flex_attention is not compiled
@pytest.mark.parametrize("name, condition", CASES)
def test_right_or_refused(name, condition):
    sentence = CONDITIONS[condition].get(name)
    if sentence is None:
        run(name, condition)
    else:
        with pytest.raises(ValueError, match=sentence):
            run(name, condition)


def test_the_page_has_the_table():
    lines = ["| condition | " + " | ".join(f"`{name}`" for name in FUNCTIONS) + " |",
             "|---|" + "---|" * len(FUNCTIONS)]
    for condition, refused in CONDITIONS.items():
        cells = ["" if not applies(name, condition) else "refused" if name in refused else "right"
                 for name in FUNCTIONS]
        lines.append("| " + " | ".join([condition, *cells]) + " |")
    table = "\n".join(lines) + "\n"
    assert table in PAGE.read_text(encoding="utf-8"), "docs/python/torch.md must have:\n" + table


def test_tensors_without_values_beside_others_are_refused():
    x, meta = torch.randn(2, 4, TOKENS, 8), torch.empty(8, 4, device="meta")
    with pytest.raises(ValueError, match="q, k and v must be on one device, got cpu, meta, cpu"):
        gt.attention(x, x.to("meta"), x)
    with pytest.raises(ValueError, match="all tensors must be on the device of the first, cpu"):
        gt.attention(x, x, x, sinks=torch.empty(4, device="meta"))
    with pytest.raises(ValueError, match="all tensors must be on the device of the first, cpu"):
        gt.add_position(x[0], gt.Learned(rows=8, width=8).spec, [meta.new_empty(8, 8)])
    with pytest.raises(ValueError, match="frequencies must be on the device of x, cpu, got meta"):
        gt.rotate_by_frequencies(x, FREQUENCIES.to("meta"), pairing="halves")


def test_attention_on_another_device_names_flex():
    arguments = _kernels.AttentionArguments(None, None, None, None, "[]", True, "causal", None,
                                            None, None, None, 0)
    x = torch.empty(1, 2, TOKENS, 8, device="meta")  # in place of a GPU
    with pytest.raises(ValueError, match="must be on the CPU .on a GPU use gnomon.torch.flex."):
        arguments.plan(x, x, [], None)


def test_positions_of_a_batch_are_not_those_of_a_row():
    """[B T] positions were taken as [B, T]."""
    with pytest.raises(ValueError, match=r"positions must be .* T = 5, got \[10\] for x"):
        gt.add_position(torch.randn(2, 5, 8), gt.Sinusoidal(width=8, recipe="interleaved").spec,
                        positions=torch.arange(10))
