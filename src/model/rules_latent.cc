// Multi-head latent attention: a head is [nope | rope], and only the last part rotates. Source:
// the code of each family.
#include <algorithm>
#include <cmath>
#include <utility>

#include "src/core/size.h"
#include "src/model/attention_facts.h"
#include "src/model/rules.h"

namespace gnomon::model::internal {

using gnomon::internal::to_size;

namespace {

// Reads the sizes of the two parts. Defaults: head_dim of the family is their sum, and `share`
// is the rotated share.
void prepare_latent(Reading& r) {
  read_sizes(r);
  std::erase_if(r.out.notes,  // head_dim is the sum of the two parts
                [](const std::string& note) { return note.starts_with("head_dim is not"); });
  const std::int64_t both = r.family.head_dim;
  const auto own = static_cast<std::int64_t>(static_cast<double>(both) * r.family.share + 0.5);
  const std::int64_t nope_dim = r.size({"qk_nope_head_dim"}, both - own, most_of_few);
  const std::int64_t rotary_dim = r.size({"qk_rope_head_dim"}, own, most_of_few);
  r.keys.find({"partial_rotary_factor"});  // redundant
  r.head_dim = nope_dim + rotary_dim;
  r.head_offset = nope_dim;
  r.rotary_dim = rotary_dim;
  read_layer_types(r);
}

// The pairing of the family, or of rope_interleave if its code reads that key.
Pairing pairing(Reading& r) {
  if (!names("axk1 deepseek_v3 glm4_moe_lite kimi_k2 mistral4 youtu", r.family.model_type))
    return r.family.pairing;
  return r.keys.boolean({"rope_interleave"}).value_or(r.family.pairing == Pairing::adjacent)
             ? Pairing::adjacent
             : Pairing::halves;
}

void read_latent_ropes(Reading& r) {
  read_ropes(r);
  for (auto& [type, rope] : r.ropes) rope.rotary.pairing = pairing(r);
}

// Multiplies the softmax scale by the square of YaRN's magnitude for mscale_all_dim.
void scale_softmax(Reading& r) {
  for (auto& [type, rope] : r.ropes)
    if (auto* yarn = std::get_if<YarnScaling>(&rope.scaling))
      yarn->softmax_mscale = yarn->mscale_all_dim;
}

}  // namespace

void latent(Reading& r) {
  if (r.layers.empty()) prepare_latent(r);
  read_latent_ropes(r);
  scale_softmax(r);
  put_rotary_groups(r);
}

// num_layers counts pairs of attention layers. Queries are scaled by their rank.
void longcat(Reading& r) {
  const bool single = !r.keys.find({"num_hidden_layers"});
  prepare_latent(r);
  if (single && r.keys.find({"num_layers"})) {
    if (r.out.layers > most_of_few / 2)
      r.fail_at({"num_layers"}, "num_layers must be at most 32768");
    r.out.layers *= 2;
  }
  read_layer_types(r);
  const auto width = static_cast<double>(hidden_size(r));
  const auto rank = static_cast<double>(r.size({"q_lora_rank"}, 1536));
  r.softmax_scale = inverse_sqrt(static_cast<double>(r.head_dim)) * std::sqrt(width / rank);
  r.note("softmax_scale includes sqrt(hidden_size / q_lora_rank), the factor of the queries");
  latent(r);
}

void latent_unscaled(Reading& r) {
  prepare_latent(r);
  rotate_by_list(r, 4);
  read_latent_ropes(r);
  put_rotary_groups(r);
}

void deepseek_v2(Reading& r) {
  r.note(
      "softmax_scale includes the factor of mscale_all_dim, as in DeepSeek's code; "
      "transformers before 2026-07 omits it");
  latent(r);
}

namespace {

// Types of layers: layer_types, or compress_ratios, or the default of DeepSeek-V4.
void type_by_ratios(Reading& r) {
  const auto list =
      r.keys.find({"layer_types"}) ? std::nullopt : r.keys.find({"compress_ratios"});
  const auto ratios = list ? list->integers("compress_ratios") : std::vector<std::int64_t>();
  if (list) require_length(r, *list, ratios.size(), "compress_ratios");
  constexpr const char* sparse = "compressed_sparse_attention";
  constexpr const char* heavy = "heavily_compressed_attention";
  type_layers(r, [&](std::int64_t l) {
    if (!list) return l < 2 || l % 2 == 0 ? heavy : sparse;
    const std::int64_t ratio = ratios[to_size(l)];
    if (ratio != 0 && ratio != 4 && ratio != 128)
      list->fail("compress_ratios must be 0, 4 or 128, got " + std::to_string(ratio));
    return ratio == 0 ? sliding : ratio == 4 ? sparse : heavy;
  });
}

}  // namespace

// Sliding layers have one base, layers with a compressor another and the scaling. The head is
// not divided, and its last part rotates.
void deepseek_v4(Reading& r) {
  prepare(r);
  type_by_ratios(r);
  const auto share = r.keys.share({"partial_rotary_factor"});
  const std::int64_t rotary_dim = r.size({"qk_rope_head_dim"}, 0);
  r.rotary_dim = share || rotary_dim == 0 ? of_head(r.head_dim, share.value_or(r.family.share))
                                          : rotary_dim;
  if (*r.rotary_dim >= r.head_dim)
    r.fail_at({"qk_rope_head_dim"}, "qk_rope_head_dim must be less than head_dim " +
                                        std::to_string(r.head_dim) + ", got " +
                                        std::to_string(*r.rotary_dim));
  r.head_offset = r.head_dim - *r.rotary_dim;
  auto given = r.keys.find({"rope_scaling", "rope_parameters"});
  const auto label = [&](const char* name) {
    auto one = given ? given->find(name) : std::nullopt;
    return one && one->is(JsonType::object) ? one : std::nullopt;
  };
  const auto main = label("main"), compress = label("compress");
  const bool by_label = main && compress;
  const double base = r.keys.base({"rope_theta"}).value_or(10'000);
  const double compress_base = r.keys.base({"compress_rope_theta"}).value_or(160'000);
  Rope compressed = read_rope(r, by_label ? compress : given, compress_base);
  if (!by_label) {
    // The keys are those of the compressed layers, with their own base. DeepSeek's code does not
    // scale cos and sin.
    compressed.rotary.base = compress_base;
    auto* const yarn = std::get_if<YarnScaling>(&compressed.scaling);
    if (yarn && !given->find("attention_factor")) yarn->attention_factor = 1;
  }
  r.ropes[sliding] = read_rope(r, by_label ? main : std::nullopt, base);
  r.ropes[""] = std::move(compressed);
  r.note("the output of attention is rotated back by the same angles");
  put_rotary_groups(r);
}

// Sliding layers have other heads than layers with an indexer.
void dots3(Reading& r) {
  constexpr const char* sliding = "sliding_attention";
  prepare_latent(r);
  const bool windows = r.keys.boolean({"use_sliding_window"}).value_or(true);
  type_layers(r, [&](std::int64_t l) {
    return !windows || l < 2 || l % 4 == 1 ? "indexed_attention" : sliding;
  });
  std::int64_t nope_dim = r.size({"swa_qk_nope_head_dim"}, 192, most_of_few);
  const std::int64_t rest = r.size({"swa_head_dim"}, 256, most_of_few) - nope_dim;
  std::int64_t rotary_dim =
      r.size({"swa_qk_rope_head_dim"}, std::max<std::int64_t>(rest, 1), most_of_few);
  if (const auto all = r.keys.object_in("per_layer_config"))
    all->for_each_member([&](const std::string&, Json value) {
      if (!value.is(JsonType::object)) return;
      Keys keys(value);
      nope_dim = keys.size({"qk_nope_head_dim"}, most_of_few).value_or(nope_dim);
      rotary_dim = keys.size({"qk_rope_head_dim"}, most_of_few).value_or(rotary_dim);
    });
  else
    for (Layer& layer : r.layers)
      if (layer.type == sliding)
        layer.heads = r.size({"swa_num_attention_heads"}, 64, most_of_few);
  r.head_dims[sliding] = nope_dim + rotary_dim;
  r.key_heads_of.try_emplace(sliding, r.size({"swa_num_key_value_heads"}, 64, most_of_few));
  const auto parameters = r.keys.find({"rope_parameters", "rope_scaling"});
  const bool by_type = has_ropes_by_type(r);
  const auto entry = [&](const char* type) {
    return parameters && by_type ? parameters->find(type) : parameters;
  };
  // Without a dictionary, sliding layers have a base of their own.
  const double base = r.keys.base({"rope_theta"}).value_or(r.family.base);
  const double window_base = r.keys.base({"swa_rope_theta"}).value_or(50'000);
  const Rope indexed = read_rope(r, entry("indexed_attention"), base);
  r.head_offset = nope_dim, r.rotary_dim = rotary_dim;
  r.ropes[sliding] = read_rope(r, entry(sliding), parameters ? base : window_base, sliding);
  r.ropes[""] = indexed;
  put_rotary_groups(r);
}

void mistral4(Reading& r) {
  prepare_latent(r);
  if (const auto parameters = r.keys.find({"rope_parameters", "rope_scaling"}))
    read_temperature(r, *parameters);
  latent(r);
}

// The last layer of each group has latent attention, the others have linear attention.
void bailing_hybrid(Reading& r) {
  prepare_latent(r);
  const std::int64_t group = r.size({"layer_group_size"}, 8);
  type_layers(r, [&](std::int64_t l) {
    return (l + 1) % group == 0 ? "full_attention" : "linear_attention";
  });
  latent(r);
}

}  // namespace gnomon::model::internal
