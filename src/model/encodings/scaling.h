// Entry of scaled rotary.
#pragma once

#include "gnomon/rotary/scaling.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/rotary.h"

namespace gnomon::model {

template <>
struct Entry<ScaledRotary> : EntryOf<ScaledRotary> {
  static constexpr EncodingInfo infos[] = {
      {"rotary-scaled", "Rotary, scaled", "YaRN, scaled rotary, scaled RoPE, RoPE scaled",
       Place::queries_and_keys, Sharing::all_layers,
       "rotary with lower frequencies in its slow pairs, for contexts beyond the training "
       "length (YaRN)",
       "f'_i = ramp_i f_i / factor + (1 - ramp_i) f_i\n"
       "cos and sin are multiplied by 0.1 ln(factor) + 1",
       "Peng et al. 2023, arXiv:2309.00071", "rotary/scaling.md", "Qwen2.5, DeepSeek, gpt-oss",
       [](const Shape& s) -> Encoding {
         return ScaledRotary{
             .rotary = {.rotary_dim = s.width / s.heads, .pairing = Pairing::halves},
             .scaling = YarnScaling{.factor = 4, .original_length = s.length},
             .length = 4 * s.length};
       }},
      {"rotary-clipped", "Rotary, clipped", "clipped RoPE, clipped rotary",
       Place::queries_and_keys, Sharing::all_layers,
       "rotary whose slowest pairs are slowed down to 0, for contexts beyond the training "
       "length",
       "f'_i = f_i (1 + cos(pi m / (n - 1))) / 2, i = R/2 - n + m, of n slow pairs",
       "Li et al. 2026, arXiv:2602.05258", "rotary/scaling.md", "",
       [](const Shape& s) -> Encoding {
         return ScaledRotary{
             .rotary = {.rotary_dim = s.width / s.heads, .pairing = Pairing::halves},
             .scaling = ClippedScaling{.original_length = s.length},
             .length = 4 * s.length};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::none};
  static void fields(ScaledRotary& s, auto&& v) {
    Entry<Rotary>::fields(s.rotary, v);
    v("scaling", s.scaling), v("length", s.length), v("axes", s.axes);
    v("direction", s.direction);
  }
  static std::int64_t length(const ScaledRotary& s, std::int64_t declared) {
    return declared > 0 ? declared : s.length;
  }
  static RotaryFrequencies frequencies(const ScaledRotary& s, std::int64_t declared) {
    return gnomon::lower(s, length(s, declared));
  }
  static double softmax_factor(const ScaledRotary& s, std::int64_t declared) {
    return scaled_frequencies(s.rotary, s.scaling, length(s, declared)).softmax_scale;
  }
  static void lower(const ScaledRotary& s, const Call& call, Values, LayerPlan& lowered) {
    put_rotation(call.known ? *call.known : frequencies(s, call.length), call, lowered);
  }
};

}  // namespace gnomon::model
