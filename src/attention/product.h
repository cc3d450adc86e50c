// The product of queries and keys of a call: gates of channels, Householder factors, a polar
// form.
#pragma once

#include "src/attention/problem.h"

namespace gnomon::internal {

// Takes the product of the plan and the terms that it requires. Throws std::invalid_argument if
// a term is missing or has another shape, if the plan has a part that cannot be combined with
// the product, or if a gate is positive.
void take_product(const AttentionPlan& plan, const TokenTerms& terms,
                  AttentionProblem& problem);

// Takes the gradients of the terms. Throws std::invalid_argument if a shape does not match.
template <typename A>
void take_product_gradients(const TokenTermGradients& gradients, BackwardProblem<A>& problem);

}  // namespace gnomon::internal
