// Forget gates: each token multiplies the weights of all earlier tokens by a gate of its own.
//
//   Lin et al. "Forgetting Transformer: Softmax Attention with a Forget Gate", ICLR 2025.
//   https://arxiv.org/abs/2503.02130. Pruning: https://arxiv.org/abs/2504.06949.
//   Veisi et al. "Context-aware Biases for Length Extrapolation" (CABLE), 2025.
//   https://arxiv.org/abs/2503.08067.
//
//   g_t = ln sigmoid(w_h . x_t + b_h)           FoX
//   g_t = -softplus(w_h . x_t)                  CABLE: FoX with the sign of w turned, without b
//   score[h, i, j] += g_(j+1) + ... + g_i       after the softmax scale
//
// CABLE's code has no softmax scale of 1 / sqrt(D): `lower` of its recipe gives a factor.
//
// Letters: B batch, T tokens, H query heads, C width of the layer's input, D head dimension.
//
// Naive version: tests/bias/fox_test.cc, `naive_log_gate`.
#pragma once

#include <cstdint>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon {

enum class FoxRecipe { fox = 1, cable };

struct Fox {
  std::int64_t heads = 0;  // H; at least 1
  std::int64_t width = 0;  // C; at least 1
  FoxRecipe recipe = FoxRecipe::fox;
  std::int64_t head_dim = 0;  // D; required by CABLE
  // The greatest share of the weights of a query that may be lost (CumulativeBias); 0: none.
  // e^-10 in the paper on pruning.
  double lost_weight = 0;

  bool operator==(const Fox&) const = default;
};

// The trained parameters or, if T is float, their gradient: weight [H, C], bias [H] (FoX only).
template <typename T>
struct FoxGate {
  View<T, 2> weight;
  View<T, 1> bias = {};
};

// Returns the bias of the plan. Throws std::invalid_argument if the spec is inconsistent.
CumulativeBias lower(const Fox& fox);
// Returns the factor on the softmax scale 1 / sqrt(D): 1, and sqrt(D) for CABLE.
double softmax_factor(const Fox& fox);

// Computes the log gates [B, H, T] of tokens x [B, T, C], for TokenTerms::log_gates. A cache of
// keys keeps them: one float for each token and head. Throws std::invalid_argument if a shape
// does not match the spec. Error bound: one rounding of the formula in double. Cost: B T H C
// multiply-adds; memory O(B T C).
void log_gates(const Fox& fox, const FoxGate<const float>& gate, View<const float, 3> x,
               View<float, 3> out);

// Gradient of `log_gates`: adds the gradients with respect to x and to the parameters to x_grad
// [B, T, C] and grads, given out_grad [B, H, T]. x_grad and grads may have no data.
void log_gates_backward(const Fox& fox, const FoxGate<const float>& gate,
                        View<const float, 3> x, View<const float, 3> out_grad,
                        View<float, 3> x_grad, const FoxGate<float>& grads);

}  // namespace gnomon
