// The projection of tokens to terms of attention: y = x w^T + b, in double, and its gradient.
// Used where an encoding computes gates, angles or queries from the input of the layer.
//
// Letters: B batch, T tokens, C channels of a token, N outputs.
#pragma once

#include <vector>

#include "gnomon/view.h"

namespace gnomon::internal {

// Returns y [B T, N]. x: [B, T, C]; w: [N, C]; b: [N], or no data.
std::vector<double> project_tokens(View<const float, 3> x, View<const float, 2> w,
                                   View<const float, 1> b = {});

// Adds the gradients, from y_grad [B T, N]. An output without data is not computed.
void project_tokens_backward(View<const float, 3> x, View<const float, 2> w,
                             const std::vector<double>& y_grad, View<float, 3> x_grad,
                             View<float, 2> w_grad, View<float, 1> b_grad = {});

}  // namespace gnomon::internal
