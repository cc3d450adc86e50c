#include "apps/lab/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/words.h"
#include "gnomon/plot/captions.h"
#include "gnomon/plot/pictures.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

plot::Cells steps(const char* title, std::int64_t step) {
  return {.title = title, .labels = {}, .first = 0, .step = static_cast<double>(step)};
}

plot::Matrix matrix(const std::vector<std::vector<double>>& rows) {
  plot::Matrix matrix;
  matrix.rows = std::ssize(rows);
  for (const std::vector<double>& row : rows) {
    matrix.columns = std::ssize(row);
    matrix.values.insert(matrix.values.end(), row.begin(), row.end());
  }
  return matrix;
}

bool all_finite(const std::vector<double>& numbers) {
  return std::ranges::all_of(numbers, [](double one) { return std::isfinite(one); });
}

std::string step_note(std::int64_t step) {
  return step == 1
             ? std::string()
             : fmt::format(" The picture has the positions 0, {}, {}, ...", step, 2 * step);
}

void add_table(plot::HtmlPage& page, const Picture& picture, std::size_t name) {
  const plot::Matrix table = matrix(picture.table->values);
  const plot::Cells rows = steps("position", picture.table->row_step),
                    columns = steps("channel", picture.table->column_step);
  const std::string text = "The vectors added to the embeddings. ";
  const auto caption = [&] {
    return plot::table_caption(table, picture.table->row_step, picture.table->column_step);
  };
  if (!picture.initial_table) {
    page.figure(
        {.id = fmt::format("table-{}", name),
         .title = "Position table",
         .caption = text + caption(),
         .spec = plot::table_picture({.values = table, .rows = rows, .columns = columns})});
    return;
  }
  const plot::Matrix before = matrix(picture.initial_table->values);
  page.figure(
      {.id = fmt::format("table-{}", name),
       .title = "Position table before and after training",
       .caption = text + plot::change_caption(before, table) + " After training: " + caption(),
       .spec = plot::panels_picture(
           {.panels = {{"before training", before}, {"after training", table}},
            .rows = rows,
            .columns = columns,
            .colours = plot::Colours::diverging})});
}

// One line for each head: solid after training, dashed before.
void add_trained_bias(plot::HtmlPage& page, const Picture& picture, const Settings& settings,
                      std::size_t name) {
  const std::string_view unit = position_unit(settings);
  const std::vector<double> distances(picture.bias->distances.begin(),
                                      picture.bias->distances.end());
  plot::LineChart lines{.x = {.title = fmt::format("distance ({})", unit)},
                        .y = {.title = "bias"}};
  lines.rule = plot::Rule{static_cast<double>(settings.train_length), "training length"};
  lines.solid = "after training";
  lines.dashed = "before training";
  for (std::size_t head = 0; head < picture.bias->heads.size(); ++head) {
    plot::Series after{.name = fmt::format("head {}", head + 1),
                       .x = distances,
                       .y = picture.bias->heads[head]};
    plot::Series before = after;
    before.y = picture.initial_bias->heads[head];
    before.stroke = plot::Stroke::dashed;
    lines.series.push_back(before);
    lines.series.push_back(after);
  }
  const plot::Matrix after = matrix(picture.bias->heads);
  page.figure({.id = fmt::format("bias-{}", name),
               .title = "Bias by distance before and after training",
               .caption = fmt::format("Bias of the first layer by distance in {}. ", unit) +
                          plot::change_caption(matrix(picture.initial_bias->heads), after) +
                          " After training: " +
                          plot::bias_caption({.distances = distances, .values = after}),
               .spec = plot::lines(lines)});
}

void add_pictures(plot::HtmlPage& page, const RunResult& run, const Settings& settings,
                  std::size_t name) {
  const Picture& picture = run.picture;
  if (picture.table) add_table(page, picture, name);
  if (picture.similarity)
    page.figure({.id = fmt::format("similarity-{}", name),
                 .title = "Similarity of positions",
                 .caption = std::string("Cosine of two rows of the table") +
                            (picture.initial_table ? " after training. " : ". ") +
                            plot::similarity_caption(matrix(picture.similarity->values),
                                                     picture.similarity->row_step) +
                            step_note(picture.similarity->row_step),
                 .spec = plot::similarity_picture(
                     {.values = matrix(picture.similarity->values),
                      .positions = steps("position", picture.similarity->row_step),
                      .title = "cosine"})});
  if (picture.rotary && all_finite(picture.rotary->scores)) {
    const std::vector<double> distances(picture.rotary->distances.begin(),
                                        picture.rotary->distances.end());
    page.figure(
        {.id = fmt::format("rotary-{}", name),
         .title = "Score by distance",
         .caption = "Score of a query and a key of ones, relative to distance 0, by the "
                    "definition. " +
                    plot::curve_caption("All elements 1", distances, picture.rotary->scores),
         .spec = plot::rotary_picture(
             {.distances = distances, .all_ones = picture.rotary->scores})});
  }
  if (!picture.bias) return;
  if (picture.initial_bias) {
    add_trained_bias(page, picture, settings, name);
    return;
  }
  const plot::BiasPicture bias{
      .distances = {picture.bias->distances.begin(), picture.bias->distances.end()},
      .values = matrix(picture.bias->heads)};
  page.figure(
      {.id = fmt::format("bias-{}", name),
       .title = "Bias by distance",
       .caption =
           fmt::format("Bias of the first layer by distance in {}. ", position_unit(settings)) +
           plot::bias_caption(bias) +
           (run.position_parameters == 0
                ? " The definition gives the bias, and training does not change it."
                : ""),
       .spec = plot::bias_picture(bias)});
}

// "layer 1, head 2"
std::string head_name(const HeadAttention& one) {
  return fmt::format("layer {}, head {}", one.layer + 1, one.head + 1);
}

// The shares of the attention weights by distance, one row for each head.
void add_heads(plot::HtmlPage& page, const TrainedAttention& attention, const std::string& unit,
               std::size_t name) {
  if (attention.heads.empty()) return;
  if (!std::ranges::all_of(attention.heads, [](const HeadAttention& one) {
        return std::isfinite(one.mean_distance) && all_finite(one.shares);
      })) {
    page.note("Without attention by distance: the model diverged, and weights are not finite.");
    return;
  }
  plot::Cells rows, columns{.title = "distance (" + unit + ")"};
  rows.labels = mapped(attention.heads, head_name);
  const auto shares = mapped(attention.heads, &HeadAttention::shares);
  std::int64_t begin = 0;
  for (const std::int64_t end : attention.range_ends) {
    columns.labels.push_back(begin == end ? std::to_string(end)
                                          : fmt::format("{}\u2013{}", begin, end));
    begin = end + 1;
  }
  const auto [nearest, farthest] =
      std::ranges::minmax_element(attention.heads, {}, &HeadAttention::mean_distance);
  constexpr std::int64_t near = 7;  // the end of a range
  std::int64_t local = 0;
  for (const HeadAttention& one : attention.heads) {
    double share = 0;
    for (std::size_t i = 0; i < one.shares.size() && attention.range_ends[i] <= near; ++i)
      share += one.shares[i];
    local += share > 0.5;
  }
  page.figure(
      {.id = fmt::format("heads-{}", name),
       .title = "Attention by distance of each head",
       .caption = fmt::format(
           "Share of the attention weights by the distance between query and key, for the "
           "queries in the second half of windows of the training length. Each row sums to 1. "
           "The mean distance is {:.1f} ({}) to {:.1f} {} ({}). {} of {} heads have more "
           "than half of their weights at distances up to {}.",
           nearest->mean_distance, head_name(*nearest), farthest->mean_distance, unit,
           head_name(*farthest), local, attention.heads.size(),
           std::min(near, attention.range_ends.back())),
       .spec = plot::heatmap({.values = matrix(shares),
                              .rows = rows,
                              .columns = columns,
                              .title = "share of the weights",
                              .range = plot::Range{0, 1},
                              .height = static_cast<int>(
                                  std::clamp<std::size_t>(18 * shares.size(), 80, 900))})});
}

void add_maps(plot::HtmlPage& page, const TrainedAttention& attention, const std::string& unit,
              std::size_t name) {
  for (const AttentionMap& map : attention.maps)
    page.figure({.id = fmt::format("attention-{}-{}", name, map.layer),
                 .title = fmt::format("Attention weights, layer {}, head {}", map.layer + 1,
                                      map.head + 1),
                 .caption = fmt::format("Rows are queries, columns are keys, for {} {} of the "
                                        "test text. The head is the one of this layer with the "
                                        "lowest entropy of its weights.",
                                        map.weights.size(), unit),
                 .spec = plot::heatmap({.values = matrix(map.weights),
                                        .rows = steps("query", 1),
                                        .columns = steps("key", 1),
                                        .title = "weight",
                                        .range = plot::Range{0, 1},
                                        .aspect = 1})});
}

}  // namespace

void add_encodings(plot::HtmlPage& page, const Results& results) {
  page.heading(results.settings.finetune.empty() ? "The trained encodings"
                                                 : "Encodings of the models");
  const std::string unit(position_unit(results.settings));
  std::size_t number = 0;
  for (const EncodingResult& one : results.encodings) {
    ++number;
    page.subheading(one.title);
    page.paragraph(fmt::format("{}. Where position enters: {}.{}", capitalized(one.summary),
                               one.enters, one.source.empty() ? "" : " " + one.source + "."));
    const RunResult& run = *find_by(results.runs, &RunResult::encoding, one.name);
    if (!run.trainer.empty())
      page.paragraph("Trained by: " + internal::printable(run.trainer) + ".");
    add_pictures(page, run, results.settings, number);
    if (run.attention) {
      add_heads(page, *run.attention, unit, number);
      add_maps(page, *run.attention, unit, number);
    }
    page.note(fmt::format("`{}`", one.specification.dump()));
  }
}

}  // namespace gnomon::lab
