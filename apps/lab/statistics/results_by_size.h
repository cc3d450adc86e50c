// The results of a session with models of several sizes (model_size.h): statements that hold at
// every size, and the results of each size, as those of a session with that size only.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// Whether the entries have sizes.
bool has_sizes(const Results& results);

// In the order of the entries. Encodings have no sizes.
std::vector<Results> results_by_size(const Results& all);

void compare_sizes(Results& results);  // sets `sizes` and `answer` from the other fields

// "2 layers of width 64, 0.11 million parameters".
std::string size_text(const SizeResult& size);

// The length or the range of a ranking: "128 bytes", "1 to 12 words".
std::string place_text(const Results& results, const Ranking& at);

// The parts of the sentences and tables about sizes.
namespace by_size {

// The parameters of the smallest model; 0 if no run is finished.
std::int64_t smallest(const Results& results);
// The first and the last of Results::rankings.
std::set<std::size_t> ends(const Results& results);
// The titles of the encodings of a ranking that may be the best. Empty if no encoding has
// positions for it, takes part, or is better than chance.
std::vector<std::string> best_at(const Results& results, std::size_t at);
// Every encoding once, as in the first size that has it.
std::vector<const EncodingResult*> encodings(const std::vector<Results>& sizes);
std::vector<Results> finished(std::vector<Results> sizes);  // those with a finished run

}  // namespace by_size

}  // namespace gnomon::lab
