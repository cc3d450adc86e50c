// Step embedding of the Universal Transformer: the same layer runs repeatedly, and each run
// receives the number of its step in addition to the positions.
//
//   Dehghani, Gouws, Vinyals, Uszkoreit, Kaiser. "Universal Transformers", 2018.
//   https://arxiv.org/abs/1807.03819, section 2.1.
//
//   P[t, step] = sinusoid(t) + sinusoid(step)
//
// Letters: T tokens, C width.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"

namespace gnomon {

// Returns the plan of one step: the sum [T, C], for add_table before the layer. The paper
// counts steps from 1. Each entry is summed in double and rounded once. The recipe of the paper
// is interleaved; the release in tensor2tensor uses the tensor2tensor recipe.
EmbeddingTable lower(const Sinusoidal& sinusoidal, std::span<const std::int64_t> positions,
                     std::int64_t step);

}  // namespace gnomon
