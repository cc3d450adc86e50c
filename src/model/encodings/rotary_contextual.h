// Entry of contextual rotary.
#pragma once

#include <cmath>

#include "gnomon/rotary/contextual.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/rotary.h"

namespace gnomon::model {

template <>
struct Entry<RotaryContextual> : EntryOf<RotaryContextual> {
  static constexpr EncodingInfo infos[] = {
      {"rotary-contextual", "Contextual rotary (GRAPE-M)",
       "contextual GRAPE-M, GRAPE-M contextual", Place::queries_and_keys, Sharing::each_layer,
       "each token turns later queries and keys by an amount computed from it",
       "w_t = sigmoid((W x_t + b) / s)\n"
       "angle[t, i] = -exp(l_i) sum over tau < t of w_tau",
       "Zhang et al. 2025, arXiv:2512.07805", "rotary/contextual.md", "",
       [](const Shape& s) -> Encoding {
         return RotaryContextual{.width = s.width,
                                 .rotary_dim = s.width / s.heads / 2 * 2,
                                 .pairing = Pairing::halves};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some,
                                            .shift = Effect::none,
                                            .linearity = Linearity::nonlinear,
                                            .plan_linearity = Linearity::linear};
  static void fields(RotaryContextual& s, auto&& v) {
    v("width", s.width), v("rotary_dim", s.rotary_dim), v("pairing", s.pairing);
    v("heads", s.heads), v("base", s.base), v("scale", s.scale);
  }
  // As in the released code, W starts at 0 and b at ln(exp(0.001) - 1): w is 0.39 at first.
  static std::vector<Parameter> parameters(const RotaryContextual& s) {
    const std::int64_t pairs = s.rotary_dim / 2;
    return {{"log_frequencies",
             pairs,
             1,
             0,
             0,
             "grape.log_freq",
             {pairs},
             false,
             initial_log_frequencies(s)},
            {"weight", s.heads, s.width, 0, 0, "omega_proj.weight"},
            {"bias", s.heads, 1, 0, std::log(std::expm1(1e-3)), "omega_proj.bias", {s.heads}}};
  }
  template <typename T>
  static ContextualWeights<T> weights(std::span<const View<T, 2>> all) {
    if (all.empty()) return {};
    return {column(all[0]), all[1], column(all[2])};
  }
  static void lower(const RotaryContextual& s, const Call&, Values, LayerPlan& lowered) {
    lowered.token_rotation = gnomon::lower(s);
  }
  static std::vector<TermShape> terms(const RotaryContextual& s) {
    return {{"angles", s.heads, s.rotary_dim / 2}};
  }
  static std::int64_t history(const RotaryContextual&) { return 1; }
  static void compute_terms(const RotaryContextual& s, Values values, const TermInput& in,
                            const TokenTermOutputs& out) {
    gnomon::increments(s, weights(values), in.x, in.tokens, view<float, 4>(out.angles));
  }
  static void compute_terms_backward(const RotaryContextual& s, Values values,
                                     const TermInput& in, const TokenTerms& grad,
                                     View<float, 3> x_grad, Gradients grads) {
    gnomon::increments_backward(s, weights(values), in.x, in.tokens,
                                view<const float, 4>(grad.angles), x_grad, weights(grads));
  }
};

}  // namespace gnomon::model
