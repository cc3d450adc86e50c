// Parts that the examples share and that do not concern position: random projections, a norm,
// an MLP, and a softmax in double to compare with. Rows are [T, C] floats, row-major.
#pragma once

#include <gnomon/view.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace layers {

using Rows = std::vector<float>;

// Uniform random numbers of variance 1 / fan_in, the same on every machine.
inline Rows random_rows(std::int64_t count, std::int64_t fan_in, unsigned seed) {
  std::mt19937 engine(seed);
  const double limit = std::sqrt(3.0 / static_cast<double>(fan_in));
  Rows rows(static_cast<std::size_t>(count));
  for (float& x : rows)
    x = static_cast<float>((static_cast<double>(engine()) / 4294967295.0 * 2 - 1) * limit);
  return rows;
}

// x [T, in] to x W [T, out], with random weights.
struct Linear {
  std::int64_t in, out;
  Rows weights;  // [out, in]

  Linear(std::int64_t inputs, std::int64_t outputs, unsigned seed)
      : in(inputs), out(outputs), weights(random_rows(inputs * outputs, inputs, seed)) {}

  Rows operator()(const Rows& x) const {
    const std::size_t n = static_cast<std::size_t>(in), m = static_cast<std::size_t>(out);
    Rows y(x.size() / n * m);
    for (std::size_t t = 0; t < x.size() / n; ++t)
      for (std::size_t o = 0; o < m; ++o) {
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += double{x[t * n + i]} * weights[o * n + i];
        y[t * m + o] = static_cast<float>(sum);
      }
    return y;
  }
};

// A matrix for each head: out[t, h] = w[h] x[t, h], with w [H, out, in].
template <typename T>
void project(gnomon::View<const float, 3> x, gnomon::View<const float, 3> w,
             gnomon::View<T, 3> out) {
  for (std::int64_t t = 0; t < out.extent(0); ++t)
    for (std::int64_t h = 0; h < out.extent(1); ++h)
      for (std::int64_t o = 0; o < out.extent(2); ++o) {
        double sum = 0;
        for (std::int64_t i = 0; i < w.extent(2); ++i) sum += double{x(t, h, i)} * w(h, o, i);
        out(t, h, o) = static_cast<T>(sum);
      }
}

// RMSNorm without weights.
inline Rows norm(Rows x, std::int64_t width) {
  for (auto row = x.begin(); row != x.end(); row += width) {
    double sum = 0;
    for (auto at = row; at != row + width; ++at) sum += double{*at} * *at;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(width) + 1e-6);
    for (auto at = row; at != row + width; ++at) *at = static_cast<float>(*at * scale);
  }
  return x;
}

inline void add(Rows& x, const Rows& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// The projections of one Transformer layer: to queries, keys and values, from the heads, and
// the two of the MLP.
struct Layer {
  Linear query, key, value, output, up, down;

  Layer(std::int64_t width, std::int64_t queries, std::int64_t keys, unsigned seed)
      : query(width, queries, seed),
        key(width, keys, seed + 1),
        value(width, keys, seed + 2),
        output(queries, width, seed + 3),
        up(width, 4 * width, seed + 4),
        down(4 * width, width, seed + 5) {}

  Rows mlp(const Rows& x) const {
    Rows hidden = up(x);
    for (float& h : hidden) h = std::max(h, 0.0f);
    return down(hidden);
  }
};

// Rows [B T, H D] as heads [B, T, H, D].
inline gnomon::View<float, 4> heads(Rows& x, std::int64_t batch, std::int64_t count,
                                    std::int64_t head_dim) {
  const auto tokens = static_cast<std::int64_t>(x.size()) / (batch * count * head_dim);
  return {x.data(), {batch, tokens, count, head_dim}};
}

// Returns the sum of value(j)[0 to value_dim - 1] with the weights of the softmax over
// score(j), for j from begin to end - 1, in double. sink: one more score, with a value of zero.
template <typename Score, typename Value>
Rows softmax_sum(std::int64_t begin, std::int64_t end, std::int64_t value_dim, Score score,
                 Value value, double sink = -INFINITY) {
  double total = std::exp(sink);
  std::vector<double> sums(static_cast<std::size_t>(value_dim));
  for (std::int64_t j = begin; j < end; ++j) {
    const double weight = std::exp(score(j));
    total += weight;
    for (std::size_t d = 0; d < sums.size(); ++d) sums[d] += weight * value(j)[d];
  }
  Rows out;
  for (const double sum : sums) out.push_back(static_cast<float>(sum / total));
  return out;
}

inline std::int64_t largest(std::span<const float> row) {
  return std::max_element(row.begin(), row.end()) - row.begin();
}

inline double difference(std::span<const float> a, std::span<const float> b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  return a.size() == b.size() ? most : INFINITY;
}

}  // namespace layers
