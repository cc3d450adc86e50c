"""Biases and relative vectors against the modules of transformers, with random weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoConfig
from transformers.models.bert.modeling_bert import BertEmbeddings
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.deberta import modeling_deberta
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.gpt2.modeling_gpt2 import GPT2Model
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.swin.modeling_swin import SwinAttention
from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention
from transformers.models.t5.modeling_t5 import T5Attention

import gnomon


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(5)


def array(tensor: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().float().numpy())


def column(tensor: torch.Tensor) -> np.ndarray:
    return array(tensor.reshape(-1, 1))


def row(tensor: torch.Tensor) -> np.ndarray:
    return array(tensor.reshape(1, -1))


def heads(tensor: torch.Tensor, count: int) -> np.ndarray:
    """[B, T, H D] as [B, T, H, D]."""
    return array(tensor).reshape(*tensor.shape[:2], count, -1)


def randomize(module: torch.nn.Module, deviation: float = 0.5) -> None:
    with torch.no_grad():
        for one in module.parameters():
            one.normal_(0, deviation)


# --- T5 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20), (64, 1000), (16, 9)])
def test_t5(decoder: bool, buckets: int, distance: int) -> None:
    config = AutoConfig.for_model(
        "t5", d_model=16, num_heads=4, d_kv=4, relative_attention_num_buckets=buckets,
        relative_attention_max_distance=distance, num_layers=1, is_decoder=decoder,
    )
    module = T5Attention(config, has_relative_attention_bias=True)
    spec = gnomon.T5Bias(
        heads=4, direction="causal" if decoder else "bidirectional", buckets=buckets,
        max_distance=distance,
    )
    table = array(module.relative_attention_bias.weight)
    for queries, keys, past in ((300, 300, 0), (1, 300, 299), (7, 40, 33)):
        want = array(module.compute_bias(queries, keys, past_seen_tokens=past))[0]
        plan = gnomon.lower(spec, queries, keys, parameters=[table], visibility="bidirectional")
        np.testing.assert_array_equal(plan.bias(), want)


def test_t5_layers_of_a_config() -> None:
    config = AutoConfig.for_model("t5", num_layers=2, num_decoder_layers=3, d_model=16, d_kv=4,
                                  num_heads=4)
    model = gnomon.model.from_pretrained(config)
    assert [(one.part, one.index) for one in model.layers] == [
        ("encoder", 0), ("encoder", 1), ("decoder", 0), ("decoder", 1), ("decoder", 2)
    ]
    for layer in model.layers:
        (bias,) = layer.position
        assert (bias.buckets, bias.max_distance, layer.softmax_scale) == (32, 128, 1.0)
        assert bias.direction == ("causal" if layer.part == "decoder" else "bidirectional")


# --- ALiBi ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 12, 14, 16, 40, 71, 112])
def test_alibi_of_bloom(count: int) -> None:
    """BLOOM's bias is slope * key position: equal up to a constant for each query."""
    mask = torch.ones(1, 50, dtype=torch.long)
    of_keys = build_alibi_tensor(mask, count, torch.float32).reshape(count, 1, 50).double().numpy()
    plan = gnomon.lower(gnomon.Alibi(heads=count), 50, visibility="causal")
    ours = plan.bias()
    seen = np.tril(np.ones((50, 50), bool))
    shifted = of_keys - of_keys.transpose(0, 2, 1)  # minus the value at the query's own position
    np.testing.assert_allclose(ours[:, seen], shifted[:, seen], 0, 50e-6)
    slopes = of_keys[:, 0, 1]
    np.testing.assert_allclose(plan.bias_form["slopes"], slopes, 1e-6)  # powers in float32


@pytest.mark.parametrize("count", [4, 6, 12, 32])
@pytest.mark.parametrize("largest", [8, 16])
def test_alibi_of_mpt(count: int, largest: int) -> None:
    want = array(build_mpt_alibi_tensor(count, 40, largest))  # bias of the last query
    spec = gnomon.Alibi(heads=count, max_bias=float(largest))
    plan = gnomon.lower(spec, 1, 40, visibility="causal")
    np.testing.assert_allclose(plan.bias(), want.reshape(count, 1, 40), 1e-6, 0)
    config = AutoConfig.for_model(
        "mpt", d_model=16 * count, n_heads=count, n_layers=1,
        attn_config={"alibi": True, "alibi_bias_max": largest},
    )
    (found,) = gnomon.model.from_pretrained(config).layers[0].position
    assert found == spec


# --- DeBERTa --------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", [["c2p"], ["p2c"], ["c2p", "p2c"]])
@pytest.mark.parametrize("span", [4, 64])
def test_deberta(types: list[str], span: int) -> None:
    config = AutoConfig.for_model(
        "deberta", hidden_size=32, num_attention_heads=4, relative_attention=True,
        max_relative_positions=span, pos_att_type=types, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    module = modeling_deberta.DisentangledSelfAttention(config).eval()
    randomize(module)
    x, embeddings = torch.randn(2, 11, 32), torch.randn(2 * span, 32)
    mask = torch.ones(2, 1, 11, 11)
    relative = modeling_deberta.build_relative_position(x, x)
    want = module(x, mask, relative_pos=relative, rel_embeddings=embeddings)[0]

    qkv = module.transpose_for_scores(module.in_proj(x)).chunk(3, -1)
    q, k, v = (array(one.transpose(1, 2)) for one in qkv)
    q += array(module.q_bias).reshape(4, 8)
    v += array(module.v_bias).reshape(4, 8)
    terms = {"c2p": "content_to_position", "p2c": "position_to_content"}
    spec = gnomon.Deberta(
        heads=4, head_dim=8, width=32, span=span, distance="raw",
        terms="both" if len(types) == 2 else terms[types[0]],
    )
    matrices = [array(embeddings)]
    if "c2p" in types:
        matrices.append(array(module.pos_proj.weight))
    if "p2c" in types:
        matrices += [array(module.pos_q_proj.weight), row(module.pos_q_proj.bias)]
    plan = gnomon.lower(spec, 11, parameters=matrices, visibility="bidirectional")
    got = gnomon.attention(q, k, v, plan)
    np.testing.assert_allclose(got, heads(want, 4), 0, 2e-4 * np.abs(v).max())


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("buckets", "positions"), [(8, 64), (256, 512), (-1, 32)])
def test_deberta_v2(shared: bool, buckets: int, positions: int) -> None:
    config = AutoConfig.for_model(
        "deberta-v2", hidden_size=32, num_attention_heads=4, relative_attention=True,
        max_relative_positions=positions, position_buckets=buckets, pos_att_type=["c2p", "p2c"],
        share_att_key=shared, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    module = modeling_deberta_v2.DisentangledSelfAttention(config).eval()
    randomize(module, 0.3)
    span = module.pos_ebd_size
    x, embeddings = torch.randn(2, 50, 32), torch.randn(2 * span, 32)
    mask = torch.ones(2, 1, 50, 50)
    want = module(x, mask, rel_embeddings=embeddings)[0]
    q, k, v = (
        heads(one(x), 4) for one in (module.query_proj, module.key_proj, module.value_proj)
    )
    raw = buckets < 1
    spec = gnomon.Deberta(
        heads=4, head_dim=8, width=32, span=span, distance="raw" if raw else "logarithmic",
        **({} if raw else {"max_distance": positions}),
    )
    key = module.key_proj if shared else module.pos_key_proj
    query = module.query_proj if shared else module.pos_query_proj
    # The bias of the key projection is left out: it adds q . bias to all scores of a query, which
    # does not change the softmax.
    named = {
        "embeddings": array(embeddings),
        "key": array(key.weight),
        "query": array(query.weight),
        "query_bias": row(query.bias),
    }
    plan = gnomon.lower(
        spec, 50, parameters=[named[one.name] for one in spec.parameters()],
        visibility="bidirectional",
    )
    got = gnomon.attention(q, k, v, plan)
    np.testing.assert_allclose(got, heads(want, 4), 0, 3e-4 * np.abs(v).max())


# --- Windows of images ----------------------------------------------------------------------------


@pytest.mark.parametrize("window", [2, 7])
def test_swin(window: int) -> None:
    config = AutoConfig.for_model("swin", attention_probs_dropout_prob=0.0,
                                  hidden_dropout_prob=0.0, _attn_implementation="eager")
    module = SwinAttention(config, 16, 4, window).eval()
    randomize(module)
    spec = gnomon.Swin(heads=4, height=window, width=window)
    table = array(module.relative_position_bias.relative_position_bias_table)
    plan = gnomon.lower(spec, window**2, parameters=[table], visibility="bidirectional")
    np.testing.assert_array_equal(plan.bias(), array(module.relative_position_bias())[0])


@pytest.mark.parametrize("pretrained", [0, 12])
@pytest.mark.parametrize("window", [1, 4, 8])
def test_swin_v2(window: int, pretrained: int) -> None:
    config = AutoConfig.for_model("swinv2", attention_probs_dropout_prob=0.0)
    module = Swinv2SelfAttention(config, 16, 4, window, [pretrained, pretrained]).eval()
    randomize(module)
    with torch.no_grad():
        module.logit_scale.copy_(torch.tensor([1.0, 2.0, 6.0, 3.0]).reshape(4, 1, 1))
    x = torch.randn(3, window**2, 16)
    want = module(x)[0]
    q, k, v = (heads(one(x), 4) for one in (module.query, module.key, module.value))
    spec = gnomon.SwinV2(
        heads=4, height=window, width=window, pretrained_height=pretrained,
        pretrained_width=pretrained,
    )
    mlp = module.continuous_position_bias_mlp
    matrices = [
        array(mlp[0].weight), column(mlp[0].bias), array(mlp[2].weight), column(module.logit_scale)
    ]
    plan = gnomon.lower(spec, window**2, parameters=matrices, visibility="bidirectional")
    np.testing.assert_allclose(plan.cosine, np.exp(np.minimum([1, 2, 6, 3], np.log(100))), 1e-6)
    got = gnomon.attention(q, k, v, plan)
    np.testing.assert_allclose(got, heads(want, 4), 0, 1e-4 * np.abs(v).max())


# --- Relative keys and learned tables -------------------------------------------------------------


def test_relative_keys_of_wav2vec2_bert() -> None:
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import (
        Wav2Vec2BertSelfAttention,
    )

    config = AutoConfig.for_model(
        "wav2vec2-bert", hidden_size=32, num_attention_heads=4, attention_dropout=0.0,
        position_embeddings_type="relative_key", left_max_position_embeddings=6,
        right_max_position_embeddings=3,
    )
    module = Wav2Vec2BertSelfAttention(config).eval()
    randomize(module, 0.3)
    x = torch.randn(2, 20, 32)
    want = module.linear_out.weight.pinverse() @ (module(x)[0] - module.linear_out.bias).mT
    q, k, v = (heads(one(x), 4) for one in (module.linear_q, module.linear_k, module.linear_v))
    spec = gnomon.Shaw(head_dim=8, value_dim=0, left=6, right=3, meets="queries")
    table = array(module.distance_embedding.weight)
    plan = gnomon.lower(spec, 20, parameters=[table], visibility="bidirectional")
    got = gnomon.attention(q, k, v, plan)
    np.testing.assert_allclose(got, heads(want.mT, 4), 0, 3e-4 * np.abs(v).max())
    (found,) = gnomon.model.from_pretrained(config).layers[0].position
    assert found == spec


def test_learned_tables() -> None:
    x = np.zeros((1, 5, 16), np.float32)
    gpt2 = GPT2Model(AutoConfig.for_model("gpt2", n_embd=16, n_head=2, n_layer=1, n_positions=9))
    table = array(gpt2.wpe.weight)
    (spec,) = gnomon.model.from_pretrained(gpt2.config).layers[0].position
    assert spec == gnomon.Learned(rows=9, width=16)
    for positions in ([0, 1, 2, 3, 4], [4, 5, 6, 7, 8]):
        plan = gnomon.lower(spec, positions, parameters=[table], visibility="causal")
        got = x.copy()
        gnomon.add_position(got, plan)
        np.testing.assert_array_equal(got[0], array(gpt2.wpe(torch.tensor(positions))))

    opt = OPTLearnedPositionalEmbedding(9, 16)  # rows 0 and 1 are not used
    spec = gnomon.Learned(rows=11, width=16, offset=2)
    plan = gnomon.lower(spec, 5, parameters=[array(opt.weight)], visibility="causal")
    want = opt(torch.ones(1, 5, dtype=torch.long))[0]
    np.testing.assert_array_equal(plan.table, array(want))

    bert = BertEmbeddings(AutoConfig.for_model("bert", hidden_size=16, max_position_embeddings=9))
    plan = gnomon.lower(
        gnomon.Learned(rows=9, width=16), 5,
        parameters=[array(bert.position_embeddings.weight)], visibility="bidirectional",
    )
    np.testing.assert_array_equal(plan.table, array(bert.position_embeddings.weight[:5]))


def test_sinusoidal_tables() -> None:
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
    from transformers.models.whisper.modeling_whisper import sinusoids

    whisper = sinusoids(40, 16).double().numpy()
    half = gnomon.Sinusoidal(width=16, recipe="tensor2tensor")
    plan = gnomon.lower(half, 40, visibility="bidirectional")
    np.testing.assert_allclose(plan.table, whisper, 0, 1e-5)
    # fairseq's table: row 2 is position 0, row 1 is padding.
    fairseq = M2M100SinusoidalPositionalEmbedding(40, 16, padding_idx=1).weights.numpy()
    spec = gnomon.Sinusoidal(width=16, recipe="tensor2tensor", offset=2)
    plan = gnomon.lower(spec, 38, visibility="bidirectional")
    np.testing.assert_allclose(plan.table, fairseq[2:40], 0, 1e-5)
