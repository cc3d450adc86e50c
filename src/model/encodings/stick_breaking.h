// Entry of stick-breaking attention.
#pragma once

#include "gnomon/attention/stick_breaking.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<OwnKey> spellings<OwnKey>[] = {{OwnKey::excluded, "excluded"},
                                                         {OwnKey::included, "included"}};

template <>
struct Entry<StickBreaking> : EntryOf<StickBreaking> {
  static constexpr EncodingInfo infos[] = {
      {"stick-breaking", "Stick-breaking attention", "", Place::weights, Sharing::all_layers,
       "each query gives keys parts of a stick, the nearest key first, instead of a softmax",
       "z(i, j) = scale q_i . k_j\n"
       "weight(i, j) = sigmoid(z(i, j)) prod_l (1 - sigmoid(z(i, l))),  j < l < i",
       "Tan et al. 2024, arXiv:2410.17980", "attention/stick_breaking.md", "",
       [](const Shape&) -> Encoding { return StickBreaking{}; }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::none, .causal = true};
  static void fields(StickBreaking& s, auto&& v) { v("own_key", s.own_key); }
  static void lower(const StickBreaking& s, const Call&, Values, LayerPlan& lowered) {
    lowered.stick_breaking = s;
  }
};

}  // namespace gnomon::model
