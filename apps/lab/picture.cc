#include "apps/lab/picture.h"

#include <algorithm>
#include <variant>

#include "gnomon/analysis/similarity.h"

namespace gnomon::lab {
namespace {

constexpr std::int64_t table_side = 128, similarity_side = 64, bias_points = 256;

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

}  // namespace

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
