#include "gnomon/model/text_readings.h"

#include <string>

#include "gnomon/embedding/grid.h"
#include "gnomon/error.h"
#include "gnomon/position/graph.h"
#include "src/model/encodings/detr.h"

namespace gnomon::model {
namespace {

using std::int64_t;

constexpr int64_t most_tokens = int64_t{1} << 24;

void check_node(const char* encoding, int64_t position, int64_t nodes) {
  if (position < 0 || position >= nodes)
    refuse(encoding, "positions must be nodes of the path, 0 to " + std::to_string(nodes - 1),
           position);
}

// Returns the rows of `all` [nodes, K] at `positions`.
std::vector<double> rows_of(const char* encoding, View<const double, 2> all,
                            std::span<const int64_t> positions) {
  std::vector<double> rows;
  rows.reserve(positions.size() * static_cast<std::size_t>(all.extent(1)));
  for (const int64_t position : positions) {
    check_node(encoding, position, all.extent(0));
    for (int64_t k = 0; k < all.extent(1); ++k) rows.push_back(all(position, k));
  }
  return rows;
}

// Returns the features [T, F] at coordinates [T, A].
std::vector<double> features_at(const Fourier& fourier, const std::vector<double>& at,
                                std::size_t count) {
  const auto tokens = static_cast<int64_t>(count);
  const int64_t width = features(fourier);
  std::vector<double> filled(count * static_cast<std::size_t>(width));
  fill(fourier, View<const double, 2>(at.data(), {tokens, fourier.axes}),
       View<double, 2>(filled.data(), {tokens, width}));
  return filled;
}

constexpr auto detr = Entry<DetrPage>::infos[0].name;

}  // namespace

int64_t capacity(const DetrPage& page) {
  const auto check = [](const char* what, int64_t extent) {
    if (extent < 1 || extent > most_tokens)
      refuse(detr, std::string(what) + " must be from 1 to 2^24", extent);
  };
  check("grid_height", page.grid_height);
  check("grid_width", page.grid_width);
  check("grid_height x grid_width", page.grid_height * page.grid_width);
  return page.grid_height * page.grid_width;
}

EmbeddingTable lower(const DetrPage& page, std::span<const int64_t> positions) {
  const int64_t most = capacity(page);
  const SinusoidalGrid spec = grid_detr(page.width, page.temperature);
  const std::vector<double> all =
      detr_coordinates(page.grid_height, page.grid_width, page.scale);
  std::vector<double> at;
  at.reserve(2 * positions.size());
  for (const int64_t position : positions) {
    if (position < 0 || position >= most)
      refuse(detr, "position must be on the page, 0 to " + std::to_string(most - 1), position);
    const auto first = all.begin() + 2 * position;
    at.insert(at.end(), first, first + 2);
  }
  EmbeddingTable table{static_cast<int64_t>(positions.size()), page.width, {}};
  table.values.resize(positions.size() * static_cast<std::size_t>(page.width));
  fill(spec, View<const double, 2>(at.data(), {table.tokens, 2}),
       View<float, 2>(table.values.data(), {table.tokens, page.width}));
  return table;
}

std::vector<double> line_features(const FourierLine& line, std::span<const int64_t> positions) {
  features(line.fourier);  // throws for an invalid spec, before the other checks
  std::vector<double> at;
  if (!line.grid.empty()) {
    const std::vector<double> all = unit_coordinates(line.grid);
    const std::size_t axes = line.grid.size();
    if (std::ssize(line.grid) != line.fourier.axes)
      refuse("fourier", "a grid must have an extent for each axis", line.fourier.axes);
    for (const int64_t position : positions) {
      const auto cell = static_cast<std::size_t>(position);
      if (position < 0 || cell >= all.size() / axes)
        refuse("fourier", "position must be a cell of the grid", position);
      at.insert(at.end(), all.begin() + static_cast<std::ptrdiff_t>(cell * axes),
                all.begin() + static_cast<std::ptrdiff_t>((cell + 1) * axes));
    }
    return features_at(line.fourier, at, positions.size());
  }
  if (line.fourier.axes != 1) refuse("fourier", "a line must have one axis", line.fourier.axes);
  if (line.length < 2) refuse("fourier", "length must be at least 2", line.length);
  const auto steps = static_cast<double>(line.length - 1);
  at.reserve(positions.size());
  for (const int64_t position : positions)
    at.push_back((2 * static_cast<double>(position) - steps) / steps);
  return features_at(line.fourier, at, positions.size());
}

std::vector<double> path_features(const PathLaplacian& path,
                                  std::span<const int64_t> positions) {
  return rows_of("laplacian", path_laplacian_vectors(path.laplacian, path.nodes).view(),
                 positions);
}

std::vector<double> path_features(const PathRandomWalk& path,
                                  std::span<const int64_t> positions) {
  return rows_of("random_walk", return_probabilities(path.walk, path_graph(path.nodes)).view(),
                 positions);
}

DegreeRows path_degree_rows(const PathDegree& path, std::span<const int64_t> positions) {
  degree_row(path.degree, 0);  // throws for an invalid spec, even without positions
  DegreeRows rows;
  for (const int64_t position : positions) {
    check_node("degree", position, path.nodes);
    const int64_t arcs = (position > 0) + (position + 1 < path.nodes);
    rows.in.push_back(degree_row(path.degree, arcs));
  }
  rows.out = rows.in;
  return rows;
}

}  // namespace gnomon::model
