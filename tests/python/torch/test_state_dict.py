"""State dicts of the modules against those of Hugging Face Transformers."""

from __future__ import annotations

import io

import pytest
import tiny
import torch
from torch import nn
from transformers import (
    BertConfig,
    DebertaConfig,
    GPT2Config,
    GPT2Model,
    LayoutLMv3Config,
    ReformerConfig,
    Swinv2Config,
    T5Config,
    Wav2Vec2BertConfig,
    Wav2Vec2ConformerConfig,
)
from transformers.models.bert.modeling_bert import BertEmbeddings
from transformers.models.deberta.modeling_deberta import DisentangledSelfAttention
from transformers.models.layoutlmv3.modeling_layoutlmv3 import LayoutLMv3Encoder
from transformers.models.reformer.modeling_reformer import AxialPositionEmbeddings
from transformers.models.swin.modeling_swin import SwinRelativePositionBias
from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertSelfAttention
from transformers.models.wav2vec2_conformer.modeling_wav2vec2_conformer import (
    Wav2Vec2ConformerSelfAttention,
)
from transformers.models.wavlm.modeling_wavlm import WavLMAttention

import gnomon.torch

H, D = 4, 8
WIDTH = H * D


def fill(module: nn.Module) -> nn.Module:
    torch.manual_seed(4)
    with torch.no_grad():
        for one in module.parameters():
            one.normal_()
    return module.eval()


def load(mine: nn.Module, upstream: nn.Module) -> None:
    """Loads the parameters of `mine` from those of a module that may have further ones."""
    missing, _ = mine.load_state_dict(upstream.state_dict(), strict=False)
    assert not missing


@pytest.mark.parametrize("decoder", [True, False])
def test_t5(decoder: bool) -> None:
    config = T5Config(d_model=WIDTH, d_kv=D, num_heads=H, is_decoder=decoder,
                      relative_attention_num_buckets=16, relative_attention_max_distance=20)
    upstream = fill(T5Attention(config, has_relative_attention_bias=True, layer_idx=0))
    mine = gnomon.torch.T5Bias(heads=H, buckets=16, max_distance=20,
                               direction="causal" if decoder else "bidirectional")
    load(mine, upstream)
    expected = upstream.compute_bias(30, 30)[0]
    if decoder:  # for keys after the query the bias of a causal T5 is not used
        expected, found = expected.tril(), mine.bias(30).tril()
    else:
        found = mine.bias(30)
    assert torch.equal(found, expected)
    nn.Embedding(16, H).load_state_dict(mine.relative_attention_bias.state_dict())


def test_swin() -> None:
    upstream = fill(SwinRelativePositionBias(H, (3, 5)))
    mine = gnomon.torch.SwinBias(heads=H, height=3, width=5)
    mine.load_state_dict(upstream.state_dict())
    assert torch.equal(mine.bias(15), upstream()[0])
    upstream.load_state_dict(mine.state_dict())


def test_swin_v2() -> None:
    upstream = fill(Swinv2SelfAttention(Swinv2Config(), WIDTH, H, 4))
    upstream.logit_scale.data.uniform_(1, 5)
    mine = gnomon.torch.SwinV2Bias(heads=H, height=4, width=4)
    load(mine, upstream)
    table = upstream.continuous_position_bias_mlp(upstream.relative_coords_table).view(-1, H)
    bias = table[upstream.relative_position_index.view(-1)].view(16, 16, H).permute(2, 0, 1)
    torch.testing.assert_close(mine.bias(16), 16 * torch.sigmoid(bias), rtol=1e-5, atol=1e-5)
    x = torch.randn(2, 16, WIDTH)
    q, k, v = (one(x).view(2, 16, H, D).transpose(1, 2)
               for one in (upstream.query, upstream.key, upstream.value))
    out = mine.attend(q, k, v, visibility="bidirectional").transpose(1, 2).flatten(2)
    torch.testing.assert_close(out, upstream(x)[0], rtol=1e-4, atol=1e-4)


def test_gpt2_and_bert() -> None:
    gpt2 = GPT2Model(GPT2Config(vocab_size=8, n_positions=20, n_embd=WIDTH, n_layer=1, n_head=H))
    bert = BertEmbeddings(BertConfig(vocab_size=8, hidden_size=WIDTH, max_position_embeddings=20))
    mine = gnomon.torch.Learned(rows=20, width=WIDTH)
    for table in (gpt2.wpe, bert.position_embeddings):
        mine.load_state_dict(fill(table).state_dict())
        x = torch.randn(2, 7, WIDTH)
        assert torch.equal(mine.embed(x), x + table.weight[:7])
        table.load_state_dict(mine.state_dict())


def test_wavlm() -> None:
    upstream = fill(WavLMAttention(WIDTH, H, num_buckets=32, max_distance=50))
    mine = gnomon.torch.WavLm(heads=H, head_dim=D, buckets=32, max_distance=50,
                              direction="bidirectional")
    load(mine, upstream)
    x = torch.randn(2, 9, WIDTH)
    q, k, v = (one(x).view(2, 9, H, D) for one in (upstream.q_proj, upstream.k_proj,
                                                   upstream.v_proj))
    out = mine.attend(q, k, v, visibility="bidirectional", layout="tokens_heads", hidden=x)
    torch.testing.assert_close(upstream.out_proj(out.flatten(2)), upstream(x)[0], rtol=1e-4,
                               atol=1e-4)


def test_layout() -> None:
    config = LayoutLMv3Config(hidden_size=WIDTH, num_attention_heads=H, num_hidden_layers=1,
                              intermediate_size=8, visual_embed=False)
    upstream = fill(LayoutLMv3Encoder(config))
    mine = gnomon.torch.LayoutBias(heads=H, text_buckets=config.rel_pos_bins,
                                   text_distance=config.max_rel_pos,
                                   page_buckets=config.rel_2d_pos_bins,
                                   page_distance=config.max_rel_2d_pos)
    load(mine, upstream)
    with torch.no_grad():  # compares the term of the text
        mine.rel_pos_x_bias.weight.zero_()
        mine.rel_pos_y_bias.weight.zero_()
    at = torch.arange(40)[None]
    torch.testing.assert_close(mine.bias(40), upstream._cal_1d_pos_emb(at)[0], rtol=0, atol=0)


def test_deberta() -> None:
    config = DebertaConfig(hidden_size=WIDTH, num_attention_heads=H, relative_attention=True,
                           max_relative_positions=16, pos_att_type=["c2p", "p2c"])
    upstream = fill(DisentangledSelfAttention(config))
    mine = gnomon.torch.Deberta(heads=H, head_dim=D, width=WIDTH, span=16, distance="raw")
    state = upstream.state_dict()
    embeddings = torch.randn(32, WIDTH)
    mine.load_state_dict({**{n: state[n] for n in mine.state_dict() if n in state},
                          "rel_embeddings.weight": embeddings})
    x = torch.randn(2, 9, WIDTH)
    distance = torch.arange(9)[:, None] - torch.arange(9)
    expected = upstream(x, torch.ones(2, 1, 9, 9), relative_pos=distance[None],
                        rel_embeddings=embeddings)[0]
    q, k, v = upstream.in_proj(x).view(2, 9, H, 3 * D).chunk(3, -1)
    q = q + upstream.q_bias.view(H, D)
    v = v + upstream.v_bias.view(H, D)
    out = mine.attend(q, k, v, visibility="bidirectional", layout="tokens_heads").flatten(2)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)


def test_conformer() -> None:
    config = Wav2Vec2ConformerConfig(hidden_size=WIDTH, num_attention_heads=H,
                                     position_embeddings_type="relative")
    load(gnomon.torch.TransformerXl(heads=H, head_dim=D, width=WIDTH, sinusoid="interleaved"),
         fill(Wav2Vec2ConformerSelfAttention(config)))


def test_shaw() -> None:
    config = Wav2Vec2BertConfig(hidden_size=WIDTH, num_attention_heads=H,
                                position_embeddings_type="relative_key",
                                left_max_position_embeddings=6, right_max_position_embeddings=2)
    load(gnomon.torch.Shaw(head_dim=D, value_dim=0, left=6, right=2, meets="queries"),
         fill(Wav2Vec2BertSelfAttention(config)))


def test_reformer() -> None:
    config = ReformerConfig(axial_pos_shape=(3, 4), axial_pos_embds_dim=(8, 24), hidden_size=32)
    upstream = fill(AxialPositionEmbeddings(config))
    mine = gnomon.torch.AxialLearned(rows=(3, 4), widths=(8, 24), join="concatenated")
    mine.load_state_dict(upstream.state_dict())
    assert torch.equal(mine.embed(torch.zeros(1, 12, 32)), upstream(torch.arange(12)[None]))


def test_mixtures_prefix_the_names_of_each_encoding() -> None:
    one = gnomon.torch.PositionEncoding("learned+t5", width=WIDTH, heads=H, length=8)
    assert list(one.state_dict()) == ["learned.weight", "t5.relative_attention_bias.weight"]


def test_file() -> None:
    model, other = tiny.Model(), tiny.Model()
    tiny.reset(model)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    ids = torch.randint(tiny.WORDS, (2, tiny.LENGTH))
    assert torch.equal(model(ids), other(ids))


def test_other_sizes_are_refused() -> None:
    mine = gnomon.torch.Learned(rows=20, width=8)
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        mine.load_state_dict(nn.Embedding(21, 8).state_dict())
