// Entry of the sinusoidal table.
#pragma once

#include "gnomon/embedding/sinusoidal.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<SinusoidalRecipe> spellings<SinusoidalRecipe>[] = {
    {SinusoidalRecipe::interleaved, "interleaved"},
    {SinusoidalRecipe::half_split, "half_split"},
    {SinusoidalRecipe::tensor2tensor, "tensor2tensor"},
    {SinusoidalRecipe::timestep, "timestep"}};
template <>
inline constexpr Spelling<SinusoidalOrder> spellings<SinusoidalOrder>[] = {
    {SinusoidalOrder::sine_first, "sine_first"},
    {SinusoidalOrder::cosine_first, "cosine_first"}};

template <>
struct Entry<Sinusoidal> : EntryOf<Sinusoidal> {
  static constexpr EncodingInfo infos[] = {
      {"sinusoidal", "Sinusoidal", "sine, sinusoid, sinusoidal embedding", Place::embeddings,
       Sharing::all_layers, "sines and cosines of the position at geometric wavelengths",
       "f_i = base^(-2i/C)\n"
       "sin t f0, cos t f0, sin t f1, cos t f1, ...",
       "Vaswani et al. 2017, arXiv:1706.03762", "embedding/sinusoidal.md",
       "VideoMAE, SpeechT5; in other recipes Marian, Pegasus, Informer, Autoformer, M2M100, "
       "NLLB, XGLM, Whisper's encoder",
       [](const Shape& s) -> Encoding {
         return Sinusoidal{.width = s.width, .recipe = SinusoidalRecipe::interleaved};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::some};
  static void fields(Sinusoidal& s, auto&& v) {
    v("width", s.width), v("recipe", s.recipe), v("base", s.base);
    v("order", s.order), v("shift", s.shift), v("scale", s.scale), v("offset", s.offset);
  }
  static void lower(const Sinusoidal& s, const Call& call, Values, LayerPlan& lowered) {
    lowered.table = gnomon::lower(s, call.query_positions().ids);
  }
};

}  // namespace gnomon::model
