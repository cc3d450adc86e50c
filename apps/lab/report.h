// The report: one page that opens from disk, and results.json beside it.
#pragma once

#include <filesystem>

#include "apps/lab/options.h"

namespace gnomon::lab {

// Writes OUT/results.json and OUT/index.html; returns the latter's path.
std::filesystem::path write_report(const std::filesystem::path& out, const Json& results);

}  // namespace gnomon::lab
