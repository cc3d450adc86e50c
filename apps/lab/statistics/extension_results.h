// The results of --extend over seeds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/lab/statistics/extension_results.h"
#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// Results over seeds.
std::vector<ExtensionResult> extension_results(const std::vector<EncodingResult>& encodings,
                                               const std::vector<RunResult>& runs);

// Sentences about the gain of each method at the longest length.
std::vector<std::string> extension_answer(const std::vector<ExtensionResult>& extensions,
                                          std::string_view unit);

}  // namespace gnomon::lab
