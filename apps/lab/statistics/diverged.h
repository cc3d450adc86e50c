// Runs that diverged: their losses or scores are not finite (NaN or infinite). Such a number
// ranks last, is shown as "diverged", and is never recommended.
#pragma once

#include <optional>
#include <string>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// Whether no encoding has a finite loss or score as in training.
bool all_diverged(const Results& results);
// The advice in this case.
std::string all_diverged_sentence(const Results& results);

// Which encodings diverged, at which lengths. Empty if none did.
std::optional<std::string> diverged_sentence(const Results& results);

}  // namespace gnomon::lab
