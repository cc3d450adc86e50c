// Entry of xPos.
#pragma once

#include "gnomon/rotary/xpos.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/rotary.h"

namespace gnomon::model {

template <>
struct Entry<XPos> : EntryOf<XPos> {
  static constexpr EncodingInfo infos[] = {
      {"xpos", "xPos", "", Place::queries_and_keys, Sharing::all_layers,
       "rotary with scores that decay with the distance, fastest at high frequencies",
       "query pair i at m: rotated, times zeta_i^((m - centre) / scale_base)\n"
       "key pair i at n: rotated, times zeta_i^((centre - n) / scale_base)\n"
       "zeta_i = (2i/R + 0.4) / 1.4",
       "Sun et al. 2022, arXiv:2212.10554", "rotary/xpos.md", "TorchScale's LEX",
       [](const Shape& s) -> Encoding {
         return XPos{.rotary_dim = s.width / s.heads,
                     .pairing = Pairing::halves,
                     .centre = s.length / 2};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::none};
  static void fields(XPos& s, auto&& v) {
    v("rotary_dim", s.rotary_dim), v("pairing", s.pairing), v("base", s.base),
        v("head_offset", s.head_offset);
    v("scale_base", s.scale_base), v("gamma", s.gamma), v("centre", s.centre);
  }
  static void lower(const XPos& s, const Call& call, Values, LayerPlan& lowered) {
    lowered.query_rotary = table_of(lower_query(s), call.query_axes());
    lowered.key_rotary = table_of(lower_key(s), call.rotated_axes());
  }
};

}  // namespace gnomon::model
