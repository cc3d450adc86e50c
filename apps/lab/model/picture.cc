#include "apps/lab/model/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <variant>

#include "apps/lab/data/batches.h"
#include "gnomon/analysis/similarity.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

constexpr std::int64_t table_side = 128, similarity_side = 64, bias_points = 256, map_side = 40;

// A matrix [rows, columns], reduced to at most `most` rows and columns at regular intervals.
template <typename At>
SampledMatrix sampled(std::int64_t rows, std::int64_t columns, std::int64_t most, At&& at) {
  SampledMatrix matrix{std::max<std::int64_t>(1, (rows + most - 1) / most),
                       std::max<std::int64_t>(1, (columns + most - 1) / most),
                       {}};
  for (std::int64_t r = 0; r < rows; r += matrix.row_step) {
    std::vector<double>& row = matrix.values.emplace_back();
    for (std::int64_t c = 0; c < columns; c += matrix.column_step) row.push_back(at(r, c));
  }
  return matrix;
}

RotaryDecay rotary_decay(const RotaryTable& table, std::int64_t length) {
  RotaryDecay decay;
  const auto cos = table.cos();
  const std::int64_t pairs = cos.extent(2);
  for (std::int64_t t = 0; t < std::min(length, table.tokens()); ++t) {
    double sum = 0;
    for (std::int64_t i = 0; i < pairs; ++i) sum += static_cast<double>(cos(0, t, i));
    decay.distances.push_back(t);
    decay.scores.push_back(sum / static_cast<double>(pairs));
  }
  return decay;
}

BiasByDistance bias_by_distance(const BiasForm& form, std::int64_t length) {
  const std::int64_t head_count = heads(form);
  std::vector<double> row(static_cast<std::size_t>(head_count * length));
  const View<double, 3> matrix(row.data(), {head_count, 1, length});
  dense(form, length - 1, matrix);  // the last query with every key before it
  const std::int64_t step = std::max<std::int64_t>(1, length / bias_points);
  BiasByDistance bias;
  for (std::int64_t d = 0; d < length; d += step) bias.distances.push_back(d);
  for (std::int64_t h = 0; h < head_count; ++h) {
    std::vector<double>& one = bias.heads.emplace_back();
    for (const std::int64_t d : bias.distances) one.push_back(matrix(h, 0, length - 1 - d));
  }
  return bias;
}

// The plan of a module for the positions before `length`.
LayerPlan lowered_of(const libtorch::PositionEncoding& position, std::int64_t length) {
  std::vector<at::Tensor> here;
  std::vector<View<const float, 2>> values;
  for (const at::Tensor& one : position->parameters()) {
    here.push_back(one.detach().to(at::kCPU).contiguous());
    values.emplace_back(here.back().data_ptr<float>(),
                        std::array<std::ptrdiff_t, 2>{one.size(0), one.size(1)});
  }
  return model::lower(position->mixture(), {.queries = length, .keys = length}, values);
}

// Windows of the training length, one in each of a few test segments.
at::Tensor attention_windows(const Settings& settings, const Corpus& corpus) {
  constexpr std::size_t most = 8;
  std::vector<at::Tensor> rows;
  for (const Segment& segment : test_segments(corpus.test, settings)) {
    rows.push_back(segment_windows(segment, settings.train_length, settings.longest())
                       .inputs.slice(0, 1, 2));
    if (rows.size() == most) break;
  }
  return at::cat(rows);
}

// The attention of each head by range of distances, from weights [B, T, H, T] of each layer.
void add_heads(TrainedAttention& found, const std::vector<at::Tensor>& layers,
               std::int64_t length) {
  for (std::int64_t end = 0; found.range_ends.empty() || found.range_ends.back() + 1 < length;
       end = 2 * end + 1)
    found.range_ends.push_back(std::min(end, length - 1));
  const double queries = static_cast<double>(length - length / 2);
  for (std::int64_t layer = 0; layer < std::ssize(layers); ++layer) {
    const at::Tensor mean = layers[static_cast<std::size_t>(layer)].mean(0).contiguous();
    const std::int64_t heads = mean.size(1);
    for (std::int64_t head = 0; head < heads; ++head) {
      HeadAttention& one = found.heads.emplace_back();
      one.layer = layer, one.head = head;
      one.shares.resize(found.range_ends.size());
      for (std::int64_t q = length / 2; q < length; ++q)
        for (std::int64_t k = 0; k < length; ++k) {
          const double weight =
              mean.data_ptr<double>()[(q * heads + head) * length + k] / queries;
          const std::int64_t distance = std::abs(q - k);
          const auto range =
              std::lower_bound(found.range_ends.begin(), found.range_ends.end(), distance) -
              found.range_ends.begin();
          one.shares[static_cast<std::size_t>(range)] += weight;
          one.mean_distance += weight * static_cast<double>(distance);
        }
    }
  }
}

// The weights [T, T] of a head with 3 decimals.
std::vector<std::vector<double>> rounded_rows(const at::Tensor& weights) {
  std::vector<std::vector<double>> rows;
  for (std::int64_t q = 0; q < weights.size(0); ++q) {
    std::vector<double>& row = rows.emplace_back();
    for (std::int64_t k = 0; k < weights.size(1); ++k)
      row.push_back(std::round(weights[q][k].item<double>() * 1e3) / 1e3);
  }
  return rows;
}

}  // namespace

void add_initial(Picture& picture, Transformer& untrained, const Settings& settings) {
  const Picture before = lab::picture(untrained, settings);
  if (before.table && picture.table && before.table->values != picture.table->values)
    picture.initial_table = before.table;
  if (before.bias && picture.bias && before.bias->heads != picture.bias->heads)
    picture.initial_bias = before.bias;
}

std::optional<TrainedAttention> trained_attention(Transformer& model, const Settings& settings,
                                                  const Corpus& corpus) {
  if (settings.task->has_examples()) return std::nullopt;
  const at::NoGradGuard no_grad;
  const at::Tensor windows = attention_windows(settings, corpus);
  std::vector<at::Tensor> layers;  // [B, T, H, T] each
  model->forward(windows.to(settings.device),
                 {.visibility = visibility(settings), .weights = &layers});
  for (at::Tensor& one : layers) one = one.to(at::kCPU, at::kDouble);
  const std::int64_t length = settings.train_length;
  // [T, T], mean over layers, windows and heads.
  const at::Tensor mean = at::stack(layers).mean(at::IntArrayRef{0, 1, 3}).contiguous();
  std::vector<double> at_distance(static_cast<std::size_t>(length));
  for (std::int64_t q = length / 2; q < length; ++q)
    for (std::int64_t k = 0; k < length; ++k)
      at_distance[static_cast<std::size_t>(std::abs(q - k))] +=
          mean.data_ptr<double>()[q * length + k];
  TrainedAttention found;
  double sum = 0;
  for (std::int64_t d = 0, next = 0; d < length; ++d) {
    sum += at_distance[static_cast<std::size_t>(d)] / static_cast<double>(length - length / 2);
    if (d < next && d + 1 < length) continue;
    found.distances.push_back(d);
    found.shares.push_back(sum);
    next = std::max(d + 1, d * 5 / 4);
  }
  add_heads(found, layers, length);
  const std::int64_t shown = std::min<std::int64_t>(map_side, length);
  Text first{.name = {}, .bytes = {}};
  for (std::int64_t i = 0; i < shown; ++i)
    first.tokens.push_back(static_cast<std::int32_t>(windows[0][i].item<std::int64_t>()));
  found.text = internal::printable_lines(corpus.text_of(first, 0, shown));
  for (const std::int64_t layer : std::set<std::int64_t>{0, std::ssize(layers) - 1}) {
    const at::Tensor& weights = layers[static_cast<std::size_t>(layer)];
    const at::Tensor entropy = at::special_entr(weights.clamp_min(0)).sum(3);  // [B, T, H]
    const auto head = entropy.mean(at::IntArrayRef{0, 1}).argmin().item<std::int64_t>();
    found.maps.push_back(
        {layer, head,
         rounded_rows(weights[0].select(1, head).slice(0, 0, shown).slice(1, 0, shown))});
  }
  return found;
}

Picture picture(Transformer& model, const Settings& settings) {
  const at::NoGradGuard no_grad;
  const std::int64_t length = std::min(
      settings.longest(), model::capacity(model->scheme()).value_or(settings.longest()));
  LayerPlan lowered = lowered_of(model->position(0), length);
  if (auto before = lowered_of(model->table(), length); before.table)
    lowered.table = std::move(before.table);
  Picture picture;
  if (lowered.table) {
    const auto table = lowered.table->view();
    const std::int64_t rows = std::min(table.extent(0), settings.train_length);
    picture.table = sampled(rows, table.extent(1), table_side,
                            [&](std::int64_t t, std::int64_t c) { return table(t, c); });
    std::vector<double> alike(static_cast<std::size_t>(rows * rows));
    const View<double, 2> similarity(alike.data(), {rows, rows});
    analysis::similarity_matrix(table.slice(0, 0, rows), analysis::Similarity::cosine,
                                similarity);
    picture.similarity =
        sampled(rows, rows, similarity_side,
                [&](std::int64_t i, std::int64_t j) { return similarity(i, j); });
  }
  if (lowered.query_rotary) picture.rotary = rotary_decay(*lowered.query_rotary, length);
  if (!std::holds_alternative<NoBias>(lowered.bias))
    picture.bias = bias_by_distance(lowered.bias, length);
  return picture;
}

}  // namespace gnomon::lab
