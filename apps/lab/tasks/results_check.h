// Checks of results that an earlier session wrote: the lengths of lists must fit the settings.
#pragma once

#include <vector>

#include "apps/lab/data/run_result.h"

namespace gnomon::lab {

// Throws std::invalid_argument("another " + rule) unless it holds.
void need_same(bool holds, const char* rule);

// Throws std::invalid_argument if a number is not finite.
void need_finite(const std::vector<double>& numbers);

// Throws std::invalid_argument with the reason.
void check_run(const RunResult& run, const Settings& settings);

}  // namespace gnomon::lab
