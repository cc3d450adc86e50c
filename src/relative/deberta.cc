#include "gnomon/relative/deberta.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/relative/numbers.h"
#include "src/relative/project.h"

namespace gnomon {
namespace {

using internal::to_size;
using std::int64_t;

constexpr int64_t longest = int64_t{1} << 30;  // rows are 32-bit

bool keys_of(const Deberta& deberta) {
  return deberta.terms != DebertaTerms::position_to_content;
}
bool queries_of(const Deberta& deberta) {
  return deberta.terms != DebertaTerms::content_to_position;
}

void check(const Deberta& deberta) {
  if (deberta.heads < 1) refuse("deberta", "heads must be at least 1", deberta.heads);
  if (deberta.head_dim < 1) refuse("deberta", "head_dim must be at least 1", deberta.head_dim);
  if (deberta.width < 1) refuse("deberta", "width must be at least 1", deberta.width);
  if (deberta.span < 1 || deberta.span > longest)
    refuse("deberta", "span must be 1 to " + std::to_string(longest), deberta.span);
  if (deberta.terms < DebertaTerms::content_to_position || deberta.terms > DebertaTerms::both)
    refuse("deberta", "terms must be content_to_position, position_to_content or both",
           static_cast<int>(deberta.terms));
  if (deberta.norm_epsilon && !(*deberta.norm_epsilon >= 0))
    refuse("deberta", "norm_epsilon must not be negative", *deberta.norm_epsilon);
  if (deberta.distance == DebertaDistance::raw) return;
  if (deberta.distance != DebertaDistance::logarithmic)
    refuse("deberta", "distance must be raw or logarithmic",
           static_cast<int>(deberta.distance));
  if (deberta.span < 4 || deberta.span % 2)
    refuse("deberta", "span must be even and at least 4 where distances are logarithmic",
           deberta.span);
  if (deberta.max_distance <= deberta.span / 2 + 1)
    refuse(
        "deberta",
        "max_distance must be more than span / 2 + 1 = " + std::to_string(deberta.span / 2 + 1),
        deberta.max_distance);
}

int64_t bucket_unchecked(const Deberta& deberta, int64_t difference) {
  if (deberta.distance == DebertaDistance::raw) return difference;
  const int64_t mid = deberta.span / 2;
  if (difference >= -mid && difference <= mid) return difference;
  // The arithmetic of the released models. Another order or precision moves the boundaries.
  const auto away = static_cast<float>(difference);
  const float part = std::log(std::fabs(away) / static_cast<float>(mid));
  const auto whole = std::log(static_cast<float>(static_cast<double>(deberta.max_distance - 1) /
                                                 static_cast<double>(mid)));
  const float steps = std::ceil(part / whole * static_cast<float>(mid - 1));
  const int64_t far = static_cast<int64_t>(steps) + mid;
  return difference < 0 ? -far : far;
}

int64_t row_unchecked(const Deberta& deberta, int64_t distance) {
  // All distances beyond this have the last row. The clamp also avoids negating the least
  // integer, which overflows.
  constexpr int64_t most = std::numeric_limits<int64_t>::max() / 4;
  const int64_t difference = -std::clamp(distance, -most, most);
  return std::clamp(bucket_unchecked(deberta, difference), -deberta.span, deberta.span - 1) +
         deberta.span;
}

// The rows that the distances use: lowest to lowest + count - 1.
struct Reach {
  int64_t lowest, count;
};

Reach reach_of(const Deberta& deberta, int64_t min_distance, int64_t count) {
  internal::check_vector_distances("deberta", min_distance, count);
  const int64_t lowest = row_unchecked(deberta, min_distance + count - 1);
  return {lowest, row_unchecked(deberta, min_distance) - lowest + 1};
}

template <typename T, typename Weights>
void check_weights(const Deberta& deberta, const Weights& weights) {
  const int64_t channels = deberta.width,
                wide = internal::checked_product("deberta", "heads x head_dim",
                                                 {deberta.heads, deberta.head_dim});
  const auto must = [](const char* what, const View<T, 2>& matrix, int64_t rows,
                       int64_t columns) {
    internal::check_matrix("deberta", what, matrix, rows, columns);
  };
  must("embeddings", weights.embeddings, 2 * deberta.span, channels);
  if (keys_of(deberta)) {
    must("key", weights.key, wide, channels);
    if (weights.key_bias.data()) must("key_bias", weights.key_bias, 1, wide);
  }
  if (queries_of(deberta)) {
    must("query", weights.query, wide, channels);
    if (weights.query_bias.data()) must("query_bias", weights.query_bias, 1, wide);
  }
  if (deberta.norm_epsilon) {
    must("norm_weight", weights.norm_weight, 1, channels);
    must("norm_bias", weights.norm_bias, 1, channels);
  }
}

// The embeddings of the rows as they are projected, and intermediate values for the gradient of
// the norm.
struct Embedded {
  std::vector<double> x;       // [count, C]
  std::vector<double> normal;  // [count, C]: normalized, before the weight and bias of the norm
  std::vector<double> inverse_deviation;
};

Embedded embed(const Deberta& deberta, const DebertaWeights& weights, const Reach& reach) {
  const int64_t channels = deberta.width;
  Embedded e{
      internal::as_doubles(weights.embeddings.slice(0, reach.lowest, reach.count)), {}, {}};
  if (!deberta.norm_epsilon) return e;
  e.normal.resize(e.x.size());
  const std::vector<double> weight = internal::as_doubles(weights.norm_weight);
  const std::vector<double> bias = internal::as_doubles(weights.norm_bias);
  for (int64_t r = 0; r < reach.count; ++r) {
    double* const row = e.x.data() + r * channels;
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < channels; ++c) sum += row[c];
    const double mean = sum / static_cast<double>(channels);
    for (int64_t c = 0; c < channels; ++c) squares += (row[c] - mean) * (row[c] - mean);
    const double inverse =
        1 / std::sqrt(squares / static_cast<double>(channels) + *deberta.norm_epsilon);
    e.inverse_deviation.push_back(inverse);
    for (int64_t c = 0; c < channels; ++c) {
      const double one = (row[c] - mean) * inverse;
      e.normal[to_size(r * channels + c)] = one;
      row[c] = one * weight[to_size(c)] + bias[to_size(c)];
    }
  }
  return e;
}

// Converts the gradient of the projected embeddings to that of the embeddings, in place.
void norm_backward(const Deberta& deberta, const DebertaWeights& weights, const Embedded& e,
                   std::vector<double>& of_x, const DebertaGradients& weights_grad) {
  const int64_t channels = deberta.width;
  std::vector<double> of_weight(to_size(channels)), of_bias(to_size(channels));
  for (std::size_t r = 0; r < e.inverse_deviation.size(); ++r) {
    double* const grad = of_x.data() + r * to_size(channels);
    const double* const normal = e.normal.data() + r * to_size(channels);
    double mean = 0, along = 0;
    for (int64_t c = 0; c < channels; ++c) {
      of_weight[to_size(c)] += grad[c] * normal[c];
      of_bias[to_size(c)] += grad[c];
      grad[c] *= double{weights.norm_weight(0, c)};
      mean += grad[c];
      along += grad[c] * normal[c];
    }
    mean /= static_cast<double>(channels);
    along /= static_cast<double>(channels);
    for (int64_t c = 0; c < channels; ++c)
      grad[c] = e.inverse_deviation[r] * (grad[c] - mean - normal[c] * along);
  }
  internal::add_rounded(of_weight, weights_grad.norm_weight);
  internal::add_rounded(of_bias, weights_grad.norm_bias);
}

}  // namespace

int64_t bucket(const Deberta& deberta, int64_t difference) {
  check(deberta);
  return bucket_unchecked(deberta, difference);
}

int64_t row(const Deberta& deberta, int64_t distance) {
  check(deberta);
  return row_unchecked(deberta, distance);
}

double softmax_scale(const Deberta& deberta) {
  check(deberta);
  const int64_t terms = deberta.terms == DebertaTerms::both ? 2 : 1;
  return 1 / std::sqrt(static_cast<double>(deberta.head_dim * (1 + terms)));
}

RelativeForm lower(const Deberta& deberta, const DebertaWeights& weights, int64_t min_distance,
                   int64_t count) {
  check(deberta);
  check_weights<const float>(deberta, weights);
  const Reach reach = reach_of(deberta, min_distance, count);
  const Embedded embedded = embed(deberta, weights, reach);
  RelativeVectors vectors{
      .heads = deberta.heads, .head_dim = deberta.head_dim, .min_distance = min_distance};
  vectors.rows.reserve(to_size(count));
  for (int64_t n = 0; n < count; ++n)
    vectors.rows.push_back(
        static_cast<std::int32_t>(row_unchecked(deberta, min_distance + n) - reach.lowest));
  RelativeForm form;
  if (keys_of(deberta)) {
    form.keys.push_back(vectors);
    form.keys[0].values =
        internal::project(deberta.heads, weights.key, weights.key_bias, embedded.x);
  }
  if (queries_of(deberta)) {
    vectors.values =
        internal::project(deberta.heads, weights.query, weights.query_bias, embedded.x);
    form.queries.push_back(std::move(vectors));
  }
  return form;
}

void lower_backward(const Deberta& deberta, const DebertaWeights& weights, int64_t min_distance,
                    int64_t count, const RelativeGradient& grad,
                    const DebertaGradients& weights_grad) {
  check(deberta);
  check_weights<const float>(deberta, weights);
  check_weights<float>(deberta, weights_grad);
  const Reach reach = reach_of(deberta, min_distance, count);
  const Embedded embedded = embed(deberta, weights, reach);
  const int64_t wide = deberta.heads * deberta.head_dim;
  std::vector<double> of_x(embedded.x.size());
  const auto back = [&](const std::vector<double>& of_vectors, const View<const float, 2>& w,
                        const View<float, 2>& w_grad, const View<float, 2>& b_grad) {
    internal::add_rounded(
        internal::project_backward(deberta.heads, wide, deberta.width, embedded.x, of_vectors),
        w_grad);
    internal::project_backward_to(deberta.heads, w, of_vectors, of_x);
    if (!b_grad.data()) return;
    std::vector<double> of_b(to_size(wide));
    for (int64_t h = 0; h < deberta.heads; ++h) {
      double* const to = of_b.data() + h * deberta.head_dim;
      const double* from = of_vectors.data() + h * reach.count * deberta.head_dim;
      for (int64_t r = 0; r < reach.count; ++r, from += deberta.head_dim)
        for (int64_t d = 0; d < deberta.head_dim; ++d) to[d] += from[d];
    }
    internal::add_rounded(of_b, b_grad);
  };
  const int64_t numbers = wide * reach.count;
  if (keys_of(deberta))
    back(internal::only("deberta", "keys", grad.keys, numbers), weights.key, weights_grad.key,
         weights_grad.key_bias);
  if (queries_of(deberta))
    back(internal::only("deberta", "queries", grad.queries, numbers), weights.query,
         weights_grad.query, weights_grad.query_bias);
  if (deberta.norm_epsilon) norm_backward(deberta, weights, embedded, of_x, weights_grad);
  internal::add_rounded(of_x, weights_grad.embeddings.slice(0, reach.lowest, reach.count));
}

}  // namespace gnomon
