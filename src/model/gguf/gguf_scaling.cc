// Scaling of the frequencies of a GGUF file, as llama.cpp's context and ggml's rope compute it.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "src/model/gguf/gguf_draft.h"

namespace gnomon::model::internal {

RopeScaling slowed(std::vector<double> factors, double scale) {
  if (scale == 1) return FrequencyFactors{std::move(factors)};
  return LongRopeScaling{.short_factors = factors,
                         .long_factors = factors,
                         .original_length = 2,
                         .attention_factor = scale};
}

void check(GgufDraft& r, const Rope& rope) {
  try {
    const auto scaled =
        scaled_frequencies(rope.rotary, rope.scaling, std::max<std::int64_t>(r.out.length, 1));
    const auto good = [](double value) { return std::isfinite(value); };
    if (!std::all_of(scaled.inv_freq.begin(), scaled.inv_freq.end(), good) ||
        !good(scaled.table_scale) || !good(scaled.softmax_scale))
      r.fail("the frequencies and scales must be finite");
  } catch (const std::invalid_argument& error) {
    const std::string why = error.what();
    r.fail(r.key("rope.dimension_count"), why.substr(why.find(']') + 2));
  }
}

namespace {

// Returns a positive number that only some architectures use. A note says if it is not used.
double read_optional(GgufDraft& r, const std::string& name, double usual) {
  r.note_unread(name, usual);
  return r.reads(name) ? r.positive(name, usual) : usual;
}

// Returns the share of YaRN's mixture, 0 or 1. 0: the frequencies are interpolated linearly.
double read_mixture(GgufDraft& r) {
  const std::string name = "rope.scaling.yarn_ext_factor";
  if (r.number(name, -1) >= 0) r.note_unread(name, 1);
  const double share = r.reads(name) ? r.number(name, -1) : 1;
  if (share > 0 && share != 1)
    r.fail(r.key(name), name + " must be 0 or 1, got " + shown(share));
  return share == 0 ? 0 : 1;
}

// mscale_all_dim. For DeepSeek's graph, the converter stores a tenth of it.
double read_all_dim(GgufDraft& r) {
  const std::string name = "rope.scaling.yarn_log_multiplier";
  r.note_unread(name, 0);
  if (!r.reads(name)) return 0;
  return r.not_negative(name) / (r.row->gguf.yarn != GgufYarn::usual ? 0.1 : 1);
}

RopeScaling read_yarn(GgufDraft& r, double factor, std::int64_t original) {
  YarnScaling yarn{
      .factor = factor,
      .original_length = original,
      .beta_fast = read_optional(r, "rope.scaling.yarn_beta_fast", r.row->gguf.beta_fast),
      .beta_slow = read_optional(r, "rope.scaling.yarn_beta_slow", 1)};
  if (const double unused = r.number("rope.scaling.yarn_attn_factor", 1); unused != 1)
    r.note("rope.scaling.yarn_attn_factor " + shown(unused) +
           " is not used: llama.cpp computes the factor of YaRN itself");
  const bool latent = r.row->gguf.yarn != GgufYarn::usual;
  const bool own = r.row->gguf.yarn == GgufYarn::latent;
  yarn.mscale_all_dim = read_all_dim(r);
  if (yarn.mscale_all_dim != 0) yarn.mscale = own ? yarn.mscale_all_dim : 1;
  // That graph scales the softmax by the factor that cos and sin would have without
  // mscale_all_dim.
  if (latent) yarn.softmax_mscale = yarn.mscale_all_dim != 0 ? yarn.mscale : 1;
  const double scale = r.positive("rope.scaling.attn_factor", 1);
  if (scale == 1) return yarn;
  if (latent) r.softmax_scale = scale * scale * inverse_sqrt(static_cast<double>(r.head_dim));
  const auto magnitude = [&](double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
  };
  yarn.attention_factor =
      scale * (yarn.mscale_all_dim == 0
                   ? magnitude(1)
                   : magnitude(yarn.mscale) / magnitude(yarn.mscale_all_dim));
  return yarn;
}

// YaRN of frequencies that are divided by factors.
RopeScaling with_factors(GgufDraft& r, const Rotary& rotary, const RopeScaling& yarn,
                         std::vector<double> factors) {
  check(r, {.rotary = rotary, .scaling = yarn});
  const auto mixed = scaled_frequencies(rotary, yarn, 1);
  const auto whole = scaled_frequencies(rotary, NoScaling{}, 1);
  for (std::size_t i = 0; i < factors.size(); ++i)
    factors[i] *= whole.inv_freq[i] / mixed.inv_freq[i];
  if (mixed.softmax_scale != 1)
    r.softmax_scale = r.softmax_scale.value_or(inverse_sqrt(static_cast<double>(r.head_dim))) *
                      mixed.softmax_scale;
  return slowed(std::move(factors), mixed.table_scale);
}

// DeepSeek's graph multiplies the softmax scale by YaRN's factors without YaRN too.
void scale_linear_latent(GgufDraft& r, double factor) {
  const double mscale = r.positive("rope.scaling.attn_factor", 1) *
                        (1 + 0.1 * std::log(factor)) *
                        (1 + 0.1 * read_all_dim(r) * std::log(factor));
  r.softmax_scale = mscale * mscale * inverse_sqrt(static_cast<double>(r.head_dim));
  r.note("llama.cpp multiplies the softmax scale by " + shown(mscale * mscale) +
         ", which only YaRN has in the trained models");
}

}  // namespace

RopeScaling read_scaling(GgufDraft& r, const Rotary& rotary, bool sliding) {
  const std::int64_t pairs = rotary.rotary_dim / 2;
  const std::int64_t given = r.size("rope.scaling.original_context_length");
  const std::int64_t original = given ? given : r.out.length;
  const auto text = r.file().text(r.key("rope.scaling.type"));
  const std::string type(text.value_or("linear"));
  double factor = r.number("rope.scaling.factor", r.number("rope.scale_linear", 0));
  if (factor == 0) factor = 1;  // as llama.cpp reads it
  if (!(factor > 0))
    r.fail(r.key("rope.scaling.factor"),
           "rope.scaling.factor must be positive, got " + shown(factor));
  if (type == "none" && !sliding) factor = 1;
  const auto times_factor = [&](std::vector<double> factors) {
    for (double& one : factors) one *= factor;
    return factors;
  };
  const auto require_original = [&] {
    if (given) return;
    if (original == 0) r.fail(r.key("rope.scaling.original_context_length") + " is missing");
    r.note("rope.scaling.original_context_length is not given: context_length is used");
  };

  const auto shorter = r.factors("rope_factors_short.weight", pairs);
  const auto longer = r.factors("rope_factors_long.weight", pairs);
  if (shorter.empty() != longer.empty())
    r.fail(
        "rope_factors_short.weight and rope_factors_long.weight must both be given, or "
        "neither");
  const bool unfactored = r.row->gguf.unfactored;
  if (unfactored && r.file().find_tensor("rope_freqs.weight"))
    r.note("rope_freqs.weight is not used: llama.cpp does not read it for " + r.arch);
  const auto freqs = unfactored ? std::vector<double>() : r.factors("rope_freqs.weight", pairs);
  if (!longer.empty()) {
    require_original();
    r.note("the long factors apply to contexts above " + std::to_string(original) +
           "; llama.cpp selects by the allocated context");
    return LongRopeScaling{.short_factors = times_factor(shorter),
                           .long_factors = times_factor(longer),
                           .original_length = original,
                           .attention_factor = r.positive("rope.scaling.attn_factor", 1)};
  }
  if (type == "yarn" && read_mixture(r) != 0) {
    require_original();
    const RopeScaling yarn = read_yarn(r, factor, original);
    return freqs.empty() ? yarn : with_factors(r, rotary, yarn, freqs);
  }
  if (type == "longrope")
    r.fail(r.key("rope.scaling.type"), "longrope requires rope_factors_long.weight");
  if (type != "linear" && type != "none" && type != "yarn")
    r.fail(
        r.key("rope.scaling.type"),
        "rope.scaling.type must be none, linear, yarn or longrope, got " + type.substr(0, 40));
  const double attn_factor = r.positive("rope.scaling.attn_factor", 1);
  if ((factor != 1 || attn_factor != 1) && r.row->gguf.yarn != GgufYarn::usual)
    scale_linear_latent(r, factor);
  const double scale = attn_factor * read_optional(r, "rope.scaling.yarn_attn_factor", 1);
  if (!freqs.empty()) return slowed(times_factor(freqs), scale);
  if (scale != 1)
    return slowed(std::vector<double>(static_cast<std::size_t>(pairs), factor), scale);
  if (factor == 1) return NoScaling{};
  return LinearScaling{factor};
}

}  // namespace gnomon::model::internal
