// Entry of NoPosition.
#pragma once

#include "src/model/entry.h"

namespace gnomon::model {

template <>
struct Entry<NoPosition> : EntryOf<NoPosition> {
  static constexpr EncodingInfo infos[] = {
      {"none", "No position (NoPE)", Place::nowhere, Sharing::all_layers,
       "no position encoding; a causal mask alone gives some information on the order",
       "Haviv et al. 2022, arXiv:2203.16634", "model/none.md",
       [](const Shape&) -> Encoding { return NoPosition{}; }}};
  static constexpr Properties properties = {.reversal = Effect::none, .shift = Effect::none};
};

}  // namespace gnomon::model
