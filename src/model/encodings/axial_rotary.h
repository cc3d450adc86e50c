// Axial rotary among the encodings: text as the rows of a page.
#pragma once

#include "gnomon/rotary/axial.h"
#include "src/model/encodings/rotary.h"
#include "src/model/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<AxialOrder> spellings<AxialOrder>[] = {
    {AxialOrder::blocks, "blocks"}, {AxialOrder::interleaved, "interleaved"}};

void nested_fields(AxialPart& s, auto&& v) {
  v("axis", s.axis), v("dim", s.dim), v("inv_freq", s.inv_freq);
}

template <>
struct Entry<AxialRotary> : EntryOf<AxialRotary> {
  static constexpr EncodingInfo infos[] = {
      {"rotary-axial", "Axial rotary (2-D RoPE)", Place::queries_and_keys, Sharing::all_layers,
       "half of the pairs turn by the row, half by the column",
       "Wang et al. 2024, arXiv:2409.12191", "rotary/axial.md", [](const Shape& s) -> Encoding {
         const std::int64_t half = s.width / s.heads / 4 * 2;
         AxialRotary rotary = axial({half, half}, Pairing::halves);
         rotary.grid = {page(s.length).height, page(s.length).width};
         return rotary;
       }}};
  static void fields(AxialRotary& s, auto&& v) {
    v("parts", s.parts), v("pairing", s.pairing), v("order", s.order);
    v("base", s.base), v("first", s.first), v("grid", s.grid);
  }
  static std::optional<std::int64_t> capacity(const AxialRotary& s) {
    if (s.grid.empty()) return std::nullopt;
    std::int64_t cells = 1;
    for (const std::int64_t extent : s.grid) cells *= extent;
    return cells;
  }
  static RotarySchedule schedule(const AxialRotary& s, std::int64_t) {
    return gnomon::schedule(s);
  }
  static void lower(const AxialRotary& s, const Call& call, Values, LayerPlan& lowered) {
    if (s.grid.empty()) return put_rotation(gnomon::schedule(s), call, lowered);
    const auto queries = cells_or_axes(call.query_axes(), s.grid);
    const auto keys = cells_or_axes(call.turned_axes(), s.grid);
    put_rotation(gnomon::schedule(s),
                 call.same_tokens() ? Call(queries, {}, Call::EarlierKeys::unturned)
                                    : Call(queries, keys, Call::EarlierKeys::unturned),
                 lowered);
  }
};

}  // namespace gnomon::model
