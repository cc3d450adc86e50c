// Entry of learned Fourier features. The position of a token is its only coordinate.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "gnomon/embedding/learned_fourier.h"
#include "gnomon/error.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<LearnedFourier> : EntryOf<LearnedFourier> {
  static constexpr EncodingInfo infos[] = {
      {"fourier-learned", "Learned Fourier features", "learnable Fourier features",
       Place::embeddings, Sharing::all_layers,
       "sines and cosines at trained frequencies, projected by a small trained network",
       "r = D^(-1/2) [ cos W_r x | sin W_r x ]\n"
       "P(x) = gelu(r W_1 + b_1) W_2 + b_2",
       "Li et al. 2021, arXiv:2106.02795", "embedding/learned_fourier.md", "",
       [](const Shape& s) -> Encoding {
         return LearnedFourier{.axes = 1,
                               .features = std::max<std::int64_t>(2, s.width / 4 * 2),
                               .hidden = std::max<std::int64_t>(1, s.width / 2),
                               .width = s.width,
                               .gamma = 10};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::some, .linearity = Linearity::nonlinear};
  static void fields(LearnedFourier& s, auto&& v) {
    v("axes", s.axes), v("features", s.features), v("hidden", s.hidden), v("width", s.width);
    v("gamma", s.gamma);
  }
  // The waves of a point have norm 1 / sqrt(2). Initially, inputs of gelu have a deviation of
  // 0.7 and rows of the table 0.5. W_r: in the paper.
  static std::vector<Parameter> parameters(const LearnedFourier& s) {
    return {{"frequencies", s.features / 2, s.axes, 1 / s.gamma, 0, "Wr.weight"},
            {"w1", s.features, s.hidden, 1},
            {"b1", s.hidden, 1, 0, 0, "", {s.hidden}},
            {"w2", s.hidden, s.width, 1 / std::sqrt(static_cast<double>(s.hidden))},
            {"b2", s.width, 1, 0, 0, "", {s.width}}};
  }
  template <typename T>
  static LearnedFourierParameters<T> matrices(std::span<const View<T, 2>> all) {
    return {all[0], all[1], column(all[2]), all[3], column(all[4])};
  }
  static std::vector<double> coordinates(const LearnedFourier& s, const Call& call) {
    if (s.axes != 1) refuse("learned_fourier", "a line of tokens must have one axis", s.axes);
    const auto ids = call.query_positions().ids;
    return {ids.begin(), ids.end()};
  }
  static void lower(const LearnedFourier& s, const Call& call, Values values,
                    LayerPlan& lowered) {
    const std::vector<double> at = coordinates(s, call);
    lowered.table = gnomon::lower(s, matrices(values),
                                  View<const double, 2>(at.data(), {call.queries(), 1}));
  }
  static void backward(const LearnedFourier& s, const Call& call, Values values,
                       const LayerGradient& grad, Gradients grads) {
    const std::vector<double> at = coordinates(s, call);
    fill_backward<float>(s, matrices(values),
                         View<const double, 2>(at.data(), {call.queries(), 1}), grad.table,
                         matrices(grads));
  }
};

}  // namespace gnomon::model
