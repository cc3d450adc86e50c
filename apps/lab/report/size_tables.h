// Tables and charts of a session with models of several sizes.
#pragma once

#include <string>
#include <vector>

#include "apps/lab/statistics/results.h"
#include "gnomon/plot/page.h"

namespace gnomon::lab {

// Losses or scores of each encoding by size, at the training length and at the longest.
plot::Table size_table(const Results& all, const std::vector<Results>& sizes);
// The same by number of parameters. The length or the range is an index of Results::rankings.
std::string size_curves(const Results& all, const std::vector<Results>& sizes,
                        std::size_t length);
// The recommendations of all sizes.
plot::Table size_recommendations(const std::vector<Results>& sizes);

}  // namespace gnomon::lab
