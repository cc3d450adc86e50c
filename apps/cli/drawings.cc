#include "apps/cli/drawings.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <memory>

#include "apps/cli/arguments.h"
#include "apps/cli/subject.h"
#include "gnomon/analysis/decay.h"
#include "gnomon/analysis/order.h"
#include "gnomon/analysis/similarity.h"
#include "gnomon/analysis/spectrum.h"
#include "gnomon/embedding/grid.h"
#include "gnomon/error.h"
#include "gnomon/plot/pictures.h"

namespace gnomon::cli {
namespace {

using std::int64_t;
using Matrix = Tensor<float, 2>;

int64_t or_else(int64_t given, int64_t usual) { return given ? given : usual; }

std::string usual_kind(const PlotOptions& o, const char* kind) {
  return o.kind.empty() ? kind : o.kind;
}

// The table of an absolute encoding, or the table of --parameters.
struct Table {
  std::unique_ptr<Matrix> values;
  std::string title;
};
Table table_of(const PlotOptions& o, int64_t length, int64_t dim) {
  if (!o.parameters.empty()) {
    auto values = read_matrix(o.parameters);
    return {std::move(values), o.parameters};
  }
  const std::string kind = usual_kind(o, "sinusoidal");
  Subject subject =
      make_subject(kind, {.width = dim, .heads = 1, .trained = length, .length = length});
  if (!model::includes(subject.info->enters, model::Place::embeddings))
    refuse("plot", "KIND must be an encoding that is added to the embeddings", kind);
  return {std::move(subject.table), std::string(subject.info->title)};
}

plot::Figure draw_table(const PlotOptions& o) {
  const Table table = table_of(o, or_else(o.length, 50), or_else(o.dim, 128));
  return {.id = "table",
          .title = table.title + ": table",
          .caption =
              "The table that is added to the embeddings: one row per position, one column per "
              "channel. The frequencies of a sinusoidal table decrease from left to right.",
          .spec = plot::table_picture(View<const float, 2>(table.values->view))};
}

plot::Figure draw_similarity(const PlotOptions& o) {
  const Table table = table_of(o, or_else(o.length, 128), or_else(o.dim, 128));
  const int64_t rows = table.values->view.extent(0);
  Tensor<double, 2> similarity({rows, rows});
  analysis::similarity_matrix(View<const float, 2>(table.values->view),
                              analysis::Similarity::cosine, similarity.view);
  return {.id = "similarity",
          .title = table.title + ": similarity of all pairs of positions",
          .caption =
              "Cosine similarity of rows. Constant along diagonals: depends on the distance "
              "only. Smaller away from the diagonal: near positions are more similar.",
          .spec = plot::similarity_picture({.values = View<const double, 2>(similarity.view),
                                            .title = "cosine",
                                            .range = plot::Range{-1, 1}})};
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
  const auto [height, width] = parse_grid(o.grid.empty() ? "16x32" : o.grid);
  std::unique_ptr<Matrix> table;
  std::string title = "Sinusoidal on a grid";
  if (o.parameters.empty()) {
    const int64_t dim = or_else(o.dim, 128);
    table = std::make_unique<Matrix>(std::array<std::ptrdiff_t, 2>{height * width, dim});
    fill(grid_mae(dim), grid(height, width), table->view);
  } else {
    table = read_matrix(o.parameters);
    title = o.parameters;
    if (table->view.extent(0) != height * width)
      refuse("plot",
             fmt::format("the table must have a row for each of {}x{} cells", height, width),
             table->view.extent(0));
  }
  plot::GridPicture picture{.height = height, .width = width, .chosen = {}, .title = "cosine"};
  for (const auto& [y, x] : parse_cells(o.cells, height, width))
    picture.chosen.push_back(
        {.y = y,
         .x = x,
         .similarity = analysis::similarity_to(View<const float, 2>(table->view), y * width + x,
                                               analysis::Similarity::cosine)});
  return {
      .id = "grid",
      .title = title + ": similarity of chosen cells with all others",
      .caption = "Cosine similarity of the row of the marked cell and the row of each cell.",
      .spec = plot::grid_picture(picture)};
}

Rotary rotary_of(const PlotOptions& o) {
  return {.rotary_dim = or_else(o.dim, 128), .pairing = Pairing::halves, .base = o.base};
}

plot::Figure draw_rotary(const PlotOptions& o) {
  const std::vector<double> frequencies = inverse_frequencies(rotary_of(o));
  const int64_t length = or_else(o.length, 512);
  if (length < 2 || length > 65536) refuse("plot", "--length must be 2 to 65536", length);
  plot::RotaryPicture picture;
  for (int64_t d = 0; d < length; ++d) picture.distances.push_back(static_cast<double>(d));
  picture.all_ones = analysis::rotary_score_of_ones(frequencies, length);
  const auto random = analysis::rotary_score_of_normal(frequencies, length, 64);
  picture.random_mean = random.mean;
  for (std::size_t d = 0; d < random.mean.size(); ++d) {
    picture.random_low.push_back(random.mean[d] - random.deviation[d]);
    picture.random_high.push_back(random.mean[d] + random.deviation[d]);
  }
  return {.id = "rotary",
          .title = fmt::format("Rotary scores by distance: {} elements, base {:g}",
                               2 * frequencies.size(), o.base),
          .caption =
              "If all elements of query and key are 1, the score decreases with the distance, "
              "as in the papers. Scores of random vectors (mean and standard deviation of 64) "
              "do not decrease: the decay depends on the content.",
          .spec = plot::rotary_picture(picture)};
}

plot::Figure draw_wavelengths(const PlotOptions& o) {
  const std::vector<double> frequencies = inverse_frequencies(rotary_of(o));
  const int64_t length = or_else(o.length, 4096);
  if (length < 1) refuse("plot", "--length must be at least 1", length);
  const auto unfinished = analysis::unfinished(frequencies, length).size();
  return {.id = "wavelengths",
          .title = fmt::format("Wavelengths: {} elements, base {:g}", 2 * frequencies.size(),
                               o.base),
          .caption = fmt::format("{} of {} pairs never complete a full rotation within {} "
                                 "positions. At later positions these pairs have new angles.",
                                 unfinished, frequencies.size(), length),
          .spec = plot::wavelength_picture(
              {.specs = {{.name = fmt::format("base {:g}", o.base),
                          .wavelengths = analysis::wavelengths(frequencies)}},
               .context = static_cast<double>(length)})};
}

plot::Figure draw_bias(const PlotOptions& o) {
  const std::string kind = usual_kind(o, "alibi");
  const int64_t length = or_else(o.length, 128);
  Subject subject = make_subject(
      kind, {.width = o.heads * 2, .heads = o.heads, .trained = length, .length = length});
  if (!model::includes(subject.info->enters, model::Place::scores))
    refuse("plot", "KIND must be an encoding that adds a bias to the scores", kind);
  std::string title(subject.info->title);
  if (!o.parameters.empty()) {
    auto table = read_matrix(o.parameters);
    subject.parameters.clear();
    subject.parameters.push_back(std::move(table));
    subject.random = false;
  }
  const BiasForm bias = subject.lowered({length, length}).bias;
  Tensor<double, 3> last({heads(bias), 1, length});
  dense(bias, length - 1, last.view);
  plot::BiasPicture picture;
  picture.values = plot::Matrix(heads(bias), length, {});
  for (int64_t d = 0; d < length; ++d) picture.distances.push_back(static_cast<double>(d));
  for (int64_t h = 0; h < heads(bias); ++h)
    for (int64_t d = 0; d < length; ++d)
      picture.values.values.push_back(last.view(h, 0, length - 1 - d));
  return {.id = "bias",
          .title = title + ": bias by distance and head",
          .caption = subject.random
                         ? "Random values instead of a trained table (--parameters F.npy)."
                         : "The value that each head adds to the score of an earlier key.",
          .spec = plot::bias_picture(picture)};
}

plot::Figure draw_attention(const PlotOptions& o) {
  constexpr int64_t few = 8;  // heads; the first one is drawn
  const std::string kind = usual_kind(o, "rotary");
  const int64_t tokens = or_else(o.length, 32), size = or_else(o.dim, 32);
  if (tokens < 2 || tokens > 512) refuse("plot", "--length must be 2 to 512", tokens);
  const Subject subject = make_subject(
      kind, {.width = few * size, .heads = few, .trained = tokens, .length = tokens});
  const LayerPlan lowered = subject.lowered({tokens, tokens});
  const analysis::OrderContent content{
      .tokens = tokens, .heads = few, .head_dim = size, .shared = 0.75};
  Tensor<double, 3> without({few, tokens, tokens}), with({few, tokens, tokens});
  analysis::attention_weights(content, {}, Visibility::causal, without.view);
  analysis::attention_weights(content, lowered, Visibility::causal, with.view);
  return {.id = "attention",
          .title = "Attention weights, without and with " + std::string(subject.info->title),
          .caption =
              "Causal softmax weights of the first of 8 heads. Contents are random, and all "
              "tokens share three quarters of the variance. Queries equal keys. Each row sums "
              "to 1.",
          .spec = plot::attention_picture({.without = View<const double, 2>(without.view[0]),
                                           .with = View<const double, 2>(with.view[0])})};
}

}  // namespace

const std::vector<Drawing>& drawings() {
  static const std::vector<Drawing> all{
      {"table", draw_table},         {"similarity", draw_similarity},   {"grid", draw_grid},
      {"rotary", draw_rotary},       {"wavelengths", draw_wavelengths}, {"bias", draw_bias},
      {"attention", draw_attention},
  };
  return all;
}

}  // namespace gnomon::cli
