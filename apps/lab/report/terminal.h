// The output of the lab at the end: the answer and its numbers, from results.json only.
#pragma once

#include <string>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

enum class Colour { never = 1, always };

// Prints the sentences, then the tables.
std::string terminal_summary(const Results& results, Colour colour);

}  // namespace gnomon::lab
