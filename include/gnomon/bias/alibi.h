// Attention with linear biases (ALiBi). Position enters as a penalty on distance, with a slope
// for each head.
//
//   Press, Smith, Lewis. "Train Short, Test Long", 2021. https://arxiv.org/abs/2108.12409.
//
//   bias(h, query, key) = -slope[h] |key - query|
//
// For H = 2^k heads slope[h] = 2^(-8 (h+1) / H). For other H the released models take the
// slopes of the power of two below, then every other slope of the one above (BLOOM, MPT,
// Baichuan and ggml agree to the last bit for every H).
//
// Causal and symmetric attention use the same numbers: the absolute value only matters for keys
// that a causal query does not see.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/bias/form.h"

namespace gnomon {

struct Alibi {
  std::int64_t heads = 0;  // H of the whole model, also on a tensor-parallel shard; at least 1
  double max_bias = 8.0;   // `alibi_bias_max` (MPT), `max_alibi_bias` (GGUF); positive
  // The shard: heads head_offset to head_offset + local_heads - 1. 0 local heads: to the last.
  std::int64_t head_offset = 0;
  std::int64_t local_heads = 0;

  bool operator==(const Alibi&) const = default;
};

// The slope of each head of the shard. Throws std::invalid_argument naming the field that
// breaks its bounds.
std::vector<double> slopes(const Alibi& alibi);

// The plan.
SlopeBias lower(const Alibi& alibi);

// As a strip over distances first to first + count - 1.
StripBias strip(const Alibi& alibi, std::int64_t first, std::int64_t count);

}  // namespace gnomon
