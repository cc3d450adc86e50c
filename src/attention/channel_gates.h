// Gates of channels (Wall): S_ij = sum over n of q_in k_jn exp(c_in - c_jn), where c is the
// inclusive sum of the logarithms of the gates. The decay exp(c_in - c_jn) is the product of a
// factor of the query and a factor of the key, both at most 1: it is divided at an anchor
// between them, the last key of the key's tile, or of its block within the tile. Exponents are
// always sums of gates, never differences of sums, so they have no cancellation at any length,
// and a gate of -infinity is allowed.
#pragma once

#include <cstdint>
#include <vector>

#include "src/attention/problem.h"

namespace gnomon::internal {

// Rows of a block. Pairs within one block have no anchor: their decays are computed one by one.
constexpr std::int64_t gate_block = 16;

// Returns the sums of the gates over the keys of each whole tile, [B, Hq, tiles, D], in units
// of ln 2. Memory: D / tile_keys doubles for each key and query head.
std::vector<double> sums_of_tiles(const AttentionProblem& problem);

}  // namespace gnomon::internal
