// Naive versions of attention with contextual positions and of stick-breaking attention: one
// head, double, loops over all pairs. seen(i, j) is 1 if query i sees key j, else 0.
//
// Letters: T queries, S keys, D head dimension, Dv head dimension of the values, P vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "naive/attention.h"

namespace gnomon::testing {

struct NaiveInput {
  Matrix q, k, v, seen;
  double scale = 1;
};
struct NaiveGradients {
  MutableMatrix q, k, v;
};

inline double naive_product(Matrix a, std::int64_t i, Matrix b, std::int64_t j) {
  double sum = 0;
  for (std::int64_t d = 0; d < a.extent(1); ++d) sum += a(i, d) * b(j, d);
  return sum;
}

inline double naive_gate(const NaiveInput& x, std::int64_t i, std::int64_t j) {
  if (x.seen(i, j) == 0) return 0;
  return 1 / (1 + std::exp(-x.scale * naive_product(x.q, i, x.k, j)));
}

// Contextual positions (arXiv:2405.18719) of the keys of query i: the sum of the gates of the
// keys from j on, at most P - 1.
inline std::vector<double> naive_positions(const NaiveInput& x, Matrix e, std::int64_t i) {
  std::vector<double> gates, positions;
  for (std::int64_t j = 0; j < x.k.extent(0); ++j) gates.push_back(naive_gate(x, i, j));
  for (auto gate = gates.begin(); gate != gates.end(); ++gate)
    positions.push_back(std::min(std::accumulate(gate, gates.end(), 0.0),
                                 static_cast<double>(e.extent(0) - 1)));
  return positions;
}

// The softmax weights of query i, and the log-sum-exp of its scores. sink: -infinity for none.
inline std::vector<double> naive_contextual_weights(const NaiveInput& x, Matrix e,
                                                    std::int64_t i, double sink, double& lse) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> score(static_cast<std::size_t>(x.k.extent(0)), -infinity);
  double greatest = sink;
  const auto positions = naive_positions(x, e, i);
  for (std::int64_t j = 0; j < x.k.extent(0); ++j) {
    if (x.seen(i, j) == 0) continue;
    const double p = positions[static_cast<std::size_t>(j)], w = p - std::floor(p);
    score[static_cast<std::size_t>(j)] =
        x.scale * naive_product(x.q, i, x.k, j) +
        (1 - w) * naive_product(x.q, i, e, static_cast<std::int64_t>(std::floor(p))) +
        w * naive_product(x.q, i, e, static_cast<std::int64_t>(std::ceil(p)));
    greatest = std::max(greatest, score[static_cast<std::size_t>(j)]);
  }
  lse = -infinity;
  if (greatest == -infinity) return std::vector<double>(score.size());
  double sum = std::exp(sink - greatest);
  for (const double s : score) sum += std::exp(s - greatest);
  lse = greatest + std::log(sum);
  for (double& s : score) s = std::exp(s - lse);
  return score;
}

// out [T, Dv] and lse [T].
inline void naive_contextual_attention(const NaiveInput& x, Matrix e, double sink,
                                       MutableMatrix out, std::vector<double>& lse) {
  lse.resize(static_cast<std::size_t>(x.q.extent(0)));
  for (std::int64_t i = 0; i < x.q.extent(0); ++i) {
    const auto weights =
        naive_contextual_weights(x, e, i, sink, lse[static_cast<std::size_t>(i)]);
    for (std::int64_t d = 0; d < x.v.extent(1); ++d) {
      out(i, d) = 0;
      for (std::int64_t j = 0; j < x.k.extent(0); ++j)
        if (x.seen(i, j) != 0) out(i, d) += weights[static_cast<std::size_t>(j)] * x.v(j, d);
    }
  }
}

// Adds to the gradients of q, k, v and e. sink_grad: the gradient of the sink, added to.
inline void naive_contextual_backward(const NaiveInput& x, Matrix e, double sink,
                                      Matrix out_grad, const NaiveGradients& grad,
                                      MutableMatrix e_grad, double& sink_grad) {
  const std::int64_t keys = x.k.extent(0), size = x.q.extent(1);
  for (std::int64_t i = 0; i < x.q.extent(0); ++i) {
    double lse = 0;
    const auto weights = naive_contextual_weights(x, e, i, sink, lse);
    const auto positions = naive_positions(x, e, i);
    std::vector<double> weight_grad(static_cast<std::size_t>(keys));
    std::vector<double> position_grad(static_cast<std::size_t>(keys));
    double mean = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      if (x.seen(i, j) == 0) continue;
      const auto n = static_cast<std::size_t>(j);
      weight_grad[n] = naive_product(out_grad, i, x.v, j);
      mean += weights[n] * weight_grad[n];
      for (std::int64_t d = 0; d < x.v.extent(1); ++d)
        grad.v(j, d) += weights[n] * out_grad(i, d);
    }
    if (std::isfinite(sink)) sink_grad -= std::exp(sink - lse) * mean;
    const auto add = [&](double factor, Matrix to, std::int64_t row, MutableMatrix to_grad) {
      for (std::int64_t d = 0; d < size; ++d) {
        grad.q(i, d) += factor * to(row, d);
        to_grad(row, d) += factor * x.q(i, d);
      }
    };
    for (std::int64_t j = 0; j < keys; ++j) {
      if (x.seen(i, j) == 0) continue;
      const auto n = static_cast<std::size_t>(j);
      const double score_grad = weights[n] * (weight_grad[n] - mean);
      const double p = positions[n], w = p - std::floor(p);
      const auto low = static_cast<std::int64_t>(std::floor(p));
      const auto high = static_cast<std::int64_t>(std::ceil(p));
      add(x.scale * score_grad, x.k, j, grad.k);
      add((1 - w) * score_grad, e, low, e_grad);
      add(w * score_grad, e, high, e_grad);
      position_grad[n] =
          score_grad * (naive_product(x.q, i, e, high) - naive_product(x.q, i, e, low));
    }
    for (std::int64_t l = 0; l < keys; ++l) {
      if (x.seen(i, l) == 0) continue;
      double gate_grad = 0;
      for (std::int64_t j = 0; j <= l; ++j)
        gate_grad += position_grad[static_cast<std::size_t>(j)];
      const double gate = naive_gate(x, i, l);
      add(x.scale * gate * (1 - gate) * gate_grad, x.k, l, grad.k);
    }
  }
}

// Stick-breaking (arXiv:2410.17980): the weights of query i, and the logarithm of the rest.
inline std::vector<double> naive_stick_weights(const NaiveInput& x, std::int64_t i,
                                               double& log_rest) {
  std::vector<double> weights(static_cast<std::size_t>(x.k.extent(0)));
  log_rest = 0;
  for (std::int64_t j = x.k.extent(0) - 1; j >= 0; --j) {
    if (x.seen(i, j) == 0) continue;
    const double z = x.scale * naive_product(x.q, i, x.k, j);
    weights[static_cast<std::size_t>(j)] = std::exp(log_rest) / (1 + std::exp(-z));
    log_rest -= std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
  }
  return weights;
}

// out [T, Dv] and log_rest [T].
inline void naive_stick_breaking(const NaiveInput& x, MutableMatrix out,
                                 std::vector<double>& log_rest) {
  log_rest.resize(static_cast<std::size_t>(x.q.extent(0)));
  for (std::int64_t i = 0; i < x.q.extent(0); ++i) {
    const auto weights = naive_stick_weights(x, i, log_rest[static_cast<std::size_t>(i)]);
    for (std::int64_t d = 0; d < x.v.extent(1); ++d) {
      out(i, d) = 0;
      for (std::int64_t j = 0; j < x.k.extent(0); ++j)
        if (x.seen(i, j) != 0) out(i, d) += weights[static_cast<std::size_t>(j)] * x.v(j, d);
    }
  }
}

// Adds to the gradients of q, k and v.
inline void naive_stick_breaking_backward(const NaiveInput& x, Matrix out_grad,
                                          const NaiveGradients& grad) {
  const std::int64_t keys = x.k.extent(0);
  for (std::int64_t i = 0; i < x.q.extent(0); ++i) {
    double log_rest = 0;
    const auto weights = naive_stick_weights(x, i, log_rest);
    std::vector<double> weighted(weights.size());  // gradient of a weight, times the weight
    for (std::int64_t j = 0; j < keys; ++j)
      if (x.seen(i, j) != 0)
        weighted[static_cast<std::size_t>(j)] =
            weights[static_cast<std::size_t>(j)] * naive_product(out_grad, i, x.v, j);
    for (std::int64_t m = 0; m < keys; ++m) {
      if (x.seen(i, m) == 0) continue;
      const double gate = naive_gate(x, i, m);
      // The logit of key m changes the weight of m, and shortens the stick left of m.
      double logit_grad = 0;
      for (std::int64_t j = 0; j <= m; ++j)
        logit_grad += weighted[static_cast<std::size_t>(j)] * (j == m ? 1 - gate : -gate);
      for (std::int64_t d = 0; d < x.q.extent(1); ++d) {
        grad.q(i, d) += x.scale * logit_grad * x.k(m, d);
        grad.k(m, d) += x.scale * logit_grad * x.q(i, d);
      }
      for (std::int64_t d = 0; d < x.v.extent(1); ++d)
        grad.v(m, d) += weights[static_cast<std::size_t>(m)] * out_grad(i, d);
    }
  }
}

}  // namespace gnomon::testing
