// Contextual position encoding (CoPE): trained vectors by contextual position, multiplied by
// queries. Positions count the keys that a gate of the query selects, for example words or
// sentences.
//
//   Golovneva, Wang, Weston, Sukhbaatar. "Contextual Position Encoding: Learning to Count
//   What's Important", 2024. https://arxiv.org/abs/2405.18719. Formula: ContextualVectors.
//
// Not to be confused with clipped RoPE (2026), whose short name is also CoPE.
//
// Letters: H heads, D head dimension, P positions.
#pragma once

#include <cstdint>

#include "gnomon/relative/form.h"
#include "gnomon/view.h"

namespace gnomon {

struct Cope {
  std::int64_t heads = 1;       // heads in the table: H, or 1 if all heads share the vectors
  std::int64_t head_dim = 0;    // D; at least 1
  std::int64_t positions = 64;  // P; positions beyond P - 1 are P - 1; 1 to 2^20

  bool operator==(const Cope&) const = default;
};

// Returns the plan. table: [heads x P, D], head by head. Throws std::invalid_argument if
// the spec is out of bounds or the table has another shape.
RelativeForm lower(const Cope& cope, View<const float, 2> table);

// Gradient of `lower`: adds the gradient of the form, as returned by the backward pass of
// attention, to table_grad [heads x P, D]. One rounding per parameter.
void lower_backward(const Cope& cope, const RelativeGradient& grad, View<float, 2> table_grad);

}  // namespace gnomon
