// ALiBi: attention with linear biases. The bias is a penalty proportional to the distance, with
// a fixed slope for each head.
//
//   Press, Smith, Lewis. "Train Short, Test Long", 2021. https://arxiv.org/abs/2108.12409.
//
//   bias(h, query, key) = -slope[h] |key - query|
//
// For H = 2^k heads slope[h] = 2^(-8 (h+1) / H). For other H the released models use the slopes
// of the largest power of two below H, followed by every other slope of the next power of two
// (BLOOM, MPT, Baichuan and ggml agree to the last bit for every H).
//
// Causal and bidirectional attention use the same values: the absolute value differs from the
// plain distance only for future keys, which a causal query does not see.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/bias/form.h"

namespace gnomon {

// Rounding of the bias. Falcon computes its bias in bfloat16: the slopes are rounded, and then
// the product of slope and key position is rounded.
enum class AlibiRounding { none = 1, bfloat16 };

struct Alibi {
  std::int64_t heads = 0;  // H of the whole model, also on a tensor-parallel shard; at least 1
  double max_bias = 8.0;   // `alibi_bias_max` (MPT), `max_alibi_bias` (GGUF); positive
  // The tensor-parallel shard: heads head_offset to head_offset + local_heads - 1. If
  // local_heads is 0, the shard extends to the last head.
  std::int64_t head_offset = 0;
  std::int64_t local_heads = 0;
  double bias_scale = 1;  // factor on the bias: 1 / sqrt(head_dim) in Falcon; positive
  // With bfloat16 the bias depends on the position of the key, not on the distance. Use
  // key_biases() instead of lower().
  AlibiRounding rounding = AlibiRounding::none;

  bool operator==(const Alibi&) const = default;
};

// Returns the slope of each head of the shard. Throws std::invalid_argument if a field is out
// of bounds; the message names the field.
std::vector<double> slopes(const Alibi& alibi);

// Returns the plan: the slopes times bias_scale. Throws std::invalid_argument also if
// `rounding` is bfloat16.
SlopeBias lower(const Alibi& alibi);

// Returns the plan as a strip over `count` distances from `min_distance` on.
StripBias lower(const Alibi& alibi, std::int64_t min_distance, std::int64_t count);

// Returns the biases of keys at the given positions, [H, S], as computed with bfloat16:
// bias_scale bf16(bf16(slope) bf16(position)). The bias of a key is added to the scores of all
// queries. (A constant added to all scores of a query does not change its softmax, so the
// biases -slope (query - key) and slope key are equivalent.)
std::vector<float> key_biases(const Alibi& alibi, std::span<const std::int64_t> positions);

}  // namespace gnomon
