// The properties claimed for position encodings, and a verdict on each from the measurements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/verdicts/findings.h"

namespace gnomon::verdicts {

// Name of a property and the meaning of its verdict and number.
struct Property {
  std::string_view name, meaning;
};

struct Verdict {
  std::string word;      // yes, most, no; old, new, ends; trained: depends on training
  std::string number;    // short; empty if it would be that of random parameters
  std::string sentence;  // the same for a reader of this encoding alone
};

// The properties, in the order of the verdicts.
const std::vector<Property>& properties();
std::vector<Verdict> verdicts(const Findings& findings);

}  // namespace gnomon::verdicts
