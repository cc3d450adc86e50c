// Comparison of the results in two output folders of the lab, and the command `gnomon compare`.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/lab/statistics/results.h"
#include "apps/lab/tasks/stored.h"

namespace gnomon::lab {

// One encoding at the length `to` (text; `from` is 0) or in the range `from` to `to`. a, b:
// means over seeds of the loss or the score. margin: half of the width of the confidence
// interval of b - a (contrasts.h), which holds for all differences together. Infinite with
// fewer than least_seeds seeds in a folder.
struct LengthDifference {
  std::string name, title;
  std::int64_t from = 0, to = 0;
  double a = 0, b = 0, margin = 0;

  double difference() const { return b - a; }
  bool is_measurable() const {
    return std::isfinite(difference()) && std::abs(difference()) > margin;
  }
};

// The recommendation at a length or range. Empty: no_advice_a or no_advice_b has the reason.
struct Recommended {
  std::int64_t from = 0, to = 0;
  std::string a, b;
  bool changed = false;  // other encodings, or another use
};

// The longest length that an encoding holds (text), or up to which it is answered.
struct ReachChange {
  std::string name, title;
  std::int64_t a = 0, b = 0;
};

struct Comparison {
  const Task* task = nullptr;
  std::string metric = {};
  std::string unit = {};  // unit of a length in A
  std::vector<std::string> warnings = {};
  std::vector<ChangedSetting> settings = {};
  std::vector<LengthDifference> differences = {};
  std::vector<std::string> only_a = {}, only_b = {};  // titles of encodings
  bool several_sizes = false;                         // a folder has models of several sizes
  std::vector<Recommended> recommendations = {};      // empty if there are several sizes
  // Why a folder has no recommendations, as a sentence. Empty if it has some.
  std::string no_advice_a = {}, no_advice_b = {};
  std::vector<ReachChange> reaches = {};  // those that differ
};

enum class Texts { same = 1, other };

// `texts`: whether both sessions had the same texts or data. Throws std::invalid_argument if
// the tasks or the metrics differ, or if the results have no encoding or no length in common.
Comparison compare(const Results& a, const Results& b, Texts texts);

std::string comparison_text(const Comparison& comparison);
Json to_json(const Comparison& comparison);

extern const char* const compare_help;
// Returns the exit status. Throws std::invalid_argument for bad usage and input.
int compare_command(int argc, char** argv);

}  // namespace gnomon::lab
