// The report: an HTML page that opens from disk, and the output in the terminal.
#pragma once

#include <filesystem>
#include <string>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// Writes OUT/results.json and OUT/index.html. Returns the path of index.html.
std::filesystem::path write_report(const std::filesystem::path& out, const Results& results);

enum class Colour { never = 1, always };

// The output of the lab at the end: the sentences of the answer, then the tables.
std::string terminal_summary(const Results& results, Colour colour);

}  // namespace gnomon::lab
