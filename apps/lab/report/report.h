// The report: an HTML page that opens from disk, and results.json.
#pragma once

#include <filesystem>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// Writes OUT/results.json and OUT/index.html. Returns the path of index.html.
std::filesystem::path write_report(const std::filesystem::path& out, const Results& results);

}  // namespace gnomon::lab
