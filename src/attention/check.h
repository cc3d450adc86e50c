// The checks of attention, which run before anything is written.
#pragma once

#include "src/attention/problem.h"

namespace gnomon::internal {

// Checks sizes, mask and positions: everything that does not depend on the tensors. Throws
// std::invalid_argument.
void check(const AttentionProblem& problem);

}  // namespace gnomon::internal
