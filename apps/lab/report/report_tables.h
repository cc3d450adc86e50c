// The tables of the report, from the results only.
#pragma once

#include <cstdint>
#include <string>

#include "apps/lab/statistics/results.h"
#include "gnomon/plot/page.h"

namespace gnomon::lab {

// Tables of bits at each length, of right answers in each range of lengths, of an extension, of
// costs, of accuracy, and of the durations of runs.
plot::Table summary_table(const Results& results);
plot::Table example_table(const Results& results);
plot::Table extension_table(const Results& results, const ExtensionResult& extension);
plot::Table cost_table(const Results& results);
plot::Table timings_table(const Results& results);
plot::Table accuracy_table(const Results& results);

// The recommended encodings by length.
plot::Table recommendation_table(const Results& results);
// "128 to 256".
std::string length_range(const Recommendation& one);
// Whether an encoding may be the best of a ranking.
bool is_best(const Ranking& ranking, const std::string& name);

// "the 95 % confidence interval of ...": the meaning of LengthMean::uncertainty, or of the
// intervals of StretchMean.
std::string interval_text(const Results& results);
// Whether a method of the extension removes the positions (DroPE).
bool drops_positions(const ExtensionResult& extension);
// "1.07 ± 0.01", "no measurable cost" or "n/a"; "+12" MiB or "no measurable cost".
std::string step_time_text(const EncodingCost& cost);
std::string extra_memory_text(const MemoryUse& use);

std::string grouped(std::int64_t number);  // 1234567 as "1 234 567"
std::string duration_in_words(double seconds);

}  // namespace gnomon::lab
