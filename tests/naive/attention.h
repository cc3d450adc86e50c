// Naive versions of attention, of relative vectors and of cosine attention: one head, double,
// loops. Heads and rows of a batch are independent.
//
// Letters: T queries, S keys, D head dimension, Dv head dimension of the values, N distances.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gnomon/view.h"

namespace gnomon::testing {

using Matrix = View<const double, 2>;
using MutableMatrix = View<double, 2>;

// weights [T, S] of one query and key: softmax of scale q . k + bias over the keys. The bias of
// a hidden key is -infinity. A query without a visible key has weights of zero.
inline void naive_weights(Matrix q, Matrix k, Matrix bias, double scale,
                          MutableMatrix weights) {
  for (std::int64_t i = 0; i < q.extent(0); ++i) {
    double greatest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t j = 0; j < k.extent(0); ++j) {
      double product = 0;
      for (std::int64_t d = 0; d < q.extent(1); ++d) product += q(i, d) * k(j, d);
      weights(i, j) = scale * product + bias(i, j);
      greatest = std::max(greatest, weights(i, j));
    }
    for (std::int64_t j = 0; j < k.extent(0); ++j) {
      weights(i, j) = std::isinf(greatest) ? 0 : std::exp(weights(i, j) - greatest);
      sum += weights(i, j);
    }
    for (std::int64_t j = 0; j < k.extent(0); ++j) weights(i, j) /= sum > 0 ? sum : 1;
  }
}

// out [T, Dv] = weights v.
inline void naive_attention(Matrix q, Matrix k, Matrix v, Matrix bias, double scale,
                            MutableMatrix out) {
  std::vector<double> memory(static_cast<std::size_t>(q.extent(0) * k.extent(0)));
  const MutableMatrix weights(memory.data(), {q.extent(0), k.extent(0)});
  naive_weights(q, k, bias, scale, weights);
  for (std::int64_t i = 0; i < q.extent(0); ++i)
    for (std::int64_t d = 0; d < v.extent(1); ++d) {
      out(i, d) = 0;
      for (std::int64_t j = 0; j < k.extent(0); ++j) out(i, d) += weights(i, j) * v(j, d);
    }
}

// Adds to the gradients of q, k, v and bias, given that of out.
inline void naive_attention_backward(Matrix q, Matrix k, Matrix v, Matrix bias, double scale,
                                     Matrix out_grad, MutableMatrix q_grad,
                                     MutableMatrix k_grad, MutableMatrix v_grad,
                                     MutableMatrix bias_grad) {
  std::vector<double> memory(static_cast<std::size_t>(q.extent(0) * k.extent(0)));
  const MutableMatrix weights(memory.data(), {q.extent(0), k.extent(0)});
  naive_weights(q, k, bias, scale, weights);
  std::vector<double> weight_grad(static_cast<std::size_t>(k.extent(0)));
  for (std::int64_t i = 0; i < q.extent(0); ++i) {
    double mean = 0;  // mean gradient of the weights
    for (std::int64_t j = 0; j < k.extent(0); ++j) {
      double& grad = weight_grad[static_cast<std::size_t>(j)] = 0;
      for (std::int64_t d = 0; d < v.extent(1); ++d) {
        grad += out_grad(i, d) * v(j, d);
        v_grad(j, d) += weights(i, j) * out_grad(i, d);
      }
      mean += weights(i, j) * grad;
    }
    for (std::int64_t j = 0; j < k.extent(0); ++j) {
      const double score_grad =
          weights(i, j) * (weight_grad[static_cast<std::size_t>(j)] - mean);
      bias_grad(i, j) += score_grad;
      for (std::int64_t d = 0; d < q.extent(1); ++d) {
        q_grad(i, d) += scale * score_grad * k(j, d);
        k_grad(j, d) += scale * score_grad * q(i, d);
      }
    }
  }
}

// out [T, S]: the terms that vectors by distance add to q . k. Row n of `keys` and of `queries`
// [N, D] is the vector of distance min_distance + n; shift [D] is added to the queries. Query i
// is at position i + offset, key j at position j.
inline void naive_relative_scores(Matrix q, Matrix k, Matrix keys, Matrix queries,
                                  View<const double, 1> shift, std::int64_t min_distance,
                                  std::int64_t offset, MutableMatrix out) {
  for (std::int64_t i = 0; i < q.extent(0); ++i)
    for (std::int64_t j = 0; j < k.extent(0); ++j) {
      const std::int64_t n = j - (i + offset) - min_distance;
      out(i, j) = 0;
      for (std::int64_t d = 0; d < q.extent(1); ++d)
        out(i, j) +=
            shift(d) * k(j, d) + (q(i, d) + shift(d)) * keys(n, d) + k(j, d) * queries(n, d);
    }
}

// out [T, S]: the terms r . projected of vectors by distance, without a softmax scale. Row n of
// `projected` [N, K] is the vector of distance min_distance + n. Other distances have a term of
// zero. Query i is at position i + offset, key j at position j.
inline void naive_projected_scores(Matrix r, Matrix projected, std::int64_t min_distance,
                                   std::int64_t offset, MutableMatrix out) {
  for (std::int64_t i = 0; i < out.extent(0); ++i)
    for (std::int64_t j = 0; j < out.extent(1); ++j) {
      const std::int64_t n = j - (i + offset) - min_distance;
      out(i, j) = 0;
      for (std::int64_t d = 0; n >= 0 && n < projected.extent(0) && d < r.extent(1); ++d)
        out(i, j) += r(i, d) * projected(n, d);
    }
}

// Adds to the gradients of the vectors, given that of the terms.
inline void naive_relative_scores_backward(Matrix q, Matrix k, View<const double, 1> shift,
                                           std::int64_t min_distance, std::int64_t offset,
                                           Matrix out_grad, MutableMatrix keys_grad,
                                           MutableMatrix queries_grad) {
  for (std::int64_t i = 0; i < q.extent(0); ++i)
    for (std::int64_t j = 0; j < k.extent(0); ++j) {
      const std::int64_t n = j - (i + offset) - min_distance;
      for (std::int64_t d = 0; d < q.extent(1); ++d) {
        keys_grad(n, d) += out_grad(i, j) * (q(i, d) + shift(d));
        queries_grad(n, d) += out_grad(i, j) * k(j, d);
      }
    }
}

// out [D] = scale x / max(|x|, 1e-12), for one head vector x [D].
inline void naive_normalise(View<const double, 1> x, double scale, View<double, 1> out) {
  double squares = 0;
  for (std::int64_t d = 0; d < x.extent(0); ++d) squares += x(d) * x(d);
  for (std::int64_t d = 0; d < x.extent(0); ++d)
    out(d) = scale * x(d) / std::max(std::sqrt(squares), 1e-12);
}
// x_grad [D], given the gradient of out. Requires |x| of at least 1e-12.
inline void naive_normalise_backward(View<const double, 1> x, double scale,
                                     View<const double, 1> out_grad, View<double, 1> x_grad) {
  double squares = 0, product = 0;
  for (std::int64_t d = 0; d < x.extent(0); ++d) squares += x(d) * x(d);
  for (std::int64_t d = 0; d < x.extent(0); ++d) product += x(d) * out_grad(d);
  for (std::int64_t d = 0; d < x.extent(0); ++d)
    x_grad(d) = scale * (out_grad(d) - x(d) * product / squares) / std::sqrt(squares);
}

}  // namespace gnomon::testing
