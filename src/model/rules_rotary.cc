// Families that turn queries and keys, and do something of their own besides. Read from the
// families' own sources.
#include <cmath>

#include "src/model/rules.h"

namespace gnomon::model::internal {

namespace {

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

const char* full = "full_attention";
const char* sliding = "sliding_attention";

// A base for sliding layers, beside rope_theta, as configs before 5.x had it. rope_scaling is
// of the full layers alone.
void local_base(Reading& r, std::string_view name, double otherwise) {
  const auto local = r.keys.number({name});
  if (has_ropes_by_type(r)) return;
  if (!local)
    r.note(std::string(name) +
           " is not given: " + std::to_string(static_cast<std::int64_t>(otherwise)) +
           ", the default of " + r.out.model_type);
  r.ropes[sliding] = read_rope(r, std::nullopt, local.value_or(otherwise), sliding);
}

// Where layers attend: a list of their numbers.
void attend_at(Reading& r, std::string_view name) {
  const auto list = r.keys.find({name});
  if (!list) return;
  for (Layer& layer : r.layers) layer.attends = false;
  for (const std::int64_t l : list->integers(name)) {
    if (l < 0 || l >= r.out.layers)
      list->fail(std::string(name) + " must be 0 to " + std::to_string(r.out.layers - 1) +
                 ", got " + std::to_string(l));
    r.layers[size(l)].attends = true;
  }
}

void scalar_before_attention(Reading& r, double otherwise) {
  const double scalar = r.keys.number({"query_pre_attn_scalar"}).value_or(otherwise);
  if (!(scalar > 0)) r.fail("query_pre_attn_scalar must be positive");
  r.softmax_scale = inverse_sqrt(scalar);
}

}  // namespace

void prepare(Reading& r) {
  read_sizes(r);
  read_layer_types(r);
}

void slide_all_but_every(Reading& r, std::int64_t n) {
  type_layers(r, [&](std::int64_t l) { return (l + 1) % n == 0 ? full : sliding; });
}

void keep_still(Reading& r, std::string_view type) {
  for (Layer& layer : r.layers)
    if (layer.type == type) layer.turns = false;
}

void turn_by_list(Reading& r, std::int64_t interval) {
  interval = r.size({"no_rope_layer_interval"}, interval);
  const auto list = r.keys.find({"no_rope_layers"});
  const auto turns = list ? list->integers("no_rope_layers") : std::vector<std::int64_t>();
  if (!turns.empty() && std::ssize(turns) < r.out.layers)
    list->fail("no_rope_layers must have a number for each of " + std::to_string(r.out.layers) +
               " layers, got " + std::to_string(turns.size()));
  for (std::int64_t l = 0; l < r.out.layers; ++l)
    r.layers[size(l)].turns = turns.empty() ? (l + 1) % interval != 0 : turns[size(l)] != 0;
}

bool has_ropes_by_type(Reading& r) {
  bool nested = false;
  for (const char* name : {"rope_parameters", "rope_scaling"})
    if (const auto dictionary = r.keys.find({name}))
      dictionary->for_each_member(
          [&](const std::string&, Json value) { nested |= value.is(JsonType::object); });
  return nested;
}

// Rotary on the layers that slide; the full ones have no position.
void afmoe(Reading& r) {
  prepare(r);
  slide_all_but_every(r, r.size({"global_attn_every_n_layers", "sliding_window_pattern"}, 4));
  keep_still(r, full);
  read_rotary(r);
}

// Half of the head, whatever partial_rotary_factor says.
void bamba(Reading& r) {
  prepare(r);
  attend_at(r, "attn_layer_indices");
  r.rotary_dim = r.head_dim / 2;
  r.keys.find({"partial_rotary_factor"});
  read_rotary(r);
}

void by_rotary_dim(Reading& r) {
  read_sizes(r);
  r.rotary_dim = r.size({"rotary_dim"}, 64);
  read_rotary(r);
}

// Code outside of transformers: the base is a multiple of 10000, half of the head turns.
void chatglm(Reading& r) {
  prepare(r);
  r.rotary_dim = r.head_dim / 2;
  const double ratio = r.keys.number({"rope_ratio"}).value_or(1);
  r.keys.find({"original_rope"});
  r.ropes.emplace("", read_rope(r, r.keys.find({"rope_scaling"}), 10'000 * ratio));
  put_rotary_groups(r);
}

void cohere2(Reading& r) {
  prepare(r);
  slide_all_but_every(r, r.size({"sliding_window_pattern", "_sliding_window_pattern"}, 4));
  keep_still(r, full);
  read_rotary(r);
}

void dbrx(Reading& r) {
  prepare(r);
  double base = r.family.base;
  if (const auto inner = r.keys.find({"attn_config"}))
    if (const auto theta = inner->find("rope_theta")) base = theta->number("rope_theta");
  r.ropes.emplace("", read_rope(r, r.keys.find({"rope_parameters", "rope_scaling"}), base));
  put_rotary_groups(r);
}

void dia(Reading& r) {
  r.softmax_scale = 1;
  read_rotary(r);
}

// Without a sliding window every layer turns; with one, those that slide.
void exaone4(Reading& r) {
  prepare(r);
  const auto window = r.keys.find({"sliding_window"});
  const auto pattern = r.keys.find({"sliding_window_pattern"});
  if (window && pattern && pattern->is(JsonType::string)) {
    const std::string letters = pattern->string("sliding_window_pattern");  // "LLLG"
    if (letters.empty()) pattern->fail("sliding_window_pattern must not be empty");
    type_layers(r, [&](std::int64_t l) {
      return letters[size(l) % letters.size()] == 'L' ? sliding : full;
    });
  } else if (window) {
    slide_all_but_every(r, r.size({"sliding_window_pattern"}, 4));
  }
  if (window) keep_still(r, full);
  read_rotary(r);
}

void gemma2(Reading& r) {
  scalar_before_attention(r, 256);
  read_rotary(r);
}

void gemma3(Reading& r) {
  scalar_before_attention(r, 256);
  prepare(r);
  slide_all_but_every(r, r.size({"sliding_window_pattern", "_sliding_window_pattern"}, 6));
  local_base(r, "rope_local_base_freq", 10'000);
  read_rotary(r);
}

void gemma3n(Reading& r) {
  r.softmax_scale = 1;
  prepare(r);
  slide_all_but_every(r, 5);
  local_base(r, "rope_local_base_freq", 10'000);
  read_rotary(r);
}

// Heads of the full layers are wider, and only a quarter of their pairs turns, spread over the
// whole head.
void gemma4(Reading& r) {
  r.softmax_scale = 1;
  prepare(r);
  type_layers(r, [&](std::int64_t l) {
    return (l + 1) % 6 == 0 || l + 1 == r.out.layers ? full : sliding;
  });
  const std::int64_t wide = r.size({"global_head_dim"}, 512);
  if (wide > 1 << 16)
    r.fail("global_head_dim must be at most 65536, got " + std::to_string(wide));
  r.head_dims[full] = wide;
  if (has_ropes_by_type(r)) return read_rotary(r);
  r.note("rope_parameters is not given: the defaults of " + r.out.model_type);
  Rope& rope = r.ropes[full] = read_rope(r, std::nullopt, 1'000'000, full);
  rope.scaling = ProportionalScaling{.turning = wide / 8};
  r.ropes[sliding] = read_rope(r, std::nullopt, 10'000, sliding);
  put_rotary_groups(r);
}

// A softmax scale of its own, 1 where it is not given.
void granite(Reading& r) {
  r.softmax_scale = r.keys.number({"attention_multiplier"}).value_or(1.0);
  read_rotary(r);
}

// A base for each layer; 0 or null: it does not turn.
void granite_by_layer(Reading& r) {
  const auto bases = r.keys.find({"layer_rope_theta"});
  if (!bases) return granite(r);
  r.softmax_scale = r.keys.number({"attention_multiplier"}).value_or(1.0);
  prepare(r);
  std::size_t l = 0;
  bases->for_each_element([&](Json value) {
    if (l >= r.layers.size()) return;
    const double base = value.is_null() ? 0 : value.number("layer_rope_theta");
    Layer& layer = r.layers[l++];
    layer.turns = base != 0;
    layer.type = "base " + std::to_string(base);
    if (layer.turns && !r.ropes.contains(layer.type))
      r.ropes[layer.type] = read_rope(r, std::nullopt, base);
  });
  if (l < r.layers.size())
    bases->fail("layer_rope_theta must have a base for each of " +
                std::to_string(r.layers.size()) + " layers, got " + std::to_string(l));
  put_rotary_groups(r);
}

void granite_hybrid(Reading& r) {
  prepare(r);
  if (const auto types = r.keys.find({"layers_block_type"}); types) {
    const auto names = types->strings("layers_block_type");
    type_layers(r,
                [&](std::int64_t l) { return size(l) < names.size() ? names[size(l)] : full; });
  }
  if (r.keys.string({"position_embedding_type"}).value_or("") != "rope") {
    for (Layer& layer : r.layers) layer.turns = false;
    for (const auto unused : {"rope_theta", "rope_scaling", "rope_parameters"})
      r.keys.find({unused});
    r.softmax_scale = r.keys.number({"attention_multiplier"}).value_or(1.0);
    return put_rotary_groups(r);
  }
  granite(r);
}

// Attention without position in every so many layers, state spaces between.
void jamba(Reading& r) {
  prepare(r);
  const std::int64_t period = r.size({"attn_layer_period"}, 8);
  const std::int64_t offset = r.keys.integer({"attn_layer_offset"}).value_or(4);
  for (std::int64_t l = 0; l < r.out.layers; ++l) {
    r.layers[size(l)].attends = l % period == offset;
    r.layers[size(l)].turns = false;
  }
  put_rotary_groups(r);
}

// Latent attention without position in some layers, counted from 1.
void kimi_linear(Reading& r) {
  const std::int64_t head =
      r.size({"qk_nope_head_dim"}, 128) + r.size({"qk_rope_head_dim"}, 64);
  if (!r.keys.boolean({"mla_use_nope"}).value_or(true))
    r.fail("kimi_linear with mla_use_nope false is not understood");
  for (const auto unused : {"rope_theta", "rope_scaling", "rope_parameters"})
    r.keys.find({unused});
  prepare(r);
  r.head_dim = head;
  for (Layer& layer : r.layers) layer.attends = layer.turns = false;
  if (const auto inner = r.keys.find({"linear_attn_config"}))
    if (const auto list = inner->find("full_attn_layers"))
      for (const std::int64_t l : list->integers("full_attn_layers"))
        if (l >= 1 && l <= r.out.layers) r.layers[size(l - 1)].attends = true;
  put_rotary_groups(r);
}

void lfm2(Reading& r) {
  prepare(r);
  attend_at(r, "full_attn_idxs");
  read_rotary(r);
}

void lfm3(Reading& r) {
  prepare(r);
  type_layers(r, [](std::int64_t l) {
    return l % 4 == 2 ? full : l % 4 == 0 && l > 0 ? sliding : "conv";
  });
  read_rotary(r);
}

void llama4(Reading& r) {
  prepare(r);
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
  // Layers that turn attend in chunks: their type says nothing of the base.
  read_rotary(r);
}

void mimo(Reading& r) {
  prepare(r);
  type_layers(r, [](std::int64_t l) { return l == 0 || (l + 1) % 6 == 0 ? full : sliding; });
  local_base(r, "swa_rope_theta", 10'000);
  read_rotary(r);
}

// Every other layer is lightning attention.
void minimax(Reading& r) {
  prepare(r);
  if (const auto kinds = r.keys.find({"attn_type_list"})) {
    const auto numbers = kinds->integers("attn_type_list");
    type_layers(r, [&](std::int64_t l) {
      return size(l) < numbers.size() && numbers[size(l)] == 0 ? "linear_attention" : full;
    });
  } else {
    type_layers(r, [](std::int64_t l) { return l % 2 == 0 ? full : "linear_attention"; });
  }
  if (r.keys.find({"rotary_dim"})) {
    r.rotary_dim = r.size({"rotary_dim"});
    r.note(
        "rotary_dim is taken, as the released code does; transformers 4.57 turns the whole "
        "head");
  }
  read_rotary(r);
}

void minimax_m2(Reading& r) {
  prepare(r);
  if (r.keys.find({"rotary_dim"})) r.rotary_dim = r.size({"rotary_dim"});
  read_rotary(r);
}

void ministral3(Reading& r) {
  prepare(r);
  for (const char* name : {"rope_scaling", "rope_parameters"})
    if (const auto dictionary = r.keys.find({name}); dictionary && !r.temperature)
      if (const auto beta = dictionary->find("llama_4_scaling_beta")) {
        const auto original = dictionary->find("original_max_position_embeddings");
        if (!original)
          dictionary->fail("llama_4_scaling_beta needs original_max_position_embeddings");
        const std::int64_t length = original->integer("original_max_position_embeddings");
        const double value = beta->number("llama_4_scaling_beta");
        if (length < 1 || !(value >= 0) || !std::isfinite(value))
          beta->fail(
              "llama_4_scaling_beta must be finite and not negative, and its length at "
              "least 1");
        r.temperature = ministral3_temperature(value, length);
      }
  read_rotary(r);
}

// Layers of cross-attention to the image do not turn.
void mllama(Reading& r) {
  prepare(r);
  if (const auto list = r.keys.find({"cross_attention_layers"}))
    for (const std::int64_t l : list->integers("cross_attention_layers"))
      if (l >= 0 && l < r.out.layers) r.layers[size(l)].turns = false;
  read_rotary(r);
}

void modernbert(Reading& r) {
  prepare(r);
  const std::int64_t every = r.size({"global_attn_every_n_layers"}, 3);
  type_layers(r, [&](std::int64_t l) { return l % every == 0 ? full : sliding; });
  const auto global = r.keys.number({"global_rope_theta"});
  const auto local = r.keys.number({"local_rope_theta"});
  if (has_ropes_by_type(r)) return read_rotary(r);
  const auto scaling = r.keys.find({"rope_scaling", "rope_parameters"});
  r.ropes[full] = read_rope(r, scaling, global.value_or(160'000), full);
  r.ropes[sliding] = read_rope(r, scaling, local.value_or(10'000), sliding);
  put_rotary_groups(r);
}

// The share of the head is rounded down to whole pairs; both parts turn.
void moonshine(Reading& r) {
  for (const char* name : {"decoder_num_hidden_layers", "decoder_num_attention_heads"})
    if (!r.keys.find({name})) r.fail(std::string("a config of moonshine must have ") + name);
  r.out.layers = r.size({"decoder_num_hidden_layers"});
  r.heads = r.size({"decoder_num_attention_heads"});
  r.out.length = r.size({"max_position_embeddings"}, r.family.length);
  const std::int64_t width = hidden_size(r);
  if (r.out.layers > 65536 || width % r.heads != 0 || width / r.heads > 65536)
    r.fail(
        "hidden_size must be a multiple of decoder_num_attention_heads, and sizes at most "
        "65536");
  r.head_dim = width / r.heads;
  const double share = r.keys.number({"partial_rotary_factor"}).value_or(r.family.share);
  if (!(share > 0 && share <= 1)) r.fail("partial_rotary_factor must be in (0, 1]");
  r.rotary_dim = static_cast<std::int64_t>(static_cast<double>(r.head_dim) * share) / 2 * 2;
  read_layer_types(r);
  r.note("the encoder's layers do the same; cross-attention has no position");
  read_ropes(r);
  put_rotary_groups(r);
}

void nanochat(Reading& r) {
  r.note("its queries and keys turn by minus the angle: rotate_backward does so");
  read_rotary(r);
}

// "*" in the pattern is attention, without position.
void nemotron_h(Reading& r) {
  prepare(r);
  for (const auto unused : {"rope_theta", "rope_scaling", "rope_parameters"})
    r.keys.find({unused});
  const std::string pattern = r.keys.string({"hybrid_override_pattern"}).value_or("");
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    r.layers[l].attends = l < pattern.size() ? pattern[l] == '*' : r.layers[l].attends;
    r.layers[l].turns = false;
  }
  put_rotary_groups(r);
}

// The scaling is of the full layers alone.
void olmo3(Reading& r) {
  prepare(r);
  slide_all_but_every(r, 4);
  if (!has_ropes_by_type(r)) {
    const auto parameters = r.keys.find({"rope_parameters"});
    double base = r.keys.number({"rope_theta"}).value_or(r.family.base);
    if (parameters)
      if (const auto inner = parameters->find("rope_theta")) base = inner->number("rope_theta");
    r.ropes[sliding] = read_rope(r, std::nullopt, base, sliding);
  }
  read_rotary(r);
}

// Qwen 1, code outside of transformers.
void qwen1(Reading& r) {
  prepare(r);
  const std::int64_t trained = r.size({"seq_length"}, 2048);
  if (r.keys.boolean({"use_dynamic_ntk"}).value_or(false))
    r.note("use_dynamic_ntk: past " + std::to_string(trained) +
           " tokens the base is multiplied by a^(d/(d-2)), a = 2^ceil(log2(length / " +
           std::to_string(trained) + ") + 1) - 1; the frequencies here are those up to it");
  if (r.keys.boolean({"use_logn_attn"}).value_or(false))
    r.note("use_logn_attn: queries past " + std::to_string(trained) +
           " are multiplied by log(position) / log(" + std::to_string(trained) + ")");
  r.keys.find({"rotary_emb_base"});
  r.out.length = trained;
  read_rotary(r);
}

void qwen3_next(Reading& r) {
  prepare(r);
  const std::int64_t every = r.size({"full_attention_interval"}, 4);
  type_layers(r,
              [&](std::int64_t l) { return (l + 1) % every == 0 ? full : "linear_attention"; });
  read_rotary(r);
}

void recurrent_gemma(Reading& r) {
  prepare(r);
  std::vector<std::string> types{"recurrent", "recurrent", "attention"};
  if (const auto list = r.keys.find({"block_types", "_block_types"}))
    types = list->strings("block_types");
  if (types.empty()) r.fail("block_types must not be empty");
  for (std::size_t l = 0; l < r.layers.size(); ++l)
    r.layers[l].attends = types[l % types.size()] == "attention";
  read_rotary(r);
}

void smollm3(Reading& r) {
  prepare(r);
  turn_by_list(r, 4);
  read_rotary(r);
}

// A base and a share of the head for each layer; the scaling is of the full layers alone.
void step3(Reading& r) {
  prepare(r);
  const auto list = [&](const char* name, double otherwise) {
    const auto value = r.keys.find({name});
    if (!value) return std::vector<double>(r.layers.size(), otherwise);
    if (!value->is(JsonType::array))
      return std::vector<double>(r.layers.size(), value->number(name));
    std::vector<double> numbers = value->numbers(name);
    if (numbers.size() < r.layers.size())
      value->fail(std::string(name) + " must have a number for each of " +
                  std::to_string(r.layers.size()) + " layers, got " +
                  std::to_string(numbers.size()));
    return numbers;
  };
  const auto scalar = r.keys.number({"query_pre_attn_scalar"});
  if (scalar && *scalar > 0) r.softmax_scale = inverse_sqrt(*scalar);
  if (has_ropes_by_type(r)) return read_rotary(r);
  const auto bases = list("rope_theta", r.family.base);
  const auto shares = list("partial_rotary_factors", 1);
  const auto scaling = r.keys.find({"rope_scaling", "rope_parameters"});
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    Layer& layer = r.layers[l];
    const bool whole = layer.type == full;
    const std::string type =
        layer.type + " " + std::to_string(bases[l]) + " " + std::to_string(shares[l]);
    layer.type = type;
    if (r.ropes.contains(type)) continue;
    if (!(shares[l] > 0 && shares[l] <= 1)) r.fail("partial_rotary_factors must be in (0, 1]");
    r.rotary_dim = static_cast<std::int64_t>(static_cast<double>(r.head_dim) * shares[l]);
    r.ropes[type] = read_rope(r, whole ? scaling : std::nullopt, bases[l], type);
  }
  put_rotary_groups(r);
}

// Attention is in the blocks named hybrid; its scale is of half the head.
void zamba2(Reading& r) {
  prepare(r);
  if (!r.keys.find({"attention_head_dim"})) r.head_dim *= 2;
  r.softmax_scale = inverse_sqrt(static_cast<double>(r.head_dim) / 2);
  const bool turns = r.keys.boolean({"use_mem_rope"}).value_or(false);
  const auto types = r.keys.find({"layers_block_type"});
  const auto names = types ? types->strings("layers_block_type") : std::vector<std::string>();
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    r.layers[l].attends = l < names.size() && names[l] == "hybrid";
    r.layers[l].turns = turns;
  }
  if (turns) return read_rotary(r);
  r.keys.find({"rope_theta"});
  put_rotary_groups(r);
}

}  // namespace gnomon::model::internal
