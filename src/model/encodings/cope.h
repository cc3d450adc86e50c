// Entry of contextual positions (CoPE).
#pragma once

#include "gnomon/relative/cope.h"
#include "src/core/size.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<Cope> : EntryOf<Cope> {
  static constexpr EncodingInfo infos[] = {
      {"cope", "Contextual positions (CoPE)", "contextual position encoding",
       Place::keys_and_values, Sharing::each_layer,
       "a trained vector for each position, which counts the keys that a gate of the query "
       "selects",
       "gate(i, l) = sigmoid(scale q_i . k_l)\n"
       "p(i, j) = min(gate(i, j) + ... + gate(i, i), P - 1),  w = p - floor p\n"
       "score(i, j) += (1 - w) q_i . e[floor p] + w q_i . e[ceil p]",
       "Golovneva et al. 2024, arXiv:2405.18719", "relative/cope.md", "",
       [](const Shape& s) -> Encoding { return Cope{.head_dim = s.width / s.heads}; }}};
  static constexpr Properties properties = {.reversal = Effect::some,
                                            .shift = Effect::none,
                                            .linearity = Linearity::linear,
                                            .causal = true};
  static void fields(Cope& s, auto&& v) {
    v("heads", s.heads), v("head_dim", s.head_dim), v("positions", s.positions);
  }
  static std::int64_t head_dim(const Cope& s) { return s.head_dim; }
  // Zeros, as in the paper, so that training starts without positions. The name in
  // x-transformers.
  static std::vector<Parameter> parameters(const Cope& s) {
    return {
        {"table",
         gnomon::internal::checked_product("cope", "heads x positions", {s.heads, s.positions}),
         s.head_dim, 0, 0, "pos_emb"}};
  }
  static void lower(const Cope& s, const Call&, Values values, LayerPlan& lowered) {
    lowered.relative = gnomon::lower(s, values[0]);
  }
  static void backward(const Cope& s, const Call&, Values, const LayerGradient& grad,
                       Gradients grads) {
    gnomon::lower_backward(s, grad.relative, grads[0]);
  }
};

}  // namespace gnomon::model
