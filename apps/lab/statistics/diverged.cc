#include "apps/lab/statistics/diverged.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/statistics/task_results.h"

namespace gnomon::lab {

bool all_diverged(const Results& results) {
  return !results.encodings.empty() &&
         std::all_of(
             results.encodings.begin(), results.encodings.end(),
             [](const EncodingResult& one) { return one.training == Training::diverged; });
}

std::string all_diverged_sentence(const Results& results) {
  return fmt::format(
      "No advice: every {0} diverged, so that no result as in training is a finite number. "
      "Train with a --learning-rate below {1:g}.",
      entry_noun(results.settings), results.settings.learning_rate);
}

std::optional<std::string> diverged_sentence(const Results& results) {
  std::vector<std::string> encodings;
  for (const EncodingResult& one : results.encodings) {
    std::vector<std::string> places;
    std::size_t applicable = 0;
    const auto add = [&](const auto& at, double number, const std::string& place) {
      applicable += at.applicable;
      if (at.applicable && !std::isfinite(number)) places.push_back(place);
    };
    for (const LengthMean& at : one.lengths) add(at, at.tail_bits, std::to_string(at.length));
    for (const StretchMean& at : one.ranges) add(at, at.score, range_text(at.from, at.to));
    if (places.empty()) continue;
    encodings.push_back(places.size() == applicable
                            ? one.title
                            : fmt::format("{} (at {} {})", one.title, listed(places),
                                          length_unit(results.settings)));
  }
  if (encodings.empty()) return std::nullopt;
  return fmt::format(
      "Diverged: {}. A result that is not a finite number ranks last and is never recommended.",
      listed(encodings));
}

}  // namespace gnomon::lab
