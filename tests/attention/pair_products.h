// Reference attention in double for products of a query and a key that are not dot products:
// softmax, cap, bias, sinks and mask of given products, and the gradient of the products.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/oracle.h"

namespace gnomon::testing {

struct PairResult {
  Tensor<double, 4> out;       // [B, T, Hq, Dv]
  Tensor<double, 4> products;  // [B, Hq, T, S]: gradient of the products
  Tensor<double, 4> v;         // [B, S, Hk, Dv]: gradient of the values
};

// products: [B, Hq, T, S], before the scale.
inline PairResult pair_attention(const AttentionCase& c, const Tensor<double, 4>& products,
                                 const Tensor<double, 4>& v,
                                 const Tensor<double, 4>& out_grad) {
  PairResult result{Tensor<double, 4>({c.batch, c.queries, c.heads, c.values}),
                    Tensor<double, 4>(products.extents), Tensor<double, 4>(v.extents)};
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t i = 0; i < c.queries; ++i) {
        const std::int64_t g = h / (c.heads / c.key_heads);
        const double sink = c.plan.softmax.sinks.empty()
                                ? -std::numeric_limits<double>::infinity()
                                : c.plan.softmax.sinks[static_cast<std::size_t>(h)];
        std::vector<double> score(static_cast<std::size_t>(c.keys)), by = score, p = score;
        double most = sink;
        for (std::int64_t j = 0; j < c.keys; ++j) {
          if (!sees(c, b, i, j)) continue;
          const auto n = static_cast<std::size_t>(j);
          score[n] = c.scale() * products.view()(b, h, i, j), by[n] = c.scale();
          if (c.plan.softmax.cap) {
            const double bent = std::tanh(score[n] / *c.plan.softmax.cap);
            score[n] = *c.plan.softmax.cap * bent, by[n] *= 1 - bent * bent;
          }
          score[n] += bias(c, b, h, i, j);
          most = std::max(most, score[n]);
        }
        if (std::isinf(most)) continue;
        double sum = std::exp(sink - most), mean = 0;
        for (std::int64_t j = 0; j < c.keys; ++j)
          if (sees(c, b, i, j)) sum += std::exp(score[static_cast<std::size_t>(j)] - most);
        std::vector<double> of_weight(p.size());
        for (std::int64_t j = 0; j < c.keys; ++j) {
          if (!sees(c, b, i, j)) continue;
          const auto n = static_cast<std::size_t>(j);
          p[n] = std::exp(score[n] - most) / sum;
          add(p[n], head_of(v, b, j, g), c.values, head_of(result.out, b, i, h));
          add(p[n], head_of(out_grad, b, i, h), c.values, head_of(result.v, b, j, g));
          of_weight[n] = static_cast<double>(
              dot(head_of(out_grad, b, i, h), head_of(v, b, j, g), c.values));
          mean += p[n] * of_weight[n];
        }
        for (std::int64_t j = 0; j < c.keys; ++j) {
          const auto n = static_cast<std::size_t>(j);
          result.products.view()(b, h, i, j) = by[n] * p[n] * (of_weight[n] - mean);
        }
      }
  return result;
}

// One head of a tensor [B, T, H, D] as a matrix [T, D].
template <typename T>
View<T, 2> head_matrix(View<T, 4> x, std::int64_t b, std::int64_t h) {
  return {x.data() + b * x.stride(0) + h * x.stride(2),
          {x.extent(1), x.extent(3)},
          {x.stride(1), x.stride(3)}};
}

template <typename T, std::size_t Rank>
Tensor<T, Rank> cast(const Tensor<double, Rank>& from) {
  Tensor<T, Rank> to(from.extents);
  for (std::size_t n = 0; n < from.values.size(); ++n)
    to.values[n] = static_cast<T>(from.values[n]);
  return to;
}

// The greatest difference, relative to the greatest magnitude of `exact` (at least 1).
template <typename T, std::size_t Rank>
double greatest_error(const Tensor<T, Rank>& got, const Tensor<double, Rank>& exact) {
  double worst = 0, most = 1;
  for (std::size_t n = 0; n < exact.values.size(); ++n) {
    const double difference = std::abs(as_double(got.values[n]) - exact.values[n]);
    if (!(difference <= worst)) worst = difference;  // NaN too
    most = std::max(most, std::abs(exact.values[n]));
  }
  return worst / most;
}

}  // namespace gnomon::testing
