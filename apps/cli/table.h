// Tables of `gnomon table` whose positions are cells of a grid or nodes of a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/cli/arguments.h"
#include "apps/cli/output.h"
#include "gnomon/embedding/sinusoidal.h"

namespace gnomon::cli {

struct TableOptions {
  std::string kind, positions, recipe, pairing, grid, graph, laplacian = "combinatorial";
  std::string join = "concatenated", order = "sine-first", angles = "exact", dtype = "f32";
  std::int64_t dim = 0, step = 1, centre = 0, count = 0;
  std::optional<std::int64_t> seed;
  std::optional<double> deviation;
  double base = 10'000, shift = 1, scale = 1, scale_base = 512, gamma = 0.4;
  bool directed = false;
  OutputOptions output;
};

Names<SinusoidalRecipe> recipes();

void put_axial_rotary(const TableOptions& o, Json facts);  // float
// Write the table of the kind with elements of type T: float, double, Half, BFloat16.
template <typename T>
void put_grid2d(const TableOptions& o, Json facts);
template <typename T>
void put_grid(const TableOptions& o, Json facts);
template <typename T>
void put_video(const TableOptions& o, Json facts);
template <typename T>
void put_fourier(const TableOptions& o, Json facts);
template <typename T>
void put_graph(const TableOptions& o, Json facts);    // laplacian, random-walk
void put_degrees(const TableOptions& o, Json facts);  // std::int64_t

}  // namespace gnomon::cli
