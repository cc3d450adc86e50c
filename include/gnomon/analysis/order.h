// Sensitivity of attention to the order of tokens. Without a position encoding, the output of
// the last token does not change if the tokens before it are reordered. Attention weights with
// and without position are available for plots.
//
//   Vaswani et al. 2017, section 3.5; Yun et al. "Are Transformers universal approximators of
//   sequence-to-sequence functions?", 2019, https://arxiv.org/abs/1912.10077, claim 1.
//
// Letters: T tokens, H heads, D head dimension.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/attention/layer_plan.h"
#include "gnomon/view.h"

namespace gnomon::analysis {

// Content of queries, keys and values: normal numbers [T, H, D]. A seed gives the same values
// on every machine.
struct OrderContent {
  std::int64_t tokens = 16, heads = 1, head_dim = 32;
  std::uint64_t seed = 1;
  // Fraction of the variance that all tokens share (the all-ones vector), 0 to 1. Tokens of one
  // text are similar, and the effect of position is visible on the similar part.
  double shared = 0;
  // The word of each token, [T], 0 to 65535: tokens of one word have equal content. Empty: each
  // token is another word, 0 to T - 1.
  std::vector<std::int64_t> words = {};
};

// Returns the largest change of an element of the last token's output if the order of the
// tokens before it is reversed, with bidirectional attention (gnomon/attention/attention.h,
// float). Without position it is at most 2^-17 of the largest value, which is rounding. Scores
// are divided by D instead of sqrt(D): each query equals its key, so with sqrt(D) a token would
// attend almost only to itself. The following parts of the plan, for T queries and T keys, are
// used: the table [T, H D], rotations, bias, relative vectors and the softmax factor.
double order_sensitivity(const OrderContent& content, const LayerPlan& plan);

// Fills out [H, T, T], any strides, with weights(h, i, j) of query i and key j: the softmax of
// the scores, computed in double. Entries that a causal mask hides are NaN.
void attention_weights(const OrderContent& content, const LayerPlan& plan,
                       Visibility visibility, View<double, 3> out);

// Fills out [H, T], any strides, with the weights of the last query only, in O(H T D). Keys are
// independent of queries; with equal ones, the query would attend mostly to itself.
void last_attention_weights(const OrderContent& content, const LayerPlan& plan,
                            View<double, 2> out);

}  // namespace gnomon::analysis
