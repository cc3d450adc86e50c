// JSON of results, for results.json.
#pragma once

#include <filesystem>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

Json to_json(const Results& results);

// The measurements in results.json: the settings, metric, texts, machine, requested runs and
// runs, from which compare_encodings() computes the rest. Errors as in tasks/stored.h.
Results read_results(const std::filesystem::path& path);
Results read_results(const Json& stored);

}  // namespace gnomon::lab
