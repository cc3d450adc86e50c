// Entry of V-JEPA 2's rotation. Text is read as frames of a few rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "gnomon/rotary/vjepa2.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<Vjepa2> : EntryOf<Vjepa2> {
  static constexpr EncodingInfo infos[] = {
      {"vjepa2", "V-JEPA 2", "", Place::queries_and_keys, Sharing::all_layers,
       "frame, row and column each rotate a third of the head; the two elements of a pair have "
       "different angles",
       "a' = a cos(p f_(2i mod P)) - b sin(p f_(2i mod P))\n"
       "b' = b cos(p f_((2i+1) mod P)) + a sin(p f_((2i+1) mod P))",
       "Assran et al. 2025, arXiv:2506.09985", "rotary/vjepa2.md", "V-JEPA 2",
       [](const Shape& s) -> Encoding {
         const auto side = std::max<std::int64_t>(
             1, static_cast<std::int64_t>(std::cbrt(static_cast<double>(s.length)) + 1e-9));
         return Vjepa2{.head_dim = s.width / s.heads,
                       .grid = {(s.length + side * side - 1) / (side * side), side, side}};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::some};
  static void fields(Vjepa2& s, auto&& v) {
    v("head_dim", s.head_dim), v("base", s.base), v("grid", s.grid);
  }
  static void derived(const Vjepa2& s, auto&& v) { v("block", s.block()); }
  static std::optional<std::int64_t> capacity(const Vjepa2& s) { return cells(s.grid); }
  static std::int64_t head_dim(const Vjepa2& s) { return s.head_dim; }
  static void lower(const Vjepa2& s, const Call& call, Values, LayerPlan& lowered) {
    lowered.query_rotations.emplace_back(
        Vjepa2Table(s, cells_or_axes(call.query_axes(), s.grid)));
    lowered.key_rotations.push_back(
        call.same_tokens()
            ? lowered.query_rotations.back()
            : HeadRotation(Vjepa2Table(s, cells_or_axes(call.rotated_axes(), s.grid))));
  }
};

}  // namespace gnomon::model
