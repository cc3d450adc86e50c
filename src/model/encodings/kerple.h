// Entry of KERPLE.
#pragma once

#include "gnomon/bias/kerple.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<KerpleKernel> spellings<KerpleKernel>[] = {
    {KerpleKernel::power, "power"}, {KerpleKernel::logarithmic, "logarithmic"}};

template <>
struct Entry<Kerple> : EntryOf<Kerple> {
  static constexpr EncodingInfo infos[] = {
      {"kerple", "KERPLE (logarithmic)", "KERPLE log", Place::scores, Sharing::each_layer,
       "a trained penalty that grows with the logarithm of the distance",
       "score(h, i, j) += -r1[h] ln(1 + r2[h] |i - j|)\n"
       "r1, r2 > 0",
       "Chi et al. 2022, arXiv:2205.09921", "bias/kerple.md", "",
       [](const Shape& s) -> Encoding {
         return Kerple{.heads = s.heads, .kernel = KerpleKernel::logarithmic};
       }},
      {"kerple-power", "KERPLE (power)", "", Place::scores, Sharing::each_layer,
       "a trained penalty that grows with a power of the distance",
       "score(h, i, j) += -r1[h] |i - j|^r2[h]\n"
       "r1 > 0, 0 < r2 <= 2",
       "Chi et al. 2022, arXiv:2205.09921", "bias/kerple.md", "",
       [](const Shape& s) -> Encoding {
         return Kerple{.heads = s.heads, .kernel = KerpleKernel::power};
       }}};
  static constexpr Properties properties = {.reversal = Effect::none,
                                            .shift = Effect::none,
                                            .decay = Decay::monotonic,
                                            .linearity = Linearity::nonlinear};
  static void fields(Kerple& s, auto&& v) { v("heads", s.heads), v("kernel", s.kernel); }
  // Means and deviations of the uniform distributions in the released code, 0 to 2 and 0 to 1.
  static std::vector<Parameter> parameters(const Kerple& s) {
    // "bias_p" and "bias_a": the authors' code
    const Parameter twice{"", s.heads, 1, 1 / std::sqrt(3.0), 1, "bias_p", {s.heads, 1, 1}};
    const Parameter once{"", s.heads, 1, 0.5 / std::sqrt(3.0), 0.5, "bias_a", {s.heads, 1, 1}};
    std::vector<Parameter> all{twice, once};
    if (s.kernel == KerpleKernel::power) all = {once, twice};
    all[0].name = "r1", all[1].name = "r2";
    return all;
  }
  template <typename T>
  static KerpleParameters<T> rates(std::span<const View<T, 2>> all) {
    return {column(all[0]), column(all[1])};
  }
  static void lower(const Kerple& s, const Call& call, Values values, LayerPlan& lowered) {
    const auto [min_distance, count] = call.distances();
    lowered.bias = gnomon::lower(s, rates(values), min_distance, count);
  }
  static void backward(const Kerple& s, const Call& call, Values values,
                       const LayerGradient& grad, Gradients grads) {
    const auto [min_distance, count] = call.distances();
    gnomon::lower_backward(s, rates(values), grad.bias.values, min_distance, count,
                           rates(grads));
  }
};

}  // namespace gnomon::model
