#include "src/attention/bias_tile.h"

#include <cmath>
#include <cstdlib>

#include "src/attention/scratch.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

// Whether distances grow by one along keys and fall by one along queries.
bool regular(const AttentionProblem& problem, const Tile& tile) {
  if (!problem.position.queries) return true;
  const int64_t query = query_id(problem, tile.batch, tile.query);
  for (int64_t i = 1; i < tile.queries; ++i)
    if (query_id(problem, tile.batch, tile.query + i) != query + i) return false;
  const int64_t key = key_id(problem, tile.batch, tile.key);
  for (int64_t j = 1; j < tile.keys; ++j)
    if (key_id(problem, tile.batch, tile.key + j) != key + j) return false;
  return true;
}

// The form's number at a distance; outside a strip 0, since nothing visible stands there.
struct ByDistance {
  const SlopeBias* slope;
  const StripBias* strip;
  int64_t head;

  explicit ByDistance(const AttentionProblem& problem, int64_t h)
      : slope(std::get_if<SlopeBias>(&problem.position.bias)),
        strip(std::get_if<StripBias>(&problem.position.bias)),
        head(h) {}
  explicit operator bool() const { return slope || strip; }
  double operator()(int64_t distance) const {
    if (slope)
      return -slope->slopes[static_cast<std::size_t>(head)] *
             std::abs(static_cast<double>(distance));
    const int64_t column = distance - strip->first, numbers = strip->distances();
    if (column < 0 || column >= numbers) return 0;
    return strip->values[static_cast<std::size_t>(head * numbers + column)];
  }
};

}  // namespace

int64_t bias_room(int64_t queries, int64_t keys) { return (queries + 1) * padded(keys); }

template <typename A>
BiasRows<A> fill_bias(const AttentionProblem& problem, const Tile& tile, A* room) {
  const int64_t width = padded(tile.keys);
  if (const ByDistance value(problem, tile.head); value) {
    if (regular(problem, tile)) {
      const int64_t first = key_id(problem, tile.batch, tile.key) -
                            query_id(problem, tile.batch, tile.query) - (tile.queries - 1);
      const int64_t count = tile.queries - 1 + tile.keys;
      for (int64_t d = 0; d < count; ++d) room[d] = static_cast<A>(value(first + d));
      for (int64_t d = count; d < tile.queries - 1 + width; ++d) room[d] = A(0);
      return {room + tile.queries - 1, -1};
    }
    for (int64_t i = 0; i < tile.queries; ++i) {
      const int64_t query = query_id(problem, tile.batch, tile.query + i);
      A* row = room + i * width;
      for (int64_t j = 0; j < tile.keys; ++j)
        row[j] = static_cast<A>(value(key_id(problem, tile.batch, tile.key + j) - query));
      for (int64_t j = tile.keys; j < width; ++j) row[j] = A(0);
    }
    return {room, width};
  }
  if (const auto* dense = std::get_if<DenseBias>(&problem.position.bias)) {
    for (int64_t i = 0; i < tile.queries; ++i) {
      const auto* from = &dense->values(tile.batch, tile.head, tile.query + i, tile.key);
      const auto step = dense->values.stride(3);
      A* row = room + i * width;
      for (int64_t j = 0; j < tile.keys; ++j) row[j] = static_cast<A>(from[j * step]);
      for (int64_t j = tile.keys; j < width; ++j) row[j] = A(0);
    }
    return {room, width};
  }
  return {};
}

template <typename A>
void add_bias_gradient(const BackwardProblem<A>& problem, const Tile& tile, const A* grad,
                       std::ptrdiff_t stride) {
  if (problem.dense_grad.data()) {
    const auto& to = problem.dense_grad;
    for (int64_t i = 0; i < tile.queries; ++i)
      for (int64_t j = 0; j < tile.keys; ++j)
        to(tile.batch, tile.head, tile.query + i, tile.key + j) =
            static_cast<float>(grad[i * stride + j]);
  }
  if (!problem.bias_sums) return;
  const ByDistance value(problem, tile.head);
  double* sums =
      problem.bias_sums + (tile.batch * problem.heads + tile.head) * problem.bias_numbers;
  const bool even = regular(problem, tile);
  for (int64_t i = 0; i < tile.queries; ++i) {
    const A* row = grad + i * stride;
    const int64_t query = query_id(problem, tile.batch, tile.query + i);
    const int64_t near = key_id(problem, tile.batch, tile.key) - query;
    if (value.slope) {
      double sum = 0;
      for (int64_t j = 0; j < tile.keys; ++j) {
        const int64_t distance =
            even ? near + j : key_id(problem, tile.batch, tile.key + j) - query;
        sum -= std::abs(static_cast<double>(distance)) * static_cast<double>(row[j]);
      }
      *sums += sum;
    } else if (even) {
      const int64_t first = near - value.strip->first;
      const int64_t begin = first < 0 ? -first : 0;
      const int64_t left = problem.bias_numbers - first;
      const int64_t end = left < tile.keys ? left : tile.keys;
      for (int64_t j = begin; j < end; ++j) sums[first + j] += static_cast<double>(row[j]);
    } else {
      for (int64_t j = 0; j < tile.keys; ++j) {
        const int64_t column =
            key_id(problem, tile.batch, tile.key + j) - query - value.strip->first;
        if (column >= 0 && column < problem.bias_numbers)
          sums[column] += static_cast<double>(row[j]);
      }
    }
  }
}

template BiasRows<float> fill_bias(const AttentionProblem&, const Tile&, float*);
template BiasRows<double> fill_bias(const AttentionProblem&, const Tile&, double*);
template void add_bias_gradient(const BackwardProblem<float>&, const Tile&, const float*,
                                std::ptrdiff_t);
template void add_bias_gradient(const BackwardProblem<double>&, const Tile&, const double*,
                                std::ptrdiff_t);

}  // namespace gnomon::internal
