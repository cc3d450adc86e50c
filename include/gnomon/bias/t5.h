// T5's relative position bias. Distances fall into buckets, exact when near and logarithmic
// when far; each bucket has one trained number for each head.
//
//   Raffel et al. "Exploring the Limits of Transfer Learning", 2019.
//   https://arxiv.org/abs/1910.10683, section 2.1.
//
// T5 does not scale its scores by 1/sqrt(D), and shares one table among its layers.
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
  causal = 1,         // decoder: all buckets look back, keys ahead share bucket 0
  bidirectional = 2,  // encoder: half of the buckets for each side
};

struct T5Bias {
  std::int64_t heads = 0;  // H; at least 1
  T5Direction direction = {};
  std::int64_t buckets = 32;        // at least 2 (bidirectional: 4, and even)
  std::int64_t max_distance = 128;  // from here on all distances share the last bucket

  bool operator==(const T5Bias&) const = default;
};

// The bucket of a distance (key - query), bit for bit that of the released models: logarithm in
// float32, division before multiplication, truncation. Throws when `t5` breaks its bounds.
std::int64_t bucket(const T5Bias& t5, std::int64_t distance);

// The plan: table [buckets, H] (as `relative_attention_bias.weight`) spread over distances
// first to first + count - 1.
StripBias strip(const T5Bias& t5, View<const float, 2> table, std::int64_t first,
                std::int64_t count);

// Gradient of `strip`: adds strip_grad [H, N] (what BiasGradient::values holds) into table_grad
// [buckets, H], in double, in the order of the distances.
void strip_backward(const T5Bias& t5, std::span<const double> strip_grad, std::int64_t first,
                    std::int64_t count, View<float, 2> table_grad);

}  // namespace gnomon
