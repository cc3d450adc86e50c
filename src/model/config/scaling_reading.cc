// Scaling of a rotary encoding, from the keys of a dictionary.
#include <algorithm>
#include <cmath>

#include "src/model/config/dictionary.h"

namespace gnomon::model::internal {
namespace {

RopeScaling read_dynamic(Reading& r, Dictionary& d) {
  // Hunyuan: a fixed change of base by `alpha`; 0: none.
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
             (by_lengths ? "the latter is used, as in transformers of 2025"
                         : "the former is used, as in transformers of 2026"));
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
  if (!d.keys().boolean({"truncate"}).value_or(true)) {
    yarn.ramp = YarnRamp::fractional;
    if (r.by_layer_type)
      r.note("truncate of an entry by layer type is used; transformers 5.23 does not read it");
  }
  yarn.attention_factor = d.keys().positive({"attention_factor"});
  yarn.mscale = d.keys().number({"mscale"}).value_or(0);
  yarn.mscale_all_dim = d.keys().number({"mscale_all_dim"}).value_or(0);
  for (const char* other : {"attn_factor", "extrapolation_factor"}) {
    const auto value = d.keys().number({other});
    if (value && *value != 1)
      d.keys().find({other})->fail(std::string(other) + " is not understood, got " +
                                   shown(*value));
  }
  d.keys().find({"finetuned"});  // describes the training
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
  // Phi-3.5-MoE has a scale for each list.
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
           ": each pair is scaled fully or not at all");
  if (llama3.original_length >= r.out.length)
    r.note("original_max_position_embeddings " + std::to_string(llama3.original_length) +
           " is not less than max_position_embeddings " + std::to_string(r.out.length));
  return llama3;
}

}  // namespace

RopeScaling read_scaling(Reading& r, Dictionary& d, Rotary& rotary, std::int64_t head_dim) {
  std::string type = d.type();
  if (r.lists_are_longrope && (type == "yarn" || type == "su") &&
      d.keys().find({"short_factor"}))
    type = "longrope";
  if (type == "default" || type == "mrope" || type == "none") {
    // Qwen2.5-VL and others also write a factor of 1.
    if (const auto factor = d.keys().number({"factor"}); factor && *factor != 1)
      r.note("factor " + shown(*factor) + " is not used by rope_type " + type);
    return NoScaling{};
  }
  if (type == "linear") return LinearScaling{d.factor()};
  if (type == "ntk") return NtkScaling{d.factor()};
  if (type == "dynamic") return read_dynamic(r, d);
  if (type == "yarn") return read_yarn(r, d);
  if (type == "longrope" || type == "su") return read_longrope(r, d, rotary.rotary_dim / 2);
  if (type == "llama3") return read_llama3(r, d);
  if (type == "proportional") {
    // The frequencies are those of the whole head.
    ProportionalScaling scaling{.rotated_pairs = rotary.rotary_dim / 2,
                                .factor = d.keys().positive({"factor"}).value_or(1)};
    rotary.rotary_dim = head_dim;
    return scaling;
  }
  d.keys()
      .find({"rope_type", "type"})
      ->fail(
          "rope_type must be default, linear, dynamic, ntk, yarn, longrope, llama3 or "
          "proportional, got " +
          type);
}

}  // namespace gnomon::model::internal
