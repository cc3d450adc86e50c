// Products of queries and keys through Householder factors (PaTH):
//
//   S_ij = k_j . H_(j+1) ... H_i q_i        H_s = I - b_s w_s w_s^T,  H_i acts first
//
// Keys are divided into blocks. Within a block the factors act one by one. A key is moved to
// the end of its block by the later factors of the block, a query to the start of its block,
// and then past each earlier block by the product of the block's factors, I + sum over s of
// product_s w_s^T: two matrix products for each block. So a query is met by moved keys from the
// right to the left.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gnomon/view.h"
#include "src/attention/scratch.h"

namespace gnomon::internal {

constexpr std::int64_t householder_block = 64;

// Rows of all keys, [B, Hk, S, row_stride(D)], and strengths [B, Hk, S]. Padding tokens have
// zeros.
template <typename A>
struct HouseholderRows {
  Numbers<A> keys, moved, w, product;
  std::vector<A> betas;

  HouseholderRows(std::int64_t rows, std::int64_t stride)
      : keys(rows * stride),
        moved(rows * stride),
        w(rows * stride),
        product(rows * stride),
        betas(static_cast<std::size_t>(rows)) {}
};

// The terms of a call, and the gradients that are required.
struct HouseholderTerms {
  View<const float, 4> w;                // [B, S, Hk, D]; without data if there are none
  View<const float, 3> betas;            // [B, Hk, S]
  std::vector<std::int64_t> first_seen;  // [B, T]: the first key row that a query sees
};

}  // namespace gnomon::internal
