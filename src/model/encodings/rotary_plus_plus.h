// Entry of RoPE++.
#pragma once

#include <utility>

#include "gnomon/rotary/plus_plus.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/rotary.h"

namespace gnomon::model {

template <>
struct Entry<RotaryPlusPlus> : EntryOf<RotaryPlusPlus> {
  static constexpr EncodingInfo infos[] = {
      {"rotary-plus-plus", "RoPE++", "imaginary rotary", Place::queries_and_keys,
       Sharing::all_layers, "rotary whose odd query heads are turned by another -pi / 2",
       "query pair i of head h is rotated by p f_i - phi_h, key pair i by p f_i\n"
       "phi_h = 0 for even h, pi / 2 for odd h\n"
       "f_i = base^(-2i/R)",
       "Liu et al. 2025, arXiv:2512.07525", "rotary/plus_plus.md", "",
       [](const Shape& s) -> Encoding {
         return RotaryPlusPlus{.heads = s.heads,
                               .rotary_dim = s.width / s.heads / 2 * 2,
                               .pairing = Pairing::halves};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::none};
  static void fields(RotaryPlusPlus& s, auto&& v) {
    v("heads", s.heads), v("rotary_dim", s.rotary_dim), v("pairing", s.pairing);
    v("base", s.base), v("head_offset", s.head_offset), v("first_head", s.first_head);
  }
  static void lower(const RotaryPlusPlus& s, const Call& call, Values, LayerPlan& lowered) {
    put_rotation(lower_key(s), call, lowered);
    lowered.query_rotary.reset();
    lowered.key_rotations.emplace_back(*std::exchange(lowered.key_rotary, {}));
    lowered.query_rotations.emplace_back(HeadAngles(lower_query(s), call.query_axes()));
  }
};

}  // namespace gnomon::model
