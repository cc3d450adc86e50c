// Entry of selective rotary.
#pragma once

#include <cmath>

#include "gnomon/rotary/selective.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<SelectiveRotary> : EntryOf<SelectiveRotary> {
  static constexpr EncodingInfo infos[] = {
      {"selective", "Selective RoPE", "selective rotary", Place::queries_and_keys,
       Sharing::each_layer,
       "each token turns queries and keys further by angles computed from it",
       "z_t = W2 W1 n_t, n_t = x_t with heads of length 1\n"
       "angle[t, h, i] = T_i sum_(s <= t) conv(z)[s, h, i]\n"
       "T_i = base^(-2i/R)",
       "Movahedi et al. 2025, arXiv:2511.17388", "rotary/selective.md", "",
       [](const Shape& s) -> Encoding {
         return SelectiveRotary{
             .heads = s.heads, .width = s.width, .rotary_dim = s.width / s.heads / 2 * 2};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some,
                                            .shift = Effect::none,
                                            .linearity = Linearity::nonlinear,
                                            .plan_linearity = Linearity::linear,
                                            .divisible = false};
  static void fields(SelectiveRotary& s, auto&& v) {
    v("heads", s.heads), v("width", s.width), v("rotary_dim", s.rotary_dim);
    v("base", s.base), v("rank", s.rank), v("kernel", s.kernel);
  }
  // The deviations of PyTorch's linear layers and convolutions, uniform up to 1 / sqrt(inputs).
  static std::vector<Parameter> parameters(const SelectiveRotary& s) {
    const auto of = [](std::int64_t inputs) {
      return 1 / std::sqrt(3 * static_cast<double>(inputs));
    };
    const std::int64_t channels = s.heads * s.rotary_dim / 2;
    return {{"down", s.rank, s.width, of(s.width), 0, "phi_proj.0.weight"},
            {"up", channels, s.rank, of(s.rank), 0, "phi_proj.1.weight"},
            {"conv",
             channels,
             s.kernel,
             of(s.kernel),
             0,
             "phi_conv1d.weight",
             {channels, 1, s.kernel}}};
  }
  template <typename T>
  static SelectiveWeights<T> weights(std::span<const View<T, 2>> all) {
    if (all.empty()) return {};
    return {all[0], all[1], all[2]};
  }
  static void lower(const SelectiveRotary& s, const Call&, Values, LayerPlan& lowered) {
    lowered.token_rotation = gnomon::lower(s);
  }
  static std::vector<TermShape> terms(const SelectiveRotary& s) {
    return {{"angles", s.heads, s.rotary_dim / 2}};
  }
  static std::int64_t history(const SelectiveRotary& s) { return s.kernel - 1; }
  static void compute_terms(const SelectiveRotary& s, Values values, const TermInput& in,
                            const TokenTermOutputs& out) {
    gnomon::increments(s, weights(values), in.x, in.tokens, view<float, 4>(out.angles));
  }
  static void compute_terms_backward(const SelectiveRotary& s, Values values,
                                     const TermInput& in, const TokenTerms& grad,
                                     View<float, 3> x_grad, Gradients grads) {
    gnomon::increments_backward(s, weights(values), in.x, in.tokens,
                                view<const float, 4>(grad.angles), x_grad, weights(grads));
  }
};

}  // namespace gnomon::model
