// Entry of the Universal Transformer's sum of two sinusoids.
#pragma once

#include "gnomon/embedding/universal.h"
#include "src/model/encodings/sinusoidal.h"

namespace gnomon::model {

template <>
struct Entry<UniversalTransformer> : EntryOf<UniversalTransformer> {
  static constexpr EncodingInfo infos[] = {
      {"universal", "Universal Transformer", "coordinate embedding, Universal Transformers",
       Place::embeddings, Sharing::all_layers,
       "sinusoid of the position plus sinusoid of the step",
       "P[t, step] = sinusoid(t) + sinusoid(step)", "Dehghani et al. 2018, arXiv:1807.03819",
       "embedding/universal.md", "Universal Transformer", [](const Shape& s) -> Encoding {
         return UniversalTransformer{.width = s.width, .recipe = SinusoidalRecipe::interleaved};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some, .shift = Effect::some};
  static void fields(UniversalTransformer& s, auto&& v) {
    v("width", s.width), v("recipe", s.recipe), v("base", s.base), v("step", s.step);
  }
  static void lower(const UniversalTransformer& s, const Call& call, Values,
                    LayerPlan& lowered) {
    lowered.table = gnomon::lower(s, call.query_positions().ids);
  }
};

}  // namespace gnomon::model
