// Samples with projected relative vectors and sinks of queries, and their reference, pair by
// pair, from the formula.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "attention/oracle.h"
#include "attention/sample.h"

namespace gnomon::testing {

// A sample, its relative queries [B, T, Hq, K] and its sinks [B, Hq, T], which it borrows.
struct ProjectedSample : Sample {
  Tensor<float, 4> relative_queries{{}};
  Tensor<float, 3> sinks{{}};
};

// Whether a pair has a vector in a projected table. The others have a term of zero.
inline bool inside(const RelativeVectors& table, std::int64_t query, std::int64_t key) {
  const std::int64_t n = key - query - table.min_distance;
  return n >= 0 && n < table.distances();
}

// The sum of r . vector over the projected tables.
inline long double projected_score(const AttentionCase& c, std::int64_t b, std::int64_t h,
                                   std::int64_t i, std::int64_t j) {
  const std::int64_t at = query_position(c, b, i), of = key_position(c, b, j);
  long double sum = 0;
  for (const RelativeVectors& table : relative(c).projected)
    for (std::int64_t n = 0; n < table.head_dim && inside(table, at, of); ++n)
      sum += static_cast<long double>(c.relative_queries(b, i, h, n)) *
             vector_of(table, met(table, h, at, of))[n];
  return sum;
}

struct ProjectedGradients {
  TableGradients tables;
  Tensor<double, 4> relative_queries;  // [B, T, Hq, K]
  Tensor<double, 3> sinks;             // [B, Hq, T]
};

// The gradients of the terms, from those of the scores. The gradients of the scores of a row
// and of its sink sum to 0.
inline ProjectedGradients projected_gradients(const AttentionCase& c,
                                              const AttentionGradients& grad) {
  ProjectedGradients result{TableGradients(relative(c).projected),
                            Tensor<double, 4>(c.relative_queries.extents()),
                            Tensor<double, 3>({c.batch, c.heads, c.queries})};
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t i = 0; i < c.queries; ++i)
        for (std::int64_t j = 0; j < c.keys; ++j) {
          const double s = grad.scores.view()(b, h, i, j);
          result.sinks.view()(b, h, i) -= s;
          const std::int64_t at = query_position(c, b, i), of = key_position(c, b, j);
          for (std::size_t t = 0; t < relative(c).projected.size(); ++t) {
            const RelativeVectors& table = relative(c).projected[t];
            if (!sees(c, b, i, j) || !inside(table, at, of)) continue;
            const std::size_t n = met(table, h, at, of);
            double* vector =
                result.tables.vectors[t].data() + n * static_cast<std::size_t>(table.head_dim);
            for (std::int64_t d = 0; d < table.head_dim; ++d) {
              vector[d] += s * static_cast<double>(c.relative_queries(b, i, h, d));
              result.relative_queries.view()(b, i, h, d) += s * vector_of(table, n)[d];
            }
            result.tables.weight[t][n] += grad.weights.view()(b, h, i, j);
          }
        }
  return result;
}

// A relative sample with one or two projected tables, possibly without its other tables and its
// bias, and with sinks of queries.
inline ProjectedSample projected_sample(unsigned seed) {
  std::mt19937_64 engine(seed + 77);
  const auto pick = [&](std::initializer_list<std::int64_t> from) {
    return from.begin()[engine() % from.size()];
  };
  ProjectedSample s{relative_sample(seed)};
  AttentionCase& c = s.c;
  if (pick({0, 1, 1})) c.plan.bias = NoBias{}, c.plan.relative = {};
  const std::int64_t size = pick({1, 4, 16, 24, 80});
  s.relative_queries = random_tensor<float, 4>({c.batch, c.queries, c.heads, size}, seed + 22);
  for (float& number : s.relative_queries.values)
    number /= static_cast<float>(std::sqrt(static_cast<double>(size)));
  c.relative_queries = s.relative_queries.view();
  for (std::int64_t count = pick({1, 1, 2}); count > 0; --count) {
    // A range of distances: Inkling's, or one on both sides of the query.
    const std::int64_t extent = pick({1, 7, 50, 120, 400}), each = pick({1, 1, 4});
    RelativeVectors table;
    table.heads = pick({0, 1}) ? 1 : c.heads, table.head_dim = size;
    table.min_distance = 1 - extent + pick({0, 0, 9});
    for (std::int64_t d = 0; d < extent; ++d)
      table.rows.push_back(static_cast<std::int32_t>(d / each));
    const std::int64_t vectors = (extent - 1) / each + 1;
    if (pick({0, 1})) std::reverse(table.rows.begin(), table.rows.end());
    table.values = random_numbers(static_cast<std::size_t>(table.heads * vectors * size),
                                  seed + static_cast<unsigned>(pick({35, 36})));
    s.text += ", projected " + std::to_string(size) + " from " +
              std::to_string(table.min_distance) + " of " + std::to_string(extent) + " by " +
              std::to_string(each);
    c.plan.relative.projected.push_back(table);
  }
  if (c.plan.softmax.sinks.empty() && pick({0, 1})) {
    s.sinks = random_tensor<float, 3>({c.batch, c.heads, c.queries}, seed + 23);
    c.sinks = s.sinks.view();
    s.text += ", sinks of queries";
  }
  return s;
}

// The case with `added` set to the projected terms.
inline AttentionCase with_terms(const AttentionCase& c) {
  AttentionCase with = c;
  with.added = [&c](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    return projected_score(c, b, h, i, j);
  };
  return with;
}

}  // namespace gnomon::testing
