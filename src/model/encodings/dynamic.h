// Entry of the dynamic position bias.
#pragma once

#include <algorithm>
#include <string>

#include "gnomon/bias/dynamic.h"
#include "gnomon/error.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<DynamicScale> spellings<DynamicScale>[] = {
    {DynamicScale::linear, "linear"}, {DynamicScale::logarithmic, "logarithmic"}};

template <>
struct Entry<DynamicBias> : EntryOf<DynamicBias> {
  static DynamicBias usual(const Shape& s, DynamicScale scale) {
    return {.heads = s.heads, .hidden = std::max<std::int64_t>(1, s.width / 4), .scale = scale};
  }
  static constexpr EncodingInfo infos[] = {
      {"dynamic", "Dynamic bias", "dynamic position bias", Place::scores, Sharing::all_layers,
       "a bias computed from the distance by a small trained network",
       "score(h, i, j) += f_h(x),\n"
       "x = i - j\n"
       "f: Linear(1, U), SiLU, (Linear(U, U), SiLU) depth - 1 times, Linear(U, H)",
       "x-transformers; Wang et al. 2021, arXiv:2108.00154", "bias/dynamic.md", "",
       [](const Shape& s) -> Encoding { return usual(s, DynamicScale::linear); }},
      {"dynamic-log", "Dynamic bias (logarithmic)", "", Place::scores, Sharing::all_layers,
       "a bias computed from the logarithm of the distance by a small trained network",
       "score(h, i, j) += f_h(x)\n"
       "x = sign(i - j) ln(1 + |i - j|)\n"
       "f: Linear(1, U), SiLU, (Linear(U, U), SiLU) depth - 1 times, Linear(U, H)",
       "x-transformers; Wang et al. 2021, arXiv:2108.00154", "bias/dynamic.md", "",
       [](const Shape& s) -> Encoding { return usual(s, DynamicScale::logarithmic); }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::none, .linearity = Linearity::nonlinear};
  static void fields(DynamicBias& s, auto&& v) {
    v("heads", s.heads), v("hidden", s.hidden);
    v("depth", s.depth), v("scale", s.scale);
  }
  // Deviations of PyTorch's linear layers, uniform up to 1 / sqrt(inputs).
  static std::vector<Parameter> parameters(const DynamicBias& s) {
    if (s.depth > 1024) refuse("dynamic", "depth must be 1 to 1024", s.depth);
    std::vector<Parameter> all;
    for (std::int64_t l = 0; l <= s.depth; ++l) {
      const std::int64_t in = l ? s.hidden : 1, out = l < s.depth ? s.hidden : s.heads;
      const double deviation = 1 / std::sqrt(3 * static_cast<double>(in));
      const std::string number = std::to_string(l + 1);
      all.push_back({"w" + number, out, in, deviation});
      all.push_back({"b" + number, out, 1, deviation, 0, "", {out}});
    }
    return all;
  }
  template <typename T>
  static std::vector<DynamicLayer<T>> layers(std::span<const View<T, 2>> all) {
    std::vector<DynamicLayer<T>> layers;
    for (std::size_t i = 0; i < all.size(); i += 2)
      layers.push_back({all[i], column(all[i + 1])});
    return layers;
  }
  static void lower(const DynamicBias& s, const Call& call, Values values, LayerPlan& lowered) {
    const auto [min_distance, count] = call.distances();
    lowered.bias = gnomon::lower(s, layers(values), min_distance, count);
  }
  static void backward(const DynamicBias& s, const Call& call, Values values,
                       const LayerGradient& grad, Gradients grads) {
    const auto [min_distance, count] = call.distances();
    gnomon::lower_backward(s, layers(values), grad.bias.values, min_distance, count,
                           layers(grads));
  }
};

}  // namespace gnomon::model
