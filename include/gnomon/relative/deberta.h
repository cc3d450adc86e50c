// DeBERTa's disentangled attention: the content of a query is multiplied with the position of
// the key, and the content of a key with the position of the query.
//
//   He et al. "DeBERTa: Decoding-enhanced BERT with Disentangled Attention", 2020.
//   https://arxiv.org/abs/2006.03654, section 3.1.
//
//   score[h, i, j] = scale ( q_i . k_j + q_i . K_h[row] + k_j . Q_h[row] )
//
//   row = clip(f(i - j) + span, 0, 2 span - 1),   K = W_k x,   Q = W_q x
//
// x are the trained embeddings of distances. f is the identity or a logarithmic bucket. Both
// terms use the same row: the released code indexes the second term by the key, with the
// negated distance -(j - i), and transposes the result.
//
// Letters: H heads, D head dimension, C width of the embeddings, N distances.
#pragma once

#include <cstdint>
#include <optional>

#include "gnomon/relative/form.h"
#include "gnomon/view.h"

namespace gnomon {

enum class DebertaDistance {
  raw = 1,      // DeBERTa (v1): f is the identity
  logarithmic,  // v2 and v3: the identity up to span / 2, then logarithmic buckets
};

enum class DebertaTerms {
  content_to_position = 1,  // `c2p`: queries times K
  position_to_content,      // `p2c`: keys times Q
  both,
};

struct Deberta {
  std::int64_t heads = 0;     // H; at least 1
  std::int64_t head_dim = 0;  // D; at least 1
  std::int64_t width = 0;     // C; at least 1
  // Half the number of embeddings: `position_buckets` if distances are logarithmic (even, at
  // least 4), `max_relative_positions` if they are raw.
  std::int64_t span = 0;
  DebertaDistance distance = {};
  // Logarithmic only: `max_relative_positions` or, if that is below 1,
  // `max_position_embeddings`; more than span / 2 + 1.
  std::int64_t max_distance = 512;
  DebertaTerms terms = DebertaTerms::both;
  // Added to the variance in the layer norm of the embeddings (`norm_rel_ebd`). None: no norm.
  std::optional<double> norm_epsilon = {};

  bool operator==(const Deberta&) const = default;
};

// Returns f(difference), difference = i - j. It equals that of the released models: logarithms
// in float32.
std::int64_t bucket(const Deberta& deberta, std::int64_t difference);
// Returns the row of the embeddings for a distance (key - query), 0 to 2 span - 1.
std::int64_t row(const Deberta& deberta, std::int64_t distance);
// Returns the softmax scale that attention must use: 1 / sqrt(D (1 + terms)) where terms is 1
// or 2.
double softmax_scale(const Deberta& deberta);

// The trained parameters. A view is empty if the spec has no such term or the model has no such
// bias. With `share_att_key` (v2 and v3) the matrices are the query and key projections of the
// layer.
struct DebertaWeights {
  View<const float, 2> embeddings;  // [2 span, C]
  View<const float, 2> key;         // W_k [H D, C], head by head: `pos_proj`, `pos_key_proj`
  View<const float, 2> query;       // W_q [H D, C]: `pos_q_proj`, `pos_query_proj`
  View<const float, 2> key_bias = {}, query_bias = {};    // [1, H D] or empty
  View<const float, 2> norm_weight = {}, norm_bias = {};  // [1, C], with a norm
};
// Returns the plan for `count` distances from `min_distance` on. Throws std::invalid_argument
// if a shape does not match the spec or a field is out of bounds. Cost: for each row that the
// distances use, H D C multiply-adds per term. Memory: O(H D + C) for each of these rows.
RelativeForm lower(const Deberta& deberta, const DebertaWeights& weights,
                   std::int64_t min_distance, std::int64_t count);

// Gradient of `lower` for the same distances: adds the gradient of the form, as returned by the
// backward pass of attention, to weights_grad, which has the shapes of the weights. One
// rounding per parameter. Deterministic.
struct DebertaGradients {
  View<float, 2> embeddings, key, query;
  View<float, 2> key_bias = {}, query_bias = {};
  View<float, 2> norm_weight = {}, norm_bias = {};
};
void lower_backward(const Deberta& deberta, const DebertaWeights& weights,
                    std::int64_t min_distance, std::int64_t count, const RelativeGradient& grad,
                    const DebertaGradients& weights_grad);

}  // namespace gnomon
