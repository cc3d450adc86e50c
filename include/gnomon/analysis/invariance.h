// Invariances of a layer: whether its outputs depend on the order of the tokens, on left or
// right (no for a symmetric bias), on the absolute position (no if only the distance counts),
// and on the use of a KV cache. Each function returns the relative change caused by one
// transformation; 0 is an exact invariance.
//
//   Vaswani et al. 2017, section 3.5; Shaw et al. 2018, https://arxiv.org/abs/1803.02155.
//
// Queries, keys and values are independent normal numbers. A table is added to all three, as
// projections of x would do. The softmax scale is softmax.factor / sqrt(D), or that of cosine
// attention. A plan is for T queries that follow `offset` keys. The mask of the plan is not
// used.
//
// Letters: T tokens, H heads, D head dimension.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/analysis/order.h"
#include "gnomon/attention/layer_plan.h"

namespace gnomon::analysis {

// Returns the largest change of an output element of bidirectional attention, divided by the
// largest output, if the tokens are permuted and the outputs are permuted back. 0: the layer is
// independent of the order. Computed in double, except that rotations use float tables, which
// leaves rounding of up to 2^-20. Throws std::invalid_argument if the parts of the plan do not
// match `content`, as do all functions below.
double permutation_deviation(const OrderContent& content, const LayerPlan& plan);

// Same as permutation_deviation, for the reversed order of tokens. 0: the layer does not
// distinguish left from right, as with a symmetric bias.
double reversal_deviation(const OrderContent& content, const LayerPlan& plan);

// Returns the largest change of a score (queries with all T keys, before the softmax), divided
// by the range of the scores, if the same tokens are at positions larger by `offset`. 0: only
// the distance counts. `there` is for T queries after `offset` keys.
double shift_deviation(const OrderContent& content, const LayerPlan& here,
                       const LayerPlan& there, std::int64_t offset);

// A part of a text that is processed with a KV cache: its own tokens, after those of the parts
// before.
struct CachedPiece {
  std::int64_t tokens = 0;
  LayerPlan plan;  // plan for `tokens` queries after the keys of the parts before
};

// Returns the largest change of an output of causal attention, divided by the largest value, if
// the tokens are processed in pieces instead of at once, by gnomon/attention/attention.h in
// float. The result is at most 2^-16, the bound of attention, for every correct encoding.
double cache_deviation(const OrderContent& content, const LayerPlan& whole,
                       std::span<const CachedPiece> pieces);

}  // namespace gnomon::analysis
