// The order of entries with their verdicts, as a part of a sentence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/lab/statistics/contrasts.h"

namespace gnomon::lab {

struct Standing {
  std::string title, value;  // "ALiBi", "2.41"
  Verdict verdict;
};

// Numbers of a unit as text: "0.12 ± 0.05 bits".
struct UnitText {
  std::string (*number)(double);
  std::string unit;
  double equal_within = 0;

  std::string text(const Contrast& one) const;
  std::string limit() const;  // "0.05 bits"
};

// "Rotary (2.47) is better than each other, and than the next, ALiBi (2.60), by 0.13 ± 0.05
// bits", "which is best is not decided: ...", for entries in the order of `contrasts`, the best
// first. Excluded entries are not named.
std::string standing_text(const std::vector<Standing>& order, const Contrasts& contrasts,
                          const UnitText& unit);

}  // namespace gnomon::lab
