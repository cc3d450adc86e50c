// Entry of FIRE.
#pragma once

#include "gnomon/bias/fire.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<Fire> : EntryOf<Fire> {
  static constexpr EncodingInfo infos[] = {
      {"fire", "FIRE", "", Place::scores, Sharing::each_layer,
       "a bias computed by a small trained network from the distance relative to the query "
       "position",
       "bias(h, i, j) = f_h( psi(|i - j|) / psi(max(L, i)) ),\n"
       "psi(n) = log(c n + 1)",
       "Li et al. 2023, arXiv:2310.04418", "bias/fire.md", "",
       [](const Shape& s) -> Encoding {  // the paper: 512 of 2048 positions
         return Fire{.heads = s.heads, .threshold = static_cast<double>(s.length) / 4};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::nonlinear};
  static void fields(Fire& s, auto&& v) {
    v("heads", s.heads), v("hidden", s.hidden);
    v("threshold", s.threshold), v("epsilon", s.epsilon);
  }
  // Deviations of PyTorch's linear layers, uniform up to 1 / sqrt(inputs). c is from the paper.
  // Paths are those of the listing in appendix E.
  static std::vector<Parameter> parameters(const Fire& s) {
    const double first = 1 / std::sqrt(3.0);
    const double second = first / std::sqrt(static_cast<double>(s.hidden));
    return {{"w1", s.hidden, 1, first, 0, "mlp.0.weight"},
            {"b1", s.hidden, 1, first, 0, "mlp.0.bias", {s.hidden}},
            {"w2", s.heads, s.hidden, second, 0, "mlp.2.weight"},
            {"b2", s.heads, 1, second, 0, "mlp.2.bias", {s.heads}},
            {"c", 1, 1, 0, 0.1, "c", {1}},
            {"multiplier", 1, 1, 0, 1, "L_multiplier", {1}}};
  }
  template <typename T>
  static FireParameters<T> network(std::span<const View<T, 2>> all) {
    return {column(all[0]), column(all[1]), all[2],
            column(all[3]), column(all[4]), column(all[5])};
  }
  static void lower(const Fire& s, const Call&, Values values, LayerPlan& lowered) {
    lowered.bias = gnomon::lower(s, network(values));
  }
  static void backward(const Fire& s, const Call&, Values values, const LayerGradient& grad,
                       Gradients grads) {
    gnomon::lower_backward(s, network(values), grad.bias.values, network(grads));
  }
};

}  // namespace gnomon::model
