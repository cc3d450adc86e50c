// Shaw's relative position representations: a trained vector for each distance, multiplied with
// queries. Optionally, weights or keys use such vectors too.
//
//   Shaw, Uszkoreit, Vaswani. "Self-Attention with Relative Position Representations", 2018.
//   https://arxiv.org/abs/1803.02155, equations 3 to 5.
//   Huang et al. "Improve Transformer Models with Better Relative Position Embeddings", 2020.
//   https://arxiv.org/abs/2009.13658, method 4: BERT's `relative_key_query`.
//
//   score(i, j) = scale (q_i . k_j + q_i . K[row] + k_j . K[row])  last term: queries_and_keys
//   out(i)      = sum_j weight(i, j) (v_j + V[row])                V: queries_and_weights
//
// Letters: H heads, D head dimension, Dv head dimension of the values, L = left + 1 + right
// vectors, N distances.
#pragma once

#include <cstdint>

#include "gnomon/relative/form.h"
#include "gnomon/view.h"

namespace gnomon {

// The row of query i and key j. The distance is clipped first.
enum class ShawOrder {
  past_first = 1,  // j - i + left: Shaw, wav2vec2-BERT, Seamless M4T v2
  future_first,    // i - j + right: BERT, SpeechT5
};

// Distances beyond left or right.
enum class ShawOutside {
  clipped = 1,  // they use the vector of the limit
  refused,      // they throw: BERT's table has a row for every distance of 512 tokens
};

enum class ShawMeets {
  queries = 1,          // `relative_key`
  queries_and_weights,  // the paper: a second table, for the values
  queries_and_keys,     // `relative_key_query`: the same vectors for both
};

struct Shaw {
  std::int64_t heads = 1;      // heads in the tables: H, or 1 if all heads share the vectors
  std::int64_t head_dim = 0;   // D; at least 1
  std::int64_t value_dim = 0;  // Dv; at least 1 with queries_and_weights, else 0
  std::int64_t left = 0;       // largest distance to a past key; 0 to 2^30
  std::int64_t right = 0;      // largest distance to a future key; 0 to 2^30
  ShawMeets meets = {};
  ShawOrder order = ShawOrder::past_first;
  ShawOutside outside = ShawOutside::clipped;

  bool operator==(const Shaw&) const = default;
};

// Return released settings with one table shared by all heads.
Shaw bert_relative_key(std::int64_t head_dim, std::int64_t max_positions = 512);
Shaw bert_relative_key_query(std::int64_t head_dim, std::int64_t max_positions = 512);
namespace relative {
Shaw wav2vec2_bert(std::int64_t head_dim, std::int64_t left = 64, std::int64_t right = 8);
Shaw speecht5(std::int64_t head_dim, std::int64_t max_distance = 160);
}  // namespace relative

// Returns L, the rows of the table of one head.
std::int64_t vectors(const Shaw& shaw);
// Returns the row of a distance (key - query), 0 to L - 1. Throws std::invalid_argument if the
// spec is out of bounds or refuses the distance.
std::int64_t row(const Shaw& shaw, std::int64_t distance);

// The trained tables, each [heads x L, D or Dv], head by head.
struct ShawTables {
  View<const float, 2> keys;
  View<const float, 2> values;  // empty unless `meets` is queries_and_weights
};
// Returns the plan for `count` distances from `min_distance` on. Memory: O(heads L (D + Dv) +
// N). Throws std::invalid_argument if a table has another shape or the spec refuses a distance.
RelativeForm lower(const Shaw& shaw, const ShawTables& tables, std::int64_t min_distance,
                   std::int64_t count);

// Gradient of `lower`: adds the gradient of the form, as returned by the backward pass of
// attention, to tables_grad, which has the shapes of the tables. One rounding per parameter.
struct ShawGradients {
  View<float, 2> keys, values;
};
void lower_backward(const Shaw& shaw, const RelativeGradient& grad,
                    const ShawGradients& tables_grad);

}  // namespace gnomon
