// xPos among the encodings.
#pragma once

#include "gnomon/rotary/xpos.h"
#include "src/model/encodings/rotary.h"
#include "src/model/entry.h"

namespace gnomon::model {

template <>
struct Entry<XPos> : EntryOf<XPos> {
  static constexpr EncodingInfo infos[] = {
      {"xpos", "xPos", Place::queries_and_keys, Sharing::all_layers,
       "rotary whose scores fall with distance, the fast pairs' first",
       "Sun et al. 2022, arXiv:2212.10554", "rotary/xpos.md", [](const Shape& s) -> Encoding {
         return XPos{
             .dim = s.width / s.heads, .pairing = Pairing::halves, .centre = s.length / 2};
       }}};
  static void fields(XPos& s, auto&& v) {
    v("dim", s.dim), v("pairing", s.pairing), v("base", s.base), v("first", s.first);
    v("scale_base", s.scale_base), v("gamma", s.gamma), v("centre", s.centre);
  }
  static void lower(const XPos& s, const Call& call, Values, LayerPlan& lowered) {
    lowered.query_rotary = table_of(query_schedule(s), call.query_axes());
    lowered.key_rotary = table_of(key_schedule(s), call.turned_axes());
  }
};

}  // namespace gnomon::model
