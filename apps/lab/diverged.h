// Runs that diverged: their losses or scores are not finite (NaN or infinite). Such a number
// ranks last, is shown as "diverged", and is never recommended.
#pragma once

#include <optional>
#include <string>

#include "apps/lab/results.h"

namespace gnomon::lab {

// The order of all rankings by a number whose lowest value is the best: a number that is not
// finite comes after every finite one.
bool is_lower(double a, double b);
// The same if the highest value is the best.
inline bool is_higher(double a, double b) { return is_lower(-a, -b); }

// A number in a format of fmt, or "diverged" if it is not finite.
std::string number_or_diverged(const char* format, double number);

// Whether no encoding has a finite loss or score as in training.
bool all_diverged(const Results& results);
// The advice in this case.
std::string all_diverged_sentence(const Results& results);

// Which encodings diverged, at which lengths. Empty if none did.
std::optional<std::string> diverged_sentence(const Results& results);

}  // namespace gnomon::lab
