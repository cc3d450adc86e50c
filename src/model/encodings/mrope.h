// Entry of M-RoPE. Text has the same position on all axes.
#pragma once

#include "gnomon/rotary/mrope.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/rotary.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<MRopeOrder> spellings<MRopeOrder>[] = {
    {MRopeOrder::sequential, "sequential"},
    {MRopeOrder::interleaved, "interleaved"},
    {MRopeOrder::ernie, "ernie"},
    {MRopeOrder::ggml_interleaved, "ggml_interleaved"}};

template <>
struct Entry<MRope> : EntryOf<MRope> {
  static constexpr EncodingInfo infos[] = {
      {"mrope", "M-RoPE", "multimodal rotary, multimodal RoPE", Place::queries_and_keys,
       Sharing::all_layers, "rotary over time, height and width; identical to rotary for text",
       "pair i is rotated by p[axis(i)] base^(-2i/R) radians",
       "Wang et al. 2024, arXiv:2409.12191", "rotary/mrope.md",
       "Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3-Omni, GLM-4.1V, ERNIE 4.5 VL",
       [](const Shape& s) -> Encoding {
         const std::int64_t pairs = s.width / s.heads / 2;
         const std::int64_t side = 3 * pairs / 8;  // Qwen2-VL: 16, 24, 24 of 64
         return MRope{.rotary_dim = 2 * pairs,
                      .pairing = Pairing::halves,
                      .sections = {pairs - 2 * side, side, side},
                      .order = MRopeOrder::sequential};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::none};
  static void fields(MRope& s, auto&& v) {
    v("rotary_dim", s.rotary_dim), v("pairing", s.pairing), v("base", s.base);
    v("sections", s.sections), v("order", s.order);
  }
  static RotaryFrequencies frequencies(const MRope& s, std::int64_t) {
    return gnomon::lower(s);
  }
  static void lower(const MRope& s, const Call& call, Values, LayerPlan& lowered) {
    put_rotation(gnomon::lower(s), call, lowered);
  }
};

}  // namespace gnomon::model
