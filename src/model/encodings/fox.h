// Entry of forget gates: FoX and CABLE.
#pragma once

#include <cmath>

#include "gnomon/bias/fox.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
inline constexpr Spelling<FoxRecipe> spellings<FoxRecipe>[] = {{FoxRecipe::fox, "fox"},
                                                               {FoxRecipe::cable, "cable"}};

template <>
struct Entry<Fox> : EntryOf<Fox> {
  static Fox usual(const Shape& s, FoxRecipe recipe) {
    return {.heads = s.heads,
            .width = s.width,
            .recipe = recipe,
            .head_dim = recipe == FoxRecipe::cable ? s.width / s.heads : 0};
  }
  static constexpr EncodingInfo infos[] = {
      {"fox", "Forget gates (FoX)", "Forgetting Transformer, forget gate", Place::scores,
       Sharing::each_layer,
       "each token multiplies the weights of all earlier tokens by a gate computed from it",
       "g_t = ln sigmoid(w_h . x_t + b_h)\n"
       "score(h, i, j) += g_(j+1) + ... + g_i",
       "Lin et al. 2025, arXiv:2503.02130", "bias/fox.md", "",
       [](const Shape& s) -> Encoding { return usual(s, FoxRecipe::fox); }},
      {"cable", "CABLE", "context-aware biases", Place::scores, Sharing::each_layer,
       "forget gates with the sign of the projection turned, without 1 / sqrt(D)",
       "g_t = -softplus(w_h . x_t)\n"
       "score(h, i, j) += g_(j+1) + ... + g_i",
       "Veisi et al. 2025, arXiv:2503.08067", "bias/fox.md", "",
       [](const Shape& s) -> Encoding { return usual(s, FoxRecipe::cable); }}};
  static constexpr Properties properties = {.reversal = Effect::some,
                                            .shift = Effect::none,
                                            .linearity = Linearity::nonlinear,
                                            .plan_linearity = Linearity::linear,
                                            .causal = true};
  static void fields(Fox& s, auto&& v) {
    v("heads", s.heads), v("width", s.width), v("recipe", s.recipe);
    v("head_dim", s.head_dim), v("lost_weight", s.lost_weight);
  }
  // The bias starts at 5, so that nothing is forgotten at first, as in x-transformers. The
  // weight has the deviation of PyTorch's linear layers, uniform up to 1 / sqrt(inputs).
  static std::vector<Parameter> parameters(const Fox& s) {
    const double linear = 1 / std::sqrt(3 * static_cast<double>(s.width));
    std::vector<Parameter> all = {{"weight", s.heads, s.width, linear, 0, "fgate_proj.weight"}};
    if (s.recipe == FoxRecipe::fox)
      all.push_back({"bias", s.heads, 1, 0, 5, "fgate_proj.bias", {s.heads}});
    return all;
  }
  template <typename T>
  static FoxGate<T> gate(const Fox& s, std::span<const View<T, 2>> all) {
    if (all.empty()) return {};
    return {all[0], s.recipe == FoxRecipe::fox ? column(all[1]) : View<T, 1>()};
  }
  static void lower(const Fox& s, const Call&, Values, LayerPlan& lowered) {
    lowered.cumulative = gnomon::lower(s);
  }
  static std::int64_t head_dim(const Fox& s) { return s.head_dim; }
  static double softmax_factor(const Fox& s, std::int64_t) { return gnomon::softmax_factor(s); }
  static std::vector<TermShape> terms(const Fox& s) { return {{"log_gates", s.heads}}; }
  static void compute_terms(const Fox& s, Values values, const TermInput& in,
                            const TokenTermOutputs& out) {
    gnomon::log_gates(s, gate(s, values), in.x, view<float, 3>(out.log_gates));
  }
  static void compute_terms_backward(const Fox& s, Values values, const TermInput& in,
                                     const TokenTerms& grad, View<float, 3> x_grad,
                                     Gradients grads) {
    gnomon::log_gates_backward(s, gate(s, values), in.x, view<const float, 3>(grad.log_gates),
                               x_grad, gate(s, grads));
  }
};

}  // namespace gnomon::model
