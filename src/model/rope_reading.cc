// `rope_scaling` and `rope_parameters`: from the keys of a dictionary to a rotary encoding.
#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "src/model/reading.h"

namespace gnomon::model::internal {
namespace {

// A dictionary whose every key must be understood: one that is not may change the numbers.
class Dictionary {
 public:
  Dictionary(Reading& r, Json object) : r_(r), keys_(object) {}

  Keys& keys() { return keys_; }
  Json object() const { return keys_.object(); }

  double required(std::string_view name) {
    const auto value = keys_.positive({name});
    if (!value) object().fail("a scaling of type " + type_ + " must have " + std::string(name));
    return *value;
  }
  double factor() {
    const double value = required("factor");
    if (value < 1) r_.note("factor " + shown(value) + " is less than 1: the context shrinks");
    return value;
  }

  // `rope_type`, or before 4.45 `type`.
  std::string type() {
    const auto name = keys_.string({"rope_type", "type"});
    if (!name && keys_.find({"factor"}))
      object().fail("a scaling with a factor must have rope_type");
    const auto other = keys_.string({"type"});
    if (name && other && *name != *other)
      r_.note("type " + *other + " is not used where there is a rope_type: " + *name);
    return type_ = name.value_or("default");
  }

  // original_max_position_embeddings: beside the sizes where it is there, else in here, else
  // the context the model has now.
  std::int64_t original_length() {
    constexpr std::string_view name = "original_max_position_embeddings";
    const auto beside = r_.keys.size({name}), inside = keys_.size({name});
    if (beside && inside && *beside != *inside)
      r_.note(std::string(name) + " " + std::to_string(*inside) +
              " of the scaling is not "
              "used: beside the sizes it is " +
              std::to_string(*beside));
    if (beside || inside) return beside ? *beside : *inside;
    r_.note(std::string(name) + " is not given: max_position_embeddings " +
            std::to_string(r_.out.length) + " is taken for it");
    return r_.out.length;
  }
  bool original_length_given() {
    return keys_.find({"original_max_position_embeddings"}).has_value() ||
           r_.keys.find({"original_max_position_embeddings"}).has_value();
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
  // Hunyuan: a fixed change of base, `alpha` for the factor; 0 for none.
  const auto alpha = d.keys().number({"alpha"});
  if (alpha && *alpha != 0) {
    d.keys().positive({"alpha"});
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
    if (d.keys().number({name}).value_or(0) == 0) return otherwise;
    return *d.keys().positive({name});
  };
  yarn.beta_fast = beta("beta_fast", 32);
  yarn.beta_slow = beta("beta_slow", 1);
  if (yarn.beta_fast < yarn.beta_slow)
    r.note("beta_fast " + shown(yarn.beta_fast) + " is less than beta_slow " +
           shown(yarn.beta_slow));
  if (!d.keys().boolean({"truncate"}).value_or(true)) yarn.ramp = YarnRamp::fractional;
  yarn.attention_factor = d.keys().positive({"attention_factor"});
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
    value->for_each_element([&](const Json& one) {
      const double factor = one.number(name);
      if (!(factor > 0) || !std::isfinite(factor))
        one.fail(std::string(name) + " must be finite and positive, got " + one.shown());
    });
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
  longrope.attention_factor = d.keys().positive({"attention_factor"});
  // Phi-3.5-MoE names the scale of each list.
  if (const auto short_scale = d.keys().positive({"short_mscale"})) {
    longrope.attention_factor = short_scale;
    longrope.long_attention_factor = d.required("long_mscale");
  }
  return longrope;
}

RopeScaling read_llama3(Reading& r, Dictionary& d) {
  const Llama3Scaling llama3{.factor = d.factor(),
                             .low_freq_factor = d.required("low_freq_factor"),
                             .high_freq_factor = d.required("high_freq_factor"),
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
struct Turning {
  std::int64_t dim;
  std::optional<Json> said_by = {};
};
Turning read_dim(Reading& r, Dictionary* d, std::int64_t head_dim) {
  if (r.rotary_dim) return {*r.rotary_dim, r.keys.find({"rotary_dim", "qk_rope_head_dim"})};
  const auto of_head = [&](double share) {
    return static_cast<std::int64_t>(static_cast<double>(head_dim) * share);
  };
  const auto read = [&](Keys& keys, Keys::Names names) -> std::optional<Turning> {
    const auto share = keys.positive(names);
    if (!share) return std::nullopt;
    const auto value = keys.find(names);
    if (*share > 1)
      value->fail("the share of a head that turns must be at most 1, got " + value->shown());
    return Turning{of_head(*share), value};
  };
  constexpr std::string_view factor = "partial_rotary_factor";
  const auto inside = d ? read(d->keys(), {factor}) : std::nullopt;
  const auto beside =
      read(r.keys, {factor, "rotary_pct", "rope_pct", "rotary_percent", "rope_percent",
                    "rotary_percentage", "rotary_emb_fraction"});
  const Keys::Names sizes = {"rotary_dim", "rotary_ndims", "rotary_emb_dim"};
  const auto dim = r.keys.size(sizes);
  if (inside && beside && inside->dim != beside->dim)
    r.note(
        "partial_rotary_factor beside the sizes is not used: the one of the frequencies is " +
        inside->said_by->shown());
  if (inside || beside) {
    const Turning& taken = inside ? *inside : *beside;
    if (dim && *dim != taken.dim)
      r.note("rotary_dim " + std::to_string(*dim) + " is not used: " +
             std::to_string(taken.dim) + " elements turn by a share of the head");
    return taken;
  }
  if (dim) return {*dim, r.keys.find(sizes)};
  if (r.family.share != 1)
    r.note("partial_rotary_factor is not given: " + shown(r.family.share) +
           ", the default of " + r.out.model_type);
  return {of_head(r.family.share)};
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
    ProportionalScaling scaling{.turning = rotary.dim / 2,
                                .factor = d.keys().positive({"factor"}).value_or(1)};
    rotary.dim = head_dim;
    return scaling;
  }
  d.keys()
      .find({"rope_type", "type"})
      ->fail(
          "rope_type must be default, linear, dynamic, ntk, yarn, longrope, llama3 or "
          "proportional, got " +
          type);
}

// What no rule above has refused, but the numbers do not bear.
void check_frequencies(Reading& r, const Rope& rope, const std::optional<Json>& dictionary) {
  const auto fail = [&](const std::string& reason) {
    if (dictionary) dictionary->fail(reason);
    r.fail(reason);
  };
  try {
    const auto scaled = scaled_frequencies(rope.rotary, rope.scaling, r.out.length);
    const auto bad = [](double value) { return !std::isfinite(value); };
    if (std::any_of(scaled.inv_freq.begin(), scaled.inv_freq.end(), bad))
      fail("the frequencies must be finite");
    for (const double scale : {scaled.table_scale, scaled.softmax_scale})
      if (bad(scale) || !(scale > 0))
        fail("the scales of the rotation and the softmax must be finite and positive, got " +
             shown(scale));
  } catch (const std::invalid_argument& error) {
    std::string why = error.what();  // "[scaling] factor must be ..."
    why.erase(0, why.find(']') + 2);
    if (dictionary)
      if (const auto value = dictionary->find(why.substr(0, why.find(' ')))) value->fail(why);
    fail(why);
  }
}

}  // namespace

Rope read_rope(Reading& r, std::optional<Json> dictionary, double base,
               const std::string& type) {
  if (r.ropes.size() == most_kinds)
    r.fail("layers must turn in at most " + std::to_string(most_kinds) + " ways");
  const std::int64_t head_dim = r.head_dim_of(type);
  std::optional<Dictionary> d;
  if (dictionary) {
    if (!dictionary->is(JsonType::object))
      dictionary->fail("rope_scaling and rope_parameters must be objects, got " +
                       dictionary->shown());
    d.emplace(r, *dictionary);
  }
  const Turning turning = read_dim(r, d ? &*d : nullptr, head_dim);
  Rope rope{
      .rotary = {
          .dim = turning.dim, .pairing = r.family.pairing, .base = base, .first = r.first}};
  if (d) rope.rotary.base = d->keys().base({"rope_theta"}).value_or(base);
  const auto refuse_dim = [&](const std::string& rule) {
    const std::string reason =
        "the elements that turn must be " + rule + ", got " + std::to_string(turning.dim);
    if (turning.said_by) turning.said_by->fail(reason);
    r.fail(reason);
  };
  if (turning.dim < 2 || turning.dim > head_dim - r.first)
    refuse_dim("2 to the head size " + std::to_string(head_dim - r.first));
  if (d) rope.scaling = read_scaling(r, *d, rope.rotary, head_dim);
  if (rope.rotary.dim % 2 != 0) refuse_dim("even");
  rope.axes = read_axes(r, d ? &*d : nullptr, rope.rotary.dim / 2);
  if (d) d->finish();
  check_frequencies(r, rope, dictionary);
  return rope;
}

void read_ropes(Reading& r) {
  auto base = r.keys.base({"rope_theta", "rotary_emb_base", "rope_base", "rotary_base",
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
    return one && one->is(JsonType::object) && Keys(*one).find({"rope_theta"});
  };
  if (dictionary && parameters) {
    r.note("rope_scaling and rope_parameters are both there: rope_scaling is taken");
    if (!base && inner_theta(parameters)) base = Keys(*parameters).base({"rope_theta"});
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
    std::map<std::string, bool> turns;  // by layer type; null: these layers do not
    for (const Layer& layer : r.layers) turns.emplace(layer.type, true);
    dictionary->for_each_member([&](const std::string& type, Json value) {
      if (!value.is(JsonType::object) && !value.is_null())
        value.fail("rope_parameters must be one dictionary, or one for each layer type; got " +
                   value.shown());
      const auto of_layers = turns.find(type);
      if (of_layers == turns.end())
        return r.note("rope_parameters has an entry for " + type + ", which no layer is");
      if (!of_layers->second || r.ropes.contains(type)) value.fail(type + " occurs twice");
      if (value.is_null())
        of_layers->second = false;
      else
        r.ropes[type] = read_rope(r, value, usual, type);
    });
    for (Layer& layer : r.layers) layer.turns = layer.turns && turns[layer.type];
    for (const Layer& layer : r.layers)
      if (layer.attends && layer.turns && !r.ropes.contains(layer.type))
        dictionary->fail("rope_parameters must have an entry for the layer type " + layer.type);
    return;
  }
  if (base && inner_theta(dictionary) && *Keys(*dictionary).base({"rope_theta"}) != *base)
    r.note("rope_theta " + shown(*base) + " beside the sizes is not used");
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
