// The charts of scores: biases and attention weights.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/cli/drawings.h"
#include "apps/cli/tensors.h"
#include "gnomon/analysis/order.h"
#include "gnomon/error.h"
#include "gnomon/plot/captions.h"
#include "gnomon/plot/pictures.h"
#include "src/verdicts/encoding_matrices.h"

namespace gnomon::cli {

using verdicts::depends_on_contents;
using verdicts::encoding_matrices;
using verdicts::EncodingMatrices;

using std::int64_t;

plot::Figure draw_bias(const PlotOptions& o) {
  const std::string kind = o.kind.empty() ? "alibi" : o.kind;
  const int64_t length = o.length.value_or(128), count = o.heads.value_or(8);
  EncodingMatrices matrices = encoding_matrices(
      kind, {.width = count * 2, .heads = count, .trained = length, .length = length});
  if (!model::includes(matrices.info->enters, model::Place::scores) ||
      depends_on_contents(*matrices.info))
    refuse("plot", "KIND must be an encoding that adds a bias to the scores", kind);
  if (o.parameters) {
    if (model::parameters(matrices.encoding).size() != 1)
      refuse("plot", fmt::format("KIND with --parameters must have one matrix of parameters"),
             kind);
    matrices.parameters.clear();
    matrices.parameters.push_back(read_matrix(*o.parameters));
    matrices.random = false;
  }
  const BiasForm bias = matrices.lowered({length, length}).bias;
  const std::string title(matrices.info->title), note = parameter_note(matrices);
  if (const auto* window = std::get_if<GridBias>(&bias)) {
    const int64_t offsets = (2 * window->height - 1) * (2 * window->width - 1);
    plot::BiasGridPicture picture;
    picture.height = window->height, picture.width = window->width;
    picture.values = plot::Matrix(window->heads, offsets, {});
    for (int64_t h = 0; h < window->heads; ++h) {
      const auto row = window->values.begin() + h * window->offsets();
      picture.values.values.insert(picture.values.values.end(), row, row + offsets);
    }
    return {
        .id = "bias",
        .title = title + ": bias by offset and head",
        .caption = fmt::format("The value that each head adds to the score of a key, by the "
                               "offset of the cells in a window of {} x {}.{}{}",
                               window->height, window->width,
                               window->leading ? " The biases of the class token "
                                                 "are not drawn."
                                               : "",
                               note),
        .spec = plot::bias_grid_picture(picture)};
  }
  Tensor<double, 3> last({heads(bias), 1, length});
  dense(bias, length - 1, last.view);
  plot::BiasPicture picture;
  picture.values = plot::Matrix(heads(bias), length, {});
  for (int64_t d = 0; d < length; ++d) picture.distances.push_back(static_cast<double>(d));
  for (int64_t h = 0; h < heads(bias); ++h)
    for (int64_t d = 0; d < length; ++d)
      picture.values.values.push_back(last.view(h, 0, length - 1 - d));
  std::string caption = plot::bias_caption(picture);
  if (std::holds_alternative<PiecewiseLogBias>(bias) ||
      std::holds_alternative<AxesBias>(bias) || std::holds_alternative<DenseBias>(bias))
    caption +=
        fmt::format(" The bias also depends on the query; here at position {}.", length - 1);
  return {.id = "bias",
          .title = title + ": bias by distance and head",
          .caption = caption + note,
          .spec = plot::bias_picture(picture)};
}

plot::Figure draw_attention(const PlotOptions& o) {
  constexpr int64_t few = 8;  // heads; the first one is drawn
  const std::string kind = o.kind.empty() ? "rotary" : o.kind;
  const int64_t tokens = o.length.value_or(32), size = o.dim.value_or(32);
  if (tokens < 2 || tokens > 256) refuse("plot", "--length must be 2 to 256", tokens);
  const EncodingMatrices matrices = encoding_matrices(
      kind, {.width = few * size, .heads = few, .trained = tokens, .length = tokens});
  const LayerPlan lowered = matrices.lowered({tokens, tokens});
  const analysis::OrderContent content{
      .tokens = tokens, .heads = few, .head_dim = size, .shared = 0.75};
  Tensor<double, 3> without({few, tokens, tokens}), with({few, tokens, tokens});
  analysis::attention_weights(content, {}, Visibility::causal, without.view);
  analysis::attention_weights(content, lowered, Visibility::causal, with.view);
  const std::string title(matrices.info->title);
  const plot::AttentionPicture picture{.without = View<const double, 2>(without.view[0]),
                                       .with = View<const double, 2>(with.view[0]),
                                       .with_title = "with " + title};
  return {
      .id = "attention",
      .title = "Attention weights, without and with " + title,
      .caption =
          "Causal softmax weights of the first of 8 heads. Contents are random (normal, fixed "
          "seed), and all tokens share three quarters of the variance. Queries equal keys. " +
          plot::attention_caption(picture) + parameter_note(matrices),
      .spec = plot::attention_picture(picture)};
}

namespace {

constexpr int64_t word_count = 5;
constexpr const char* sentence[word_count] = {"the", "dog", "bites", "the", "man"};
constexpr int64_t word_ids[word_count] = {0, 1, 2, 0, 3};
constexpr int64_t shuffled[word_count] = {3, 4, 2, 0, 1};  // "the man bites the dog"

// Weights of the first head for the words in the order `from`, with rows and columns in the
// order of the first text.
plot::Matrix weights_of_words(const LayerPlan& plan, int64_t heads, int64_t size,
                              const int64_t* from) {
  analysis::OrderContent content{
      .tokens = word_count, .heads = heads, .head_dim = size, .shared = 0.75};
  for (int64_t i = 0; i < word_count; ++i) content.words.push_back(word_ids[from[i]]);
  Tensor<double, 3> all({heads, word_count, word_count});
  analysis::attention_weights(content, plan, Visibility::bidirectional, all.view);
  plot::Matrix matrix(word_count, word_count, std::vector<double>(word_count * word_count));
  for (int64_t i = 0; i < word_count; ++i)
    for (int64_t j = 0; j < word_count; ++j)
      matrix.values[static_cast<std::size_t>(from[i] * word_count + from[j])] =
          all.view(0, i, j);
  return matrix;
}

double largest_difference(const plot::Matrix& a, const plot::Matrix& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i)
    largest = std::max(largest, std::abs(a.values[i] - b.values[i]));
  return largest;
}

}  // namespace

plot::Figure draw_shuffled(const PlotOptions& o) {
  constexpr int64_t few = 8;  // heads; the first one is drawn
  constexpr int64_t same[word_count] = {0, 1, 2, 3, 4};
  const std::string kind = o.kind.empty() ? "rotary" : o.kind;
  const int64_t size = o.dim.value_or(32);
  const EncodingMatrices matrices = encoding_matrices(
      kind, {.width = few * size, .heads = few, .trained = word_count, .length = word_count});
  const LayerPlan lowered = matrices.lowered({word_count, word_count});
  const std::string title(matrices.info->title);
  const plot::Cells labels{.title = "", .labels = {sentence, sentence + word_count}};
  plot::PanelsPicture picture{
      .panels = {}, .rows = labels, .columns = labels, .title = "weight"};
  picture.rows.title = "query", picture.columns.title = "key";
  picture.panels = {{"no position", weights_of_words({}, few, size, same)},
                    {"no position, shuffled", weights_of_words({}, few, size, shuffled)},
                    {title, weights_of_words(lowered, few, size, same)},
                    {title + ", shuffled", weights_of_words(lowered, few, size, shuffled)}};
  const auto change = [&](std::size_t panel) {
    const double largest =
        largest_difference(picture.panels[panel].values, picture.panels[panel + 1].values);
    return largest < 1e-12 ? "0 up to rounding" : fmt::format("{:.2g}", largest);
  };
  return {
      .id = "shuffled",
      .title = "A text and its words in another order: " + title,
      .caption = fmt::format(
          "Weights for `the dog bites the man` and, shuffled, for `the man bites the dog`; "
          "all rows and columns have the order of the first text. The largest change of a "
          "weight is {} without position and {} with {}. Bidirectional softmax "
          "weights of the first of 8 heads; each word is a random vector (normal, fixed "
          "seed), and all words share three quarters of the variance. Queries equal keys.{}",
          change(0), change(2), title, parameter_note(matrices)),
      .spec = plot::panels_picture(picture)};
}

}  // namespace gnomon::cli
