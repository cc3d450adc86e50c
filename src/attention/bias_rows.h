// Biases of one query for consecutive keys, in natural units, for code without SIMD of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "src/attention/problem.h"
#include "src/bias/tile.h"

namespace gnomon::internal {

// The bias of a checked problem, prepared for all queries and keys. Refers to the problem.
class BiasRows {
 public:
  explicit BiasRows(const AttentionProblem& problem);
  bool any() const;  // false: there is no bias
  // Writes the bias of key rows [key, key + count), or 0 where the form has none.
  void fill(std::int64_t b, std::int64_t head, std::int64_t query, std::int64_t key,
            std::int64_t count, float* to) const;
  // Adds the gradient of these biases to sums [gradient_size(form)] of the head. Gradients of
  // pairs without a bias must be 0.
  void add_gradient(std::int64_t b, std::int64_t head, std::int64_t query, std::int64_t key,
                    std::int64_t count, const float* grad, double* sums) const;

 private:
  Ids key_ids(std::int64_t b, std::int64_t key, std::int64_t count) const;

  const AttentionProblem& problem_;
  std::vector<std::int64_t> ids_;  // of the keys, [1 or B, S]
  PreparedGrid<float> grid_;
  PreparedAxes<float> axes_;
  PreparedPiecewiseLog<float> piecewise_log_;
};

}  // namespace gnomon::internal
