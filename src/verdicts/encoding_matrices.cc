#include "src/verdicts/encoding_matrices.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "gnomon/attention/attention.h"
#include "src/model/encodings/random_parameters.h"

namespace gnomon::verdicts {
namespace {

using std::int64_t;
using Matrix = OwnedTensor<float, 2>;

std::unique_ptr<Matrix> matrix(int64_t rows, int64_t columns) {
  return std::make_unique<Matrix>(std::array<std::int64_t, 2>{rows, columns});
}

std::unique_ptr<Matrix> random_matrix(const model::Parameter& parameter, unsigned seed) {
  auto random = matrix(parameter.rows, parameter.columns);
  const std::vector<float> values = model::internal::random_values(parameter, seed);
  std::copy(values.begin(), values.end(), random->values.begin());
  return random;
}

void from_table(EncodingMatrices& matrices, const EmbeddingTable& table, int64_t trained) {
  matrices.table = matrix(table.tokens, table.width);
  std::copy(table.values.begin(), table.values.end(), matrices.table->values.begin());
  const auto rows = matrices.table->view;
  for (int64_t i = 0; i < trained; ++i)
    for (int64_t j = 0; j < trained; ++j) {
      double sum = 0;
      for (int64_t c = 0; c < rows.extent(1); ++c)
        sum += double{rows(i, c)} * double{rows(j, c)};
      matrices.scores->view(i, j) = static_cast<float>(sum);
    }
}

// q(i) . k(j) of the first head of [T, H, D].
void put_products(EncodingMatrices& matrices, const OwnedTensor<float, 3>& q,
                  const OwnedTensor<float, 3>& k, int64_t trained) {
  for (int64_t i = 0; i < trained; ++i)
    for (int64_t j = 0; j < trained; ++j) {
      double sum = 0;
      for (int64_t d = 0; d < q.view.extent(2); ++d)
        sum += double{q.view(i, 0, d)} * double{k.view(j, 0, d)};
      matrices.scores->view(i, j) = static_cast<float>(sum);
    }
}

// Queries and keys of ones, rotated: q(i) . k(j), summed over the head.
void from_rotary(EncodingMatrices& matrices, const RotaryTable& queries,
                 const RotaryTable& keys, int64_t trained) {
  const auto cos = queries.cos(), sin = queries.sin();
  const int64_t pairs = cos.extent(2), size = 2 * pairs;
  matrices.table = matrix(matrices.positions, size);
  for (int64_t t = 0; t < matrices.positions; ++t)
    for (int64_t i = 0; i < pairs; ++i) {
      matrices.table->view(t, i) = cos(0, t, i);
      matrices.table->view(t, pairs + i) = sin(0, t, i);
    }
  OwnedTensor<float, 3> q({matrices.positions, 1, size}), k({matrices.positions, 1, size});
  std::fill(q.values.begin(), q.values.end(), 1.0f);
  std::fill(k.values.begin(), k.values.end(), 1.0f);
  rotate(q.view, queries);
  rotate(k.view, keys);
  put_products(matrices, q, k, trained);
}

// cos and sin of the angles of the first head, [T, R].
std::unique_ptr<Matrix> cos_sin_of(const HeadAngles& angles) {
  const HeadFrequencies& f = angles.frequencies();
  const int64_t pairs = f.rotary_dim() / 2;
  std::vector<double> row(static_cast<std::size_t>(f.heads * pairs));
  auto table = matrix(angles.tokens(), 2 * pairs);
  for (int64_t t = 0; t < angles.tokens(); ++t) {
    angles.angles(0, t, 1, row);
    for (int64_t i = 0; i < pairs; ++i) {
      table->view(t, i) = static_cast<float>(std::cos(row[static_cast<std::size_t>(i)]));
      table->view(t, pairs + i) =
          static_cast<float>(std::sin(row[static_cast<std::size_t>(i)]));
    }
  }
  return table;
}
template <typename Table>
std::unique_ptr<Matrix> cos_sin_of(const Table& rotation) {
  const auto cos = rotation.cos(), sin = rotation.sin();
  const int64_t numbers = cos.extent(2);
  auto table = matrix(rotation.tokens(), 2 * numbers);
  for (int64_t t = 0; t < rotation.tokens(); ++t)
    for (int64_t i = 0; i < numbers; ++i) {
      table->view(t, i) = cos(0, t, i);
      table->view(t, numbers + i) = sin(0, t, i);
    }
  return table;
}

// Like from_rotary above, for LayerPlan::query_rotations. A row of the table has the cos and
// sin of the first rotation of queries, scores are those of the first head.
void from_rotations(EncodingMatrices& matrices, const LayerPlan& lowered, int64_t size,
                    int64_t trained) {
  matrices.table = std::visit([](const auto& one) { return cos_sin_of(one); },
                              lowered.query_rotations.front());
  const HeadAngles* const angles = head_angles(lowered.query_rotations);
  const int64_t heads = angles ? angles->frequencies().heads : 1;
  OwnedTensor<float, 3> q({matrices.positions, heads, size}),
      k({matrices.positions, heads, size});
  for (auto [x, rotations] :
       {std::pair(&q, &lowered.query_rotations), std::pair(&k, &lowered.key_rotations)}) {
    std::fill(x->values.begin(), x->values.end(), 1.0f);
    for (const HeadRotation& one : *rotations)
      std::visit([&](const auto& table) { rotate(x->view, table); }, one);
  }
  put_products(matrices, q, k, trained);
}

using Tables = std::vector<const RelativeVectors*>;
Tables tables_of(const RelativeForm& form) {
  Tables all;
  for (const auto* part : {&form.keys, &form.queries, &form.values, &form.projected})
    for (const RelativeVectors& one : *part) all.push_back(&one);
  return all;
}

// The vector of head h for the query at position i and the key at position j; empty for a
// distance without one.
std::span<const double> met(const RelativeVectors& table, int64_t h, int64_t i, int64_t j) {
  const auto at = [&](int64_t position) {
    return table.coordinates.empty() ? position
                                     : table.coordinates[static_cast<std::size_t>(position)];
  };
  const int64_t n = at(j) - at(i) - table.min_distance;
  if (n < 0 || n >= table.distances()) return {};
  const int64_t row = table.rows[static_cast<std::size_t>(n)];
  const int64_t head = table.heads == 1 ? 0 : h;
  return std::span(table.values)
      .subspan(static_cast<std::size_t>((head * table.vectors() + row) * table.head_dim),
               static_cast<std::size_t>(table.head_dim));
}

// Products of queries and keys of ones in polar form, [H, T, T].
void put_polar_products(const LayerPlan& lowered, View<double, 3> products) {
  const double magnitude = std::log1p(std::exp(1.0));
  const std::vector<double>& frequencies = lowered.query_rotary->frequencies().inv_freq;
  const auto size = static_cast<std::size_t>(lowered.polar->head_dim);
  for (int64_t h = 0; h < products.extent(0); ++h)
    for (int64_t i = 0; i < products.extent(1); ++i)
      for (int64_t j = 0; j < products.extent(2); ++j)
        for (std::size_t n = 0; n < size; ++n)
          products(h, i, j) +=
              magnitude * magnitude *
              std::cos(static_cast<double>(i - j) * frequencies[n] -
                       lowered.polar->phases[static_cast<std::size_t>(h) * size + n]);
}

// Row d of the table contains the bias of each head at distance d into the past, then the
// vectors. Scores are the bias plus the products of queries (projected too) and keys of ones
// with the vectors, or in polar form, the mean over heads.
void from_scores(EncodingMatrices& matrices, const LayerPlan& lowered, const Setting& setting) {
  const int64_t length = matrices.positions, trained = setting.trained,
                biases = heads(lowered.bias);
  const Tables tables = tables_of(lowered.relative);
  int64_t channels = biases;
  for (const RelativeVectors* one : tables) channels += one->heads * one->head_dim;
  matrices.table = matrix(length, channels);
  OwnedTensor<double, 3> last({biases, 1, length});
  // The last query, with every key before it.
  if (biases > 0) dense(lowered.bias, length - 1, last.view);
  for (int64_t d = 0; d < length; ++d) {
    int64_t c = 0;
    for (; c < biases; ++c)
      matrices.table->view(d, c) = static_cast<float>(last.view(c, 0, length - 1 - d));
    for (const RelativeVectors* one : tables)
      for (int64_t h = 0; h < one->heads; ++h, c += one->head_dim) {
        const auto vector = met(*one, h, length - 1, length - 1 - d);
        for (std::size_t n = 0; n < vector.size(); ++n)
          matrices.table->view(d, c + static_cast<int64_t>(n)) = static_cast<float>(vector[n]);
      }
  }

  const int64_t size = setting.width / setting.heads;
  const std::array<std::int64_t, 3> whole{setting.heads, trained, trained};
  OwnedTensor<double, 3> bias(whole), products(whole), ones({trained, setting.heads, size});
  if (biases > 0) dense(lowered.bias, 0, bias.view);
  if (!lowered.relative.empty()) {
    std::fill(ones.values.begin(), ones.values.end(), 1.0);
    const View<const double, 3> all(ones.view);
    relative_scores(lowered.relative, 0, all, all, products.view);
  }
  OwnedTensor<double, 3> projected(whole);
  if (const auto& parts = lowered.relative.projected; !parts.empty()) {
    OwnedTensor<double, 3> r({trained, setting.heads, parts[0].head_dim});
    std::fill(r.values.begin(), r.values.end(), 1.0);
    projected_scores(lowered.relative, 0, r.view, projected.view);
  }
  if (lowered.polar) put_polar_products(lowered, products.view);
  const double scale = softmax_scale(size) * lowered.softmax.factor;
  for (int64_t i = 0; i < trained; ++i)
    for (int64_t j = 0; j < trained; ++j) {
      double sum = 0;
      for (int64_t h = 0; h < setting.heads; ++h)
        sum += bias.view(h, i, j) + projected.view(h, i, j) + scale * products.view(h, i, j);
      matrices.scores->view(i, j) =
          static_cast<float>(sum / static_cast<double>(setting.heads));
    }
}

}  // namespace

LayerPlan EncodingMatrices::lowered(const model::Window& window) const {
  std::vector<View<const float, 2>> values;
  for (const auto& one : parameters) values.emplace_back(one->view);
  return model::lower(encoding, window, values);
}

bool depends_on_contents(const model::EncodingInfo& info) {
  return model::depends_on_contents(info.usual({.width = 128, .heads = 2, .length = 16}));
}

EncodingMatrices encoding_matrices(const std::string& name, const Setting& setting) {
  EncodingMatrices matrices;
  matrices.info = &model::find_encoding(name);
  matrices.encoding = matrices.info->usual(
      {.width = setting.width, .heads = setting.heads, .length = setting.trained});
  unsigned seed = 1;
  for (const model::Parameter& one : model::parameters(matrices.encoding)) {
    matrices.random = true;
    matrices.parameters.push_back(random_matrix(one, seed++));
  }
  matrices.positions =
      std::min(setting.length, model::capacity(matrices.encoding).value_or(setting.length));
  matrices.scores = matrix(setting.trained, setting.trained);
  const LayerPlan lowered = matrices.lowered({matrices.positions, matrices.positions});
  if (lowered.table)
    from_table(matrices, *lowered.table, setting.trained);
  else if (lowered.polar)
    from_scores(matrices, lowered, setting);
  else if (lowered.query_rotary)
    from_rotary(matrices, *lowered.query_rotary, *lowered.key_rotary, setting.trained);
  else if (!lowered.query_rotations.empty())
    from_rotations(matrices, lowered, setting.width / setting.heads, setting.trained);
  else if (heads(lowered.bias) > 0 ||
           (!lowered.relative.empty() && !lowered.relative.contextual))
    from_scores(matrices, lowered, setting);
  else
    matrices.table = matrix(matrices.positions, 0);
  return matrices;
}

}  // namespace gnomon::verdicts
