// Entry of axial rotary. Text is read as the rows of a page.
#pragma once

#include "gnomon/rotary/axial.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/rotary.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<AxialOrder> spellings<AxialOrder>[] = {
    {AxialOrder::blocks, "blocks"}, {AxialOrder::interleaved, "interleaved"}};

void nested_fields(AxialPart& s, auto&& v) {
  v("axis", s.axis), v("rotary_dim", s.rotary_dim), v("inv_freq", s.inv_freq);
}

template <>
struct Entry<AxialRotary> : EntryOf<AxialRotary> {
  static constexpr EncodingInfo infos[] = {
      {"rotary-axial", "Axial rotary (2-D RoPE)", "axial rotary, axial RoPE, 2D RoPE, RoPE 2D",
       Place::queries_and_keys, Sharing::all_layers,
       "half of the pairs rotate by the row, half by the column",
       "pair i is rotated by p[axis(i)] f_i", "Wang et al. 2024, arXiv:2409.12191",
       "rotary/axial.md",
       "Pixtral, Qwen-VL, Llama 4, DINOv3, SAM 2, Gemma 4 (their vision parts, with other "
       "splits)",
       [](const Shape& s) -> Encoding {
         const std::int64_t half = s.width / s.heads / 4 * 2;
         AxialRotary rotary = rotary::axial({half, half}, Pairing::halves);
         rotary.grid = {page_size(s.length).height, page_size(s.length).width};
         return rotary;
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::some};
  static void fields(AxialRotary& s, auto&& v) {
    v("parts", s.parts), v("pairing", s.pairing), v("order", s.order);
    v("base", s.base), v("head_offset", s.head_offset), v("grid", s.grid);
  }
  static std::optional<std::int64_t> capacity(const AxialRotary& s) { return cells(s.grid); }
  static RotaryFrequencies frequencies(const AxialRotary& s, std::int64_t) {
    return gnomon::lower(s);
  }
  static void lower(const AxialRotary& s, const Call& call, Values, LayerPlan& lowered) {
    if (s.grid.empty()) return put_rotation(gnomon::lower(s), call, lowered);
    const auto queries = cells_or_axes(call.query_axes(), s.grid);
    const auto keys = cells_or_axes(call.rotated_axes(), s.grid);
    put_rotation(gnomon::lower(s),
                 call.same_tokens() ? Call(queries, {}, Call::EarlierKeys::unrotated)
                                    : Call(queries, keys, Call::EarlierKeys::unrotated),
                 lowered);
  }
};

}  // namespace gnomon::model
