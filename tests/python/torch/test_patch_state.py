"""gnomon.torch.patch: copies, compilation, refusals, and the implementation without it."""

from __future__ import annotations

import copy
import io
import pickle
import sys
import warnings
from typing import Any

import pytest
import torch
import transformers
from patch_models import LLAMA, inputs, logits, make, pair, same, tokens

import gnomon.torch


@pytest.fixture(autouse=True)
def no_warnings() -> Any:
    """A warning means that transformers computed the attention."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=r".*\[patch\]")
        yield


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "bloom", "t5"])
def test_copy_of_a_patched_model(family: str) -> None:
    eager, patched = pair(family)
    arguments = inputs(family, tokens(2, 9))
    twin = copy.deepcopy(patched)
    before = logits(patched, arguments)
    with torch.no_grad():
        for model in (twin, eager):
            for name, one in model.named_parameters():
                if "relative_attention_bias" in name or "embed" in name:
                    one.mul_(1.5)
    same(logits(twin, arguments), logits(eager, arguments))
    assert torch.equal(logits(patched, arguments), before)
    gnomon.torch.unpatch(patched)
    same(logits(twin, arguments), logits(eager, arguments))
    gnomon.torch.unpatch(twin)
    assert torch.equal(logits(twin, arguments), logits(eager, arguments))


@pytest.mark.parametrize("family", ["llama", "qwen3", "bloom", "t5"])
def test_autocast(family: str) -> None:
    eager, patched = pair(family)
    arguments = inputs(family, tokens(2, 9))
    want = logits(eager, arguments)
    with torch.autocast("cpu", torch.bfloat16):
        error = float((logits(patched, arguments) - want).abs().mean())
        usual = float((logits(eager, arguments) - want).abs().mean())
    assert error <= 1.2 * usual
    with torch.autocast("cpu", torch.bfloat16):
        patched(**arguments).logits.float().square().mean().backward()


@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma3_text", "gpt_neox", "bloom", "t5"])
def test_compile(family: str) -> None:
    """Without graph breaks; rows of padding and gradients are those of the eager mode."""
    eager, patched = pair(family)
    torch.compiler.reset()
    compiled = torch.compile(patched, backend="aot_eager", fullgraph=True)
    mask = torch.ones(2, 23, dtype=torch.long)
    mask[1, :6] = 0
    arguments = inputs(family, tokens(2, 23), mask)
    grads = []
    for model in (eager, compiled):
        scores = model(**arguments).logits
        scores.square().mean().backward()
        grads.append((scores, next(iter(model.parameters())).grad))
    for got, want in zip(grads[1], grads[0]):
        same(got, want)
    same(patched(**arguments).logits, grads[0][0])


def test_compile_traces_rules() -> None:
    """The graph has Gnomon's attention and rotation, and no dense mask after dead code removal."""
    _, patched = pair("mistral")
    calls: list[str] = []

    def backend(graph: Any, _: Any) -> Any:
        graph.graph.eliminate_dead_code()
        calls.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    torch.compiler.reset()
    torch.compile(patched, backend=backend, fullgraph=True)(tokens(1, 21), use_cache=False)
    assert sum("patched_attention" in one for one in calls) == 3
    assert sum("rotate_with" in one for one in calls) == 6
    assert not [one for one in calls if "scaled_dot_product" in one or "softmax" in one]


def test_encoder_alone() -> None:
    eager = transformers.T5EncoderModel(make("t5").config).eval()
    patched = copy.deepcopy(eager)
    gnomon.torch.patch(patched, check=True)
    ids = tokens(2, 31)
    same(patched(ids).last_hidden_state, eager(ids).last_hidden_state)


def test_refusals() -> None:
    names = transformers.BigBirdConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=1,
                                       intermediate_size=16, vocab_size=11)
    with pytest.raises(ValueError, match="of big_bird must call the attention interface of tr.*got "
                                         "the own code of BigBirdAttention"):
        gnomon.torch.patch(transformers.BigBirdModel(names))
    unknown = transformers.AutoformerConfig(d_model=16, prediction_length=4)
    with pytest.raises(ValueError, match="model_type autoformer is unknown|autoformer must call"):
        gnomon.torch.patch(transformers.AutoformerModel(unknown))
    with pytest.raises(ValueError, match="must be a model of transformers, got Linear"):
        gnomon.torch.patch(torch.nn.Linear(2, 2))
    model = make("llama")
    with pytest.raises(ValueError, match="must be patched"):
        gnomon.torch.unpatch(model)
    gnomon.torch.patch(model)
    with pytest.raises(ValueError, match="must not be patched"):
        gnomon.torch.patch(model)
    with pytest.raises(ValueError, match="on the CPU"):
        gnomon.torch.patch(make("llama").to("meta"))


@pytest.mark.parametrize("family", ["llama", "bloom", "t5"])
def test_pickle_refuses_a_patched_model(family: str) -> None:
    model = make(family)
    gnomon.torch.patch(model)
    for save in (pickle.dumps, lambda one: torch.save(one, io.BytesIO())):
        with pytest.raises(ValueError, match="call gnomon.torch.unpatch first"):
            save(model)
    gnomon.torch.unpatch(model)
    again = pickle.loads(pickle.dumps(model))
    arguments = inputs(family, tokens(2, 9))
    assert torch.equal(logits(again, arguments), logits(model, arguments))


def test_pickle_refuses_a_model_with_attention_only() -> None:
    config = transformers.BertConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=1,
                                     intermediate_size=16, vocab_size=11)
    model = transformers.BertModel(config)
    gnomon.torch.patch(model)
    with pytest.raises(ValueError, match="call gnomon.torch.unpatch first"):
        pickle.dumps(model)


def test_implementation_without_patch() -> None:
    """`attn_implementation="gnomon"` needs `register_attention` only."""
    gnomon.torch.register_attention()
    want = make("mistral", "sdpa")
    model = transformers.AutoModelForCausalLM.from_config(want.config, attn_implementation="gnomon")
    model.load_state_dict(want.state_dict())
    mask = torch.ones(2, 19, dtype=torch.long)
    mask[1, :6] = 0
    arguments = inputs("mistral", tokens(2, 19), mask)
    assert model.eval().config._attn_implementation == "gnomon"
    want.config._attn_implementation = "sdpa"
    same(logits(model, arguments), logits(want, arguments))
    model.set_attn_implementation("sdpa")
    assert torch.equal(logits(model, arguments), logits(want, arguments))


def test_refuses_other_frequencies() -> None:
    model = make("llama")
    model.model.rotary_emb.original_inv_freq *= 1.01
    file = sys.modules[type(model).__module__]
    function = file.apply_rotary_pos_emb
    with pytest.raises(ValueError, match="frequencies"):
        gnomon.torch.patch(model)
    assert file.apply_rotary_pos_emb is function
    assert model.config._attn_implementation == "eager"


def test_exact_tables() -> None:
    """Position 131072 in float32 angles is off by 8e-3; the patched module is exact."""
    model = make("llama", max_position_embeddings=1 << 18)
    gnomon.torch.patch(model)
    positions = torch.tensor([[131071, 131072]])
    cos, _ = model.model.rotary_emb(torch.zeros(1), positions)
    exponents = torch.arange(0, LLAMA["hidden_size"] // 4, 2, dtype=torch.float64) / 16
    want = (positions[0][:, None] * 10000.0 ** -exponents).cos()
    assert float((cos[0, :, :8] - want).abs().max()) < 2 ** -24


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["Bert", "Llama"])
def test_order_of_modules_without_a_mask(name: str, causal: bool) -> None:
    """transformers' sdpa attention without padding has no mask: its modules decide the order."""
    config = getattr(transformers, name + "Config")(
        hidden_size=16, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=1,
        intermediate_size=16, vocab_size=97)
    torch.manual_seed(0)
    model = getattr(transformers, name + "Model")(config).eval()
    assert config._attn_implementation == "sdpa"
    for one in model.modules():
        if hasattr(one, "is_causal"):
            one.is_causal = causal
    ids = tokens(2, 11)
    want = model(ids).last_hidden_state
    gnomon.torch.patch(model)
    same(model(ids).last_hidden_state, want)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_falcon_with_alibi(implementation: str, side: str) -> None:
    """transformers adds the bias to the mask, and again to the scores of the eager attention."""
    config = transformers.FalconConfig(hidden_size=64, num_attention_heads=4, num_hidden_layers=2,
                                       vocab_size=97, alibi=True)
    config._attn_implementation = implementation
    torch.manual_seed(0)
    model = transformers.FalconForCausalLM(config).eval()
    for one in model.parameters():
        if one.ndim > 1:
            torch.nn.init.normal_(one, std=0.2)
    mask = torch.ones(2, 13, dtype=torch.long)
    mask[1, :4 if side == "left" else 13] = 0
    mask[1, 4:9] = 1
    arguments = dict(input_ids=tokens(2, 13), attention_mask=mask)
    patched = copy.deepcopy(model)
    report = gnomon.torch.patch(patched)
    assert any("GnomonFalconAttention" in one for one in report.replaced)
    same(logits(patched, arguments), logits(model, arguments))
    options = dict(max_new_tokens=6, do_sample=False)
    if side == "left":
        assert torch.equal(patched.generate(**arguments, **options),
                           model.generate(**arguments, **options))


def test_report_names_attention_with_own_code() -> None:
    config = transformers.LongT5Config(d_model=16, d_kv=8, num_heads=2, num_layers=1, d_ff=16,
                                       vocab_size=97, local_radius=4, decoder_start_token_id=0)
    model = transformers.LongT5ForConditionalGeneration(config)
    report = gnomon.torch.patch(model)
    assert any("LongT5LocalAttention of transformers (its own code)" in one for one in report.left)
    assert "not replaced: encoder" in str(report)
