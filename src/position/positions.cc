#include "gnomon/position/positions.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "gnomon/error.h"
#include "src/core/overflow.h"
#include "src/core/size.h"

namespace gnomon {
namespace {

using std::int64_t;

Positions zeros(int64_t batch, int64_t tokens) {
  Positions positions{.batch = batch, .tokens = tokens, .ids = {}, .sequences = {}};
  positions.ids.resize(internal::checked_size("position", "batch x tokens", {batch, tokens}));
  positions.sequences.resize(positions.ids.size());
  return positions;
}

// Returns the product of the extents. Throws std::invalid_argument if an extent is less than 1
// or the product is too large.
int64_t cells_of(std::span<const int64_t> extents) {
  int64_t cells = 1;
  for (int64_t extent : extents) {
    if (extent < 1) refuse("position", "every extent of a grid must be at least 1", extent);
    if (internal::multiply_overflow(cells, extent, &cells) ||
        cells > std::numeric_limits<int64_t>::max() / 32)
      refuse("position", "a grid must have fewer than 2^58 cells, at extent", extent);
  }
  return cells;
}

Grid grid_of(std::span<const int64_t> extents) {
  Grid grid{.cells = cells_of(extents),
            .axes = static_cast<int64_t>(extents.size()),
            .coordinates = {}};
  grid.coordinates.resize(static_cast<std::size_t>(grid.cells) * extents.size());
  std::vector<int64_t> cell(extents.size());
  for (std::size_t at = 0; at < grid.coordinates.size(); at += extents.size()) {
    for (std::size_t a = 0; a < extents.size(); ++a) grid.coordinates[at + a] = cell[a];
    for (std::size_t a = extents.size(); a-- > 0;) {
      if (++cell[a] < extents[a]) break;
      cell[a] = 0;
    }
  }
  return grid;
}

}  // namespace

std::span<const int64_t> Positions::row(int64_t b) const {
  if (b < 0 || b >= batch)
    refuse("position", "row must be from 0 to " + std::to_string(batch - 1), b);
  return std::span(ids).subspan(static_cast<std::size_t>(b * tokens),
                                static_cast<std::size_t>(tokens));
}

Positions consecutive(int64_t tokens, int64_t offset, int64_t batch) {
  if (tokens < 0) refuse("position", "tokens must not be negative", tokens);
  if (batch < 0) refuse("position", "batch must not be negative", batch);
  if (tokens > 0 && offset > std::numeric_limits<int64_t>::max() - (tokens - 1))
    refuse("position", "offset + tokens must fit 64 bits; offset", offset);
  Positions positions = zeros(batch, tokens);
  for (std::size_t at = 0; at < positions.ids.size(); ++at)
    positions.ids[at] = offset + static_cast<int64_t>(at) % tokens;
  return positions;
}

Positions explicit_ids(std::span<const int64_t> ids) {
  return explicit_ids(
      View<const int64_t, 2>(ids.data(), {1, static_cast<std::int64_t>(ids.size())}));
}

Positions explicit_ids(View<const int64_t, 2> ids) {
  Positions positions = zeros(ids.extent(0), ids.extent(1));
  auto out = positions.ids.begin();
  for (std::ptrdiff_t b = 0; b < ids.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < ids.extent(1); ++t) *out++ = ids(b, t);
  return positions;
}

Positions packed(std::span<const int64_t> lengths, int64_t tokens) {
  if (lengths.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    refuse("position", "a row must hold fewer than 2^31 sequences",
           static_cast<int64_t>(lengths.size()));
  int64_t sum = 0;
  for (int64_t length : lengths) {
    if (length < 1) refuse("position", "every packed length must be at least 1", length);
    if (internal::add_overflow(sum, length, &sum))
      refuse("position", "the packed lengths must sum to less than 2^63, at length", length);
  }
  if (tokens < sum)
    refuse("position", "tokens must be at least the sum of the lengths, " + std::to_string(sum),
           tokens);
  Positions positions = zeros(1, tokens);
  std::size_t at = 0;
  for (std::size_t s = 0; s < lengths.size(); ++s)
    for (int64_t t = 0; t < lengths[s]; ++t, ++at) {
      positions.ids[at] = t;
      positions.sequences[at] = static_cast<std::int32_t>(s);
    }
  for (; at < positions.ids.size(); ++at) positions.sequences[at] = Positions::padding;
  return positions;
}

Positions packed(std::span<const int64_t> lengths) {
  int64_t sum = 0;
  for (int64_t length : lengths)
    if (length > 0 && internal::add_overflow(sum, length, &sum))
      refuse("position", "the packed lengths must sum to less than 2^63, at length", length);
  return packed(lengths, sum);
}

Positions ragged_positions(const RaggedRows& rows) {
  const auto refused = [](std::string_view rule, int64_t value) {
    refuse("position", rule, value);
  };
  const bool packed = !rows.starts.empty();
  if (packed && !rows.lengths.empty())
    refuse("position", "starts or lengths must be given, not both", "both");
  const std::size_t sequences = packed ? rows.starts.size() - 1 : rows.lengths.size();
  if (sequences > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    refused("a batch must hold fewer than 2^31 sequences", static_cast<int64_t>(sequences));
  if (!rows.offsets.empty() && rows.offsets.size() != sequences)
    refused("offsets must be given for all sequences, " + std::to_string(sequences),
            static_cast<int64_t>(rows.offsets.size()));
  if (packed && rows.starts[0] < 0) refused("starts must not be negative", rows.starts[0]);
  int64_t most = packed ? rows.starts.back() : 0;
  const auto length_of = [&](std::size_t n) {
    return packed ? rows.starts[n + 1] - rows.starts[n] : rows.lengths[n];
  };
  for (std::size_t n = 0; n < sequences; ++n) {
    if (packed && rows.starts[n + 1] < rows.starts[n])
      refused("starts must not decrease", rows.starts[n + 1]);
    if (!packed && rows.lengths[n] < 0)
      refused("lengths must not be negative", rows.lengths[n]);
    if (!packed) most = std::max(most, rows.lengths[n]);
    int64_t last = 0;
    if (!rows.offsets.empty() && internal::add_overflow(rows.offsets[n], length_of(n), &last))
      refused("the last position must be below 2^63, with the offset", rows.offsets[n]);
  }
  const int64_t tokens = rows.tokens == -1 ? most : rows.tokens;
  if (tokens < most)
    refused("tokens must be at least those of the sequences, " + std::to_string(most), tokens);
  Positions positions = zeros(packed ? 1 : static_cast<int64_t>(sequences), tokens);
  std::fill(positions.sequences.begin(), positions.sequences.end(), Positions::padding);
  for (std::size_t n = 0; n < sequences; ++n) {
    const int64_t begin = packed ? rows.starts[n] : static_cast<int64_t>(n) * tokens;
    int64_t* const ids = positions.ids.data() + begin;
    std::iota(ids, ids + length_of(n), rows.offsets.empty() ? 0 : rows.offsets[n]);
    std::fill_n(positions.sequences.data() + begin, length_of(n), static_cast<std::int32_t>(n));
  }
  return positions;
}

Positions from_padding_mask(View<const std::uint8_t, 2> mask, int64_t padding_id) {
  Positions positions = zeros(mask.extent(0), mask.extent(1));
  std::size_t at = 0;
  for (std::ptrdiff_t b = 0; b < mask.extent(0); ++b) {
    int64_t next = 0;
    for (std::ptrdiff_t t = 0; t < mask.extent(1); ++t, ++at) {
      const bool real = mask(b, t) != 0;
      positions.ids[at] = real ? next++ : padding_id;
      positions.sequences[at] = real ? 0 : Positions::padding;
    }
  }
  return positions;
}

std::vector<int64_t> Grid::axis(int64_t a) const {
  if (a < 0 || a >= axes)
    refuse("position", "axis must be from 0 to " + std::to_string(axes - 1), a);
  std::vector<int64_t> column(static_cast<std::size_t>(cells));
  for (std::size_t cell = 0; cell < column.size(); ++cell)
    column[cell] =
        coordinates[cell * static_cast<std::size_t>(axes) + static_cast<std::size_t>(a)];
  return column;
}

Grid grid(int64_t height, int64_t width) {
  const int64_t extents[] = {height, width};
  return grid_of(extents);
}

Grid grid(int64_t frames, int64_t height, int64_t width) {
  const int64_t extents[] = {frames, height, width};
  return grid_of(extents);
}

std::vector<Positions> grid_axes(const Positions& cells, std::span<const int64_t> extents) {
  const int64_t count = cells_of(extents);
  if (cells.sequences.size() != cells.ids.size())
    refuse("position", "the cells must have a sequence for each id",
           static_cast<int64_t>(cells.sequences.size()));
  std::vector<Positions> axes(extents.size(), cells);
  for (std::size_t i = 0; i < cells.ids.size(); ++i) {
    int64_t rest = cells.ids[i];
    if (cells.sequences[i] == Positions::padding) rest = 0;
    if (rest < 0 || rest >= count)
      refuse("position", "a cell of the grid must be 0 to " + std::to_string(count - 1), rest);
    for (std::size_t a = extents.size(); a-- > 0; rest /= extents[a])
      axes[a].ids[i] = rest % extents[a];
  }
  return axes;
}

std::vector<Positions> grid_axes(const Grid& grid) {
  std::vector<Positions> axes;
  for (int64_t a = 0; a < grid.axes; ++a) axes.push_back(explicit_ids(grid.axis(a)));
  return axes;
}

}  // namespace gnomon
