#include "gnomon/embedding/index.h"

#include <algorithm>

#include "gnomon/error.h"
#include "src/core/size.h"

namespace gnomon {

EmbeddingTable lower(const Index& index, std::span<const std::int64_t> positions) {
  if (index.width < 1) refuse("index", "width must be at least 1", index.width);
  if (index.unit != IndexUnit::raw && index.unit != IndexUnit::normalised)
    refuse("index", "unit must be raw or normalised", static_cast<int>(index.unit));
  if (index.channels != IndexChannels::all && index.channels != IndexChannels::first)
    refuse("index", "channels must be all or first", static_cast<int>(index.channels));
  const bool normalised = index.unit == IndexUnit::normalised;
  if (normalised && index.length < 2)
    refuse("index", "length must be at least 2 if unit is normalised", index.length);
  EmbeddingTable table{static_cast<std::int64_t>(positions.size()), index.width, {}};
  table.values.resize(
      internal::checked_size("embedding", "tokens x width", {table.tokens, table.width}));
  const std::int64_t channels = index.channels == IndexChannels::all ? index.width : 1;
  const double unit = normalised ? static_cast<double>(index.length - 1) : 1;
  for (auto row = table.values.begin(); const std::int64_t position : positions) {
    std::fill_n(row, channels, static_cast<float>(static_cast<double>(position) / unit));
    row += index.width;
  }
  return table;
}

}  // namespace gnomon
