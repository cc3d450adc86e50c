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
#include <span>
#include <vector>

#include "gnomon/bias/form.h"

namespace gnomon {

// Falcon computes its bias in bfloat16: slopes rounded, and their products with the position of
// the key rounded again.
enum class AlibiRounding { none = 1, bfloat16 };

struct Alibi {
  std::int64_t heads = 0;  // H of the whole model, also on a tensor-parallel shard; at least 1
  double max_bias = 8.0;   // `alibi_bias_max` (MPT), `max_alibi_bias` (GGUF); positive
  // The shard: heads head_offset to head_offset + local_heads - 1. 0 local heads: to the last.
  std::int64_t head_offset = 0;
  std::int64_t local_heads = 0;
  double bias_scale = 1;  // on the bias: 1 / sqrt(head_dim) in Falcon; positive
  // With bfloat16 the bias depends on the key's position alone, not on the distance:
  // key_biases.
  AlibiRounding rounding = AlibiRounding::none;

  bool operator==(const Alibi&) const = default;
};

// The slope of each head of the shard. Throws std::invalid_argument naming the field that
// breaks its bounds.
std::vector<double> slopes(const Alibi& alibi);

// The plan: the slopes times bias_scale. Throws also when `rounding` is bfloat16.
SlopeBias lower(const Alibi& alibi);

// As a strip over distances first to first + count - 1.
StripBias strip(const Alibi& alibi, std::int64_t first, std::int64_t count);

// What a bfloat16 bias adds to all scores of a key, [H, S] for keys at these positions:
// bias_scale bf16(bf16(slope) bf16(position)). (A number that all keys of a query share does
// not change a softmax, so -slope (query - key) and slope key are the same bias.)
std::vector<float> key_biases(const Alibi& alibi, std::span<const std::int64_t> positions);

}  // namespace gnomon
