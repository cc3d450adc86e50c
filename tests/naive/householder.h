// Naive version of products through Householder factors (PaTH), written from the formula: one
// head, double, one factor after another for each query.
#pragma once

#include <cstdint>
#include <vector>

#include "naive/attention.h"

namespace gnomon::testing {

// x - beta (w . x) w.
inline std::vector<double> naive_reflection(View<const double, 1> w, double beta,
                                            const std::vector<double>& x) {
  double product = 0;
  std::vector<double> y = x;
  for (std::size_t n = 0; n < x.size(); ++n) product += w(static_cast<std::int64_t>(n)) * x[n];
  for (std::size_t n = 0; n < x.size(); ++n)
    y[n] -= beta * product * w(static_cast<std::int64_t>(n));
  return y;
}

// Calls visit(i, j, H_(j+1) ... H_i q_i) for j from i + offset to 0. counts(i, s): whether the
// factor of row s counts for query i. w: [S, D]; betas: [S].
template <typename Counts, typename Visit>
void for_reflected(Matrix q, Matrix w, View<const double, 1> betas, std::int64_t offset,
                   const Counts& counts, const Visit& visit) {
  for (std::int64_t i = 0; i < q.extent(0); ++i) {
    std::vector<double> x;
    for (std::int64_t n = 0; n < q.extent(1); ++n) x.push_back(q(i, n));
    for (std::int64_t j = i + offset; j >= 0; --j) {
      visit(i, j, x);
      if (counts(i, j)) x = naive_reflection(w[j], betas(j), x);
    }
  }
}

// out [T, S] = k_j . H_(j+1) ... H_i q_i for j <= i + offset, 0 for other pairs.
template <typename Counts>
void naive_householder_products(Matrix q, Matrix k, Matrix w, View<const double, 1> betas,
                                std::int64_t offset, const Counts& counts, MutableMatrix out) {
  for (std::int64_t i = 0; i < q.extent(0); ++i)
    for (std::int64_t j = 0; j < k.extent(0); ++j) out(i, j) = 0;
  for_reflected(q, w, betas, offset, counts,
                [&](std::int64_t i, std::int64_t j, const std::vector<double>& x) {
                  for (std::size_t n = 0; n < x.size(); ++n)
                    out(i, j) += k(j, static_cast<std::int64_t>(n)) * x[n];
                });
}

// Adds to the gradients of q, k, w and betas, given that of out.
template <typename Counts>
void naive_householder_products_backward(Matrix q, Matrix k, Matrix w,
                                         View<const double, 1> betas, std::int64_t offset,
                                         const Counts& counts, Matrix out_grad,
                                         MutableMatrix q_grad, MutableMatrix k_grad,
                                         MutableMatrix w_grad, View<double, 1> betas_grad) {
  const std::int64_t size = q.extent(1);
  std::vector<std::vector<std::vector<double>>> met(static_cast<std::size_t>(q.extent(0)));
  for_reflected(q, w, betas, offset, counts,
                [&](std::int64_t i, std::int64_t, const std::vector<double>& x) {
                  met[static_cast<std::size_t>(i)].push_back(x);
                });
  for (std::int64_t i = 0; i < q.extent(0); ++i) {
    std::vector<double> grad(static_cast<std::size_t>(size));
    for (std::int64_t j = 0; j <= i + offset; ++j) {
      const auto& x =
          met[static_cast<std::size_t>(i)][static_cast<std::size_t>(i + offset - j)];
      if (counts(i, j)) {
        double of_x = 0, of_grad = 0;
        for (std::int64_t n = 0; n < size; ++n) {
          of_x += w(j, n) * x[static_cast<std::size_t>(n)];
          of_grad += w(j, n) * grad[static_cast<std::size_t>(n)];
        }
        betas_grad(j) -= of_x * of_grad;
        for (std::int64_t n = 0; n < size; ++n)
          w_grad(j, n) -= betas(j) * (of_x * grad[static_cast<std::size_t>(n)] +
                                      of_grad * x[static_cast<std::size_t>(n)]);
        grad = naive_reflection(w[j], betas(j), grad);
      }
      for (std::int64_t n = 0; n < size; ++n) {
        grad[static_cast<std::size_t>(n)] += out_grad(i, j) * k(j, n);
        k_grad(j, n) += out_grad(i, j) * x[static_cast<std::size_t>(n)];
      }
    }
    for (std::int64_t n = 0; n < size; ++n) q_grad(i, n) += grad[static_cast<std::size_t>(n)];
  }
}

}  // namespace gnomon::testing
