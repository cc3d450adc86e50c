// Families that turn queries and keys: which pairing, and what else their code does that their
// configs do not say. Read from the families' own sources.
#include <cmath>
#include <span>

#include "src/model/reading.h"

namespace gnomon::model::internal {
namespace {


std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

void prepare(Reading& r) {
  read_sizes(r);
  read_layer_types(r);
}

// Where layer_types does not say: every n-th layer is full attention, the others slide.
void slide_all_but_every(Reading& r, std::int64_t n) {
  if (r.keys.find({"layer_types"})) return;
  for (std::int64_t l = 0; l < r.out.layers; ++l)
    if ((l + 1) % n != 0) r.layers[size(l)].type = "sliding_attention";
}

void keep_still(Reading& r, std::string_view type) {
  for (Layer& layer : r.layers)
    if (layer.type == type) layer.turns = false;
}

// ---- softmax scales ----

// Granite: a number of its own, 1 where it is not given.
void granite(Reading& r) {
  r.softmax_scale = r.keys.number({"attention_multiplier"}).value_or(1.0);
  read_rotary(r);
}

void scalar_before_attention(Reading& r, double otherwise) {
  r.softmax_scale = inverse_sqrt(r.keys.number({"query_pre_attn_scalar"}).value_or(otherwise));
}

void gemma2(Reading& r) {
  scalar_before_attention(r, 256);
  read_rotary(r);
}

// ---- rotary by layer type ----

// Gemma 3 and 3n before 5.x: rope_scaling is of the full layers; sliding ones have a base of
// their own.
void local_base(Reading& r, double otherwise) {
  const auto local = r.keys.number({"rope_local_base_freq"});
  const auto parameters = r.keys.find({"rope_parameters"});
  bool nested = false;
  if (parameters)
    parameters->for_each_member(
        [&](const std::string&, Json value) { nested |= value.is(JsonType::object); });
  if (nested) return;
  if (!local)
    r.note("rope_local_base_freq is not given: " + std::to_string(std::int64_t(otherwise)) +
           ", the default of " + r.out.model_type);
  r.ropes["sliding_attention"] = read_rope(r, std::nullopt, local.value_or(otherwise));
}

void gemma3(Reading& r) {
  scalar_before_attention(r, 256);
  prepare(r);
  slide_all_but_every(r, r.size({"sliding_window_pattern", "_sliding_window_pattern"}, 6));
  local_base(r, 10'000);
  read_rotary(r);
}

void gemma3n(Reading& r) {
  r.softmax_scale = 1;
  prepare(r);
  slide_all_but_every(r, 5);
  local_base(r, 10'000);
  read_rotary(r);
}

// ---- layers that do not turn ----

// `no_rope_layers` says 1 for layers that do turn.
void turn_by_list(Reading& r, std::int64_t interval) {
  prepare(r);
  interval = r.size({"no_rope_layer_interval"}, interval);
  const auto list = r.keys.find({"no_rope_layers"});
  const auto turns = list ? list->integers("no_rope_layers") : std::vector<std::int64_t>();
  if (!turns.empty() && std::ssize(turns) < r.out.layers)
    list->fail("no_rope_layers must have a number for each of " + std::to_string(r.out.layers) +
               " layers, got " + std::to_string(turns.size()));
  for (std::int64_t l = 0; l < r.out.layers; ++l)
    r.layers[size(l)].turns = turns.empty() ? (l + 1) % interval != 0 : turns[size(l)] != 0;
}

void smollm3(Reading& r) {
  turn_by_list(r, 4);
  read_rotary(r);
}

void llama4(Reading& r) {
  turn_by_list(r, 4);
  // attn_temperature_tuning was 4 before it was true.
  const auto tuning = r.keys.find({"attn_temperature_tuning"});
  const bool tempered = !tuning || (tuning->is(JsonType::boolean)
                                        ? tuning->boolean("attn_temperature_tuning")
                                        : tuning->number("attn_temperature_tuning") != 0);
  const double scale = r.keys.number({"attn_scale"}).value_or(0.1);
  const std::int64_t floor = r.size({"floor_scale"}, 8192);
  if (tempered) r.temperature = llama4_temperature(scale, floor);
  r.tempered = Reading::Tempered::still;
  if (r.keys.boolean({"use_qk_norm"}).value_or(true))
    r.note("queries and keys of the layers that turn are normalised (RMS) after the rotation");
  read_rotary(r);
}

void cohere2(Reading& r) {
  prepare(r);
  slide_all_but_every(r, r.size({"sliding_window_pattern", "_sliding_window_pattern"}, 4));
  keep_still(r, "full_attention");
  read_rotary(r);
}

// Without a sliding window every layer turns; with one, those that slide.
void exaone4(Reading& r) {
  prepare(r);
  if (const auto window = r.keys.find({"sliding_window"})) {
    std::int64_t every = 4;
    if (const auto pattern = r.keys.find({"sliding_window_pattern"})) {
      if (pattern->is(JsonType::string)) {  // "LLLG": the last of them is global
        const auto letters = pattern->string("sliding_window_pattern");
        if (!r.keys.find({"layer_types"}) && !letters.empty())
          for (std::int64_t l = 0; l < r.out.layers; ++l)
            r.layers[size(l)].type = letters[size(l) % letters.size()] == 'L'
                                         ? "sliding_attention"
                                         : "full_attention";
        every = 0;
      } else {
        every = r.size({"sliding_window_pattern"});
      }
    }
    if (every != 0) slide_all_but_every(r, every);
    keep_still(r, "full_attention");
  }
  read_rotary(r);
}

// ---- multi-head latent attention ----

void latent(Reading& r) {
  const std::int64_t still = r.size({"qk_nope_head_dim"}, 128);
  const std::int64_t turning = r.size({"qk_rope_head_dim"}, 64);
  r.keys.find({"head_dim"});  // there the rotary part alone
  read_sizes(r);
  r.head_dim = still + turning;
  r.first = still;
  r.rotary_dim = turning;
  read_layer_types(r);
  read_ropes(r);
  // DeepSeek multiplies the softmax by the square of the magnitude for all dims.
  for (auto& [type, rope] : r.ropes)
    if (auto* yarn = std::get_if<YarnScaling>(&rope.scaling))
      yarn->softmax_mscale = yarn->mscale_all_dim;
  put_rotary_groups(r);
}

void deepseek_v2(Reading& r) {
  r.note("released code before 2026-07 leaves out the softmax's share of mscale_all_dim");
  latent(r);
}

// ---- the rest ----

void ministral3(Reading& r) {
  prepare(r);
  for (const char* name : {"rope_parameters", "rope_scaling"})
    if (const auto dictionary = r.keys.find({name}))
      if (const auto beta = dictionary->find("llama_4_scaling_beta")) {
        const auto original = dictionary->find("original_max_position_embeddings");
        if (!original)
          dictionary->fail("llama_4_scaling_beta needs original_max_position_embeddings");
        r.temperature =
            ministral3_temperature(beta->number("llama_4_scaling_beta"),
                                   original->integer("original_max_position_embeddings"));
      }
  read_rotary(r);
}

void sequential_mrope(Reading& r) {
  r.mrope = MRopeOrder::sequential;
  read_rotary(r);
}
void interleaved_mrope(Reading& r) {
  r.mrope = MRopeOrder::interleaved;
  read_rotary(r);
}
void ernie_mrope(Reading& r) {
  r.mrope = MRopeOrder::ernie;
  read_rotary(r);
}

// `rotary_dim` elements of the head.
void by_rotary_dim(Reading& r) {
  read_sizes(r);
  r.rotary_dim = r.size({"rotary_dim"}, 64);
  read_rotary(r);
}

void modernbert(Reading& r) {
  prepare(r);
  const std::int64_t every = r.size({"global_attn_every_n_layers"}, 3);
  if (!r.keys.find({"layer_types"}))
    for (std::int64_t l = 0; l < r.out.layers; ++l)
      if (l % every != 0) r.layers[size(l)].type = "sliding_attention";
  if (!r.keys.find({"rope_parameters"})) {
    r.ropes["full_attention"] =
        read_rope(r, std::nullopt, r.keys.number({"global_rope_theta"}).value_or(160'000));
    r.ropes["sliding_attention"] =
        read_rope(r, std::nullopt, r.keys.number({"local_rope_theta"}).value_or(10'000));
    return put_rotary_groups(r);
  }
  read_rotary(r);
}

// Code outside of transformers: the base is a multiple of 10000, half of the head turns.
void chatglm(Reading& r) {
  read_sizes(r);
  r.rotary_dim = r.head_dim / 2;
  const double ratio = r.keys.number({"rope_ratio"}).value_or(1);
  r.keys.find({"original_rope"});
  read_layer_types(r);
  r.ropes.emplace("", read_rope(r, r.keys.find({"rope_scaling"}), 10'000 * ratio));
  put_rotary_groups(r);
}

}  // namespace

std::span<const Family> rotary_families() {
  constexpr Pairing adjacent = Pairing::adjacent;
  constexpr const char* halves_text = "rotary, halves";
  constexpr const char* adjacent_text = "rotary, adjacent";
  // clang-format off
  static constexpr Family list[] = {
      {.model_type = "llama", .read = read_rotary, .position = halves_text},
      {.model_type = "gptj", .read = by_rotary_dim, .position = adjacent_text, .pairing = adjacent},
      {.model_type = "gpt_neox", .read = read_rotary, .position = halves_text, .share = 0.25},
      {.model_type = "deepseek_v3", .read = latent, .position = adjacent_text, .pairing = adjacent, .length = 4096},
      {.model_type = "gemma3_text", .read = gemma3, .position = halves_text, .base = 1'000'000, .head_dim = 256, .length = 131072},
      {.model_type = "qwen2", .read = read_rotary, .position = halves_text, .length = 32768},
      {.model_type = "phi3", .read = read_rotary, .position = halves_text, .length = 4096},
      {.model_type = "cohere2", .read = cohere2, .position = adjacent_text, .pairing = adjacent, .length = 8192},
      {.model_type = "exaone4", .read = exaone4, .position = halves_text, .length = 2048},
      {.model_type = "smollm3", .read = smollm3, .position = halves_text, .base = 2'000'000, .length = 32768},
      {.model_type = "llama4_text", .read = llama4, .position = adjacent_text, .pairing = adjacent, .base = 500'000, .head_dim = 128, .length = 131072},
      {.model_type = "granite", .read = granite, .position = halves_text},
      {.model_type = "gemma2", .read = gemma2, .position = halves_text, .head_dim = 256, .length = 8192},
      {.model_type = "gemma3n_text", .read = gemma3n, .position = halves_text, .base = 1'000'000, .head_dim = 256, .length = 32768},
      {.model_type = "deepseek_v2", .read = deepseek_v2, .position = adjacent_text, .pairing = adjacent},
      {.model_type = "ministral3", .read = ministral3, .position = halves_text},
      {.model_type = "qwen2_vl_text", .read = sequential_mrope, .position = halves_text},
      {.model_type = "qwen3_vl_text", .read = interleaved_mrope, .position = halves_text},
      {.model_type = "ernie4_5_vl_moe_text", .read = ernie_mrope, .position = adjacent_text, .pairing = adjacent},
      {.model_type = "modernbert", .read = modernbert, .position = halves_text, .base = 160'000, .length = 8192},
      {.model_type = "chatglm", .read = chatglm, .position = adjacent_text, .pairing = adjacent},
  };
  // clang-format on
  return list;
}

}  // namespace gnomon::model::internal
