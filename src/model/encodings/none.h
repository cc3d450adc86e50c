// Entry of NoPosition.
#pragma once

#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<NoPosition> : EntryOf<NoPosition> {
  static constexpr EncodingInfo infos[] = {
      {"none", "No position (NoPE)", "NoPE, no position, no position encoding", Place::nowhere,
       Sharing::all_layers,
       "no position encoding; a causal mask alone gives some information on the order",
       "score(i, j) = scale q_i . k_j", "Haviv et al. 2022, arXiv:2203.16634", "model/none.md",
       "Llama 4, SmolLM3, Cohere 2, EXAONE 4 (some layers, between rotary layers)",
       [](const Shape&) -> Encoding { return NoPosition{}; }}};
  static constexpr Properties properties = {.reversal = Effect::none, .shift = Effect::none};
};

}  // namespace gnomon::model
