// Shared code of the rules, and rotary families with special settings. Source: the code of each
// family.
#include <cmath>
#include <numeric>
#include <utility>

#include "src/core/size.h"
#include "src/model/rules.h"

namespace gnomon::model::internal {

using gnomon::internal::to_size;

void prepare(Reading& r) {
  read_sizes(r);
  read_layer_types(r);
}

void slide_all_but_every(Reading& r, std::int64_t n) {
  type_layers(r, [&](std::int64_t l) { return (l + 1) % n == 0 ? full : sliding; });
}

void set_nope_layers(Reading& r, std::string_view type) {
  for (Layer& layer : r.layers)
    if (layer.type == type) layer.rotates = false;
}

void rotate_by_list(Reading& r, std::int64_t interval) {
  interval = r.size({"no_rope_layer_interval"}, interval);
  const auto list = r.keys.find({"no_rope_layers"});
  const auto rotates = list ? list->integers("no_rope_layers") : std::vector<std::int64_t>();
  if (!rotates.empty()) require_length(r, *list, rotates.size(), "no_rope_layers");
  for (std::int64_t l = 0; l < r.out.layers; ++l)
    r.layers[to_size(l)].rotates =
        rotates.empty() ? (l + 1) % interval != 0 : rotates[to_size(l)] != 0;
}

std::vector<std::int64_t> layer_numbers(const Reading& r, const Json& list,
                                        std::string_view name, std::int64_t first) {
  std::vector<std::int64_t> numbers;
  list.require(JsonType::array, name);
  list.for_each_element([&](const Json& one) {
    const std::int64_t number = one.integer(name);
    if (number < first || number - first >= r.out.layers)
      one.fail(std::string(name) + " must be " + std::to_string(first) + " to " +
               std::to_string(r.out.layers - 1 + first) + ", got " + one.shown());
    numbers.push_back(number - first);
  });
  return numbers;
}

void require_length(const Reading& r, const Json& list, std::size_t size,
                    std::string_view name) {
  if (std::cmp_less(size, r.out.layers))
    list.fail(std::string(name) + " must have one value for each of " +
              std::to_string(r.out.layers) + " layers, got " + std::to_string(size));
}

bool has_ropes_by_type(Reading& r) {
  bool nested = false;
  for (const char* name : {"rope_parameters", "rope_scaling"})
    if (const auto dictionary = r.keys.find({name}))
      dictionary->for_each_member(
          [&](const std::string&, Json value) { nested |= value.is(JsonType::object); });
  return nested;
}

void by_rotary_dim(Reading& r) {
  read_sizes(r);
  r.rotary_dim = r.size({"rotary_dim"}, r.family.rotary_dim);
  read_rotary(r);
}

void chatglm(Reading& r) {
  prepare(r);
  r.rotary_dim = of_head(r.head_dim, r.family.share);
  const double ratio = r.keys.positive({"rope_ratio"}).value_or(1);
  r.keys.find({"original_rope"});
  if (!(10'000 * ratio > 1 && std::isfinite(10'000 * ratio)))
    r.fail_at({"rope_ratio"}, "10000 rope_ratio must be finite and greater than 1, got " +
                                  shown(10'000 * ratio));
  r.ropes.emplace("", read_rope(r, r.keys.find({"rope_scaling"}), 10'000 * ratio));
  put_rotary_groups(r);
}

void dbrx(Reading& r) {
  prepare(r);
  double base = r.keys.base({"rope_theta"}).value_or(r.family.base);
  if (const auto inner = r.keys.object_in("attn_config"))
    base = Keys(*inner).base({"rope_theta"}).value_or(base);
  r.ropes.emplace("", read_rope(r, r.keys.find({"rope_parameters", "rope_scaling"}), base));
  put_rotary_groups(r);
}

void dia(Reading& r) {
  r.softmax_scale = 1;
  read_rotary(r);
}

void falcon_h1(Reading& r) {
  prepare(r);
  r.softmax_scale = r.keys.positive({"key_multiplier"}).value_or(1) *
                    inverse_sqrt(static_cast<double>(r.head_dim));
  read_rotary(r);
}

void granite(Reading& r) {
  r.softmax_scale = r.keys.positive({"attention_multiplier"});
  if (!r.softmax_scale && r.family.model_type != "hyperclovax") r.softmax_scale = 1;
  read_rotary(r);
}

void llama4(Reading& r) {
  prepare(r);
  rotate_by_list(r, 4);
  // Some configs have attn_temperature_tuning 4 instead of true.
  const auto tuning = r.keys.find({"attn_temperature_tuning"});
  const bool tempered = !tuning || (tuning->is(JsonType::boolean)
                                        ? tuning->boolean("attn_temperature_tuning")
                                        : tuning->number("attn_temperature_tuning") != 0);
  const double scale = r.keys.number({"attn_scale"}).value_or(0.1);
  if (scale < 0)
    r.fail_at({"attn_scale"}, "attn_scale must not be negative, got " + shown(scale));
  const std::int64_t floor = r.size({"floor_scale"}, 8192);
  if (tempered) r.temperature = llama4_temperature(scale, floor);
  r.tempered = Reading::Tempered::nope_layers;
  if (r.keys.boolean({"use_qk_norm"}).value_or(true))
    r.note(
        "queries and keys of the layers that rotate are normalised (RMS) after the rotation");
  // The layer types of rotating layers (chunked attention) do not determine the base.
  read_rotary(r);
}

void minimax_m2(Reading& r) {
  prepare(r);
  if (r.keys.find({"rotary_dim"})) r.rotary_dim = r.size({"rotary_dim"});
  read_rotary(r);
}

// transformers reads partial_rotary_factor alone. The release has both keys.
void minimax_m3(Reading& r) {
  prepare(r);
  if (!r.keys.find({"partial_rotary_factor"})) {
    r.rotary_dim = r.head_dim;
    if (const auto given = r.keys.size({"rotary_dim"}); given && *given != r.head_dim)
      r.note("rotary_dim " + std::to_string(*given) +
             " is not used: partial_rotary_factor is not given, so the whole head rotates, as "
             "in transformers 5.24");
  }
  read_rotary(r);
}

void ministral3(Reading& r) {
  prepare(r);
  for (const char* name : {"rope_scaling", "rope_parameters"})
    if (const auto dictionary = r.keys.find({name}); dictionary && !r.temperature)
      read_temperature(r, *dictionary);
  read_rotary(r);
}

void read_temperature(Reading& r, const Json& dictionary) {
  Keys keys(dictionary);
  const auto beta = keys.number({"llama_4_scaling_beta"});
  if (!beta) return;
  const auto original = keys.size({"original_max_position_embeddings"});
  if (!original)
    dictionary.fail("llama_4_scaling_beta requires original_max_position_embeddings");
  if (*beta < 0)
    keys.find({"llama_4_scaling_beta"})
        ->fail("llama_4_scaling_beta must not be negative, got " + shown(*beta));
  r.temperature = ministral3_temperature(*beta, *original);
}

void laguna(Reading& r) {
  prepare(r);
  read_heads(r);
  read_rotary(r);
}

void mllama(Reading& r) {
  prepare(r);
  if (const auto list = r.keys.find({"cross_attention_layers"}))
    for (const std::int64_t l : layer_numbers(r, *list, "cross_attention_layers")) {
      r.layers[to_size(l)].rotates = false;
      r.layers[to_size(l)].unsupported = "cross-attention to an image";
    }
  read_rotary(r);
}

void moonshine(Reading& r) {
  for (const char* name : {"decoder_num_hidden_layers", "decoder_num_attention_heads"})
    if (!r.keys.find({name})) r.fail(std::string("a config of moonshine must have ") + name);
  r.out.layers = r.size({"decoder_num_hidden_layers"});
  r.heads = r.size({"decoder_num_attention_heads"});
  r.out.length = r.size({"max_position_embeddings"}, r.family.length);
  const std::int64_t width = hidden_size(r);
  if (r.out.layers > 65536 || width % r.heads != 0 || width / r.heads > 65536)
    r.fail(
        "hidden_size must be a multiple of decoder_num_attention_heads, and sizes must be at "
        "most "
        "65536");
  r.head_dim = width / r.heads;
  read_layer_types(r);
  read_ropes(r);
  put_rotary_groups(r);
  LayerGroup& decoder = r.out.groups.front();
  decoder.part = "decoder";
  r.note("cross-attention has no position");
  const std::int64_t layers = r.size({"encoder_num_hidden_layers"}, r.out.layers, most_of_few);
  if (r.size({"encoder_num_attention_heads"}, r.heads) != r.heads)
    return r.note("the encoder, whose heads have another size, is not described");
  LayerGroup encoder = decoder;
  encoder.part = "encoder";
  encoder.layers.resize(static_cast<std::size_t>(layers));
  std::iota(encoder.layers.begin(), encoder.layers.end(), std::int64_t{0});
  r.out.groups.push_back(std::move(encoder));
}

void nanochat(Reading& r) {
  prepare(r);
  read_ropes(r);
  for (auto& [type, rope] : r.ropes) rope.direction = Direction::inverse;
  put_rotary_groups(r);
}

void qwen1(Reading& r) {
  prepare(r);
  const std::int64_t trained = r.size({"seq_length"}, 2048);
  if (r.keys.boolean({"use_dynamic_ntk"}).value_or(false))
    r.note("use_dynamic_ntk: past " + std::to_string(trained) +
           " tokens the base is multiplied by a^(d/(d-2)), a = 2^ceil(log2(length / " +
           std::to_string(trained) + ") + 1) - 1; these frequencies apply up to this length");
  if (r.keys.boolean({"use_logn_attn"}).value_or(false))
    r.note("use_logn_attn: queries past " + std::to_string(trained) +
           " are multiplied by log(position) / log(" + std::to_string(trained) + ")");
  r.keys.find({"rotary_emb_base"});
  r.out.length = trained;
  read_rotary(r);
}

void smollm3(Reading& r) {
  prepare(r);
  rotate_by_list(r, 4);
  read_rotary(r);
}

}  // namespace gnomon::model::internal
