// Rankings of encodings, and of all ways to use them, at each context length.
#pragma once

#include <vector>

#include "apps/lab/statistics/contrasts.h"
#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// Sets `ways` and `rankings` from the encodings and runs, for a task with text: for each
// length, from best to worst by the loss on the same test bytes (is_lower), and the excluded
// encodings after the others. At the training length, there is only the whole context.
void rank_ways(Results& results);

// The comparison of all ways at a length, an index of Results::ways, in their order. 95 % of
// all sessions make no false statement about any length.
Contrasts contrasts_at(const Results& results, std::size_t length);

}  // namespace gnomon::lab
