// T5's relative position bias. Each distance belongs to a bucket, and each bucket has one
// trained value for each head. Short distances have their own buckets; longer distances share
// buckets whose width grows logarithmically.
//
//   Raffel et al. "Exploring the Limits of Transfer Learning", 2019.
//   https://arxiv.org/abs/1910.10683, section 2.1.
//
// T5 does not scale its scores by 1/sqrt(D), and all its layers share one table.
//
// Letters: H heads, N distances.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/bias/form.h"
#include "gnomon/view.h"

namespace gnomon {

enum class T5Direction {
  causal = 1,         // decoder: all buckets are for past keys; future keys share bucket 0
  bidirectional = 2,  // encoder: half of the buckets for past keys, half for future keys
};

struct T5Bias {
  std::int64_t heads = 0;  // H; at least 1
  T5Direction direction = {};
  std::int64_t buckets = 32;        // at least 2 (bidirectional: at least 4, and even)
  std::int64_t max_distance = 128;  // distances of at least this share the last bucket

  bool operator==(const T5Bias&) const = default;
};

// Returns the bucket of a distance (key - query). It equals that of the released models: the
// logarithm in float32, division before multiplication, truncation. Throws
// std::invalid_argument if a field of `t5` is out of bounds.
std::int64_t bucket(const T5Bias& t5, std::int64_t distance);

// Returns the plan: the values of table [buckets, H] (as `relative_attention_bias.weight`) for
// `count` distances from `min_distance` on. Throws std::invalid_argument if the table has
// another shape.
StripBias lower(const T5Bias& t5, View<const float, 2> table, std::int64_t min_distance,
                std::int64_t count);

// Gradient of `strip`: adds strip_grad [H, N] (BiasGradient::values) to table_grad [buckets,
// H]. Sums are in double, in the order of the distances.
void lower_backward(const T5Bias& t5, std::span<const double> strip_grad,
                    std::int64_t min_distance, std::int64_t count, View<float, 2> table_grad);

}  // namespace gnomon
