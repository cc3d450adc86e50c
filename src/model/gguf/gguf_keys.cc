// Keys of a GGUF file, from the description of a model and the keys of its config.
#include <algorithm>
#include <cmath>

#include "gnomon/error.h"
#include "src/core/overloaded.h"
#include "src/core/text.h"
#include "src/model/config/reading.h"
#include "src/model/gguf/gguf_plan.h"

namespace gnomon::model::internal {
namespace {

using gnomon::internal::Overloaded;

std::uint32_t u32(std::int64_t value) {
  if (value < 0 || value > UINT32_MAX) refuse("gguf", "sizes must be 0 to 2^32 - 1", value);
  return static_cast<std::uint32_t>(value);
}

// Calls use(name) for each of the names between bars.
template <typename Use>
void for_each_name(std::string_view names, Use&& use) {
  for (;;) {
    const std::size_t end = names.find('|');
    use(names.substr(0, end));
    if (end == std::string_view::npos) return;
    names.remove_prefix(end + 1);
  }
}

std::optional<Json> find_key(const Json& config, std::string_view names) {
  std::optional<Json> found;
  for_each_name(names, [&](std::string_view name) {
    if (const auto value = config.find(name); !found && value && !value->is_null())
      found = value;
  });
  return found;
}

void put_sizes(GgufPlan& plan) {
  const ModelDescription& model = plan.model;
  const LayerGroup& first = model.groups.front();
  for (const LayerGroup& group : model.groups)
    if (group.heads != first.heads || group.key_heads != first.key_heads ||
        group.head_dim != first.head_dim || group.value_dim != first.value_dim)
      refuse("gguf", "all layers must have the same heads", model.model_type);
  if (model.length < 1) plan.config.fail("max_position_embeddings must be given");
  plan.put("context_length", u32(model.length));
  plan.put("embedding_length", u32(model.width));
  plan.put("block_count", u32(model.layers));
  plan.put("vocab_size", u32(plan.extents.at('V')));
  if (const auto width = plan.extents.find('F'); width != plan.extents.end())
    plan.put("feed_forward_length", u32(width->second));
  if (const auto experts = plan.extents.find('E'); experts != plan.extents.end())
    plan.put("expert_count", u32(experts->second));
  if (const auto width = plan.extents.find('M'); width != plan.extents.end())
    plan.put("expert_feed_forward_length", u32(width->second));
  plan.put("attention.head_count", u32(first.heads));
  plan.put("attention.head_count_kv", u32(first.key_heads));
  plan.put("attention.key_length", u32(first.head_dim));
  plan.put("attention.value_length", u32(first.value_dim));
}

// The rotary encoding of the first group that has one, of those with or without a window.
const ScaledRotary* find_rotary(const ModelDescription& model, bool window) {
  for (const LayerGroup& group : model.groups)
    if (group.attention.left.has_value() == window)
      for (const Encoding& one : group.position)
        if (const auto* const rotary = std::get_if<ScaledRotary>(&one)) return rotary;
  return nullptr;
}
const ScaledRotary* main_rotary(const ModelDescription& model) {
  const ScaledRotary* const full = find_rotary(model, false);
  return full ? full : find_rotary(model, true);
}

void put_scaling(GgufPlan& plan, const ScaledRotary& rotary) {
  const auto put = [&](const char* key, double value) {
    plan.put(std::string("rope.scaling.") + key, static_cast<float>(value));
  };
  const auto put_type = [&](const char* type) {
    plan.put("rope.scaling.type", std::string(type));
  };
  const auto put_original = [&](std::int64_t length) {
    plan.put("rope.scaling.original_context_length", u32(length));
  };
  const double scale =
      scaled_frequencies(rotary.rotary, rotary.scaling, plan.model.length).table_scale;
  std::visit(Overloaded{
                 [](const NoScaling&) {},
                 [](const Llama3Scaling&) {},  // put_factors
                 [&](const LinearScaling& linear) {
                   put_type("linear");
                   put("factor", linear.factor);
                 },
                 [&](const YarnScaling& yarn) {
                   put_type("yarn");
                   put("factor", yarn.factor);
                   put_original(yarn.original_length);
                   put("yarn_beta_fast", yarn.beta_fast);
                   put("yarn_beta_slow", yarn.beta_slow);
                   // llama.cpp multiplies cos and sin by this and by 1 + ln(factor) / 10.
                   const double usual = yarn.factor > 1 ? 1 + 0.1 * std::log(yarn.factor) : 1;
                   if (std::abs(scale / usual - 1) > 1e-7) put("attn_factor", scale / usual);
                 },
                 [&](const LongRopeScaling& longrope) {
                   put_type("longrope");
                   put_original(longrope.original_length);
                   put("attn_factor", scale);
                 },
                 [&](const DynamicNtkScaling& dynamic) {
                   plan.note("dynamic NTK is not in the format: contexts longer than " +
                             std::to_string(dynamic.trained_length) + " tokens are not scaled");
                 },
                 [&](const auto&) {
                   refuse("gguf", "the scaling must be linear, yarn, longrope or llama3",
                          name(rotary.scaling));
                 },
             },
             rotary.scaling);
}

void put_position(GgufPlan& plan) {
  const ModelDescription& model = plan.model;
  if (const ScaledRotary* const rotary = main_rotary(model)) {
    plan.put("rope.dimension_count", u32(rotary->rotary.rotary_dim));
    plan.put("rope.freq_base", static_cast<float>(rotary->rotary.base));
    if (const ScaledRotary* const local = find_rotary(model, true);
        local && local->rotary.base != rotary->rotary.base)
      plan.put("rope.freq_base_swa", static_cast<float>(local->rotary.base));
    put_scaling(plan, *rotary);
  }
  std::vector<bool> slides(static_cast<std::size_t>(model.layers));
  std::optional<std::int64_t> left;
  for (const LayerGroup& group : model.groups) {
    const LayerAttention& attention = group.attention;
    if (!attention.left) continue;
    if (left && left != attention.left)
      refuse("gguf", "all windows must have the same size", model.model_type);
    left = attention.left;
    for (const std::int64_t layer : group.layers)
      slides[static_cast<std::size_t>(layer)] = true;
  }
  if (!left) return;
  plan.put("attention.sliding_window", u32(*left + 1));
  if (std::find(slides.begin(), slides.end(), false) != slides.end())
    plan.put("attention.sliding_window_pattern", slides);
}

void put_config_key(GgufPlan& plan, const GgufKey& key) {
  const auto value = find_key(plan.config, key.config);
  const std::string name(key.config.substr(0, key.config.find('|')));
  if (!value) {
    if (key.presence == GgufKeyPresence::required)
      plan.config.fail("a config must have " + name + " for a GGUF file of " +
                       std::string(plan.architecture()));
    return;
  }
  if (key.type == GgufKeyType::boolean) return plan.put(key.file, value->boolean(name));
  if (key.type == GgufKeyType::number) {
    const double number = value->number(name);
    if (!std::isfinite(static_cast<float>(number)))
      value->fail(name + " must be finite, got " + value->shown());
    return plan.put(key.file, static_cast<float>(number));
  }
  const std::int64_t integer = value->integer(name);
  if (integer < 0 || integer > UINT32_MAX)
    value->fail(name + " must be 0 to 2^32 - 1, got " + value->shown());
  plan.put(key.file, u32(integer));
}

void check_fixed(GgufPlan& plan, const GgufFixed& fixed) {
  const auto value = find_key(plan.config, fixed.key);
  const std::string key(fixed.key.substr(0, fixed.key.find('|')));
  std::string given(fixed.otherwise);
  if (value) given = value->is(JsonType::string) ? value->string(key) : value->shown();
  std::string_view computed;
  bool known = false;
  for_each_name(fixed.values, [&](std::string_view one) {
    if (computed.empty()) computed = one;
    known = known || one == given;
  });
  if (!known) {
    const std::string reason = key + " must be " + std::string(computed) + " for " +
                               std::string(plan.architecture()) + " in llama.cpp, got " +
                               gnomon::internal::printable(given, 40);
    if (value) value->fail(reason);
    plan.config.fail(reason);
  }
  if (given != computed)
    plan.note("llama.cpp computes " + key + " " + given + " as " + std::string(computed));
}

}  // namespace

void GgufPlan::put(std::string_view key, GgufValue value) {
  put_general(std::string(architecture()) + "." + std::string(key), std::move(value));
}
void GgufPlan::put_general(std::string key, GgufValue value) {
  out.header.metadata.emplace_back(std::move(key), std::move(value));
}
void GgufPlan::note(std::string text) {
  if (std::find(out.notes.begin(), out.notes.end(), text) == out.notes.end())
    out.notes.push_back(std::move(text));
}

void put_factors(GgufPlan& plan) {
  const ScaledRotary* const rotary = main_rotary(plan.model);
  if (!rotary) return;
  const auto put = [&](const char* name, const std::vector<double>& factors) {
    plan.out.header.tensors.push_back(
        {.name = name, .extents = {static_cast<std::int64_t>(factors.size())}});
    GgufData& data = plan.out.data.emplace_back();
    for (const double one : factors) data.values.push_back(static_cast<float>(one));
  };
  if (const auto* const longrope = std::get_if<LongRopeScaling>(&rotary->scaling)) {
    put("rope_factors_long.weight", longrope->long_factors);
    put("rope_factors_short.weight", longrope->short_factors);
  } else if (std::holds_alternative<Llama3Scaling>(rotary->scaling)) {
    std::vector<double> factors = inverse_frequencies(rotary->rotary);
    const auto scaled = scaled_frequencies(rotary->rotary, rotary->scaling, 1).inv_freq;
    for (std::size_t i = 0; i < factors.size(); ++i) factors[i] /= scaled[i];
    put("rope_freqs.weight", factors);
  }
}

void put_keys(GgufPlan& plan, const GgufOptions& options) {
  plan.put_general("general.architecture", std::string(plan.architecture()));
  plan.put_general("general.type", std::string("model"));
  if (!options.title.empty() &&
      gnomon::internal::ill_formed_utf8(options.title) == std::string_view::npos)
    plan.put_general("general.name", options.title);
  const auto& tensors = plan.out.header.tensors;
  const auto embeddings = std::find_if(
      tensors.begin(), tensors.end(),
      [](const GgufTensorShape& tensor) { return tensor.name == "token_embd.weight"; });
  // llama_ftype of llama.h: ALL_F32, MOSTLY_F16, MOSTLY_BF16, MOSTLY_MXFP4_MOE.
  const GgufElement element = embeddings->element;
  const bool mxfp4 = std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
    return tensor.element == GgufElement::mxfp4;
  });
  plan.put_general("general.file_type", mxfp4                         ? 38u
                                        : element == GgufElement::f32 ? 0u
                                        : element == GgufElement::f16 ? 1u
                                                                      : 32u);
  plan.put_general("general.quantization_version", 2u);
  put_sizes(plan);
  put_position(plan);
  for (const auto group : plan.family.gguf_weights.keys)
    for (const GgufKey& key : group) put_config_key(plan, key);
  for (const GgufFixed& fixed : plan.family.gguf_weights.fixed) check_fixed(plan, fixed);
}

}  // namespace gnomon::model::internal
