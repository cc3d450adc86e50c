// Universal Transformer: the same layer runs again and again, so each run is told its number
// as well as the positions.
//
//   Dehghani, Gouws, Vinyals, Uszkoreit, Kaiser. "Universal Transformers", 2018.
//   https://arxiv.org/abs/1807.03819, section 2.1.
//
//   P[t, step] = sinusoid(t) + sinusoid(step)
//
// Letters: T tokens, C channels.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/embedding/table.h"

namespace gnomon {

// The plan of one run of the layer: the sum [T, C] to be given to add_table before it. The
// paper counts steps from 1. Each entry is rounded once from a sum in double. The paper's
// recipe is interleaved; tensor2tensor, which released it, uses its own.
EmbeddingTable universal_table(const Sinusoidal& sinusoidal,
                               std::span<const std::int64_t> positions, std::int64_t step);

}  // namespace gnomon
