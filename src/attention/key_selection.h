// One call of select_keys as the kernels receive it: checked, and without element types.
#pragma once

#include <cstdint>

#include "src/attention/problem.h"

namespace gnomon::internal {

struct SelectionProblem {
  AttentionProblem keys_seen;  // q, k and the mask
  Operand weights;             // [B, T, 1, H]: a head vector for each query
  View<std::int32_t, 3> selected;
};

// Writes the rows of the greatest of `count` scores in ascending order, then -1. order: scratch
// of `count` elements.
template <typename A>
void choose(const A* scores, std::int64_t count, std::int32_t* order, std::int64_t kept,
            std::int32_t* selected, std::int64_t step);

// The kernels, one for each accumulator type.
void run_selection(const SelectionProblem& problem, float);
void run_selection(const SelectionProblem& problem, double);

}  // namespace gnomon::internal
