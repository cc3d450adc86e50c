#include "apps/lab/statistics/extension_results.h"

#include <fmt/format.h>

#include <cmath>

#include "apps/lab/data/words.h"
#include "apps/lab/model/extension.h"

namespace gnomon::lab {
namespace {

constexpr const char* control = control_extension;

}  // namespace

std::vector<ExtensionResult> extension_results(const std::vector<EncodingResult>& encodings,
                                               const std::vector<RunResult>& runs) {
  std::vector<ExtensionResult> all;
  for (const EncodingResult& encoding : encodings) {
    std::vector<const Extension*> seeds;
    for (const RunResult& run : runs)
      if (run.encoding == encoding.name && run.extension) seeds.push_back(&*run.extension);
    if (seeds.empty()) continue;
    const Extension& first = *seeds.front();
    ExtensionResult result{.name = encoding.name,
                           .title = encoding.title,
                           .seeds = std::ssize(seeds),
                           .factor = first.factor,
                           .steps = first.steps};
    // `of` returns the list of bits in the extension of a seed.
    const auto add = [&](const std::string& method, const std::string& title, Stage stage,
                         auto&& of) {
      ExtensionRow row{.method = method, .title = title, .stage = stage};
      for (std::size_t i = 0; i < first.before.size(); ++i) {
        std::vector<double> here;
        for (const Extension* seed : seeds) here.push_back(of(*seed)[i]);
        row.bits.push_back(mean(here));
        row.deviation.push_back(deviation(here));
        row.uncertainty.push_back(mean_margin(here));
      }
      result.rows.push_back(row);
    };
    add("none", encoding.title, Stage::before,
        [](const Extension& seed) { return seed.before; });
    for (std::size_t m = 0; m < first.methods.size(); ++m) {
      const std::string& method = first.methods[m].method;
      if (method != control)
        add(method, extension_title(method), Stage::without,
            [&](const Extension& seed) { return seed.methods[m].without; });
      add(method, extension_title(method), Stage::after,
          [&](const Extension& seed) { return seed.methods[m].after; });
    }
    for (const LengthMean& at : encoding.lengths) result.lengths.push_back(at.length);
    all.push_back(result);
  }
  return all;
}

std::vector<std::string> extension_answer(const std::vector<ExtensionResult>& extensions,
                                          std::string_view unit) {
  std::vector<std::string> sentences;
  for (const ExtensionResult& one : extensions) {
    // Index of the length that the methods are for, or of the longest if that is shorter.
    std::size_t at = 0;
    while (at + 1 < one.lengths.size() && one.lengths[at] < one.lengths[0] * one.factor) ++at;
    const auto best = [&](Stage stage) {
      const ExtensionRow* least = nullptr;
      for (const ExtensionRow& row : one.rows)
        if (row.stage == stage && row.method != control &&
            (!least || is_lower(row.bits[at], least->bits[at])))
          least = &row;
      return least;
    };
    const ExtensionRow *without = best(Stage::without), *after = best(Stage::after);
    if (!without || !after) continue;
    const auto bits = [&](const ExtensionRow& row) {
      return number_or_diverged("{:.2f}", row.bits[at]);
    };
    const auto best_of = [&](const ExtensionRow& row) {
      return std::isfinite(row.bits[at])
                 ? fmt::format("the best is {} ({})", row.title, bits(row))
                 : std::string("every method diverged");
    };
    sentences.push_back(fmt::format(
        "{} at {} {}: {} bits after training at {}; without a fine-tune, {}; after {} of "
        "fine-tuning, {}, and the same fine-tuning without scaling gives {}.",
        one.title, one.lengths[at], unit, bits(one.rows.front()), one.lengths[0],
        best_of(*without), counted(one.steps, "step"), best_of(*after), bits(one.rows.back())));
  }
  return sentences;
}

}  // namespace gnomon::lab
