// What attention refuses, before anything is written.
#pragma once

#include "src/attention/problem.h"

namespace gnomon::internal {

// Everything about the sizes, the mask and the positions that does not need the tensors.
// Throws std::invalid_argument.
void check(const AttentionProblem& problem);

}  // namespace gnomon::internal
