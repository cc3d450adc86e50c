#include "gnomon/embedding/step.h"
#include "src/core/size.h"

#include <vector>

namespace gnomon {

EmbeddingTable lower(const Sinusoidal& sinusoidal, std::span<const std::int64_t> positions,
                     std::int64_t step) {
  frequencies(sinusoidal);  // throws before anything is allocated if the spec is invalid
  EmbeddingTable table{static_cast<std::int64_t>(positions.size()), sinusoidal.width, {}};
  std::vector<double> sums(
      internal::checked_size("embedding", "tokens x width",
                             {static_cast<std::int64_t>(positions.size()), sinusoidal.width}));
  std::vector<double> of_step(static_cast<std::size_t>(sinusoidal.width));
  fill(sinusoidal, positions, View<double, 2>(sums.data(), {table.tokens, table.width}));
  fill(sinusoidal, std::span<const std::int64_t>(&step, 1),
       View<double, 2>(of_step.data(), {1, table.width}));
  table.values.resize(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    table.values[i] = static_cast<float>(sums[i] + of_step[i % of_step.size()]);
  return table;
}

}  // namespace gnomon
