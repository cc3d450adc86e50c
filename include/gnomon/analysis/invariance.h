// What a layer cannot tell: the order of its tokens (without position), left from right (a
// symmetric bias), where in the text it stands (whatever acts by distance), and whether its
// keys came at once or through a cache. Each is a number: what changes when that does, 0 for
// nothing.
//
//   Vaswani et al. 2017, section 3.5; Shaw et al. 2018, https://arxiv.org/abs/1803.02155.
//
// Queries, keys and values are normal numbers, drawn apart from each other; a table is added to
// all three, as projections of x would have it. Softmax scale softmax.factor / sqrt(D), or the
// cosines'. A plan is for T queries that stand after `offset` keys; its mask is not read.
//
// Letters: T tokens, H heads, D head size.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/analysis/order.h"
#include "gnomon/attention/layer_plan.h"

namespace gnomon::analysis {

// The largest change of an element of any output of bidirectional attention, over the largest
// output, when the tokens are permuted and the outputs put back: 0 where order cannot be told.
// In double, but for turned queries and keys, whose tables are float: a rounding of 2^-20 may
// stay. Throws std::invalid_argument when the parts do not fit `content` (as all below do).
double permutation_deviation(const OrderContent& content, const LayerPlan& plan);

// The same when the tokens stand in reverse: 0 where left cannot be told from right, as of a
// bias that is symmetric.
double reversal_deviation(const OrderContent& content, const LayerPlan& plan);

// The largest change of a score (queries on all T keys, before the softmax), over the spread of
// the scores, when the same tokens stand `offset` positions further: 0 where the distance alone
// decides. `there` is of T queries after `offset` keys.
double shift_deviation(const OrderContent& content, const LayerPlan& here,
                       const LayerPlan& there, std::int64_t offset);

// A piece of a text that is read through a cache: its own tokens, after those of the pieces
// before.
struct CachedPiece {
  std::int64_t tokens = 0;
  LayerPlan plan;  // of `tokens` queries after the keys of the pieces before
};

// The largest change of an output of causal attention, over the largest value, when the tokens
// come in pieces rather than at once, by gnomon/attention/attention.h in float: within its
// bound, 2^-16 here, for every encoding that is what it says it is.
double cache_deviation(const OrderContent& content, const LayerPlan& whole,
                       std::span<const CachedPiece> pieces);

}  // namespace gnomon::analysis
