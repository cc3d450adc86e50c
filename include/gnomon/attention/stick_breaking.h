// Stick-breaking attention: each query breaks parts off a stick of length 1, from its own row
// leftwards. The weights order the keys, so no positions are added.
//
//   Tan et al. "Scaling Stick-Breaking Attention: An Efficient Implementation and In-depth
//   Study", 2024. https://arxiv.org/abs/2410.17980
//
//   z(i, j)      = scale q_i . k_j
//   weight(i, j) = sigmoid(z(i, j)) prod_l (1 - sigmoid(z(i, l))),  seen keys l with j < l
//   out(i)       = sum_j weight(i, j) v_j
//
// The weights of a row sum to at most 1. The rest of the stick belongs to no key.
//
// Naive version: tests/naive/walk.h, `naive_stick_breaking`, `naive_stick_breaking_backward`.
#pragma once

#include <span>

namespace gnomon {

// Whether the key at the row of the query takes part.
enum class OwnKey {
  excluded = 1,  // j < i: the paper. The first row of a sequence sees no key and gives zeros.
  included,      // j <= i: `attend_current` of the released code
};

// A plain value, and the plan: AttentionPlan::stick_breaking. The log-sum-exp that attention
// writes is then the logarithm of the rest of the stick, -infinity if the rest is below 2^-100
// (double: 2^-960). Keys to the left of that point have weights of 0. Cannot be combined with
// bidirectional attention, sinks, a cap, a bias, gates or relative vectors.
struct StickBreaking {
  OwnKey own_key = OwnKey::excluded;  // whether the key at the row of the query counts

  bool operator==(const StickBreaking&) const = default;
};

// Replaces the scores z of one query by weights: those of the keys that it sees, in order, the
// key at its row last. For inspection.
void stick_weights(const StickBreaking& sticks, std::span<double> scores);

}  // namespace gnomon
