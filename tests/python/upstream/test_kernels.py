"""The layout bindings/python/kernels, loaded by the package `kernels` of Hugging Face."""

from __future__ import annotations

import functools
import pathlib
import subprocess
import sys

import pytest
import torch
from kernels import (
    LocalLayerRepository,
    Mode,
    get_local_kernel,
    kernelize,
    use_kernel_forward_from_hub,
    use_kernel_mapping,
    use_kernelized_func,
)
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import gnomon
import gnomon.torch

FOLDER = pathlib.Path(__file__).parents[3] / "bindings" / "python" / "kernels"
B, H, HK, T, D = 2, 4, 2, 12, 16
close = functools.partial(torch.testing.assert_close, rtol=0, atol=1e-12)


def mapping(**layers: str) -> dict:
    return {name: {"cpu": LocalLayerRepository(FOLDER, layer_name=layer)}
            for name, layer in layers.items()}


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x: [B, H, T, D]; cos, sin: [B, T, D]. The pair of element i is i + D/2."""
    half = x.shape[-1] // 2
    other = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos[:, None] + other * sin[:, None]


def inputs() -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    q, k, v = (torch.randn(B, heads, T, D, dtype=torch.float64) for heads in (H, HK, HK))
    angles = torch.rand(B, T, D // 2, dtype=torch.float64).repeat(1, 1, 2)
    return q, k, v, angles.cos(), angles.sin()


def test_functions() -> None:
    kernel = get_local_kernel(FOLDER)
    q, k, v, cos, sin = inputs()
    q2, k2 = kernel.apply_rotary_pos_emb(q, k, cos, sin)
    close(q2, turned(q, cos, sin))
    close(k2, turned(k, cos, sin))
    out = kernel.attention(q2, k2, v)
    close(
        out, scaled_dot_product_attention(q2, k2, v, is_causal=True, enable_gqa=True))
    flash = kernel.apply_rotary_emb(q[:1].transpose(1, 2), cos[0, :, :D // 2], sin[0, :, :D // 2])
    close(flash.transpose(1, 2), turned(q[:1], cos[:1], sin[:1]))


def by_operators(q: Tensor, k: Tensor, v: Tensor, causal: bool, window: tuple[int, int],
                 cap: float, sinks: Tensor | None) -> Tensor:
    """Attention of q [T, H, D] and k, v [S, Hk, D] with the rules of flash-attn."""
    queries, keys = len(q), len(k)
    k, v = (one.repeat_interleave(H // HK, 1) for one in (k, v))
    scores = torch.einsum("thd,shd->hts", q, k) / D ** 0.5
    scores = cap * torch.tanh(scores / cap) if cap else scores
    ahead = torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]
    left, right = window
    hidden = (ahead > (0 if causal else right if right >= 0 else keys)) | (
        ahead < (-left if left >= 0 else -keys))
    scores = scores.masked_fill(hidden, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(H, queries, 1)], -1)
    return torch.einsum("hts,shd->thd", scores.softmax(-1)[..., :keys], v)


@pytest.mark.parametrize("causal, window, cap, sinks", [
    (True, (-1, -1), 0.0, False), (False, (-1, -1), 0.0, False), (True, (3, 3), 0.0, True),
    (False, (2, 4), 5.0, False)])
def test_the_functions_of_flash_attn(causal: bool, window: tuple[int, int], cap: float,
                                     sinks: bool) -> None:
    kernel = get_local_kernel(FOLDER)
    torch.manual_seed(1)
    lengths, past = [5, 1, 9], [0, 6, 2]  # queries, and the keys before them
    q = torch.randn(sum(lengths), H, D, dtype=torch.float64)
    k, v = torch.randn(2, sum(lengths) + sum(past), HK, D, dtype=torch.float64).unbind()
    ends_q = torch.tensor([0, *lengths]).cumsum(0).int()
    ends_k = (ends_q + torch.tensor([0, *past]).cumsum(0)).int()
    scores = torch.randn(H, dtype=torch.float64) if sinks else None
    options = {"causal": causal, "window_size": window, "softcap": cap, "s_aux": scores}
    out = kernel.flash_attn_varlen_func(q, k, v, ends_q, ends_k, 9, 11, **options)
    for a, b, c, d in zip(ends_q, ends_q[1:], ends_k, ends_k[1:], strict=False):
        want = by_operators(q[a:b], k[c:d], v[c:d], causal, window, cap, scores)
        close(out[a:b], want)
        one = kernel.flash_attn_func(q[None, a:b], k[None, c:d], v[None, c:d], **options)
        close(one[0], want)


@pytest.mark.parametrize("option", [{"alibi_slopes": torch.ones(H)},
                                    {"return_attn_probs": True}])
def test_flash_attn_options_that_are_refused(option: dict) -> None:
    q = torch.zeros(1, 3, H, D)
    with pytest.raises(ValueError, match=rf"\[kernels\] {next(iter(option))} must have its default"):
        get_local_kernel(FOLDER).flash_attn_func(q, q, q, **option)


@use_kernel_forward_from_hub("rotary_pos_emb")
def apply_rotary(q, k, cos, sin, unsqueeze_dim=1):
    return turned(q, cos, sin), turned(k, cos, sin)


@use_kernel_forward_from_hub("Attention")
class Attention(nn.Module):
    def forward(self, q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


@use_kernelized_func(apply_rotary)
class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(D, dtype=torch.float64))
        self.attention = Attention()

    def forward(self, q, k, v, cos, sin):
        return self.attention(*apply_rotary(q * self.scale, k, cos, sin), v)


@pytest.mark.parametrize("mode", [Mode.INFERENCE, Mode.TRAINING,
                                  Mode.TRAINING | Mode.TORCH_COMPILE])
def test_layers_replace_those_of_a_model(mode: Mode) -> None:
    model, arguments = Model(), inputs()
    expected = model(*arguments)
    expected.square().sum().backward()
    gradient = model.scale.grad.clone()
    model.zero_grad()
    with use_kernel_mapping(mapping(rotary_pos_emb="apply_rotary_transformers",
                                    Attention="CausalAttention"), inherit_mapping=False):
        kernelize(model, mode=mode, device="cpu", use_fallback=False)
    modules = [one.forward.__func__.__module__ for one in (apply_rotary, model.attention)]
    assert modules == ["gnomon_torch_universal.layers"] * 2
    found = model(*arguments)
    close(found, expected)
    found.square().sum().backward()
    close(model.scale.grad, gradient)
    with use_kernel_mapping({}, inherit_mapping=False):
        kernelize(model, mode=mode, device="cpu")
    assert apply_rotary.forward.__func__.__module__ != modules[0]  # it is shared by the tests


def test_an_encoding_of_the_replaced_layer() -> None:
    model, (q, k, v, *_) = Model(), inputs()
    model.attention.encoding = gnomon.Alibi(heads=H)
    with use_kernel_mapping(mapping(Attention="CausalAttention"), inherit_mapping=False):
        kernelize(model, mode=Mode.INFERENCE, device="cpu")
    distance = torch.arange(T)[:, None] - torch.arange(T)
    bias = -2.0 ** -torch.arange(2, 2 * H + 1, 2).double().view(H, 1, 1) * distance
    bias = bias.masked_fill(distance < 0, -torch.inf)
    close(
        model.attention(q, k, v), scaled_dot_product_attention(q, k, v, bias, enable_gqa=True))


# transformers reads the version of `kernels` when it is imported, so it has a process of its own.
TRANSFORMERS = """
import os, sys
os.environ["LOCAL_KERNELS"] = "gnomon/flash-attn=" + sys.argv[1]
os.environ["HF_HUB_OFFLINE"] = "1"
import kernels, torch
from transformers.utils import import_utils
# transformers 5.23 asks for kernels 0.18.2 or later; it uses nothing that 0.17.2 does not have.
if not import_utils.is_kernels_available():
    assert kernels.__version__ == "0.17.2"
    import_utils.is_kernels_available.__wrapped__.__defaults__ = "0.17.2", "0.19"
    import_utils.is_kernels_available.cache_clear()
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from transformers.models.llama import modeling_llama

torch.manual_seed(0)
sizes = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
             intermediate_size=96, vocab_size=97)
tokens = torch.randint(5, 97, (2, 24))
padding = torch.ones_like(tokens)
padding[0, :7] = 0
packed = torch.cat([torch.arange(10), torch.arange(14)])[None]
models = [LlamaForCausalLM(LlamaConfig(**sizes)).eval(),
          MistralForCausalLM(MistralConfig(**sizes, sliding_window=6)).eval()]
calls = [dict(input_ids=tokens), dict(input_ids=tokens, attention_mask=padding),
         dict(input_ids=tokens[:1], position_ids=packed, use_cache=False)]
options = dict(max_new_tokens=6, do_sample=False, pad_token_id=0)

def results(model, arguments):
    out = model(**arguments, labels=arguments["input_ids"])
    mask = arguments.get("attention_mask", torch.ones_like(arguments["input_ids"])).bool()
    grads = torch.autograd.grad(model(**arguments).logits[mask].square().mean(),
                                list(model.parameters()))
    return [out.logits[mask], *grads]

def generated(model):
    return [model.generate(tokens, attention_mask=mask, **options) for mask in (None, padding)]

before = [[results(model, one) for one in calls] for model in models]
texts = [generated(model) for model in models]
layer = kernels.LocalLayerRepository(__import__("pathlib").Path(sys.argv[1]),
                                     layer_name="apply_rotary_transformers")
with kernels.use_kernel_mapping({"rotary_pos_emb": {"cpu": layer}}, inherit_mapping=False):
    for model in models:
        model.set_use_kernels(True)
        model.set_attn_implementation("gnomon/flash-attn")
assert modeling_llama.apply_rotary_pos_emb.forward.__func__.__module__.startswith("gnomon_torch")
largest = 0
for model, wanted, text in zip(models, before, texts):
    assert model.config._attn_implementation == "gnomon/flash-attn"
    for arguments, want in zip(calls, wanted):
        for a, b in zip(results(model, arguments), want, strict=True):
            assert (a - b).abs().max() < 1e-5 * max(1, b.abs().max()), (model, arguments)
    for a, b in zip(generated(model), text):
        assert torch.equal(a, b)
    static = model.generate(tokens, cache_implementation="static", **options)
    assert torch.equal(static, text[0])
print("equal")
"""


def test_models_of_transformers() -> None:
    """Logits, gradients and generated tokens: padding, packing, sliding window, static cache."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", TRANSFORMERS, str(FOLDER)],
                          capture_output=True, encoding="utf-8", check=False)
    assert done.stdout.strip().endswith("equal"), done.stderr[-3000:]
