// Entry of PoPE.
#pragma once

#include "gnomon/rotary/pope.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<Pope> : EntryOf<Pope> {
  static constexpr EncodingInfo infos[] = {
      {"pope", "PoPE", "polar coordinate position embedding", Place::scores,
       Sharing::each_layer,
       "elements are magnitudes by softplus; their phases depend on the position only",
       "score(h, i, j) = sum over n of softplus(q_n) softplus(k_n) cos((i - j) w_n - b_hn)\n"
       "w_n = base^(-n/D)",
       "Gopalakrishnan et al. 2025, arXiv:2509.10534", "rotary/pope.md", "",
       [](const Shape& s) -> Encoding {
         return Pope{.heads = s.heads, .head_dim = s.width / s.heads};
       }}};
  static constexpr Properties properties = {
      .reversal = Effect::some, .shift = Effect::none, .linearity = Linearity::nonlinear};
  static void fields(Pope& s, auto&& v) {
    v("heads", s.heads), v("head_dim", s.head_dim), v("base", s.base);
  }
  // `bias` of a module `pope` of pope-pytorch, which starts at 0 or uniformly in [-2 pi, 0].
  static std::vector<Parameter> parameters(const Pope& s) {
    return {{"bias", s.heads, s.head_dim, 0, 0, "pope.bias"}};
  }
  static std::int64_t head_dim(const Pope& s) { return s.head_dim; }
  static void lower(const Pope& s, const Call& call, Values values, LayerPlan& lowered) {
    // Of all keys: a cache keeps keys that are not rotated.
    const RotaryFrequencies frequencies = gnomon::frequencies(s);
    lowered.query_rotary = table_of(frequencies, call.query_axes());
    lowered.key_rotary =
        call.same_tokens() ? lowered.query_rotary : table_of(frequencies, call.key_axes());
    lowered.polar = gnomon::lower(s, values[0]);
  }
  static void backward(const Pope& s, const Call&, Values values, const LayerGradient& grad,
                       Gradients grads) {
    if (!grad.phases.empty()) gnomon::lower_backward(s, values[0], grad.phases, grads[0]);
  }
};

}  // namespace gnomon::model
