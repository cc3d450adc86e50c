// Naive version of products whose channels decay (Wall), written from the formula: one head,
// double, one sum for each pair and channel.
#pragma once

#include <cmath>
#include <cstdint>

#include "naive/attention.h"

namespace gnomon::testing {

// Calls visit(i, j, n, exp(c_in - c_jn)) for each pair j <= i + offset and channel n, where c
// is the inclusive sum of the gates [S, D]. counts(i, s): whether the gate of row s counts for
// query i (it is in the query's sequence).
template <typename Counts, typename Visit>
void for_decays(Matrix gates, std::int64_t queries, std::int64_t offset, const Counts& counts,
                const Visit& visit) {
  for (std::int64_t i = 0; i < queries; ++i)
    for (std::int64_t n = 0; n < gates.extent(1); ++n) {
      double sum = 0;
      for (std::int64_t j = i + offset; j >= 0; --j) {
        visit(i, j, n, std::exp(sum));
        if (counts(i, j)) sum += gates(j, n);
      }
    }
}

// out [T, S] = sum over n of q_in k_jn exp(c_in - c_jn) for j <= i + offset, 0 for other pairs.
template <typename Counts>
void naive_gated_products(Matrix q, Matrix k, Matrix gates, std::int64_t offset,
                          const Counts& counts, MutableMatrix out) {
  for (std::int64_t i = 0; i < q.extent(0); ++i)
    for (std::int64_t j = 0; j < k.extent(0); ++j) out(i, j) = 0;
  for_decays(gates, q.extent(0), offset, counts,
             [&](std::int64_t i, std::int64_t j, std::int64_t n, double decay) {
               out(i, j) += q(i, n) * k(j, n) * decay;
             });
}

// Adds to the gradients of q, k and gates, given that of out. The gate of row t counts in the
// pairs with j < t <= i + offset.
template <typename Counts>
void naive_gated_products_backward(Matrix q, Matrix k, Matrix gates, std::int64_t offset,
                                   const Counts& counts, Matrix out_grad, MutableMatrix q_grad,
                                   MutableMatrix k_grad, MutableMatrix gates_grad) {
  for_decays(gates, q.extent(0), offset, counts,
             [&](std::int64_t i, std::int64_t j, std::int64_t n, double decay) {
               const double by = out_grad(i, j) * decay;
               if (by == 0) return;
               q_grad(i, n) += by * k(j, n);
               k_grad(j, n) += by * q(i, n);
               for (std::int64_t t = j + 1; t <= i + offset; ++t)
                 if (counts(i, t)) gates_grad(t, n) += by * q(i, n) * k(j, n);
             });
}

}  // namespace gnomon::testing
