// Entry of the rotation of Mamba-3.
#pragma once

#include <cmath>

#include "gnomon/rotary/mamba3.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/rotary.h"

namespace gnomon::model {

template <>
struct Entry<RotaryMamba3> : EntryOf<RotaryMamba3> {
  static constexpr EncodingInfo infos[] = {
      {"rotary-mamba3", "Mamba-3 rotation", "Mamba-3, data-dependent rotary",
       Place::queries_and_keys, Sharing::each_layer,
       "each token turns queries and keys further by its angles, times a step of each head",
       "dt[t, h] = softplus(W_dt x_t + b)[h]\n"
       "angle[t, h, i] = pi sum over s <= t of tanh(W_a x_s)[i] dt[s, h]",
       "Lahoti et al. 2026, arXiv:2603.15569", "rotary/mamba3.md", "",
       [](const Shape& s) -> Encoding {
         return RotaryMamba3{.heads = s.heads,
                             .width = s.width,
                             .rotary_dim = s.width / s.heads / 2 * 2,
                             .pairing = Pairing::adjacent};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some,
                                            .shift = Effect::none,
                                            .linearity = Linearity::nonlinear,
                                            .plan_linearity = Linearity::linear};
  static void fields(RotaryMamba3& s, auto&& v) {
    v("heads", s.heads), v("width", s.width), v("rotary_dim", s.rotary_dim);
    v("pairing", s.pairing);
  }
  // The deviations of PyTorch's linear layers. The steps of the released code begin at
  // log-uniform numbers of [0.001, 0.1]: b has their mean and deviation.
  static std::vector<Parameter> parameters(const RotaryMamba3& s) {
    const double linear = 1 / std::sqrt(3 * static_cast<double>(s.width));
    return {{"angle", s.rotary_dim / 2, s.width, linear, 0, "angle_proj.weight"},
            {"step", s.heads, s.width, linear, 0, "dt_proj.weight"},
            {"bias", s.heads, 1, 1.33, -4.59, "dt_bias", {s.heads}}};
  }
  template <typename T>
  static Mamba3Weights<T> weights(std::span<const View<T, 2>> all) {
    if (all.empty()) return {};
    return {all[0], all[1], column(all[2])};
  }
  static void lower(const RotaryMamba3& s, const Call&, Values, LayerPlan& lowered) {
    lowered.token_rotation = gnomon::lower(s);
  }
  static std::vector<TermShape> terms(const RotaryMamba3& s) {
    return {{"angles", s.heads, s.rotary_dim / 2}};
  }
  static void compute_terms(const RotaryMamba3& s, Values values, const TermInput& in,
                            const TokenTermOutputs& out) {
    gnomon::increments(s, weights(values), in.x, in.tokens, view<float, 4>(out.angles));
  }
  static void compute_terms_backward(const RotaryMamba3& s, Values values, const TermInput& in,
                                     const TokenTerms& grad, View<float, 3> x_grad,
                                     Gradients grads) {
    gnomon::increments_backward(s, weights(values), in.x, in.tokens,
                                view<const float, 4>(grad.angles), x_grad, weights(grads));
  }
};

}  // namespace gnomon::model
