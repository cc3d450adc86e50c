// The results of a session with models of several sizes (model_size.h): statements that hold at
// every size, and the results of each size, as those of a session with that size only.
#pragma once

#include <string>
#include <vector>

#include "apps/lab/results.h"
#include "gnomon/plot/page.h"

namespace gnomon::lab {

// Whether the entries have sizes.
bool has_sizes(const Results& results);

// The results of each size, in the order of the entries. Encodings have no sizes.
std::vector<Results> results_by_size(const Results& all);

// Sets `sizes` and `answer` of results that have all but these.
void compare_sizes(Results& results);

// "2 layers of width 64, 0.11 million parameters".
std::string size_text(const SizeResult& size);

// The length or the range of a ranking: "128 bytes", "1 to 12 words".
std::string place_text(const Results& results, const Ranking& at);

// Losses or scores of each encoding by size, at the training length and at the longest.
plot::Table size_table(const Results& all, const std::vector<Results>& sizes);
// The same by number of parameters. The length or the range is an index of Results::rankings.
std::string size_curves(const Results& all, const std::vector<Results>& sizes,
                        std::size_t length);
// The recommendations of all sizes.
plot::Table size_recommendations(const std::vector<Results>& sizes);

}  // namespace gnomon::lab
