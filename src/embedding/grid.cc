#include "gnomon/embedding/grid.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using std::int64_t;

void check_multiple(int64_t width, int64_t of) {
  if (width < of || width % of)
    refuse("grid", "width must be a positive multiple of " + std::to_string(of), width);
}

// Fills all axes. P: type of the positions, integer or double, as returned by coordinate(n,
// column).
template <typename P, typename T, typename Coordinate>
void fill_axes(const SinusoidalGrid& spec, int64_t cells, int64_t columns, View<T, 2> out,
               Coordinate coordinate) {
  const int64_t channels = width(spec);
  if (out.extent(0) != cells || out.extent(1) != channels)
    refuse("grid",
           "out must be [" + std::to_string(cells) + ", " + std::to_string(channels) + "]",
           shape_text(out.extents()));
  for (const GridAxis& axis : spec.axes)
    if (axis.column < 0 || axis.column >= columns)
      refuse("grid", "an axis's column must be from 0 to " + std::to_string(columns - 1),
             axis.column);
  std::vector<P> positions(static_cast<std::size_t>(cells));
  std::vector<double> part, sum;
  if (spec.join == AxisJoin::summed) {
    part.resize(static_cast<std::size_t>(cells * channels));
    sum.resize(part.size());
  }
  int64_t first = 0;
  for (const GridAxis& axis : spec.axes) {
    for (int64_t n = 0; n < cells; ++n)
      positions[static_cast<std::size_t>(n)] = coordinate(n, axis.column);
    if (spec.join == AxisJoin::concatenated && axis.sinusoidal.width > channels - first) {
      // The last axis is truncated, but its frequencies are those of all its channels.
      std::vector<T> whole(static_cast<std::size_t>(cells * axis.sinusoidal.width));
      const View<T, 2> view(whole.data(), {cells, axis.sinusoidal.width});
      fill(axis.sinusoidal, std::span<const P>(positions), view);
      for (int64_t n = 0; n < cells; ++n)
        for (int64_t c = first; c < channels; ++c) out(n, c) = view(n, c - first);
      break;
    }
    if (spec.join == AxisJoin::concatenated) {
      fill(axis.sinusoidal, std::span<const P>(positions),
           out.slice(1, first, axis.sinusoidal.width));
      first += axis.sinusoidal.width;
    } else {
      fill(axis.sinusoidal, std::span<const P>(positions),
           View<double, 2>(part.data(), {cells, channels}));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
  }
  if (spec.join == AxisJoin::summed)
    for (int64_t n = 0; n < cells; ++n)
      for (int64_t c = 0; c < channels; ++c)
        out(n, c) = static_cast<T>(sum[static_cast<std::size_t>(n * channels + c)]);
}

}  // namespace

SinusoidalGrid grid_mae(int64_t width, double base) {
  check_multiple(width, 4);
  const Sinusoidal half{
      .width = width / 2, .recipe = SinusoidalRecipe::half_split, .base = base};
  return {.join = AxisJoin::concatenated,
          .axes = {{.column = 1, .sinusoidal = half}, {.column = 0, .sinusoidal = half}}};
}

SinusoidalGrid grid_detr(int64_t width, double temperature) {
  check_multiple(width, 4);
  const Sinusoidal half{
      .width = width / 2, .recipe = SinusoidalRecipe::interleaved, .base = temperature};
  return {.join = AxisJoin::concatenated,
          .axes = {{.column = 0, .sinusoidal = half}, {.column = 1, .sinusoidal = half}}};
}

SinusoidalGrid grid_cogvideox(int64_t width) {
  check_multiple(width, 16);
  const Sinusoidal time{.width = width / 4, .recipe = SinusoidalRecipe::half_split};
  const Sinusoidal space{.width = width / 8 * 3, .recipe = SinusoidalRecipe::half_split};
  return {.join = AxisJoin::concatenated,
          .axes = {{.column = 0, .sinusoidal = time},
                   {.column = 2, .sinusoidal = space},
                   {.column = 1, .sinusoidal = space}}};
}

SinusoidalGrid grid_vjepa(int64_t width, VideoShares shares) {
  if (shares != VideoShares::thirds && shares != VideoShares::half_time)
    refuse("grid", "shares must be thirds or half_time", static_cast<int>(shares));
  check_multiple(width, shares == VideoShares::thirds ? 2 : 8);
  const bool thirds = shares == VideoShares::thirds;
  const Sinusoidal time{.width = thirds ? (width + 5) / 6 * 2 : width / 2,
                        .recipe = SinusoidalRecipe::half_split};
  const Sinusoidal space{.width = thirds ? time.width : width / 4,
                         .recipe = SinusoidalRecipe::half_split};
  return {.join = AxisJoin::concatenated,
          .axes = {{.column = 0, .sinusoidal = time},
                   {.column = 1, .sinusoidal = space},
                   {.column = 2, .sinusoidal = space}},
          .kept = width};
}

int64_t width(const SinusoidalGrid& spec) {
  if (spec.axes.empty()) refuse("grid", "there must be at least one axis", 0);
  if (spec.join != AxisJoin::concatenated && spec.join != AxisJoin::summed)
    refuse("grid", "join must be concatenated or summed", static_cast<int>(spec.join));
  int64_t channels = 0;
  for (const GridAxis& axis : spec.axes) {
    frequencies(axis.sinusoidal);  // throws if the spec is invalid
    if (spec.join == AxisJoin::concatenated)
      channels += axis.sinusoidal.width;
    else if (channels && channels != axis.sinusoidal.width)
      refuse("grid", "summed axes must have equal widths, " + std::to_string(channels),
             axis.sinusoidal.width);
    else
      channels = axis.sinusoidal.width;
  }
  if (spec.kept < 0 || spec.kept > channels)
    refuse("grid", "kept must be from 0 to " + std::to_string(channels), spec.kept);
  if (spec.kept && spec.join == AxisJoin::summed && spec.kept < channels)
    refuse("grid", "kept must be 0 or the full width for summed axes", spec.kept);
  return spec.kept ? spec.kept : channels;
}

namespace {

template <typename T>
void fill_typed(const SinusoidalGrid& spec, const Grid& cells, View<T, 2> out) {
  const auto count = static_cast<int64_t>(cells.coordinates.size());
  // Compare by division, because the product of values from the caller may overflow.
  if (cells.cells < 0 || cells.axes < 1 || count % cells.axes ||
      count / cells.axes != cells.cells)
    refuse("grid",
           "coordinates must be " + std::to_string(cells.cells) + " x " +
               std::to_string(cells.axes),
           count);
  fill_axes<int64_t>(spec, cells.cells, cells.axes, out, [&](int64_t n, int64_t column) {
    return cells.coordinates[static_cast<std::size_t>(n * cells.axes + column)];
  });
}

template <typename T>
void fill_typed(const SinusoidalGrid& spec, View<const double, 2> coordinates, View<T, 2> out) {
  fill_axes<double>(spec, coordinates.extent(0), coordinates.extent(1), out,
                    [&](int64_t n, int64_t column) { return coordinates(n, column); });
}

constexpr internal::Argument out_argument{"grid", "out"};

}  // namespace

void fill(const SinusoidalGrid& spec, const Grid& cells, const Tensor& out) {
  internal::by_type(out_argument, out, [&]<typename T>(T) {
    fill_typed(spec, cells, internal::write<T, 2>(out_argument, out));
  });
}
void fill(const SinusoidalGrid& spec, View<const double, 2> coordinates, const Tensor& out) {
  internal::by_type(out_argument, out, [&]<typename T>(T) {
    fill_typed(spec, coordinates, internal::write<T, 2>(out_argument, out));
  });
}

int64_t capacity(const SinusoidalGrid& spec) {
  if (spec.grid.empty()) refuse("grid", "the extents of the grid must be given", "none");
  if (spec.class_tokens < 0)
    refuse("grid", "class_tokens must not be negative", spec.class_tokens);
  int64_t cells = 1;
  for (const int64_t extent : spec.grid) {
    if (extent < 1 || cells > (int64_t{1} << 40) / extent)
      refuse("grid", "extents must be at least 1, with at most 2^40 cells", extent);
    cells *= extent;
  }
  return spec.class_tokens + cells;
}

EmbeddingTable lower(const SinusoidalGrid& spec, std::span<const int64_t> positions) {
  const int64_t most = capacity(spec);
  std::vector<int64_t> at;  // cell of each token; 0 for tokens before the cells
  for (const int64_t position : positions) {
    if (position < 0 || position >= most)
      refuse("grid", "position must be 0 to " + std::to_string(most - 1), position);
    at.push_back(std::max<int64_t>(position - spec.class_tokens, 0));
  }
  Grid cells{.cells = std::ssize(at), .axes = std::ssize(spec.grid), .coordinates = {}};
  for (const int64_t cell : at) {
    const auto end = cells.coordinates.insert(cells.coordinates.end(), spec.grid.size(), 0);
    int64_t rest = cell;
    for (std::size_t a = spec.grid.size(); a-- > 0; rest /= spec.grid[a])
      end[static_cast<std::int64_t>(a)] = rest % spec.grid[a];
  }
  EmbeddingTable table{cells.cells, width(spec), {}};
  table.values.resize(
      internal::checked_size("embedding", "tokens x width", {table.tokens, table.width}));
  const View<float, 2> out(table.values.data(), {table.tokens, table.width});
  fill(spec, cells, out);
  for (std::size_t t = 0; t < positions.size(); ++t)
    if (positions[t] < spec.class_tokens)
      for (int64_t c = 0; c < table.width; ++c) out(static_cast<int64_t>(t), c) = 0;
  return table;
}

}  // namespace gnomon
