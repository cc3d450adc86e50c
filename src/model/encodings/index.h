// Entry of the index of the position.
#pragma once

#include <algorithm>

#include "gnomon/embedding/index.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<IndexUnit> spellings<IndexUnit>[] = {
    {IndexUnit::raw, "raw"}, {IndexUnit::normalised, "normalised"}};
template <>
inline constexpr Spelling<IndexChannels> spellings<IndexChannels>[] = {
    {IndexChannels::all, "all"}, {IndexChannels::first, "first"}};

template <>
struct Entry<Index> : EntryOf<Index> {
  static constexpr EncodingInfo infos[] = {
      {"index", "Index", "position index, integer positions", Place::embeddings,
       Sharing::all_layers,
       "the position, divided by the length or not: the naive choice, for comparison",
       "P[t, c] = t                    raw\n"
       "P[t, c] = t / (length - 1)     normalised",
       "Kazemnejad 2019, \"Transformer Architecture: The Positional Encoding\"",
       "embedding/index.md", "", [](const Shape& s) -> Encoding {
         return Index{.width = s.width,
                      .unit = IndexUnit::normalised,
                      .channels = IndexChannels::all,
                      .length = std::max<std::int64_t>(2, s.length)};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::some};
  static void fields(Index& s, auto&& v) {
    v("width", s.width), v("unit", s.unit), v("channels", s.channels), v("length", s.length);
  }
  static void lower(const Index& s, const Call& call, Values, LayerPlan& lowered) {
    lowered.table = gnomon::lower(s, call.query_positions().ids);
  }
};

}  // namespace gnomon::model
