// The report: an HTML page that opens from disk, and results.json.
#pragma once

#include <filesystem>

#include "apps/lab/options.h"

namespace gnomon::lab {

// Writes OUT/results.json and OUT/index.html. Returns the path of index.html.
std::filesystem::path write_report(const std::filesystem::path& out, const Json& results);

}  // namespace gnomon::lab
