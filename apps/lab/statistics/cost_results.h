// The costs of the encodings, from the measurements.
#pragma once

#include <vector>

#include "apps/lab/statistics/cost_results.h"
#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// The costs of the assembled encodings. More memory than that of none is set only if it exceeds
// the differences between equal measurements by 2 MiB and 2 %.
std::vector<EncodingCost> cost_results(const std::vector<MeasuredCost>& measured,
                                       const std::vector<EncodingResult>& encodings);

}  // namespace gnomon::lab
