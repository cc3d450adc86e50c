// The losses or answers of the report as a table for spreadsheets and scripts.
#pragma once

#include <string>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// Text: a line for each encoding, length and context (whole, cut, extended, tuned). Examples: a
// line for each encoding and range of lengths. docs/lab/results.md lists the columns.
std::string to_csv(const Results& results);

}  // namespace gnomon::lab
