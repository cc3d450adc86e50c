#include "gnomon/embedding/universal.h"

#include <vector>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {

EmbeddingTable lower(const UniversalTransformer& spec,
                     std::span<const std::int64_t> positions) {
  const Sinusoidal sinusoidal{.width = spec.width, .recipe = spec.recipe, .base = spec.base};
  frequencies(sinusoidal);  // throws before anything is allocated if a field is invalid
  if (spec.step < 1) refuse("universal", "step must be at least 1", spec.step);
  EmbeddingTable table{static_cast<std::int64_t>(positions.size()), spec.width, {}};
  std::vector<double> sums(
      internal::checked_size("embedding", "tokens x width", {table.tokens, table.width}));
  std::vector<double> of_step(static_cast<std::size_t>(spec.width));
  fill(sinusoidal, positions, View<double, 2>(sums.data(), {table.tokens, table.width}));
  fill(sinusoidal, std::span<const std::int64_t>(&spec.step, 1),
       View<double, 2>(of_step.data(), {1, table.width}));
  table.values.resize(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    table.values[i] = static_cast<float>(sums[i] + of_step[i % of_step.size()]);
  return table;
}

}  // namespace gnomon
