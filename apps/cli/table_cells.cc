// Tables of `gnomon table` for the cells of a grid and the nodes of a graph.
#include <functional>
#include <numeric>
#include <utility>

#include "apps/cli/arguments.h"
#include "apps/cli/graph_file.h"
#include "apps/cli/table.h"
#include "apps/cli/tensors.h"
#include "gnomon/embedding/detr.h"
#include "gnomon/embedding/fourier.h"
#include "gnomon/embedding/grid.h"
#include "gnomon/embedding/laplacian.h"
#include "gnomon/embedding/random_walk.h"
#include "gnomon/error.h"
#include "gnomon/graph/laplacian_vectors.h"
#include "gnomon/rotary/axial.h"

namespace gnomon::cli {
namespace {

std::string recipe_of(const TableOptions& o, const char* usual) {
  return o.recipe.empty() ? usual : o.recipe;
}

std::int64_t count_of(const Integers& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

// Cells of a grid of any number of axes, in row-major order.
Grid cells_of(const Integers& extents) {
  Grid grid{.cells = count_of(extents), .axes = std::ssize(extents), .coordinates = {}};
  grid.coordinates.resize(elements_that_fit({grid.cells, grid.axes}, sizeof(std::int64_t)));
  for (std::int64_t cell = 0; cell < grid.cells; ++cell)
    for (std::int64_t axis = grid.axes - 1, rest = cell; axis >= 0; --axis) {
      const std::int64_t extent = extents[static_cast<std::size_t>(axis)];
      grid.coordinates[static_cast<std::size_t>(cell * grid.axes + axis)] = rest % extent;
      rest /= extent;
    }
  return grid;
}

template <typename T>
void put_cells(const TableOptions& o, const SinusoidalGrid& spec, const Integers& extents,
               Json facts) {
  facts["grid"] = extents;
  Tensor<T, 2> out({count_of(extents), width(spec)});
  fill(spec, cells_of(extents), out.view);
  put_array(o.output, out.array(), facts);
}

// Values in double, rounded once.
template <typename T>
void put_doubles(const TableOptions& o, View<const double, 2> values, const Json& facts) {
  Tensor<T, 2> out({values.extent(0), values.extent(1)});
  for (std::ptrdiff_t i = 0; i < values.extent(0); ++i)
    for (std::ptrdiff_t j = 0; j < values.extent(1); ++j)
      out.view(i, j) = static_cast<T>(values(i, j));
  put_array(o.output, out.array(), facts);
}

Graph graph_of(const TableOptions& o) {
  return read_graph(o.graph, o.directed ? EdgeKind::directed : EdgeKind::undirected);
}

}  // namespace

void put_axial_rotary(const TableOptions& o, Json facts) {
  using rotary::cogvideox, rotary::lumina, rotary::pixtral_vision, rotary::qwen_vl_vision,
      rotary::sam2_memory, rotary::wan;
  using Make = AxialRotary (*)(std::int64_t, double);
  const Names<std::pair<Make, std::size_t>> recipes{{"pixtral", {pixtral_vision, 2}},
                                                    {"qwen-vl", {qwen_vl_vision, 2}},
                                                    {"sam2", {sam2_memory, 2}},
                                                    {"lumina", {lumina, 2}},
                                                    {"wan", {wan, 3}},
                                                    {"cogvideox", {cogvideox, 3}}};
  const auto [make, axes] = parse_name("recipe", recipes, recipe_of(o, "none"));
  const Integers extents = parse_extents(o.grid, axes, axes);
  elements_that_fit({2, count_of(extents), o.dim}, sizeof(float));
  const RotaryTable table(lower(make(o.dim, o.base)), cells_of(extents));
  const auto cos = table.cos();
  Tensor<float, 3> out({2, cos.extent(1), cos.extent(2)});
  for (std::ptrdiff_t n = 0; n < cos.extent(1); ++n)
    for (std::ptrdiff_t i = 0; i < cos.extent(2); ++i) {
      out.view(0, n, i) = cos(0, n, i);
      out.view(1, n, i) = table.sin()(0, n, i);
    }
  facts["grid"] = extents;
  facts["recipe"] = o.recipe;
  facts["pairing"] = table.frequencies().pairing == Pairing::halves ? "halves" : "adjacent";
  put_array(o.output, out.array(), facts);
}

template <typename T>
void put_grid2d(const TableOptions& o, Json facts) {
  enum class Recipe { mae = 1, detr };
  const auto [height, width] = parse_grid(o.grid);
  const std::string recipe = recipe_of(o, "mae");
  facts["recipe"] = recipe;
  if (parse_name<Recipe>("recipe", {{"mae", Recipe::mae}, {"detr", Recipe::detr}}, recipe) ==
      Recipe::mae)
    return put_cells<T>(o, grid_mae(o.dim, o.base), {height, width}, facts);
  const SinusoidalGrid spec = grid_detr(o.dim, o.base);
  facts["grid"] = {height, width};
  Tensor<T, 2> out({height * width, gnomon::width(spec)});
  const auto at = detr_coordinates(height, width, DetrScale::normalised);
  fill(spec, View<const double, 2>(at.data(), {height * width, 2}), out.view);
  put_array(o.output, out.array(), facts);
}

template <typename T>
void put_grid(const TableOptions& o, Json facts) {
  const Integers extents = parse_extents(o.grid, 1, 4);
  const auto axes = static_cast<std::int64_t>(extents.size());
  const bool summed = o.join == "summed";
  if (!summed && o.dim % axes != 0)
    refuse("table", "--dim must be a multiple of the number of axes, unless --join is summed",
           o.dim);
  SinusoidalGrid spec{.join = summed ? AxisJoin::summed : AxisJoin::concatenated, .axes = {}};
  for (std::int64_t axis = 0; axis < axes; ++axis)
    spec.axes.push_back(
        {.column = axis,
         .sinusoidal = {.width = summed ? o.dim : o.dim / axes,
                        .recipe = parse_name("recipe", recipes(), recipe_of(o, "interleaved")),
                        .base = o.base}});
  facts["recipe"] = recipe_of(o, "interleaved");
  facts["join"] = o.join;
  put_cells<T>(o, spec, extents, facts);
}

template <typename T>
void put_video(const TableOptions& o, Json facts) {
  enum class Recipe { cogvideox = 1, vjepa, videomae };
  const Recipe recipe = parse_name<Recipe>("recipe",
                                           {{"cogvideox", Recipe::cogvideox},
                                            {"vjepa", Recipe::vjepa},
                                            {"videomae", Recipe::videomae}},
                                           recipe_of(o, "none"));
  const Integers extents = parse_extents(o.grid, 3, 3);
  facts["recipe"] = o.recipe;
  if (recipe == Recipe::cogvideox)
    return put_cells<T>(o, grid_cogvideox(o.dim), extents, facts);
  if (recipe == Recipe::vjepa)
    return put_cells<T>(o, grid_vjepa(o.dim, VideoShares::thirds), extents, facts);
  // VideoMAE numbers all cells in one sequence.
  const SinusoidalGrid line{
      .join = AxisJoin::concatenated,
      .axes = {{.column = 0,
                .sinusoidal = {.width = o.dim, .recipe = SinusoidalRecipe::interleaved}}}};
  put_cells<T>(o, line, {extents[0] * extents[1] * extents[2]}, facts);
}

template <typename T>
void put_fourier(const TableOptions& o, Json facts) {
  const Integers extents = parse_extents(o.grid, 1, 4);
  const std::vector<double> resolution(extents.begin(), extents.end());
  const auto axes = static_cast<std::int64_t>(extents.size());
  const auto bands = parse_name<FourierBands>("recipe",
                                              {{"perceiver", FourierBands::perceiver},
                                               {"nerf", FourierBands::nerf},
                                               {"gaussian", FourierBands::gaussian}},
                                              recipe_of(o, "none"));
  if (bands != FourierBands::gaussian && (o.deviation || o.seed))
    refuse("table", "--deviation and --seed apply to --recipe gaussian", o.recipe);
  const Fourier spec = bands == FourierBands::perceiver ? fourier_perceiver(resolution, o.count)
                       : bands == FourierBands::nerf
                           ? fourier_nerf(axes, o.count)
                           : fourier_gaussian(axes, o.count, o.deviation.value_or(1),
                                              static_cast<std::uint64_t>(o.seed.value_or(1)));
  facts["recipe"] = o.recipe;
  facts["grid"] = extents, facts["count"] = o.count;
  const std::int64_t cells = count_of(extents);
  Tensor<T, 2> out({cells, features(spec)});  // throws first if it does not fit
  const std::vector<double> at = unit_coordinates(extents);
  fill(spec, View<const double, 2>(at.data(), {cells, axes}), out.view);
  put_array(o.output, out.array(), facts);
}

template <typename T>
void put_graph(const TableOptions& o, Json facts) {
  const Graph graph = graph_of(o);
  elements_that_fit({graph.nodes(), o.dim}, sizeof(double));
  if (o.kind == "random-walk") {
    const ReturnProbabilities found = return_probabilities({.steps = o.dim}, graph);
    return put_doubles<T>(o, found.view(), facts);
  }
  const LaplacianVectors found =
      laplacian_vectors({.vectors = o.dim,
                         .kind = o.laplacian == "symmetric" ? LaplacianKind::symmetric
                                                            : LaplacianKind::combinatorial,
                         .zeros = LaplacianZeros::skip_one,
                         .signs = LaplacianSigns::fixed},
                        graph);
  facts["laplacian"] = o.laplacian;
  facts["found"] = found.found, facts["eigenvalues"] = found.eigenvalues;
  put_doubles<T>(o, found.view(), facts);
}

void put_degrees(const TableOptions& o, Json facts) {
  const Graph graph = graph_of(o);
  const std::vector<std::int64_t> in = in_degrees(graph), arcs = out_degrees(graph);
  Tensor<std::int64_t, 2> out({graph.nodes(), 2});
  for (std::ptrdiff_t n = 0; n < graph.nodes(); ++n) {
    out.view(n, 0) = in[static_cast<std::size_t>(n)];
    out.view(n, 1) = arcs[static_cast<std::size_t>(n)];
  }
  put_array(o.output, out.array(), facts);
}

#define GNOMON_TABLES(T)                                   \
  template void put_grid2d<T>(const TableOptions&, Json);  \
  template void put_grid<T>(const TableOptions&, Json);    \
  template void put_video<T>(const TableOptions&, Json);   \
  template void put_fourier<T>(const TableOptions&, Json); \
  template void put_graph<T>(const TableOptions&, Json);
GNOMON_TABLES(float)
GNOMON_TABLES(double)
GNOMON_TABLES(Half)
GNOMON_TABLES(BFloat16)
#undef GNOMON_TABLES

}  // namespace gnomon::cli
