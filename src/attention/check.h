// The checks of attention, which run before anything is written.
#pragma once

#include "gnomon/attention/layer_plan.h"
#include "src/attention/problem.h"

namespace gnomon::internal {

// Returns the mask of a plan with its offset, for T query rows and S key rows.
KnownMask known_mask(const AttentionPlan& plan, std::int64_t queries, std::int64_t keys);

// Checks sizes, mask and positions: everything that does not depend on the tensors. Throws
// std::invalid_argument.
void check(const AttentionProblem& problem);

// Throws std::invalid_argument if the plan rotates elements in `prepare` and in attention.
void check_rotated_once(const LayerPlan& plan);

}  // namespace gnomon::internal
