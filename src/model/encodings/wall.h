// Entry of gates of channels: Wall.
#pragma once

#include <cmath>

#include "gnomon/bias/wall.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<Wall> : EntryOf<Wall> {
  static constexpr EncodingInfo infos[] = {
      {"wall", "Wall attention", "per-channel forget gates", Place::scores, Sharing::each_layer,
       "each channel of a key decays by gates computed from the tokens after it",
       "g_t,n = ln sigmoid(w_n . x_t + b_n)\n"
       "score(i, j) = sum over n of q_in k_jn exp(g_(j+1),n + ... + g_i,n)",
       "Tilde Research 2026", "bias/wall.md", "", [](const Shape& s) -> Encoding {
         return Wall{.heads = s.heads, .head_dim = s.width / s.heads, .width = s.width};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some,
                                            .shift = Effect::none,
                                            .linearity = Linearity::nonlinear,
                                            .plan_linearity = Linearity::linear,
                                            .causal = true};
  static void fields(Wall& s, auto&& v) {
    v("heads", s.heads), v("head_dim", s.head_dim), v("width", s.width);
  }
  // The bias starts at 8, so that a channel forgets 0.03 % with each token at first, as in the
  // authors' code. The weight has the deviation of PyTorch's linear layers.
  static std::vector<Parameter> parameters(const Wall& s) {
    const std::int64_t rows = s.heads * s.head_dim;
    return {{"weight", rows, s.width, 1 / std::sqrt(3 * static_cast<double>(s.width)), 0,
             "wall_proj.weight"},
            {"bias", rows, 1, 0, 8, "wall_proj.bias", {rows}}};
  }
  template <typename T>
  static WallGate<T> gate(std::span<const View<T, 2>> all) {
    if (all.empty()) return {};
    return {all[0], column(all[1])};
  }
  static void lower(const Wall&, const Call&, Values, LayerPlan& lowered) {
    lowered.product = PairProduct::channel_gates;
  }
  static std::int64_t head_dim(const Wall& s) { return s.head_dim; }
  static std::vector<TermShape> terms(const Wall& s) {
    return {{"channel_gates", s.heads, s.head_dim}};
  }
  static void compute_terms(const Wall& s, Values values, const TermInput& in,
                            const TokenTermOutputs& out) {
    gnomon::channel_gates(s, gate(values), in.x, view<float, 4>(out.channel_gates));
  }
  static void compute_terms_backward(const Wall& s, Values values, const TermInput& in,
                                     const TokenTerms& grad, View<float, 3> x_grad,
                                     Gradients grads) {
    gnomon::channel_gates_backward(
        s, gate(values), in.x, view<const float, 4>(grad.channel_gates), x_grad, gate(grads));
  }
};

}  // namespace gnomon::model
