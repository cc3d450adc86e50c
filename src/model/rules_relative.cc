// Families with vectors by distance, and biases of windows. Source: the code of each family.
#include <stdexcept>

#include "src/model/rules.h"

namespace gnomon::model::internal {

void read_sizes_without_length(Reading& r) {
  r.keys.find({"max_position_embeddings"});
  read_sizes(r);
  std::erase_if(r.out.notes, [](const std::string& note) {
    return note.starts_with("max_position_embeddings is not given");
  });
}

// The encoder has vectors by distance. Text has sinusoids, multiplied by a trained factor.
void speecht5(Reading& r) {
  const Stacks stacks = read_stacks(r);
  const std::int64_t most = r.size({"encoder_max_relative_position"}, 160, most_of_few);
  put_group(r, {gnomon::relative::speecht5(r.head_dim, most)}, stacks.encoder, "encoder");
  put_group(r, {}, stacks.decoder, "decoder");
  r.note("sinusoids, multiplied by a trained factor, are also added to the embeddings");
}

void deberta(Reading& r) {
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
  if (r.keys.boolean({"position_biased_input"}).value_or(true)) put_learned(r, r.out.length, 0);
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
  if (normed && r.family.model_type != "deberta") spec.norm_epsilon = epsilon;
  try {
    row(spec, 0);
  } catch (const std::invalid_argument& error) {
    r.fail_at({"position_buckets", "max_relative_positions"}, error.what());
  }
  put_group(r, {std::move(spec)});
}

void transformer_xl(Reading& r) {
  read_sizes(r);
  TransformerXl xl{.heads = r.heads,
                   .head_dim = r.head_dim,
                   .width = hidden_size(r),
                   .sinusoid = XlSinusoid::half_split};
  if (const auto clamp = r.keys.integer({"clamp_len"}); clamp && *clamp > 0) xl.clamp = *clamp;
  put_group(r, {xl});
}

void conformer(Reading& r) {
  read_sizes_without_length(r);
  const std::string type =
      r.keys.string({"position_embeddings_type"})
          .value_or(r.family.model_type == "wav2vec2-bert" ? "relative_key" : "relative");
  if (type == "relative_key") {
    put_group(r, {relative::wav2vec2_bert(
                     r.head_dim, r.size({"left_max_position_embeddings"}, 64, most_of_few),
                     r.size({"right_max_position_embeddings"}, 8, most_of_few))});
  } else if (type == "relative") {
    put_group(r, {TransformerXl{.heads = r.heads,
                                .head_dim = r.head_dim,
                                .width = hidden_size(r),
                                .sinusoid = XlSinusoid::interleaved}});
  } else if (type == "rotary") {
    const double base = r.keys.base({"rotary_embedding_base"}).value_or(10'000);
    r.note("the hidden states are rotated before they are projected to q and k");
    r.attention.rotary_input = RotaryInput::hidden;
    read_layer_types(r);
    r.ropes.emplace("", read_rope(r, std::nullopt, base));
    put_rotary_groups(r);
  } else {
    r.keys.find({"position_embeddings_type"})
        ->fail("position_embeddings_type must be relative, relative_key or rotary, got " +
               type);
  }
}

void swin(Reading& r) {
  const bool second = r.family.model_type == "swinv2";
  const auto list = [&](const char* name, std::vector<std::int64_t> otherwise) {
    const auto given = r.keys.find({name});
    if (!given) return otherwise;
    const auto values = given->integers(name);
    for (const std::int64_t value : values)
      if (value < 0 || value > most_of_few)
        given->fail(std::string(name) + " must be 0 to 65536, got " + std::to_string(value));
    return values;
  };
  const auto depths = list("depths", {2, 2, 6, 2});
  const auto heads = list("num_heads", {3, 6, 12, 24});
  const auto trained = list("pretrained_window_sizes", {0, 0, 0, 0});
  const std::int64_t window = r.size({"window_size"}, 7, 32767);
  const std::int64_t width = r.size({"embed_dim"}, 96, most_of_few);
  if (heads.size() != depths.size() || depths.size() > 16)
    r.fail_at({"num_heads"}, "num_heads must have one number for each of " +
                                 std::to_string(depths.size()) + " depths");
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    const std::int64_t channels = width << stage;
    if (heads[stage] < 1 || channels % heads[stage] != 0)
      r.fail_at({"num_heads"}, "embed_dim 2^stage must be a multiple of num_heads, got " +
                                   std::to_string(heads[stage]));
    if (depths[stage] > most_of_few - r.out.layers)
      r.fail_at({"depths"}, "the sum of depths must be 0 to 65536, got " +
                                std::to_string(r.out.layers + depths[stage]));
    r.heads = heads[stage];
    r.head_dim = channels / r.heads;
    if (second) r.softmax_scale = 1;
    // Even blocks have adjacent windows, odd blocks have windows shifted by half.
    for (const std::int64_t shift : {std::int64_t{0}, window / 2}) {
      LayerGroup group;
      if (second) {
        const std::int64_t before = stage < trained.size() ? trained[stage] : 0;
        group = put_group(r, {SwinV2{.heads = r.heads,
                                     .height = window,
                                     .width = window,
                                     .pretrained_height = before,
                                     .pretrained_width = before}});
      } else {
        group = put_group(r, {Swin{.heads = r.heads, .height = window, .width = window}});
      }
      r.out.groups.pop_back();
      group.layers.clear();
      for (std::int64_t block = shift ? 1 : 0; block < depths[stage]; block += 2)
        group.layers.push_back(r.out.layers + block);
      group.attention.partition = CellWindows{window, window, shift};
      if (!group.layers.empty()) r.out.groups.push_back(std::move(group));
    }
    r.out.layers += depths[stage];
  }
  r.stages = depths;
  r.note("a stage whose image is no larger than a window has one window, which is not shifted");
}

}  // namespace gnomon::model::internal
