// The tables of the report, from results.json only.
#pragma once

#include <cstdint>
#include <string>

#include "apps/lab/options.h"
#include "gnomon/plot/page.h"

namespace gnomon::lab {

// Tables of bits at each length, of right answers in each range of lengths, of an entry of
// "extensions", of "cost", and of the durations of runs.
plot::Table summary_table(const Json& results);
plot::Table example_table(const Json& results);
plot::Table extension_table(const Json& extension);
plot::Table cost_table(const Json& cost);
plot::Table timings_table(const Json& results);

std::string text(const Json& json);
std::string grouped(std::int64_t number);  // 1234567 as "1 234 567"
std::string duration_in_words(double seconds);

}  // namespace gnomon::lab
