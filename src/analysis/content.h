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

// The terms of the tokens, [1, H, T] or [1, T, H, size]: gates forget about a fifth, angles
// turn by about a fifth of a radian, relative queries are normal, Householder factors have
// lengths of about 1 and strengths of about 1, slopes of keys are about 0.2, vectors of edges
// are normal.
inline TermArrays terms_of(const OrderContent& content, const LayerPlan& plan) {
  TermArrays terms;
  if (plan.key_slopes) terms.add("key_slopes", {1, content.heads, content.tokens});
  if (plan.edges) {
    const std::int64_t size =
        plan.edge_rotary ? plan.edge_rotary->frequencies().rotary_dim() : 8;
    terms.add("edge_queries", {1, content.tokens, content.heads, size});
    terms.add("edge_keys", {1, content.tokens, content.heads, size});
  }
  if (plan.cumulative) terms.add("log_gates", {1, content.heads, content.tokens});
  const auto& projected = plan.relative.projected;
  if (!projected.empty())
    terms.add("relative_queries",
              {1, content.tokens, content.heads, projected.front().head_dim});
  if (plan.token_rotation)
    terms.add("angles",
              {1, content.tokens, content.heads, plan.token_rotation->rotary_dim / 2});
  const std::vector<std::int64_t> heads{1, content.tokens, content.heads, content.head_dim};
  if (plan.product == PairProduct::channel_gates) terms.add("channel_gates", heads);
  if (plan.product == PairProduct::householder) {
    terms.add("householder", heads);
    terms.add("betas", {1, content.heads, content.tokens});
  }
  const double length = std::sqrt(static_cast<double>(content.head_dim));
  internal::Normal normal(content.seed + 2);
  for (TermArrays::Array& one : terms.arrays)
    for (float& number : one.values)
      number = static_cast<float>(
          one.name == "relative_queries" || one.name.starts_with("edge_") ? normal()
          : one.name == "key_slopes"  ? 0.2 * std::fabs(normal())
          : one.name == "householder" ? normal() / length
          : one.name == "betas"       ? std::fabs(normal())
                                      : -0.2 * std::fabs(normal()));
  return terms;
}

// The relative queries of the terms, [T, H, K].
inline std::vector<double> relative_queries(const TermArrays& terms) {
  for (const TermArrays::Array& one : terms.arrays)
    if (one.name == "relative_queries") return {one.values.begin(), one.values.end()};
  return {};
}

// Returns the terms of these tokens, of which the last `queries` are queries.
inline TermArrays rows_of(const TermArrays& terms, std::span<const std::int64_t> tokens_of_keys,
                          std::int64_t queries) {
  TermArrays some;
  for (const TermArrays::Array& one : terms.arrays) {
    auto rows = tokens_of_keys;
    for (const auto& named : named_terms<Tensor>)
      if (named.name == one.name && named.tokens == TermTokens::queries)
        rows = rows.last(static_cast<std::size_t>(queries));
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
  if (!plan.polar) attention.query_rotary.reset(), attention.key_rotary.reset();
  attention.queries.reset(), attention.keys.reset();
  attention.gated = false;  // gates of 1
  attention.softmax = {.scale = scale};
  attention.mask = mask;
  return attention;
}

}  // namespace gnomon::analysis
