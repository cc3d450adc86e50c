#include "apps/cli/drawings.h"
#include "apps/cli/tensors.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <random>

#include "apps/cli/arguments.h"
#include "gnomon/analysis/decay.h"
#include "gnomon/analysis/similarity.h"
#include "gnomon/analysis/spectrum.h"
#include "gnomon/embedding/grid.h"
#include "gnomon/error.h"
#include "gnomon/plot/captions.h"
#include "gnomon/plot/pictures.h"
#include "src/verdicts/encoding_matrices.h"

namespace gnomon::cli {

using verdicts::encoding_matrices;
using verdicts::EncodingMatrices;
namespace {

using std::int64_t;
using Matrix = Tensor<float, 2>;

std::string usual_kind(const PlotOptions& o) { return o.kind.empty() ? "sinusoidal" : o.kind; }

// The table of an absolute encoding, the table of --parameters, or that of the small ViT.
struct Table {
  std::unique_ptr<Matrix> values;
  std::string title, note;
};
Table table_of(const PlotOptions& o, int64_t length, int64_t dim) {
  const std::string kind = usual_kind(o);
  if (o.parameters || kind == "vit") {
    const char* reason = o.parameters ? "if --parameters gives the table" : "for vit";
    refuse_with(o.parameters && !o.kind.empty(), "KIND", reason);
    refuse_with(o.dim.has_value(), "--dim", reason);
    refuse_with(o.length.has_value(), "--length", reason);
  }
  if (o.parameters) return {read_matrix(*o.parameters), *o.parameters, ""};
  if (kind == "vit") {
    auto values =
        std::make_unique<Matrix>(std::array<std::ptrdiff_t, 2>{vit_side * vit_side, vit_width});
    const std::vector<float> trained = vit_positions();
    std::copy(trained.begin(), trained.end(), values->values.begin());
    return {
        std::move(values), "Small ViT",
        " Trained to restore hidden patches of drawn shapes, 8 x 8 patches of 4 x 4 pixels; "
        "position 8 y + x is the patch in row y, column x."};
  }
  EncodingMatrices matrices =
      encoding_matrices(kind, {.width = dim, .heads = 1, .trained = length, .length = length});
  if (!model::includes(matrices.info->enters, model::Place::embeddings))
    refuse("plot", "KIND must be an encoding that is added to the embeddings", kind);
  return {std::move(matrices.table), std::string(matrices.info->title),
          parameter_note(matrices)};
}

plot::Figure draw_table(const PlotOptions& o) {
  const Table table = table_of(o, o.length.value_or(50), o.dim.value_or(128));
  const plot::Matrix values{View<const float, 2>(table.values->view)};
  return {.id = "table",
          .title = table.title + ": table",
          .caption = plot::table_caption(values) + table.note,
          .spec = plot::table_picture(values)};
}

plot::Figure draw_similarity(const PlotOptions& o) {
  const Table table = table_of(o, o.length.value_or(128), o.dim.value_or(128));
  const int64_t rows = table.values->view.extent(0);
  Tensor<double, 2> similarity({rows, rows});
  analysis::similarity_matrix(View<const float, 2>(table.values->view),
                              analysis::Similarity::cosine, similarity.view);
  const plot::Matrix values{View<const double, 2>(similarity.view)};
  return {
      .id = "similarity",
      .title = table.title + ": similarity of all pairs of positions",
      .caption = "Cosine similarity of rows. " + plot::similarity_caption(values) + table.note,
      .spec = plot::similarity_picture({.values = values, .title = "cosine"})};
}

// Parses "2,3;8,16" as cells y, x of a grid.
std::vector<std::pair<int64_t, int64_t>> parse_cells(const std::string& text, int64_t height,
                                                     int64_t width) {
  std::vector<std::pair<int64_t, int64_t>> cells;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    int64_t y = -1, x = -1;
    const auto first = std::from_chars(at, end, y);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != ',')
      refuse("plot", "--cells must be y,x;y,x", text);
    const auto second = std::from_chars(first.ptr + 1, end, x);
    if (second.ec != std::errc() || (second.ptr != end && *second.ptr != ';'))
      refuse("plot", "--cells must be y,x;y,x", text);
    if (y < 0 || y >= height || x < 0 || x >= width)
      refuse("plot", fmt::format("--cells must be in the grid of {}x{}", height, width), text);
    cells.emplace_back(y, x);
    at = second.ptr == end ? end : second.ptr + 1;
  }
  if (cells.empty()) refuse("plot", "--cells must have at least one cell", text);
  return cells;
}

plot::Figure draw_grid(const PlotOptions& o) {
  const bool vit = o.kind == "vit";
  if (!o.kind.empty() && !vit && o.kind != "sinusoidal")
    refuse("plot", "KIND of grid must be sinusoidal or vit", o.kind);
  const auto [height, width] =
      vit ? std::pair(vit_side, vit_side) : parse_grid(o.grid.value_or("16x32"));
  refuse_with(vit && o.grid, "--grid", "for vit");
  Table table;
  if (vit || o.parameters) {
    table = table_of(o, 0, 0);
    if (table.values->view.extent(0) != height * width)
      refuse("plot",
             fmt::format("the table must have a row for each of {}x{} cells", height, width),
             table.values->view.extent(0));
  } else {
    const int64_t dim = o.dim.value_or(128);
    table = {std::make_unique<Matrix>(std::array<std::ptrdiff_t, 2>{height * width, dim}),
             "Sinusoidal on a grid", ""};
    fill(grid_mae(dim), grid(height, width), table.values->view);
  }
  plot::GridPicture picture{.height = height, .width = width, .chosen = {}, .title = "cosine"};
  const std::string usual = fmt::format("{},{};{},{};{},{}", height / 8, width / 8, height / 2,
                                        width / 2, height * 13 / 16, width * 13 / 16);
  for (const auto& [y, x] : parse_cells(o.cells.value_or(usual), height, width))
    picture.chosen.push_back(
        {.y = y,
         .x = x,
         .similarity = analysis::similarity_to(View<const float, 2>(table.values->view),
                                               y * width + x, analysis::Similarity::cosine)});
  return {.id = "grid",
          .title = table.title + ": similarity of chosen cells with all others",
          .caption = plot::grid_caption(picture) + table.note,
          .spec = plot::grid_picture(picture)};
}

Rotary rotary_of(const PlotOptions& o) {
  return {.rotary_dim = o.dim.value_or(128),
          .pairing = Pairing::halves,
          .base = o.base.value_or(10'000)};
}

// Mean and deviation of scores of `samples` pairs of a query and a key, divided by `unit`.
// `draw`: returns a random element.
template <typename Draw>
plot::RotaryPicture::Sample sample(std::string name, const std::vector<double>& frequencies,
                                   int64_t length, double unit, Draw&& draw) {
  constexpr int samples = 64;
  std::vector<double> sums(static_cast<std::size_t>(length)), squares = sums;
  std::vector<double> even(frequencies.size()), odd = even;  // score = sum even cos + odd sin
  for (int s = 0; s < samples; ++s) {
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double a = draw(), b = draw(), c = draw(), d = draw();  // query a, b; key c, d
      even[i] = a * c + b * d;
      odd[i] = a * d - b * c;
    }
    for (std::size_t t = 0; t < sums.size(); ++t) {
      double score = 0;
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        const double angle = static_cast<double>(t) * frequencies[i];
        score += even[i] * std::cos(angle) + odd[i] * std::sin(angle);
      }
      sums[t] += score / unit;
      squares[t] += (score / unit) * (score / unit);
    }
  }
  plot::RotaryPicture::Sample result{std::move(name), {}, {}, {}};
  for (std::size_t t = 0; t < sums.size(); ++t) {
    const double mean = sums[t] / samples;
    const double deviation = std::sqrt(std::max(0.0, squares[t] / samples - mean * mean));
    result.mean.push_back(mean);
    result.low.push_back(mean - deviation);
    result.high.push_back(mean + deviation);
  }
  return result;
}

plot::Figure draw_rotary(const PlotOptions& o) {
  const std::vector<double> frequencies = inverse_frequencies(rotary_of(o));
  const int64_t length = o.length.value_or(512);
  if (length < 2 || length > 65536) refuse("plot", "--length must be 2 to 65536", length);
  plot::RotaryPicture picture{.distances = {}, .title = "relative score"};
  for (int64_t d = 0; d < length; ++d) picture.distances.push_back(static_cast<double>(d));
  picture.all_ones = analysis::rotary_score_of_ones(frequencies, length);
  std::mt19937_64 engine(1);
  const auto uniform = [&] { return (static_cast<double>(engine() >> 11) + 0.5) * 0x1p-53; };
  const auto normal = [&] {
    const double u = uniform(), v = uniform();
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
  };
  const double elements = 2 * static_cast<double>(frequencies.size());
  picture.samples.push_back(
      sample("uniform in [0, 1]", frequencies, length, elements / 4, uniform));
  picture.samples.push_back(sample("normal", frequencies, length, elements, normal));
  std::string caption =
      plot::curve_caption("All elements 1", picture.distances, picture.all_ones) + " ";
  for (const auto& one : picture.samples)
    caption += plot::curve_caption("Mean, " + one.name, picture.distances, one.mean) + " ";
  caption += fmt::format(
      "Random elements of query and key are independent (64 pairs, seed 1); the band is one "
      "standard deviation. Scores are divided by {0:g} (ones; normal, deviation 1) and {1:g} "
      "(uniform, the expected score at distance 0). The expected score is that of the ones for "
      "the uniform elements, and 0 at every distance for the normal elements, whose mean is 0.",
      elements, elements / 4);
  return {.id = "rotary",
          .title = fmt::format("Rotary scores by distance: {} elements, base {:g}",
                               2 * frequencies.size(), o.base.value_or(10'000)),
          .caption = caption,
          .spec = plot::rotary_picture(picture)};
}

plot::Figure draw_wavelengths(const PlotOptions& o) {
  const std::vector<double> frequencies = inverse_frequencies(rotary_of(o));
  const int64_t length = o.length.value_or(4096);
  const double base = o.base.value_or(10'000);
  const auto unfinished = analysis::unfinished(frequencies, length).size();
  return {
      .id = "wavelengths",
      .title = fmt::format("Wavelengths: {} elements, base {:g}", 2 * frequencies.size(), base),
      .caption = fmt::format("{} of {} pairs do not complete a rotation within {} "
                             "positions. At later positions these pairs have new angles.",
                             unfinished, frequencies.size(), length),
      .spec = plot::wavelength_picture(
          {.specs = {{.name = fmt::format("base {:g}", base),
                      .wavelengths = analysis::wavelengths(frequencies)}},
           .context = static_cast<double>(length)})};
}

}  // namespace

void refuse_with(bool given, const char* option, const char* reason) {
  if (given)
    refuse("plot", fmt::format("{} has no effect {} and must not be given", option, reason),
           option);
}

std::string parameter_note(const EncodingMatrices& matrices) {
  const auto parameters = model::parameters(matrices.encoding);
  if (!matrices.random || parameters.empty()) return "";
  for (const model::Parameter& one : parameters)
    if (one.initial_deviation != 0)
      return " The parameters are random numbers (normal, fixed seed), not trained values.";
  return " The parameters have their initial values, not trained values.";
}

const std::vector<Drawing>& drawings() {
  static const std::vector<Drawing> all{
      {"table", "table", draw_table},
      {"similarity", "similarity", draw_similarity},
      {"grid", "grid", draw_grid},
      {"rotary", "decay", draw_rotary},
      {"wavelengths", "wavelengths", draw_wavelengths},
      {"bias", "bias", draw_bias},
      {"attention", "attention", draw_attention},
      {"shuffled", "shuffled", draw_shuffled},
  };
  return all;
}

}  // namespace gnomon::cli
