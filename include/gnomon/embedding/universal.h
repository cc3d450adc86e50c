// Embedding of the Universal Transformer: one layer runs repeatedly, and each run receives the
// number of its step in addition to the positions.
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

struct UniversalTransformer {
  std::int64_t width = 0;  // C; bounds as in Sinusoidal
  // interleaved in the paper, tensor2tensor in the release
  SinusoidalRecipe recipe = {};
  double base = 10'000.0;  // greater than 1
  std::int64_t step = 1;   // the run of the layer, from 1

  bool operator==(const UniversalTransformer&) const = default;
};

// Returns the plan of one step: the sum [T, C], for add_table before the layer. Each entry is
// summed in double and rounded once. Throws std::invalid_argument if a field is out of its
// bounds.
EmbeddingTable lower(const UniversalTransformer& spec, std::span<const std::int64_t> positions);

}  // namespace gnomon
