// Entry of Sandwich.
#pragma once

#include "gnomon/bias/sandwich.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<Sandwich> : EntryOf<Sandwich> {
  static constexpr EncodingInfo infos[] = {
      {"sandwich", "Sandwich", "", Place::scores, Sharing::all_layers,
       "a bias: the dot product of the sinusoidal embeddings of both positions",
       "score(h, i, j) += (s(i - j) - s(0)) / ratio[h]\n"
       "s(d) = sum over i = 1 to 64 of cos(d / 10000^(i / 64)),\n"
       "ratio[h] = 8 (h + 1) / H",
       "Chi et al. 2022, arXiv:2212.10356", "bias/sandwich.md", "",
       [](const Shape& s) -> Encoding { return Sandwich{.heads = s.heads}; }}};
  static constexpr Properties properties = {
      .reversal = Effect::none, .shift = Effect::none, .divisible = false};
  static void fields(Sandwich& s, auto&& v) {
    v("heads", s.heads), v("width", s.width), v("base", s.base);
  }
  static void lower(const Sandwich& s, const Call& call, Values, LayerPlan& lowered) {
    const auto [min_distance, count] = call.distances();
    lowered.bias = gnomon::lower(s, min_distance, count);
  }
};

}  // namespace gnomon::model
