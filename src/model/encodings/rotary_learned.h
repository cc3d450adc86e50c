// Entry of rotary with learned frequencies.
#pragma once

#include "gnomon/rotary/learned.h"
#include "src/model/encodings/entry.h"
#include "src/model/encodings/rotary.h"

namespace gnomon::model {

template <>
struct Entry<RotaryLearned> : EntryOf<RotaryLearned> {
  static constexpr EncodingInfo infos[] = {
      {"rotary-learned", "Learned rotary (LeRoPE)", "LeRoPE, GRAPE-M, learned frequencies",
       Place::queries_and_keys, Sharing::all_layers, "rotary with trained frequencies",
       "pair i is rotated by p f_i\n"
       "f_i = base^(-2i/R) exp(alpha_i)",
       "Mistral AI 2026, arXiv:2607.10134", "rotary/learned.md", "Mistral Large 4 (with YaRN)",
       [](const Shape& s) -> Encoding {
         return RotaryLearned{.rotary_dim = s.width / s.heads / 2 * 2,
                              .pairing = Pairing::halves};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::none, .linearity = Linearity::nonlinear};
  static void fields(RotaryLearned& s, auto&& v) {
    v("rotary_dim", s.rotary_dim), v("pairing", s.pairing), v("base", s.base),
        v("head_offset", s.head_offset);
  }
  // alpha starts at 0, so that training begins with plain rotary.
  static std::vector<Parameter> parameters(const RotaryLearned& s) {
    return {{"alpha", s.rotary_dim / 2, 1, 0, 0, "alpha", {s.rotary_dim / 2}}};
  }
  static void lower(const RotaryLearned& s, const Call& call, Values values,
                    LayerPlan& lowered) {
    put_rotation(gnomon::lower(s, column(values[0])), call, lowered);
    lowered.trained_frequencies = true;
  }
  static void backward(const RotaryLearned& s, const Call&, Values values,
                       const LayerGradient& grad, Gradients grads) {
    gnomon::lower_backward(s, column(values[0]), grad.frequencies, column(grads[0]));
  }
};

}  // namespace gnomon::model
