"""Cases of encoders and encoder-decoders of text and speech."""

import numpy
import torch
from build import Case, text_inputs
from projections import heads
from text_cases import unnumbered

BERT = dict(
    vocab_size=40,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=24,
    max_position_embeddings=32,
    pad_token_id=0,
    type_vocab_size=2,
)
ROBERTA = BERT | dict(pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1)
BART = dict(
    vocab_size=40,
    d_model=24,
    encoder_layers=1,
    decoder_layers=1,
    encoder_attention_heads=3,
    decoder_attention_heads=3,
    encoder_ffn_dim=24,
    decoder_ffn_dim=24,
    max_position_embeddings=32,
    pad_token_id=1,
    bos_token_id=0,
    eos_token_id=2,
    decoder_start_token_id=2,
)
GPT = dict(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=3)
GPT |= dict(intermediate_size=24, max_position_embeddings=32, pad_token_id=1)
SPEECH = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
SPEECH |= dict(intermediate_size=24, vocab_size=40, conv_dim=[8], conv_kernel=[3])
SPEECH |= dict(conv_stride=[1], conv_depthwise_kernel_size=3, num_conv_pos_embeddings=4)
SPEECH |= dict(num_conv_pos_embedding_groups=2, num_feat_extract_layers=1)


def pair_inputs(case, config, rng):
    """Inputs of encoder-decoders, with the same length for encoder and decoder."""
    arguments, positions = unnumbered(case, config, rng)
    del arguments["use_cache"]
    return arguments | {"decoder_input_ids": arguments["input_ids"].flip(1)}, positions


def plain_inputs(case, config, rng):
    arguments, positions = unnumbered(case, config, rng)
    return {key: arguments[key] for key in ("input_ids", "attention_mask")}, positions


def box_inputs(case, config, rng):
    """Boxes (x0, y0, x1, y1) of words that go down a page."""
    arguments, positions = plain_inputs(case, config, rng)
    corner = rng.integers(0, 15, (1, case.length, 2)).cumsum(1)
    size = rng.integers(3, 15, (1, case.length, 2))
    boxes = numpy.concatenate([corner, corner + size], -1).clip(0, 127)
    return arguments | {"bbox": torch.from_numpy(boxes)}, positions


def whisper_inputs(case, config, rng):
    arguments, positions = text_inputs(case, config, rng)
    shape = (1, config.num_mel_bins, 2 * case.length)
    features = torch.from_numpy(rng.standard_normal(shape))
    return {"input_features": features, "decoder_input_ids": arguments["input_ids"]}, positions


def hidden_inputs(case, config, rng):
    """Hidden states for an encoder that is called directly."""
    hidden = rng.standard_normal((1, case.length, config.hidden_size))
    return {"hidden_states": torch.from_numpy(hidden)}, torch.arange(case.length)[None, None]


def feature_inputs(case, config, rng):
    shape = (1, case.length, config.feature_projection_input_dim)
    features = torch.from_numpy(rng.standard_normal(shape))
    return {"input_features": features}, torch.arange(case.length)[None, None]


def speecht5_inputs(case, config, rng):
    arguments, positions = plain_inputs(case, config, rng)
    return {"input_values": arguments["input_ids"]}, positions


def record_boxes(recorder, model):
    def keep(module, arguments, named):
        recorder.tensors["@bbox"] = named["bbox"].to(torch.int64)

    model.register_forward_pre_hook(keep, with_kwargs=True)


def record_xlnet(recorder, model):
    """XLNet's projections are parameters, so the heads are recorded as inputs of its core."""
    for module in list(recorder.names):
        if type(module).__name__ != "XLNetRelativeAttention":
            continue

        def core(q, k, v, *arguments, _module=module, _core=module.rel_attn_core, **named):
            out = _core(q, k, v, *arguments, **named)
            q, k, v, result = (x.transpose(0, 1) for x in (q, k, v, out))
            recorder.add(_module, q, k, v, result.detach())
            return out

        module.rel_attn_core = core


def record_wavlm(recorder, model):
    """WavLM's attention contains the output projection, which is replaced by the identity."""
    for module, name in recorder.names.items():
        if type(module).__name__ != "WavLMAttention":
            continue
        with torch.no_grad():
            module.out_proj.weight.copy_(torch.eye(module.embed_dim))
            module.out_proj.bias.zero_()

        def keep(m, arguments, named, output):
            hidden = arguments[0] if arguments else named["hidden_states"]
            of = (heads(p(hidden), m.head_dim) for p in (m.q_proj, m.k_proj, m.v_proj))
            recorder.add(m, *of, heads(output[0], m.head_dim))
            number = recorder.layers[-1]["number"]
            recorder.tensors[f"@layers.{number}.hidden"] = hidden

        module.register_forward_hook(keep, with_kwargs=True)


def record_rotated(recorder, model):
    """Conformer rotates hidden states before their projection."""
    for module in list(recorder.names):
        if not hasattr(module, "_apply_rotary_embedding"):
            continue

        def turn(hidden, embeddings, _module=module, _turn=module._apply_rotary_embedding):
            turned = _turn(hidden, embeddings)
            number = recorder.place(_module)[1]
            recorder.tensors[f"@layers.{number}.hidden"] = hidden
            recorder.tensors[f"@layers.{number}.hidden_turned"] = turned
            return turned

        module._apply_rotary_embedding = turn


def both(encoder, decoder):
    position = "embed_positions"
    return [("encoder", f"encoder.{position}", f"encoder.{encoder}"),
            ("decoder", f"decoder.{position}", f"decoder.{decoder}")]


BERT_EMBED = [("layers", "position_embeddings", "embeddings.LayerNorm")]
DECODER_EMBED = [("layers", "embed_positions", "layers.0")]
DEBERTA = BERT | dict(relative_attention=True, position_biased_input=False)
DEBERTA |= dict(pos_att_type=["c2p", "p2c"], type_vocab_size=0)
CONFORMER = r"pos_bias|linear_pos|distance_embedding"

CASES = [
    Case("bert", "BertForMaskedLM", BERT, embed=BERT_EMBED),
    Case("roberta", "RobertaForMaskedLM", ROBERTA, inputs=plain_inputs, embed=BERT_EMBED),
    Case("deberta", "DebertaForMaskedLM", DEBERTA | dict(max_relative_positions=10),
         inputs=plain_inputs, tensors=r"rel_embeddings|pos_proj|pos_q_proj"),
    Case("deberta-v2", "DebertaV2ForMaskedLM", DEBERTA | dict(
        position_buckets=4, max_relative_positions=-1, norm_rel_ebd="layer_norm",
        share_att_key=True), inputs=plain_inputs,
        tensors=r"rel_embeddings|encoder.LayerNorm|(query|key)_proj"),
    Case("deberta-v2-own-projections", "DebertaV2ForMaskedLM", DEBERTA | dict(
        num_hidden_layers=1, position_buckets=-1, max_relative_positions=6,
        share_att_key=False), inputs=plain_inputs,
        tensors=r"rel_embeddings|pos_(query|key)_proj"),
    Case("xlnet", "XLNetLMHeadModel", dict(
        vocab_size=40, d_model=24, n_layer=2, n_head=3, d_inner=24), inputs=plain_inputs,
        tensors=r"rel_attn\.(r|r_r_bias|r_w_bias)$", extra=record_xlnet, double=False),
    Case("biogpt", "BioGptForCausalLM", GPT, embed=DECODER_EMBED),
    Case("xglm", "XGLMForCausalLM", dict(
        vocab_size=40, d_model=24, ffn_dim=24, num_layers=2, attention_heads=3,
        max_position_embeddings=32, pad_token_id=1), embed=DECODER_EMBED, double=False),
    Case("whisper", "WhisperForConditionalGeneration", BART | dict(
        num_mel_bins=4, max_source_positions=15, max_target_positions=20, pad_token_id=1),
        inputs=whisper_inputs, split=True, embed=both("layers.0", "layers.0")),
    Case("bart", "BartForConditionalGeneration", BART, inputs=pair_inputs, split=True,
         embed=both("layernorm_embedding", "layernorm_embedding")),
    Case("marian", "MarianMTModel", BART | dict(scale_embedding=True), inputs=pair_inputs,
         split=True, embed=both("layers.0", "layers.0")),
    Case("m2m_100", "M2M100ForConditionalGeneration", BART, inputs=pair_inputs, split=True,
         embed=both("layers.0", "layers.0")),
    Case("modernbert", "ModernBertForMaskedLM", BERT | dict(
        local_attention=6, global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2)),
    Case("esm", "EsmForMaskedLM", ROBERTA | dict(
        position_embedding_type="rotary", token_dropout=False), inputs=plain_inputs),
    Case("mpnet", "MPNetForMaskedLM", ROBERTA,
         inputs=plain_inputs, embed=BERT_EMBED),
    Case("layoutlmv3", "LayoutLMv3Model", ROBERTA | dict(
        coordinate_size=4, shape_size=4, visual_embed=False, rel_pos_bins=8, max_rel_pos=12,
        rel_2d_pos_bins=12, max_rel_2d_pos=120, max_2d_position_embeddings=128),
        inputs=box_inputs, extra=record_boxes),
    Case("roformer", "RoFormerForMaskedLM", BERT | dict(embedding_size=24),
         inputs=plain_inputs),
    Case("wavlm", "WavLMModel", SPEECH | dict(num_buckets=8, max_bucket_distance=10),
         inputs=hidden_inputs, entry="encoder", extra=record_wavlm,
         tensors=r"gru_rel_pos|rel_attn_embed"),
    Case("wav2vec2_bert", "Wav2Vec2BertModel", SPEECH | dict(
        feature_projection_input_dim=16, position_embeddings_type="relative_key",
        left_max_position_embeddings=6, right_max_position_embeddings=3), tensors=CONFORMER,
        inputs=feature_inputs, check="none"),
    Case("wav2vec2_conformer", "Wav2Vec2ConformerModel", SPEECH | dict(
        position_embeddings_type="relative", max_source_positions=32), tensors=CONFORMER,
        inputs=hidden_inputs, entry="encoder", check="none"),
    Case("wav2vec2_conformer-rotary", "Wav2Vec2ConformerModel", SPEECH | dict(
        position_embeddings_type="rotary", num_hidden_layers=1), inputs=hidden_inputs,
        entry="encoder", extra=record_rotated, tensors=r"linear_[qk]\."),
    Case("speecht5", "SpeechT5ForTextToSpeech", dict(
        vocab_size=40, hidden_size=24, encoder_layers=2, encoder_attention_heads=3,
        encoder_ffn_dim=24, decoder_layers=1, decoder_attention_heads=3, decoder_ffn_dim=24,
        num_mel_bins=4, reduction_factor=1, speech_decoder_prenet_units=8,
        speech_decoder_prenet_layers=1, speech_decoder_postnet_units=8,
        speech_decoder_postnet_layers=1, speech_decoder_postnet_kernel=3,
        encoder_max_relative_position=5, max_text_positions=32, max_speech_positions=32,
        use_guided_attention_loss=False, speaker_embedding_dim=4), inputs=speecht5_inputs,
        entry="speecht5.encoder", split=True, double=False,
        only=r"encoder\.wrapped_encoder.*attention",
        tensors=r"pe_k"),
]
