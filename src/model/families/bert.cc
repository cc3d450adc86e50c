// Text encoders: learned tables, relative keys, DeBERTa, and encoders that rotate. Source: the
// code of each family.
#include <stdexcept>
#include <utility>

#include "src/model/families/rules.h"

namespace gnomon::model::internal {
namespace {

void read_table_or_keys(Reading& r, std::int64_t offset) {
  if (r.out.layers == 0) read_sizes(r);
  const std::string type = r.keys.string({"position_embedding_type"}).value_or("absolute");
  if (type == "absolute") return put_learned(r, r.out.length, offset, all_layers(r));
  if (type != "relative_key" && type != "relative_key_query")
    r.keys.find({"position_embedding_type"})
        ->fail(
            "position_embedding_type must be absolute, relative_key or relative_key_query, "
            "got " +
            type);
  r.note("position_embedding_type " + type + ": transformers 5 has dropped it");
  if (r.out.length > max_count)
    r.fail_at({"max_position_embeddings"},
              "max_position_embeddings must be at most 65536 for " + type + ", got " +
                  std::to_string(r.out.length));
  put(r, type == "relative_key" ? bert_relative_key(r.head_dim, r.out.length)
                                : bert_relative_key_query(r.head_dim, r.out.length));
}

// Learned table, or Shaw's relative keys.
void read_bert(Reading& r) { read_table_or_keys(r, 0); }

void read_mobilebert(Reading& r) {
  read_sizes(r);
  if (r.keys.boolean({"use_bottleneck"}).value_or(true)) {
    const std::int64_t inner = r.size({"true_hidden_size", "intra_bottleneck_size"}, 128);
    if (inner % r.heads != 0 || inner / r.heads > max_count)
      r.fail_at({"true_hidden_size", "intra_bottleneck_size"},
                "intra_bottleneck_size must be a multiple of the heads " +
                    std::to_string(r.heads) + ", got " + std::to_string(inner));
    r.head_dim = inner / r.heads;
  }
  read_bert(r);
}

// The rows up to that of padding are not positions.
void read_roberta(Reading& r) { read_table_or_keys(r, padding_offset(r)); }

void read_esm(Reading& r) {
  if (r.keys.string({"position_embedding_type"}).value_or("absolute") == "rotary") {
    r.keys.find({"pad_token_id"});
    return read_rotary(r);
  }
  read_roberta(r);
}

void read_axial_learned(Reading& r) {
  read_sizes(r);
  if (!r.keys.boolean({"axial_pos_embds"}).value_or(true))
    return put_learned(r, r.out.length, 0, all_layers(r));
  const auto shape = r.keys.find({"axial_pos_shape"});
  const auto sides =
      shape ? shape->integers("axial_pos_shape") : std::vector<std::int64_t>{64, 64};
  const auto widths = r.keys.find({"axial_pos_embds_dim"});
  auto dims =
      widths ? widths->integers("axial_pos_embds_dim") : std::vector<std::int64_t>{64, 192};
  if (dims.size() != sides.size() || sides.empty() || sides.size() > 4)
    r.fail("axial_pos_shape and axial_pos_embds_dim must have the same number of axes, 1 to 4");
  AxialLearned axial{.join = AxisJoin::concatenated, .rows = sides, .widths = std::move(dims)};
  try {
    capacity(axial), gnomon::width(axial);
  } catch (const std::invalid_argument& error) {
    r.fail_at({"axial_pos_shape"}, error.what());
  }
  put(r, std::move(axial));
  r.note("a factored table: a row is the concatenation of one row of each axis");
}

void read_deberta(Reading& r, bool has_norm) {
  read_sizes(r);
  const auto buckets = r.keys.integer({"position_buckets"}).value_or(-1);
  auto most = r.keys.integer({"max_relative_positions"}).value_or(-1);
  if (most < 1) most = r.out.length;
  double terms = 0;
  const auto types = r.keys.find({"pos_att_type"});
  std::string names;
  if (types && types->is(JsonType::string))
    names = types->string("pos_att_type");
  else if (types)
    for (const std::string& one : types->strings("pos_att_type")) names += one + "|";
  const bool c2p = names.find("c2p") != std::string::npos;
  const bool p2c = names.find("p2c") != std::string::npos;
  const bool relative = r.keys.boolean({"relative_attention"}).value_or(false);
  if (relative) terms = (c2p ? 1 : 0) + (p2c ? 1 : 0);
  if (r.keys.boolean({"position_biased_input"}).value_or(true))
    put_learned(r, r.out.length, 0, all_layers(r));
  const double epsilon = r.keys.positive({"layer_norm_eps"}).value_or(1e-7);
  const bool normed =
      r.keys.string({"norm_rel_ebd"}).value_or("none").find("layer_norm") != std::string::npos;
  if (!relative || terms == 0) return;
  Deberta spec{.heads = r.heads,
               .head_dim = r.head_dim,
               .width = hidden_size(r),
               .span = buckets > 0 ? buckets : most,
               .distance = buckets > 0 ? DebertaDistance::logarithmic : DebertaDistance::raw,
               .max_distance = most,
               .terms = c2p && p2c ? DebertaTerms::both
                        : c2p      ? DebertaTerms::content_to_position
                                   : DebertaTerms::position_to_content};
  if (normed && has_norm) spec.norm_epsilon = epsilon;
  try {
    row(spec, 0);
  } catch (const std::invalid_argument& error) {
    r.fail_at({"position_buckets", "max_relative_positions"}, error.what());
  }
  put(r, std::move(spec));
}

void read_deberta_v1(Reading& r) { read_deberta(r, false); }
void read_deberta_v2(Reading& r) { read_deberta(r, true); }

// A learned table and T5's bias: 32 buckets up to distance 128. The config's keys are not used.
void read_mpnet(Reading& r) {
  read_sizes(r);
  put_learned(r, r.out.length, padding_offset(r), all_layers(r));
  put(r, T5Bias{.heads = r.heads, .direction = T5Direction::bidirectional});
  if (const auto given = r.keys.size({"relative_attention_num_buckets"});
      given.value_or(32) != 32)
    r.note("relative_attention_num_buckets " + std::to_string(*given) +
           " is not used by mpnet: distances have 32 buckets");
}

// A learned table, and a bias by buckets of the distances in the text and on the page.
void read_layoutlm(Reading& r, bool third) {
  read_sizes(r);
  put_learned(r, r.out.length, third ? padding_offset(r) : 0, all_layers(r));
  const bool text = r.keys.boolean({"has_relative_attention_bias"}).value_or(true);
  const bool page = r.keys.boolean({"has_spatial_attention_bias"}).value_or(true);
  LayoutBias bias = third ? bias::layoutlm_v3(r.heads, r.head_dim) : bias::layoutlm_v2(r.heads);
  bias.text_buckets = r.size({"rel_pos_bins"}, bias.text_buckets);
  bias.text_distance = r.size({"max_rel_pos"}, bias.text_distance);
  bias.page_buckets = r.size({"rel_2d_pos_bins"}, bias.page_buckets);
  bias.page_distance = r.size({"max_rel_2d_pos"}, bias.page_distance);
  for (const char* name : {"rel_pos_bins", "rel_2d_pos_bins"})
    if (const std::int64_t buckets = r.size({name}, 32); buckets < 4 || buckets % 2 != 0)
      r.fail_at({name}, std::string(name) + " must be even and at least 4, got " +
                            std::to_string(buckets));
  r.note("tables of the word boxes are also added to the embeddings");
  if (text && page)
    put(r, bias);
  else if (text || !third)
    r.unsupported = text ? "a bias of the text alone" : "a bias of the page alone";
}

void read_layoutlm_v2(Reading& r) { read_layoutlm(r, false); }
void read_layoutlm_v3(Reading& r) { read_layoutlm(r, true); }

// The first and the last layer are convolutions.
void read_sam3_lite_text(Reading& r) {
  read_learned(r);
  if (!r.is_true("use_repmixer_blocks", true)) return;
  r.layers.front().attends = r.layers.back().attends = false;
  note_idle_layers(r);
}

void read_text_sinusoids(Reading& r) {
  read_sizes(r);
  put_sinusoidal(
      r, r.family.softcap > 0 ? SinusoidalRecipe::half_split : SinusoidalRecipe::tensor2tensor,
      0, all_layers(r));
}

}  // namespace

void add_bert(Families& add) {
  using namespace changes;
  add(rotary, {}, visibility(bidirectional), alibi_heads(by_heads),
      gguf("jina-bert-v2", RopeType::none));
  add(rotary, {}, visibility(bidirectional), gguf("nomic-bert-moe", RopeType::halves));
  add(rotary, {}, visibility(bidirectional), gguf("neo-bert", RopeType::adjacent));
  const Family camembert = add(rotary,
                               {"camembert", "data2vec-text", "luke", "markuplm", "roberta",
                                "roberta-prelayernorm", "xlm-roberta", "xmod"},
                               read(read_roberta), position("learned, offset pad + 1"),
                               length(512), sizes(12, 12, 768), visibility(bidirectional));
  const Family bridgetower_text_model =
      add(camembert, {"bridgetower_text_model", "clap_text_model"}, length(514));
  add(bridgetower_text_model, {"altclip_text_model"}, sizes(24, 16, 1024));
  add(bridgetower_text_model, {"xlm-roberta-xl"}, sizes(36, 32, 2560));
  add(camembert, {"ibert"}, unsupported("attention in integers"));
  add(camembert, {"lilt"}, unsupported("tables of the boxes of words added to the embeddings"));
  add(camembert, {"longformer"},
      unsupported("global tokens, which attend to all tokens and are attended by all"));
  const Family clip_text_model = add(
      rotary,
      {"clip_text_model", "clipseg_text_model", "metaclip_2_text_model", "xclip_text_model"},
      read(read_learned), position("learned"), length(77), sizes(12, 8, 512));
  const Family aimv2_text_model =
      add(clip_text_model, {"aimv2_text_model"}, sizes(12, 6, 768), visibility(bidirectional));
  const Family align_text_model = add(aimv2_text_model,
                                      {"align_text_model", "dpr", "flava_text_model",
                                       "instructblip_qformer", "instructblipvideo_qformer"},
                                      length(512), sizes(12, 12, 768));
  add(align_text_model, {"tipsv2_text_model"}, read(read_text_sinusoids),
      position("sinusoidal, tensor2tensor"), length(64));
  add(align_text_model, {"videoprism_text_model"}, read(read_text_sinusoids),
      position("sinusoidal, half_split"), length(64), softcap(50),
      note("a class token without position stands after the text"));
  add(align_text_model, {"sam3_lite_text_text_model"}, read(read_sam3_lite_text), length(77),
      sizes(12, 8, 512), unsupported("a table that is resized to the length"));
  add(align_text_model, {"big_bird"}, length(4096),
      unsupported("block-sparse attention with random blocks"));
  add(align_text_model, {"blip_text_model"}, sizes(12, 8, 768));
  const Family layoutlm =
      add(align_text_model, {"layoutlm"},
          unsupported("tables of the boxes of words added to the embeddings"));
  const Family layoutlmv2 = add(layoutlm, {"layoutlmv2"}, read(read_layoutlm_v2),
                                position("learned and bias of the page"), unsupported(""));
  add(layoutlmv2, {"layoutxlm"});
  add(layoutlmv2, {"layoutlmv3"}, read(read_layoutlm_v3));
  add(align_text_model, {"realm"},
      unsupported("attention that was not compared with the model's own code"));
  add(align_text_model, {"siglip2_text_model", "siglip_text_model"}, length(64));
  const Family tapas = add(align_text_model, {"tapas"}, length(1024),
                           unsupported("several tables added to the embeddings"));
  add(tapas, {"vilt"}, length(40));
  add(clip_text_model, {"groupvit_text_model"}, sizes(12, 4, 256));
  add(clip_text_model, {"owlv2_text_model", "owlvit_text_model"}, length(16));
  const Family deberta_v2 =
      add(rotary, {"deberta-v2"}, read(read_deberta_v2), position("DeBERTa"), length(512),
          sizes(24, 24, 1536), visibility(bidirectional));
  add(deberta_v2, {"deberta"}, read(read_deberta_v1), sizes(12, 12, 768), weights(grouped));
  const Family ernie =
      add(rotary, {"ernie", "roc_bert", "splinter", "visual_bert"}, read(read_bert),
          position("learned"), length(512), sizes(12, 12, 768), visibility(bidirectional));
  const Family albert =
      add(ernie, {"albert"}, sizes(12, 64, 4096), embedding_width("embedding_size", 128));
  add(albert, {"electra"}, sizes(12, 4, 256));
  add(ernie, {"chinese_clip_text_model"});
  add(ernie, {"bert"}, gguf("bert", RopeType::none));
  add(ernie, {"bert-generation", "megatron-bert"}, sizes(24, 16, 1024));
  add(ernie, {"convbert"}, embedding_width("embedding_size", 768),
      unsupported("heads that share their layer with a convolution"));
  add(ernie, {"distilbert"}, sizes(6, 12, 768));
  add(ernie, {"lxmert"}, sizes(9, 12, 768), layers_in_object("l_layers"));
  add(ernie, {"rembert"}, sizes(32, 18, 1152), embedding_width("input_embedding_size", 256));
  add(ernie, {"squeezebert"},
      unsupported("attention that was not compared with the model's own code"));
  add(rotary, {"esm"}, read(read_esm), position("rotary, halves, or learned"), length(1026),
      sizes(12, 12, 768), visibility(bidirectional));
  add(rotary, {"esmc"}, sizes(80, 40, 2560), visibility(bidirectional),
      norm(layer_norm, before, all_heads, 1e-5));
  add(rotary, {"eurobert"}, length(8192), sizes(12, 12, 768), visibility(bidirectional),
      gguf("eurobert", RopeType::halves));
  add(rotary, {"gte"}, base(160'000), length(8192), sizes(12, 12, 768), key_heads(by_heads),
      visibility(bidirectional));
  add(rotary, {"jina_embeddings_v3"}, base(20'000), length(8194), sizes(24, 16, 1024),
      key_heads(by_heads), visibility(bidirectional), gguf("jina-bert-v3", RopeType::halves));
  add(rotary, {"mobilebert"}, read(read_mobilebert), position("learned"), length(512),
      sizes(24, 4, 512), visibility(bidirectional));
  add(rotary, {"mpnet"}, read(read_mpnet), position("learned and T5 bias"), length(512),
      sizes(12, 12, 768), visibility(bidirectional));
  const Family mra =
      add(rotary, {"mra"}, read(read_learned_after_two), position("learned, offset 2"),
          length(512), sizes(12, 12, 768), visibility(bidirectional),
          unsupported("an approximation of softmax attention"));
  add(mra, {"nystromformer"}, length(510));
  add(mra, {"yoso"}, length(4096));
  add(rotary, {"nomic_bert"}, base(1000), sizes(12, 12, 768), key_heads(by_heads),
      visibility(bidirectional), weights(stacked), gguf("nomic-bert", RopeType::halves));
  add(rotary, {"reformer"}, read(read_axial_learned), position("learned, factored"),
      length(4096), sizes(6, 12, 256),
      unsupported("locality-sensitive hashing that selects keys"));
  add(rotary, {"roformer"}, pairing(adjacent), length(1536), sizes(12, 12, 768),
      key_heads(by_heads), visibility(bidirectional));
}

}  // namespace gnomon::model::internal
