// `rope_scaling` and `rope_parameters`: from the keys of a dictionary to a rotary encoding.
#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "src/model/reading.h"

namespace gnomon::model::internal {
namespace {

// Shown as people write it: 8, not 8.000000.
std::string shown(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// A dictionary whose every key must be understood: one that is not may change the numbers.
class Dictionary {
 public:
  Dictionary(Reading& r, Json object) : r_(r), keys_(object) {}

  Keys& keys() { return keys_; }
  Json object() const { return keys_.object(); }

  double required(std::string_view name) {
    const auto value = keys_.number({name});
    if (!value) object().fail("a scaling of type " + type_ + " must have " + std::string(name));
    return *value;
  }
  double factor() {
    const double value = required("factor");
    if (!(value > 0) || !std::isfinite(value))
      keys_.find({"factor"})->fail("factor must be positive, got " + shown(value));
    if (value < 1) r_.note("factor " + shown(value) + " is less than 1: the context shrinks");
    return value;
  }
  double positive(std::string_view name, double otherwise) {
    const double value = keys_.number({name}).value_or(otherwise);
    if (!(value > 0) || !std::isfinite(value))
      keys_.find({name})->fail(std::string(name) + " must be positive, got " + shown(value));
    return value;
  }

  // `rope_type`, or before 4.45 `type`.
  std::string type() {
    const auto name = keys_.string({"rope_type", "type"});
    if (!name && keys_.find({"factor"}))
      object().fail("a scaling with a factor must have rope_type");
    return type_ = name.value_or("default");
  }

  // original_max_position_embeddings: beside the sizes where it is there, else in here, else
  // the context the model has now.
  std::int64_t original_length() {
    constexpr std::string_view name = "original_max_position_embeddings";
    auto value = r_.keys.integer({name});
    const auto inner = keys_.integer({name});
    if (!value) value = inner;
    if (!value) {
      r_.note(std::string(name) + " is not given: max_position_embeddings " +
              std::to_string(r_.out.length) + " is taken for it");
      value = r_.out.length;
    }
    if (*value < 1)
      object().fail(std::string(name) + " must be at least 1, got " + std::to_string(*value));
    return *value;
  }
  bool original_length_given() {
    return keys_.find({"original_max_position_embeddings"}).has_value() ||
           r_.keys.find({"original_max_position_embeddings"}).has_value();
  }

  std::optional<double> attention_factor() {
    const auto value = keys_.number({"attention_factor"});
    if (value && !(*value > 0))
      keys_.find({"attention_factor"})
          ->fail("attention_factor must be positive, got " + shown(*value));
    return value;
  }

  // Refuses keys that nobody asked for.
  void finish() {
    object().for_each_member([&](const std::string& name, Json value) {
      if (!keys_.was_asked(name))
        value.fail("the key \"" + name + "\" of a scaling of type " + type_ +
                   " is not understood, and may change the frequencies");
    });
  }

 private:
  Reading& r_;
  Keys keys_;
  std::string type_;
};

RopeScaling read_dynamic(Reading& r, Dictionary& d) {
  // Hunyuan: a fixed change of base, `alpha` for the factor.
  const auto alpha = d.keys().number({"alpha"});
  if (alpha && *alpha != 0) {
    d.keys().find({"factor"});
    for (const char* unused : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim"})
      d.keys().find({unused});
    return NtkScaling{*alpha};
  }
  if (d.original_length_given() && d.original_length() != r.out.length)
    r.note(
        "original_max_position_embeddings is not used by dynamic scaling, which starts from "
        "max_position_embeddings " +
        std::to_string(r.out.length));
  return DynamicNtkScaling{.factor = d.factor(), .trained_length = r.out.length};
}

RopeScaling read_yarn(Reading& r, Dictionary& d) {
  YarnScaling yarn;
  const bool original_given = d.original_length_given();
  yarn.original_length = d.original_length();
  const double ratio =
      static_cast<double>(r.out.length) / static_cast<double>(yarn.original_length);
  const bool given = d.keys().find({"factor"}).has_value();
  yarn.factor = given ? d.factor() : ratio;
  if (!given)
    r.note(
        "YaRN's factor is not given: max_position_embeddings / "
        "original_max_position_embeddings = " +
        shown(ratio));
  if (given && original_given && std::abs(ratio - yarn.factor) > 1e-6 * yarn.factor) {
    const bool by_lengths = r.options.yarn_factor == YarnFactor::by_lengths;
    if (ratio != 1 || by_lengths)
      r.note("YaRN's factor is " + shown(yarn.factor) +
             ", max_position_embeddings / "
             "original_max_position_embeddings is " +
             shown(ratio) + ": " +
             (by_lengths ? "the latter, as transformers of 2025, is taken"
                         : "the former, as transformers of 2026, is taken"));
    if (by_lengths) yarn.factor = ratio;
  }
  // An explicit 0 means the default.
  const auto beta = [&](const char* name, double otherwise) {
    const double value = d.keys().number({name}).value_or(otherwise);
    return value == 0 ? otherwise : value;
  };
  yarn.beta_fast = beta("beta_fast", 32);
  yarn.beta_slow = beta("beta_slow", 1);
  if (yarn.beta_fast < yarn.beta_slow)
    r.note("beta_fast " + shown(yarn.beta_fast) + " is less than beta_slow " +
           shown(yarn.beta_slow));
  if (!d.keys().boolean({"truncate"}).value_or(true)) yarn.ramp = YarnRamp::fractional;
  yarn.attention_factor = d.attention_factor();
  yarn.mscale = d.keys().number({"mscale"}).value_or(0);
  yarn.mscale_all_dim = d.keys().number({"mscale_all_dim"}).value_or(0);
  for (const char* other : {"attn_factor", "extrapolation_factor"}) {
    const auto value = d.keys().number({other});
    if (value && *value != 1)
      d.keys().find({other})->fail(std::string(other) + " is not understood, got " +
                                   shown(*value));
  }
  d.keys().find({"finetuned"});  // says how it was trained
  if (r.temperature) d.keys().find({"llama_4_scaling_beta"});
  return yarn;
}

RopeScaling read_longrope(Reading& r, Dictionary& d, std::int64_t pairs) {
  LongRopeScaling longrope;
  const auto list = [&](const char* name) {
    const auto value = d.keys().find({name});
    if (!value) d.object().fail(std::string("a scaling of type longrope must have ") + name);
    std::vector<double> factors = value->numbers(name);
    if (std::ssize(factors) != pairs)
      value->fail(std::string(name) + " must have one factor for each of " +
                  std::to_string(pairs) + " pairs, got " + std::to_string(factors.size()));
    for (const double factor : factors)
      if (!(factor > 0) || !std::isfinite(factor))
        value->fail(std::string(name) + " must be positive, got " + shown(factor));
    return factors;
  };
  longrope.short_factors = list("short_factor");
  longrope.long_factors = list("long_factor");
  longrope.original_length = d.original_length();
  if (longrope.original_length < 2)
    d.object().fail("original_max_position_embeddings must be at least 2, got " +
                    std::to_string(longrope.original_length));
  longrope.factor =
      d.keys().find({"factor"})
          ? d.factor()
          : static_cast<double>(r.out.length) / static_cast<double>(longrope.original_length);
  longrope.attention_factor = d.attention_factor();
  // Phi-3.5-MoE names the scale of each list.
  if (const auto short_scale = d.keys().number({"short_mscale"})) {
    longrope.attention_factor = short_scale;
    longrope.long_attention_factor = d.required("long_mscale");
  }
  return longrope;
}

RopeScaling read_llama3(Reading& r, Dictionary& d) {
  const Llama3Scaling llama3{
      .factor = d.factor(),
      .low_freq_factor = d.positive("low_freq_factor", d.required("low_freq_factor")),
      .high_freq_factor = d.positive("high_freq_factor", d.required("high_freq_factor")),
      .original_length = d.original_length()};
  if (llama3.high_freq_factor <= llama3.low_freq_factor)
    r.note("high_freq_factor " + shown(llama3.high_freq_factor) +
           " is not greater than low_freq_factor " + shown(llama3.low_freq_factor) +
           ": pairs are slowed fully or not at all");
  if (llama3.original_length >= r.out.length)
    r.note("original_max_position_embeddings " + std::to_string(llama3.original_length) +
           " is not less than max_position_embeddings " + std::to_string(r.out.length));
  return llama3;
}

// M-RoPE's sections, to the axis of each pair.
std::vector<std::int32_t> read_axes(Reading& r, Dictionary* d, std::int64_t pairs) {
  MRopeOrder order = r.mrope.value_or(MRopeOrder::sequential);
  std::optional<Json> sections;
  if (d) {
    if (d->keys().boolean({"mrope_interleaved"}).value_or(false))
      order = MRopeOrder::interleaved;
    d->keys().find({"interleaved"});
    sections = d->keys().find({"mrope_section"});
  }
  if (!sections && (!r.mrope || r.sections.empty())) return {};
  if (!r.mrope)
    r.note(
        "mrope_section in a family that is not known to have it: sections in sequence, "
        "unless mrope_interleaved says otherwise");
  try {
    return mrope_axes(order, sections ? sections->integers("mrope_section") : r.sections,
                      pairs);
  } catch (const std::invalid_argument& error) {
    if (!sections) {
      r.note("mrope_section is not given, and the family's own does not fit " +
             std::to_string(pairs) + " pairs: all turn by one axis");
      return {};
    }
    const std::string why = error.what();
    sections->fail("mrope_section does not fit " + std::to_string(pairs) +
                   " pairs: " + why.substr(why.find(']') + 2));
  }
}

// The share of the head that turns: a number of elements, or a factor under one of its names.
std::int64_t read_dim(Reading& r, Dictionary* d, std::int64_t head_dim) {
  if (r.rotary_dim) return *r.rotary_dim;
  std::optional<double> share;
  if (d) share = d->keys().number({"partial_rotary_factor"});
  if (!share)
    share = r.keys.number({"partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_percent",
                           "rope_percent", "rotary_percentage", "rotary_emb_fraction"});
  if (!share)
    if (const auto dim = r.keys.integer({"rotary_dim", "rotary_ndims", "rotary_emb_dim"}))
      return *dim;
  if (!share && r.family.share != 1)
    r.note("partial_rotary_factor is not given: " + shown(r.family.share) +
           ", the default of " + r.out.model_type);
  return static_cast<std::int64_t>(static_cast<double>(head_dim) *
                                   share.value_or(r.family.share));
}

RopeScaling read_scaling(Reading& r, Dictionary& d, Rotary& rotary, std::int64_t head_dim) {
  std::string type = d.type();
  if (r.family.model_type == "phi3" && (type == "yarn" || type == "su") &&
      d.keys().find({"short_factor"}))
    type = "longrope";
  if (type == "default" || type == "mrope" || type == "none") {
    // Qwen2.5-VL and others write a factor of 1 beside it.
    if (const auto factor = d.keys().number({"factor"}); factor && *factor != 1)
      r.note("factor " + shown(*factor) + " is not used by rope_type " + type);
    return NoScaling{};
  }
  if (type == "linear") return LinearScaling{d.factor()};
  if (type == "ntk") return NtkScaling{d.factor()};
  if (type == "dynamic") return read_dynamic(r, d);
  if (type == "yarn") return read_yarn(r, d);
  if (type == "longrope" || type == "su") return read_longrope(r, d, rotary.dim / 2);
  if (type == "llama3") return read_llama3(r, d);
  if (type == "proportional") {
    // The whole head takes part; the factor says how many of its pairs turn.
    ProportionalScaling scaling{.turning = rotary.dim / 2, .factor = d.positive("factor", 1)};
    rotary.dim = head_dim;
    return scaling;
  }
  d.object().fail(
      "rope_type must be default, linear, dynamic, ntk, yarn, longrope, llama3 or "
      "proportional, got " +
      type);
}

}  // namespace

Rope read_rope(Reading& r, std::optional<Json> dictionary, double base,
               const std::string& type) {
  const std::int64_t head_dim = r.head_dim_of(type);
  std::optional<Dictionary> d;
  if (dictionary) {
    if (!dictionary->is(JsonType::object))
      dictionary->fail("rope_scaling must be an object, got " + dictionary->shown());
    d.emplace(r, *dictionary);
  }
  Rope rope{.rotary = {.dim = read_dim(r, d ? &*d : nullptr, head_dim),
                       .pairing = r.family.pairing,
                       .base = base,
                       .first = r.first}};
  if (d) rope.rotary.base = d->keys().number({"rope_theta"}).value_or(base);
  const auto refuse_value = [&](const std::string& reason) {
    if (dictionary) dictionary->fail(reason);
    r.fail(reason);
  };
  if (!(rope.rotary.base > 1) || !std::isfinite(rope.rotary.base))
    refuse_value("rope_theta must be finite and greater than 1, got " +
                 shown(rope.rotary.base));
  const std::int64_t dim = rope.rotary.dim;
  if (dim < 2 || dim > head_dim - r.first)
    refuse_value("the rotary dim must be 2 to the head size " + std::to_string(head_dim) +
                 ", got " + std::to_string(dim));
  if (d) rope.scaling = read_scaling(r, *d, rope.rotary, head_dim);
  if (rope.rotary.dim % 2 != 0)
    refuse_value("the rotary dim must be even, got " + std::to_string(rope.rotary.dim));
  rope.axes = read_axes(r, d ? &*d : nullptr, rope.rotary.dim / 2);
  if (d) d->finish();
  try {
    scaled_frequencies(rope.rotary, rope.scaling, r.out.length);
  } catch (const std::invalid_argument& error) {
    const std::string why = error.what();
    refuse_value(why.substr(why.find(']') + 2));
  }
  return rope;
}

void read_ropes(Reading& r) {
  auto base = r.keys.number({"rope_theta", "rotary_emb_base", "rope_base", "rotary_base",
                             "rope_freq_base", "freq_base"});
  auto dictionary = r.keys.find({"rope_scaling"});
  const auto parameters = r.keys.find({"rope_parameters"});
  const auto empty = [](const Json& one) {
    bool any = false;
    one.for_each_member([&](const std::string&, Json) { any = true; });
    return one.is(JsonType::object) && !any;
  };
  if (dictionary && empty(*dictionary)) dictionary.reset();
  const auto inner_theta = [](const std::optional<Json>& one) {
    return one && one->is(JsonType::object) && one->find("rope_theta");
  };
  if (dictionary && parameters) {
    r.note("rope_scaling and rope_parameters are both there: rope_scaling is taken");
    if (!base && inner_theta(parameters))
      base = parameters->find("rope_theta")->number("rope_theta");
  }
  if (!dictionary) dictionary = parameters;
  if (!dictionary && !base && !r.family.rope.empty()) {
    r.note("rope_parameters is not given: the defaults of " + r.out.model_type);
    r.defaults =
        std::make_shared<JsonDocument>(r.family.rope, "the defaults of " + r.out.model_type);
    dictionary = r.defaults->root();
  }
  // By layer type: an object of objects.
  bool nested = false;
  if (dictionary)
    dictionary->for_each_member(
        [&](const std::string&, Json value) { nested = nested || value.is(JsonType::object); });
  const double usual = base.value_or(r.family.base);
  if (nested) {
    dictionary->for_each_member([&](const std::string& type, Json value) {
      if (value.is_null()) {  // these layers do not turn
        for (Layer& layer : r.layers)
          if (layer.type == type) layer.turns = false;
        return;
      }
      if (!value.is(JsonType::object))
        value.fail("rope_parameters must be one dictionary, or one for each layer type");
      r.ropes[type] = read_rope(r, value, usual, type);
    });
    for (const Layer& layer : r.layers)
      if (layer.attends && layer.turns && !r.ropes.contains(layer.type))
        dictionary->fail("rope_parameters must have an entry for the layer type " + layer.type);
    return;
  }
  if (!base && !inner_theta(dictionary))
    r.note("rope_theta is not given: " + shown(r.family.base) + ", the default of " +
           r.out.model_type);
  r.ropes.emplace("", read_rope(r, dictionary, usual));
}

void read_rotary(Reading& r) {
  if (r.out.layers == 0) read_sizes(r);
  if (r.layers.empty()) read_layer_types(r);
  read_ropes(r);
  put_rotary_groups(r);
}

}  // namespace gnomon::model::internal
