// Entry of PaTH.
#pragma once

#include <cmath>

#include "gnomon/bias/path.h"
#include "src/model/encodings/entry.h"

namespace gnomon::model {

template <>
struct Entry<PathAttention> : EntryOf<PathAttention> {
  static constexpr EncodingInfo infos[] = {
      {"path", "PaTH attention", "PaTH, accumulated Householder transformations", Place::scores,
       Sharing::each_layer,
       "between a key and a query lie Householder reflections computed from the tokens between",
       "score(i, j) = k_j . H_(j+1) ... H_i q_i\n"
       "H_t = I - b_t w_t w_t^T\n"
       "w_t = l2(silu(conv(W2 W1 x)_t)), b_t = 2 sigmoid(u . x_t + c)",
       "Yang et al. 2025, arXiv:2505.16381", "bias/path.md", "",
       [](const Shape& s) -> Encoding {
         return PathAttention{
             .heads = s.heads, .head_dim = s.width / s.heads, .width = s.width};
       }}};
  static constexpr Properties properties = {.reversal = Effect::some,
                                            .shift = Effect::none,
                                            .linearity = Linearity::nonlinear,
                                            .plan_linearity = Linearity::linear,
                                            .causal = true};
  static void fields(PathAttention& s, auto&& v) {
    v("heads", s.heads), v("head_dim", s.head_dim), v("width", s.width);
    v("rank", s.rank), v("kernel", s.kernel);
  }
  // Names of the layer of flash-linear-attention. The deviations of PyTorch's linear layers and
  // convolutions, uniform up to 1 / sqrt(inputs).
  static std::vector<Parameter> parameters(const PathAttention& s) {
    const auto of = [](std::int64_t inputs) {
      return 1 / std::sqrt(3 * static_cast<double>(inputs));
    };
    const std::int64_t channels = s.heads * s.head_dim;
    return {{"down", s.rank, s.width, of(s.width), 0, "w_proj.0.weight"},
            {"up", channels, s.rank, of(s.rank), 0, "w_proj.1.weight"},
            {"conv",
             channels,
             s.kernel,
             of(s.kernel),
             0,
             "w_conv1d.weight",
             {channels, 1, s.kernel}},
            {"weight", s.heads, s.width, of(s.width), 0, "bt_proj.weight"},
            {"bias", s.heads, 1, of(s.width), 0, "bt_proj.bias", {s.heads}}};
  }
  template <typename T>
  static PathWeights<T> weights(std::span<const View<T, 2>> all) {
    if (all.empty()) return {};
    return {all[0], all[1], all[2], all[3], column(all[4])};
  }
  static void lower(const PathAttention&, const Call&, Values, LayerPlan& lowered) {
    lowered.product = PairProduct::householder;
  }
  static std::int64_t head_dim(const PathAttention& s) { return s.head_dim; }
  static std::vector<TermShape> terms(const PathAttention& s) {
    return {{"householder", s.heads, s.head_dim}, {"betas", s.heads}};
  }
  static std::int64_t history(const PathAttention& s) { return s.kernel - 1; }
  static void compute_terms(const PathAttention& s, Values values, const TermInput& in,
                            const TokenTermOutputs& out) {
    gnomon::householder(s, weights(values), in.x, in.tokens, view<float, 4>(out.householder),
                        view<float, 3>(out.betas));
  }
  static void compute_terms_backward(const PathAttention& s, Values values, const TermInput& in,
                                     const TokenTerms& grad, View<float, 3> x_grad,
                                     Gradients grads) {
    gnomon::householder_backward(s, weights(values), in.x, in.tokens,
                                 view<const float, 4>(grad.householder),
                                 view<const float, 3>(grad.betas), x_grad, weights(grads));
  }
};

}  // namespace gnomon::model
