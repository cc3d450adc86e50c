// The form of relative vectors: trained vectors by distance that attention combines with
// queries, keys and weights without building an array [T, S, D]. Every encoding of this module
// lowers to this form. Attention knows the form, but no encoding by name.
//
//   score[h, i, j] = scale ( (q_i + shift_h) . k_j  +  (q_i + shift_h) . keys[h, row(j - i)]
//                                                   +  k_j . queries[h, row(j - i)] )
//                    + r_i . projected[h, row(j - i)] + bias
//   out[h, i]      = sum_j weight[h, i, j] (v_j + values[h, row(j - i)])
//
// Vectors by contextual position (CoPE) add q_i . e_h[p(h, i, j)]: see ContextualVectors.
//
// Distance = position(key) - position(query). It is negative for past keys. r_i is a separate
// query, TokenTerms::relative_queries.
// Letters: H query heads, D head dimension, Dv head dimension of the values, K elements of a
// separate query, N distances, R vectors of a table, P positions.
//
// Naive version: tests/naive/attention.h, `naive_relative_scores`, `naive_projected_scores`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gnomon/view.h"

namespace gnomon {

// A table of vectors and the row of the table for each distance.
struct RelativeVectors {
  std::int64_t heads = 0;     // H, or 1: all heads share the vectors
  std::int64_t head_dim = 0;  // D; Dv for `values`, K for `projected`
  // rows[distance - min_distance] is the row of a distance, 0 to R - 1. Rows are non-decreasing
  // or non-increasing. Functions that apply the form throw std::invalid_argument for a distance
  // outside the range, before they read any vector. In `projected` the vector of such a
  // distance is zero.
  std::int64_t min_distance = 0;
  std::vector<std::int32_t> rows = {};  // [N]
  std::vector<double> values = {};      // [heads, R, D]
  // Coordinates of the positions along the axis of this table, [P], for positions in a plane
  // (Swin's windows, SAM). The distance is then the difference of the coordinates. If empty, it
  // is the difference of the positions.
  std::vector<std::int64_t> coordinates = {};

  std::int64_t distances() const noexcept {  // N
    return static_cast<std::int64_t>(rows.size());
  }
  std::int64_t vectors() const noexcept {  // R
    return heads && head_dim ? static_cast<std::int64_t>(values.size()) / (heads * head_dim)
                             : 0;
  }
  bool operator==(const RelativeVectors&) const = default;
};

// Vectors by contextual position (CoPE, arXiv:2405.18719). The position of a key is the number
// of keys from that key to the query, each counted with a gate between 0 and 1. It is a real
// number, so the products of two neighbouring vectors are interpolated:
//
//   gate(i, l) = sigmoid(scale q_i . k_l)   if i sees l, else 0
//   p(i, j)    = min(gate(i, j) + ... + gate(i, i), P - 1)
//   term(i, j) = (1 - w) q_i . e[floor p] + w q_i . e[ceil p],  w = p - floor p
//
// The term is added to the score after the softmax scale and is not multiplied by it, as in the
// code of the paper. Letters: P vectors, one for each integer position.
struct ContextualVectors {
  std::int64_t heads = 0;           // H, or 1: all heads share the vectors
  std::int64_t head_dim = 0;        // D
  std::vector<double> values = {};  // [heads, P, D], finite

  std::int64_t positions() const noexcept {  // P
    return heads && head_dim ? static_cast<std::int64_t>(values.size()) / (heads * head_dim)
                             : 0;
  }
  bool operator==(const ContextualVectors&) const = default;
};

// Each part may be empty. If a part has several tables, their terms are added.
struct RelativeForm {
  std::vector<RelativeVectors> keys;     // q . keys: Shaw, Transformer-XL, DeBERTa
  std::vector<RelativeVectors> queries;  // k . queries: BERT's relative_key_query, DeBERTa
  std::vector<RelativeVectors> values;   // weights times values: Shaw
  std::vector<double> shift;             // [H, D], added to every query: Transformer-XL's u
  // r . projected: Inkling. All tables have the same head_dim, and none has coordinates.
  std::vector<RelativeVectors> projected = {};
  // Cannot be combined with the other parts.
  std::optional<ContextualVectors> contextual = {};

  bool empty() const noexcept {
    return keys.empty() && queries.empty() && values.empty() && shift.empty() &&
           projected.empty() && !contextual;
  }
  bool operator==(const RelativeForm&) const = default;
};

// The gradient with respect to the vectors of a form, summed over the batch. Each part has the
// shapes of the `values` of its tables.
struct RelativeGradient {
  std::vector<std::vector<double>> keys, queries, values;
  std::vector<double> shift;  // [H, D]
  std::vector<std::vector<double>> projected = {};
  std::vector<double> contextual = {};
};

// Throws std::invalid_argument unless the form is valid for H query heads, keys of head
// dimension `head_dim` and values of head dimension `value_dim`: each table has 1 or H heads
// and the right dimension, each distance has a row inside its table, rows are non-decreasing or
// non-increasing, shift has a vector for every head, and contextual vectors are finite and the
// only part.
void check(const RelativeForm& form, std::int64_t heads, std::int64_t head_dim,
           std::int64_t value_dim);

// Computes the terms that a form adds to the products q . k, before the softmax scale. For the
// query at position offset + q and the key at position k, out [H, Q, K] is
//
//   shift_h . k_j  +  (q_i + shift_h) . keys[h, row(j - i)]  +  k_j . queries[h, row(j - i)]
//
// Shapes: q [Q, H, D], k [K, Hk, D] where Hk divides H. For inspection, and for engines that
// store scores; attention does not store this matrix. `projected` has no part in it:
// projected_scores. Throws std::invalid_argument if shapes do not match, the form is invalid or
// has contextual vectors, or a distance or position is outside a table. Cost: 3 H Q K D
// multiply-adds.
void relative_scores(const RelativeForm& form, std::int64_t offset, View<const double, 3> q,
                     View<const double, 3> k, View<double, 3> out);

// Computes the terms of `projected`, which have no softmax scale: out[h, i, j] = r_i .
// projected[h, row(j - i)] for the query at position offset + i and the key at position j.
// Shapes: r [Q, H, K], out [H, Q, S]. Throws std::invalid_argument if shapes do not match or a
// table is invalid. Cost: H Q S K multiply-adds.
void projected_scores(const RelativeForm& form, std::int64_t offset, View<const double, 3> r,
                      View<double, 3> out);

// Adds the terms of contextual positions to the scores of one query: its scaled products with
// the keys that it sees, in order, its own key last. query: [D], of head `head` of the table.
// For inspection. Throws std::invalid_argument if a shape does not match.
void add_contextual(const ContextualVectors& table, std::int64_t head,
                    std::span<const double> query, std::span<double> scores);

}  // namespace gnomon
