// Entry of rotary.
#pragma once

#include "gnomon/rotary/rotary.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<Pairing> spellings<Pairing>[] = {{Pairing::halves, "halves"},
                                                           {Pairing::adjacent, "adjacent"}};
template <>
inline constexpr Spelling<Direction> spellings<Direction>[] = {{Direction::forward, "forward"},
                                                               {Direction::inverse, "inverse"}};

template <>
struct Entry<Rotary> : EntryOf<Rotary> {
  static constexpr EncodingInfo infos[] = {
      {"rotary", "Rotary (RoPE)", "RoPE, rotary embedding, rotary position embedding",
       Place::queries_and_keys, Sharing::all_layers,
       "pairs of elements rotate by an angle proportional to the position",
       "a' = a cos(p f_i) - b sin(p f_i)\n"
       "b' = a sin(p f_i) + b cos(p f_i)\n"
       "f_i = base^(-2i/R)",
       "Su et al. 2021, arXiv:2104.09864", "rotary/rotary.md",
       "Llama, Mistral, Qwen, Gemma, GPT-NeoX, Falcon, Phi, DeepSeek",
       [](const Shape& s) -> Encoding {
         return Rotary{.rotary_dim = s.width / s.heads, .pairing = Pairing::halves};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::none};
  static void fields(Rotary& s, auto&& v) {
    v("rotary_dim", s.rotary_dim), v("pairing", s.pairing), v("base", s.base),
        v("head_offset", s.head_offset);
  }
  static RotaryFrequencies frequencies(const Rotary& s, std::int64_t) {
    return gnomon::lower(s);
  }
  static void lower(const Rotary& s, const Call& call, Values, LayerPlan& lowered) {
    put_rotation(gnomon::lower(s), call, lowered);
  }
};

}  // namespace gnomon::model
