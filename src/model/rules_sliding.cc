// Families with full attention in some layers and a sliding window in the others, each with a
// separate base, scaling or head dimension. Source: the code of each family.
#include <algorithm>
#include <cmath>

#include "src/core/size.h"
#include "src/model/rules.h"

namespace gnomon::model::internal {

using gnomon::internal::to_size;
namespace {

// Reads the base of sliding layers, a separate key in configs before 5.x. rope_scaling applies
// to the full layers only.
void local_base(Reading& r, std::string_view name, double otherwise) {
  const auto local = r.keys.base({name});
  r.bases = {{full, r.keys.base({"rope_theta"}).value_or(r.family.base)},
             {sliding, local.value_or(otherwise)}};
  r.scaled = {full};
  if (has_ropes_by_type(r)) return;
  if (!local)
    r.note(std::string(name) + " is not given: " + shown(otherwise) + ", the default of " +
           r.out.model_type);
  r.ropes[sliding] = read_rope(r, std::nullopt, local.value_or(otherwise), sliding);
}

// The last layers have no separate keys and values.
void share_keys(Reading& r, std::int64_t otherwise) {
  const std::int64_t shared = r.keys.integer({"num_kv_shared_layers"}, 0).value_or(otherwise);
  for (std::int64_t l = std::max<std::int64_t>(r.out.layers - shared, 0); l < r.out.layers; ++l)
    r.layers[to_size(l)].unsupported = "keys and values of an earlier layer";
}

void scalar_before_attention(Reading& r, double otherwise) {
  r.softmax_scale =
      inverse_sqrt(r.keys.positive({"query_pre_attn_scalar"}).value_or(otherwise));
}

}  // namespace

void afmoe(Reading& r) {
  prepare(r);
  slide_all_but_every(r, r.size({"global_attn_every_n_layers", "sliding_window_pattern"}, 4));
  set_nope_layers(r, full);
  read_rotary(r);
}

void cohere2(Reading& r) {
  prepare(r);
  slide_all_but_every(r, r.size({"sliding_window_pattern", "_sliding_window_pattern"}, 4));
  set_nope_layers(r, full);
  read_rotary(r);
}

void exaone4(Reading& r) {
  prepare(r);
  const auto window = r.keys.find({"sliding_window"});
  const auto pattern = r.keys.find({"sliding_window_pattern"});
  if (window && pattern && pattern->is(JsonType::string)) {
    const std::string letters = pattern->string("sliding_window_pattern");  // "LLLG"
    if (letters.empty()) pattern->fail("sliding_window_pattern must not be empty");
    type_layers(r, [&](std::int64_t l) {
      return letters[to_size(l) % letters.size()] == 'L' ? sliding : full;
    });
  } else if (window) {
    slide_all_but_every(r, r.size({"sliding_window_pattern"}, 4));
  }
  if (window) set_nope_layers(r, full);
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
  share_keys(r, 15);
  local_base(r, "rope_local_base_freq", 10'000);
  read_rotary(r);
}

void gemma4(Reading& r) {
  r.softmax_scale = 1;
  prepare(r);
  type_layers(r, [&](std::int64_t l) {
    return (l + 1) % 6 == 0 || l + 1 == r.out.layers ? full : sliding;
  });
  share_keys(r, 0);
  const bool own = r.keys.find({"per_layer_config"}).has_value();
  const std::int64_t wide =
      r.size({"global_head_dim"}, own ? r.head_dim_of(full) : 512, most_of_few);
  r.head_dims[full] = wide;
  if (has_ropes_by_type(r)) return read_rotary(r);
  r.note("rope_parameters is not given: the defaults of " + r.out.model_type);
  Rope& rope = r.ropes[full] = read_rope(r, std::nullopt, 1'000'000, full);
  rope.scaling = ProportionalScaling{.turning = wide / 8};
  r.ropes[sliding] = read_rope(r, std::nullopt, 10'000, sliding);
  put_rotary_groups(r);
}

// Bidirectional. Full layers have other heads.
void embedding_gemma2(Reading& r) {
  r.softmax_scale = 1;
  prepare(r);
  const std::int64_t every = r.size({"sliding_window_pattern"}, 6);
  type_layers(r, [&](std::int64_t l) {
    return (l + 1) % every == 0 || l + 1 == r.out.layers ? full : sliding;
  });
  const bool own = r.keys.find({"per_layer_config"}).has_value();
  if (!own) {
    r.head_dims[full] = r.size({"global_head_dim"}, 512, most_of_few);
    r.key_heads_of[full] = r.size({"num_global_key_value_heads"}, 1, most_of_few);
  }
  r.bases = {{full, 1'000'000}, {sliding, 10'000}};
  if (has_ropes_by_type(r)) return read_rotary(r);
  r.note("rope_parameters is not given: the defaults of " + r.out.model_type);
  for (const auto& [type, base] : r.bases)
    r.ropes[type] = read_rope(r, std::nullopt, base, type);
  put_rotary_groups(r);
}

void granite_by_layer(Reading& r) {
  const auto bases = r.keys.find({"layer_rope_theta"});
  if (!bases) return granite(r);
  r.softmax_scale = r.keys.positive({"attention_multiplier"}).value_or(1.0);
  prepare(r);
  std::size_t l = 0;
  bases->for_each_element([&](Json value) {
    if (l >= r.layers.size()) return;
    const double base = value.is_null() ? 0 : value.number("layer_rope_theta");
    if (base != 0 && (!(base > 1) || !std::isfinite(base)))
      value.fail(
          "layer_rope_theta must be 0, for layers that do not rotate, or finite and "
          "greater than 1, got " +
          value.shown());
    Layer& layer = r.layers[l++];
    layer.rotates = base != 0;
    layer.rope = "base " + value.shown();
    if (layer.rotates && !r.ropes.contains(layer.rope))
      r.ropes[layer.rope] = read_rope(r, std::nullopt, base);
  });
  if (l < r.layers.size())
    bases->fail("layer_rope_theta must have a base for each of " +
                std::to_string(r.layers.size()) + " layers, got " + std::to_string(l));
  put_rotary_groups(r);
}

// Every fourth layer, counted from the last, has full attention and no rotation.
void muse(Reading& r) {
  prepare(r);
  const double factor = r.family.model_type == "muse_spark_text" ? 5.4730064863875 : 3.87;
  r.softmax_scale = r.keys.positive({"qk_scale_factor"}).value_or(factor) *
                    inverse_sqrt(static_cast<double>(r.head_dim));
  const auto is_full = [&](std::int64_t l) { return (r.out.layers - 1 - l) % 4 == 0; };
  type_layers(r, [&](std::int64_t l) { return is_full(l) ? full : sliding; });
  for (std::int64_t l = 0; l < r.out.layers; ++l) r.layers[to_size(l)].rotates = !is_full(l);
  // layer_rope_theta 0 means no rotation. Other values are not used.
  if (const auto list = r.keys.find({"layer_rope_theta"})) {
    const auto bases = list->numbers("layer_rope_theta");
    require_length(r, *list, bases.size(), "layer_rope_theta");
    for (std::size_t l = 0; l < r.layers.size(); ++l) r.layers[l].rotates = bases[l] != 0;
  }
  read_rotary(r);
}

void lfm3(Reading& r) {
  prepare(r);
  type_layers(r, [](std::int64_t l) {
    return l % 4 == 2 ? full : l % 4 == 0 && l > 0 ? sliding : "conv";
  });
  read_rotary(r);
}

void mimo(Reading& r) {
  prepare(r);
  const auto pattern = r.keys.find({"hybrid_layer_pattern"});
  const auto slides =
      pattern ? pattern->integers("hybrid_layer_pattern") : std::vector<std::int64_t>();
  if (pattern) require_length(r, *pattern, slides.size(), "hybrid_layer_pattern");
  type_layers(r, [&](std::int64_t l) {
    if (pattern) return slides[to_size(l)] != 0 ? sliding : full;
    return l == 0 || (l + 1) % 6 == 0 ? full : sliding;
  });
  if (const auto narrow = r.keys.size({"swa_head_dim"}, most_of_few))
    r.head_dims[sliding] = *narrow;
  read_heads(r);
  local_base(r, "swa_rope_theta", 10'000);
  read_rotary(r);
}

void modernbert(Reading& r) {
  prepare(r);
  const std::int64_t every = r.size({"global_attn_every_n_layers"}, 3);
  type_layers(r, [&](std::int64_t l) { return l % every == 0 ? full : sliding; });
  r.bases = {{full, r.keys.base({"global_rope_theta"}).value_or(160'000)},
             {sliding, r.keys.base({"local_rope_theta"}).value_or(10'000)}};
  r.scaled = {full, sliding};
  if (has_ropes_by_type(r)) return read_rotary(r);
  const auto scaling = r.keys.find({"rope_scaling", "rope_parameters"});
  for (const auto& [type, base] : r.bases) r.ropes[type] = read_rope(r, scaling, base, type);
  put_rotary_groups(r);
}

void olmo3(Reading& r) {
  prepare(r);
  slide_all_but_every(r, 4);
  double base = r.keys.base({"rope_theta"}).value_or(r.family.base);
  r.bases = {{full, base}, {sliding, r.family.base}};
  r.scaled = {full};
  if (!has_ropes_by_type(r)) {
    const auto parameters = r.keys.find({"rope_parameters"});
    if (parameters) base = Keys(*parameters).base({"rope_theta"}).value_or(base);
    r.ropes[sliding] = read_rope(r, std::nullopt, base, sliding);
  }
  read_rotary(r);
}

void step3(Reading& r) {
  prepare(r);
  read_heads(r);
  const auto list = [&](const char* name, double otherwise) {
    const auto value = r.keys.find({name});
    if (!value) return std::vector<double>(r.layers.size(), otherwise);
    if (!value->is(JsonType::array))
      return std::vector<double>(r.layers.size(), value->number(name));
    std::vector<double> numbers = value->numbers(name);
    for (const double one : numbers)
      if (!(one > 0) || !std::isfinite(one))
        value->fail(std::string(name) + " must be finite and positive, got " + shown(one));
    if (numbers.size() < r.layers.size())
      value->fail(std::string(name) + " must have a number for each of " +
                  std::to_string(r.layers.size()) + " layers, got " +
                  std::to_string(numbers.size()));
    return numbers;
  };
  if (const auto scalar = r.keys.positive({"query_pre_attn_scalar"}))
    r.softmax_scale = inverse_sqrt(*scalar);
  if (has_ropes_by_type(r)) return read_rotary(r);
  const auto bases = list("rope_theta", r.family.base);
  const auto shares = list("partial_rotary_factors", 1);
  const auto scaling = r.keys.find({"rope_scaling", "rope_parameters"});
  for (std::size_t l = 0; l < r.layers.size(); ++l) {
    Layer& layer = r.layers[l];
    const bool whole = layer.type == full;
    const std::string type = layer.type + " " + shown(bases[l]) + " " + shown(shares[l]);
    layer.rope = type;
    if (r.ropes.contains(type)) continue;
    if (!(shares[l] > 0 && shares[l] <= 1))
      r.fail_at(
          {"partial_rotary_factors"},
          "partial_rotary_factors must be more than 0 and at most 1, got " + shown(shares[l]));
    r.rotary_dim = of_head(r.head_dim, shares[l]);
    r.ropes[type] = read_rope(r, whole ? scaling : std::nullopt, bases[l], type);
  }
  put_rotary_groups(r);
}

}  // namespace gnomon::model::internal
