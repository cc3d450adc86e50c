// Can attention tell order? Without position it cannot: swap the tokens before it, and the
// last token's output is what it was. Weights with and without position, for looking at.
//
//   Vaswani et al. 2017, section 3.5; Yun et al. "Are Transformers universal approximators of
//   sequence-to-sequence functions?", 2019, https://arxiv.org/abs/1912.10077, claim 1.
//
// Letters: T tokens, H heads, D head size.
#pragma once

#include <cstdint>

#include "gnomon/attention/layer_plan.h"
#include "gnomon/view.h"

namespace gnomon::analysis {

// The content of every query, key and value: normal numbers [T, H, D], the same for the same
// seed everywhere.
struct OrderContent {
  std::int64_t tokens = 16, heads = 1, head_size = 32;
  std::uint64_t seed = 1;
  // The share of the variance that all tokens have in common (the all-ones vector), 0 to 1:
  // tokens of one text are alike, and what position does shows on what is alike.
  double shared = 0;
};

// The largest change of an element of the last token's output when the tokens before it stand
// in reverse order, by bidirectional attention (gnomon/attention/attention.h, float). Without
// position at most 2^-17 of the largest value: rounding. Scores are divided by D here, not by
// its root: each query equals its key, and would else attend to little but itself. Of the plan,
// for T queries and T keys, the table [T, H D], rotations, bias, relative vectors and the
// factor of the softmax are read.
double order_sensitivity(const OrderContent& content, const LayerPlan& plan);

// weights(h, i, j) of each query i on each key j: the softmax of their scores, in double. out:
// [H, T, T], any strides. Entries that a causal mask hides are NaN.
void attention_weights(const OrderContent& content, const LayerPlan& plan,
                       Visibility visibility, View<double, 3> out);

}  // namespace gnomon::analysis
