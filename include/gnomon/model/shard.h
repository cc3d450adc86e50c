// Shard of an encoding for tensor parallelism: the encoding of some of the heads of a model.
//
// Each of n processes holds the shard of H / n heads of every layer, and attention on it gives
// the output of these heads. Parameters of single heads (T5's table, KERPLE's rates) are
// divided. Parameters that all heads use (FIRE's first layer, a table that Shaw's heads
// share) are whole in every shard.
//
//   Shoeybi et al. "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
//   Parallelism", 2019. https://arxiv.org/abs/1909.08053, section 3.
//
// Letters: H heads of the whole model.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/model/encoding.h"

namespace gnomon::model {

// The part of a parameter of the whole encoding that a shard holds.
struct ParameterRange {
  std::int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  // Whether all shards hold the whole parameter. Its gradient is then the sum of the gradients
  // of all shards. Otherwise the gradient of the shard is this part of the whole gradient.
  bool shared = false;

  bool operator==(const ParameterRange&) const = default;
};

struct Shard {
  Mixture mixture;                     // for `heads` query heads
  std::vector<ParameterRange> ranges;  // one range for each parameter of the mixture
};

// Returns the shard with the heads from head_offset to head_offset + heads - 1 of the whole
// encoding. An encoding without heads (rotary, a table) is its own shard.
//
// A gated bias (WavLM) requires the channels of these heads as the input of its gates.
//
// Throws std::invalid_argument if the range is empty or outside the heads of an encoding, if
// the encoding is already a shard, or if it has no shards (Sandwich: its slopes depend on the
// number of heads of the whole model).
Shard shard(const Encoding& whole, std::int64_t head_offset, std::int64_t heads);
Shard shard(const Mixture& whole, std::int64_t head_offset, std::int64_t heads);

}  // namespace gnomon::model
