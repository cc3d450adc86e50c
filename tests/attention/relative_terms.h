// Reference implementation of relative vectors and gates, pair by pair, from the formula.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gnomon/relative/form.h"
#include "testing.h"

namespace gnomon::testing {

// The vector of a table for a pair of positions, as an index of [heads, R].
inline std::size_t met(const RelativeVectors& table, std::int64_t head, std::int64_t query,
                       std::int64_t key) {
  const auto place = [&](std::int64_t id) {
    return table.coordinates.empty() ? id : table.coordinates.at(static_cast<std::size_t>(id));
  };
  const auto column = static_cast<std::size_t>(place(key) - place(query) - table.min_distance);
  const std::int64_t own = table.heads == 1 ? 0 : head;
  return static_cast<std::size_t>(own * table.vectors() + table.rows.at(column));
}

// The first element of the vector of row n of a gradient.
inline const double* vector_of(const RelativeVectors& table, std::size_t n) {
  return table.values.data() + n * static_cast<std::size_t>(table.head_dim);
}

inline long double dot(const double* x, const double* y, std::int64_t count) {
  long double sum = 0;
  for (std::int64_t d = 0; d < count; ++d) sum += static_cast<long double>(x[d]) * y[d];
  return sum;
}

// to += factor x.
inline void add(double factor, const double* x, std::int64_t count, double* to) {
  for (std::int64_t d = 0; d < count; ++d) to[d] += factor * x[d];
}

// The greatest length of a table's vectors, summed over tables.
inline double longest(const std::vector<RelativeVectors>& tables) {
  double sum = 0;
  for (const RelativeVectors& table : tables) {
    double most = 0;
    for (std::size_t n = 0; n < table.values.size() / static_cast<std::size_t>(table.head_dim);
         ++n)
      most = std::max(most, std::sqrt(static_cast<double>(dot(
                                vector_of(table, n), vector_of(table, n), table.head_dim))));
    sum += most;
  }
  return sum;
}

// Gradients [heads, R, size] of each table of a part of the form, and the sum of the softmax
// weights of each vector, [heads, R].
struct TableGradients {
  std::vector<std::vector<double>> vectors, weight;

  TableGradients() = default;
  explicit TableGradients(const std::vector<RelativeVectors>& tables) {
    for (const RelativeVectors& table : tables) {
      vectors.emplace_back(table.values.size());
      weight.emplace_back(static_cast<std::size_t>(table.heads * table.vectors()));
    }
  }
};

}  // namespace gnomon::testing
