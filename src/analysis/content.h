// Attention of random contents by the plan of a layer, and the random token terms that it
// requires.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/analysis/order.h"
#include "gnomon/attention/layer_plan.h"
#include "src/analysis/rotate_all.h"
#include "src/core/normal.h"

namespace gnomon::analysis {

// The terms of the tokens, [1, H, T] or [1, T, H, size]: gates forget about a fifth.
inline TermArrays terms_of(const OrderContent& content, const LayerPlan& plan) {
  TermArrays terms;
  if (plan.cumulative) terms.add("log_gates", {1, content.heads, content.tokens});
  internal::Normal normal(content.seed + 2);
  for (TermArrays::Array& one : terms.arrays)
    for (float& number : one.values) number = static_cast<float>(-0.2 * std::fabs(normal()));
  return terms;
}

// Returns the terms of these tokens.
inline TermArrays rows_of(const TermArrays& terms, std::span<const std::int64_t> rows) {
  TermArrays some;
  for (const TermArrays::Array& one : terms.arrays) {
    const bool vectors = one.shape.size() == 4;
    const std::int64_t tokens = one.shape[vectors ? 1 : 2];
    const std::int64_t each = vectors ? one.shape[2] * one.shape[3] : 1;
    std::vector<std::int64_t> shape = one.shape;
    shape[vectors ? 1 : 2] = std::ssize(rows);
    some.add(one.name, shape);
    auto to = some.arrays.back().values.begin();
    for (std::int64_t from = 0; from < std::ssize(one.values); from += tokens * each)
      for (const std::int64_t row : rows)
        to = std::copy_n(one.values.begin() + from + row * each, each, to);
  }
  return some;
}

// The plan of attention of queries and keys that are rotated already, for a scale of q . k.
inline AttentionPlan plan_of_rotated(const LayerPlan& plan, double scale,
                                     const AttentionMask& mask) {
  AttentionPlan attention = plan;
  attention.query_rotary.reset(), attention.key_rotary.reset();
  attention.queries.reset(), attention.keys.reset();
  attention.gated = false;  // gates of 1
  attention.softmax = {.scale = scale};
  attention.mask = mask;
  return attention;
}

}  // namespace gnomon::analysis
