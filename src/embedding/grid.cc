#include "gnomon/embedding/grid.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using std::int64_t;

void check_multiple(int64_t dim, int64_t of) {
  if (dim < of || dim % of)
    refuse("grid", "dim must be a positive multiple of " + std::to_string(of), dim);
}

// One axis's positions, integers or doubles, from coordinates(n, column).
template <typename P, typename T, typename Coordinate>
void fill_axes(const SinusoidalGrid& spec, int64_t cells, int64_t columns, View<T, 2> out,
               Coordinate coordinate) {
  const int64_t channels = dim(spec);
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
    if (spec.join == AxisJoin::concatenated && axis.sinusoidal.dim > channels - first) {
      // The axis that is cut: its frequencies are those of all its channels.
      std::vector<T> whole(static_cast<std::size_t>(cells * axis.sinusoidal.dim));
      const View<T, 2> view(whole.data(), {cells, axis.sinusoidal.dim});
      fill(axis.sinusoidal, std::span<const P>(positions), view);
      for (int64_t n = 0; n < cells; ++n)
        for (int64_t c = first; c < channels; ++c) out(n, c) = view(n, c - first);
      break;
    }
    if (spec.join == AxisJoin::concatenated) {
      fill(axis.sinusoidal, std::span<const P>(positions),
           out.slice(1, first, axis.sinusoidal.dim));
      first += axis.sinusoidal.dim;
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

SinusoidalGrid grid_mae(int64_t dim, double base) {
  check_multiple(dim, 4);
  const Sinusoidal half{.dim = dim / 2, .recipe = SinusoidalRecipe::half_split, .base = base};
  return {.join = AxisJoin::concatenated,
          .axes = {{.column = 1, .sinusoidal = half}, {.column = 0, .sinusoidal = half}}};
}

SinusoidalGrid grid_detr(int64_t dim, double temperature) {
  check_multiple(dim, 4);
  const Sinusoidal half{
      .dim = dim / 2, .recipe = SinusoidalRecipe::interleaved, .base = temperature};
  return {.join = AxisJoin::concatenated,
          .axes = {{.column = 0, .sinusoidal = half}, {.column = 1, .sinusoidal = half}}};
}

SinusoidalGrid grid_cogvideox(int64_t dim) {
  check_multiple(dim, 16);
  const Sinusoidal time{.dim = dim / 4, .recipe = SinusoidalRecipe::half_split};
  const Sinusoidal space{.dim = dim / 8 * 3, .recipe = SinusoidalRecipe::half_split};
  return {.join = AxisJoin::concatenated,
          .axes = {{.column = 0, .sinusoidal = time},
                   {.column = 2, .sinusoidal = space},
                   {.column = 1, .sinusoidal = space}}};
}

SinusoidalGrid grid_vjepa(int64_t dim, VideoShares shares) {
  if (shares != VideoShares::thirds && shares != VideoShares::half_time)
    refuse("grid", "shares must be thirds or half_time", static_cast<int>(shares));
  check_multiple(dim, shares == VideoShares::thirds ? 2 : 8);
  const bool thirds = shares == VideoShares::thirds;
  const Sinusoidal time{.dim = thirds ? (dim + 5) / 6 * 2 : dim / 2,
                        .recipe = SinusoidalRecipe::half_split};
  const Sinusoidal space{.dim = thirds ? time.dim : dim / 4,
                         .recipe = SinusoidalRecipe::half_split};
  return {.join = AxisJoin::concatenated,
          .axes = {{.column = 0, .sinusoidal = time},
                   {.column = 1, .sinusoidal = space},
                   {.column = 2, .sinusoidal = space}},
          .kept = dim};
}

int64_t dim(const SinusoidalGrid& spec) {
  if (spec.axes.empty()) refuse("grid", "axes must be at least one", 0);
  if (spec.join != AxisJoin::concatenated && spec.join != AxisJoin::summed)
    refuse("grid", "join must be concatenated or summed", static_cast<int>(spec.join));
  int64_t channels = 0;
  for (const GridAxis& axis : spec.axes) {
    frequencies(axis.sinusoidal);  // refuses a spec that breaks its own rules
    if (spec.join == AxisJoin::concatenated)
      channels += axis.sinusoidal.dim;
    else if (channels && channels != axis.sinusoidal.dim)
      refuse("grid", "axes that are summed must have one dim, " + std::to_string(channels),
             axis.sinusoidal.dim);
    else
      channels = axis.sinusoidal.dim;
  }
  if (spec.kept < 0 || spec.kept > channels)
    refuse("grid", "kept must be from 0 to " + std::to_string(channels), spec.kept);
  if (spec.kept && spec.join == AxisJoin::summed && spec.kept < channels)
    refuse("grid", "kept must be 0 or all of axes that are summed", spec.kept);
  return spec.kept ? spec.kept : channels;
}

namespace {

template <typename T>
void fill_typed(const SinusoidalGrid& spec, const Grid& cells, View<T, 2> out) {
  const auto count = static_cast<int64_t>(cells.coordinates.size());
  // By division: the product of what a caller wrote may overflow.
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

EmbeddingTable grid_table(const SinusoidalGrid& spec, std::span<const int64_t> positions) {
  const int64_t most = capacity(spec);
  std::vector<int64_t> at;  // the cell of each token; 0 for tokens before them
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
      end[static_cast<std::ptrdiff_t>(a)] = rest % spec.grid[a];
  }
  EmbeddingTable table{cells.cells, dim(spec), {}};
  table.values.resize(static_cast<std::size_t>(table.tokens * table.channels));
  const View<float, 2> out(table.values.data(), {table.tokens, table.channels});
  fill(spec, cells, out);
  for (std::size_t t = 0; t < positions.size(); ++t)
    if (positions[t] < spec.class_tokens)
      for (int64_t c = 0; c < table.channels; ++c) out(static_cast<int64_t>(t), c) = 0;
  return table;
}

}  // namespace gnomon
