// The checks of a ragged batch, and its description for the kernels.
#pragma once

#include "src/attention/problem.h"

namespace gnomon::internal {

// Computes attention with `ragged` in place of that of the plan, which is not copied.
void attend(const AttentionInput& input, const AttentionPlan& plan, const RaggedBatch& ragged,
            const Tensor& out, const Tensor& lse);

// Throws std::invalid_argument if a plan with a ragged batch has a part, or the call a term,
// that cannot be combined with it.
void check_ragged_plan(const AttentionPlan& plan, const RaggedBatch& ragged,
                       const TokenTerms& terms);

// Throws std::invalid_argument if the plan has a ragged batch.
void refuse_ragged(std::string_view operation, const AttentionPlan& plan);

// Sets the sequences, lengths and places of rows of a problem whose q, k and v are described.
// Throws std::invalid_argument if lengths or blocks do not fit the tensors.
void take_ragged(const AttentionInput& input, const RaggedBatch& ragged,
                 AttentionProblem& problem);

// Returns the range of the positions of the queries of a ragged batch.
IdRange query_range(const AttentionProblem& problem);

}  // namespace gnomon::internal
