#include "gnomon/position/patches.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>

#include "gnomon/error.h"
#include "src/core/overflow.h"

namespace gnomon {
namespace {

constexpr std::int64_t most_cells = std::numeric_limits<std::int64_t>::max() / 32;

// Returns the product of the extents + extra. Throws as `grid`, and if extra is negative or the
// sum is too large.
std::int64_t cells_of(std::initializer_list<std::int64_t> extents, std::int64_t extra = 0) {
  if (extra < 0) refuse("patches", "prefix must not be negative", extra);
  std::int64_t cells = 1;
  for (const std::int64_t extent : extents) {
    if (extent < 1) refuse("patches", "every extent must be at least 1", extent);
    if (internal::multiply_overflow(cells, extent, &cells) || cells > most_cells)
      refuse("patches", "there must be fewer than 2^58 patches, at extent", extent);
  }
  if (extra > most_cells - cells)
    refuse("patches", "there must be fewer than 2^58 patches, at prefix", extra);
  return cells + extra;
}

// Returns `count` numbers from `start` to stop (count - 1) / count in equal steps.
std::vector<double> steps(double start, double stop, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  const auto n = static_cast<double>(count);
  const double last = stop * (n - 1) / n;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = count == 1 ? start : start + (last - start) * static_cast<double>(i) / (n - 1);
  return values;
}

}  // namespace

Grid concatenated(std::span<const Grid> grids) {
  Grid all;
  if (grids.empty()) return all;
  all.axes = grids[0].axes;
  for (const Grid& grid : grids) {
    if (grid.axes != all.axes)
      refuse("patches", "grids must have " + std::to_string(all.axes) + " axes", grid.axes);
    std::int64_t count = 0;
    if (internal::multiply_overflow(grid.cells, grid.axes, &count) ||
        std::ssize(grid.coordinates) != count)
      refuse("patches", "a grid must have cells x axes coordinates",
             std::ssize(grid.coordinates));
    all.cells += grid.cells;
    all.coordinates.insert(all.coordinates.end(), grid.coordinates.begin(),
                           grid.coordinates.end());
  }
  return all;
}

Grid merge_blocks(std::int64_t height, std::int64_t width, std::int64_t merge,
                  std::int64_t frames) {
  Grid grid{.cells = cells_of({frames, height, width}), .axes = 2, .coordinates = {}};
  if (merge < 1) refuse("patches", "merge must be at least 1", merge);
  for (const std::int64_t extent : {height, width})
    if (extent % merge)
      refuse("patches",
             "height and width must be multiples of merge = " + std::to_string(merge), extent);
  grid.coordinates.reserve(static_cast<std::size_t>(2 * grid.cells));
  for (std::int64_t frame = 0; frame < frames; ++frame)
    for (std::int64_t y = 0; y < height; y += merge)
      for (std::int64_t x = 0; x < width; x += merge)
        for (std::int64_t dy = 0; dy < merge; ++dy)
          for (std::int64_t dx = 0; dx < merge; ++dx) {
            grid.coordinates.push_back(y + dy);
            grid.coordinates.push_back(x + dx);
          }
  return grid;
}

Grid llama4_patches(std::int64_t side) {
  Grid patches = grid(side, side);
  for (std::int64_t& coordinate : patches.coordinates) ++coordinate;
  patches.coordinates.insert(patches.coordinates.end(), {0, 0});
  ++patches.cells;
  return patches;
}

Grid centred_grid(std::int64_t frames, std::int64_t height, std::int64_t width,
                  std::int64_t index) {
  Grid cells = grid(frames, height, width);
  if (index > std::numeric_limits<std::int64_t>::max() - frames)
    refuse("patches", "index + frames must fit 64 bits; index", index);
  for (std::size_t at = 0; at < cells.coordinates.size(); at += 3) {
    cells.coordinates[at] += index;
    cells.coordinates[at + 1] -= height - height / 2;
    cells.coordinates[at + 2] -= width - width / 2;
  }
  return cells;
}

std::int64_t centred_text_start(std::int64_t height, std::int64_t width) {
  cells_of({height, width});
  return std::max(height / 2, width / 2);
}

Coordinates patch_centres(std::int64_t height, std::int64_t width, std::int64_t prefix) {
  Coordinates centres{.cells = cells_of({height, width}, prefix), .axes = 2, .values = {}};
  centres.values.assign(static_cast<std::size_t>(2 * prefix), 0.0);
  centres.values.reserve(static_cast<std::size_t>(2 * centres.cells));
  const auto centre = [](std::int64_t i, std::int64_t count) {
    return static_cast<double>(2 * i + 1) / static_cast<double>(count) - 1;
  };
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      centres.values.push_back(centre(y, height));
      centres.values.push_back(centre(x, width));
    }
  return centres;
}

Coordinates crop_cells(std::int64_t height, std::int64_t width, const Crop& crop) {
  Coordinates cells{.cells = cells_of({height, width}), .axes = 2, .values = {}};
  for (const double edge : {crop.top, crop.left, crop.bottom, crop.right})
    if (!std::isfinite(edge)) refuse("patches", "the edges of a crop must be finite", edge);
  const std::vector<double> ys = steps(crop.top, crop.bottom, height),
                            xs = steps(crop.left, crop.right, width);
  cells.values.reserve(static_cast<std::size_t>(2 * cells.cells));
  for (const double y : ys)
    for (const double x : xs) {
      cells.values.push_back(y);
      cells.values.push_back(x);
    }
  return cells;
}

Coordinates crop_cells(std::int64_t frames, std::int64_t height, std::int64_t width,
                       const Crop& crop) {
  Coordinates cells{.cells = cells_of({frames, height, width}), .axes = 3, .values = {}};
  const Coordinates frame = crop_cells(height, width, crop);
  cells.values.reserve(static_cast<std::size_t>(3 * cells.cells));
  for (std::int64_t t = 0; t < frames; ++t)
    for (std::size_t at = 0; at < frame.values.size(); at += 2) {
      cells.values.push_back(static_cast<double>(t));
      cells.values.push_back(frame.values[at]);
      cells.values.push_back(frame.values[at + 1]);
    }
  return cells;
}

}  // namespace gnomon
