// Attention weights and scores as matrices, to look at them. `attention` itself stores neither.
//
//   scores[b, h, i, j]  = scale q'[i, h] . k'[j, g(h)] + bias(h, i, j), and all other terms of
//                         attention.h; -infinity if i does not see j
//   weights[b, h, i, j] = softmax_j(scores[b, h, i, :])
//
// Letters: B batch, T query tokens, S key tokens, H query heads, Hk key heads, D head
// dimension.
//
// Naive version: tests/naive/attention.h, `naive_weights`.
#pragma once

#include "gnomon/attention/attention.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Computes weights and scores [B, H, T, S], float or double, any strides. A tensor without data
// is not written. input.v is not read; k has floating-point elements, and plan.relative.values
// do not take part. The weights are those of `attention` of q and k in double with unit vectors
// as values, and a score is the logarithm of its weight plus the log-sum-exp of its row. Each
// result is rounded once.
//
// Error bound: 2^-46 for a weight, 2^-40 max(1, |lse|) for a score, if the scores are bounded
// as in attention.h. A weight below 2^-960 of the greatest weight of its row is 0, and its
// score -infinity.
//
// Cost: B H T S (D + S) multiply-adds. Throws std::invalid_argument as `attention`, and if the
// scores of stick-breaking are asked for, which has no softmax.
void attention_weights(const AttentionInput& input, const AttentionPlan& plan,
                       const Tensor& weights, const Tensor& scores = {});

}  // namespace gnomon
