#include "apps/lab/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/command_line/terminal.h"
#include "apps/lab/data/words.h"
#include "apps/lab/report/report_tables.h"
#include "apps/lab/statistics/rankings.h"
#include "apps/lab/statistics/results_by_size.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

// The title if it fits, otherwise the name in --encodings. A shortened title could be that of
// another encoding.
std::string label(const std::string& title, const std::string& name) {
  constexpr std::size_t most = 18;
  return title.size() <= most ? title : name.substr(0, most);
}

std::string coloured(Colour colour, const char* code, const std::string& text) {
  return colour == Colour::always ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

std::string row_head(const EncodingResult& one) {
  return fmt::format("{:<18}{:>11}", label(one.title, one.name), one.parameters);
}

std::string text_table(const Results& results, Colour colour) {
  std::string head = fmt::format("{:<18}{:>11}", "", "parameters");
  for (const std::int64_t length : results.settings.eval_lengths)
    head += fmt::format("{:>9}", length);
  std::string text = coloured(colour, "1", head + fmt::format("{:>10}", "holds to")) + "\n";
  for (const EncodingResult& one : results.encodings) {
    text += row_head(one);
    for (std::size_t i = 0; i < one.lengths.size(); ++i) {
      const LengthMean& at = one.lengths[i];
      const std::string cell = fmt::format(
          "{:>9}", at.applicable ? number_or_diverged("{:.3f}", at.tail_bits) : "n/a");
      text += is_best(results.rankings[i], one.name) ? coloured(colour, "32", cell) : cell;
    }
    text += fmt::format("{:>10}\n", one.holds_to);
  }
  return text;
}

std::string example_table(const Results& results, Colour colour) {
  std::string head = fmt::format("{:<18}{:>11}", "", "parameters");
  const std::vector<Ranking>& rankings = results.rankings;
  for (const Ranking& range : rankings)
    head += fmt::format("{:>18}", range_text(range.from, range.to));
  std::string text = coloured(colour, "1", head) + "\n";
  const bool two = !results.settings.task->second.empty();
  const auto cell = [&](double score, double second) {
    std::string shown = percent_number(score);
    if (two) shown += fmt::format(", {:.1f}", 100 * second);
    return fmt::format("{:>18}", shown);
  };
  for (const EncodingResult& one : results.encodings) {
    text += row_head(one);
    for (std::size_t i = 0; i < rankings.size(); ++i) {
      const StretchMean& range = one.ranges[i];
      if (!range.applicable || !std::isfinite(range.score)) {
        text += fmt::format("{:>18}", range.applicable ? "diverged" : "n/a");
        continue;
      }
      const std::string shown = cell(range.score, range.second);
      text += is_best(rankings[i], one.name) && range.score > 0 ? coloured(colour, "32", shown)
                                                                : shown;
    }
    text += "\n";
  }
  text += fmt::format("{:<29}", "chance");
  for (const StretchMean& range : results.encodings[0].ranges)
    text += range.applicable ? cell(range.chance_score, range.chance_second)
                             : fmt::format("{:>18}", "");
  return text + "\n";
}

std::string cost_table(const Results& results, Colour colour) {
  const std::vector<EncodingCost>& cost = results.cost;
  // The table has no row for none.
  if (std::ranges::all_of(cost, [](const auto& one) { return one.name == "none"; })) return "";
  const std::vector<std::int64_t> lengths = memory_lengths(cost);
  std::string head = fmt::format("{:<18}{:>11}{:>20}", "", "parameters", "step time");
  for (const std::int64_t length : lengths)
    head +=
        fmt::format("{:>20}", fmt::format("{} {}", length, position_unit(results.settings)));
  std::string text =
      "\nCost: parameters of the encoding; step time and memory in MiB relative to none\n" +
      coloured(colour, "1", head) + "\n";
  for (const EncodingCost& one : cost) {
    if (one.name == "none") continue;
    text += fmt::format("{:<18}{:>11}{:>20}", label(one.title, one.name),
                        one.position_parameters, step_time_text(one));
    for (std::size_t i = 0; i < lengths.size(); ++i)
      text += fmt::format("{:>20}", memory_text(one, i));
    text += "\n";
  }
  return text;
}

std::string extension_tables(const std::vector<ExtensionResult>& extensions) {
  std::string text;
  for (const ExtensionResult& one : extensions) {
    text += fmt::format(
        "\n{}, extended to {} times the training length; fine-tuned for {}\n{:<29}{:>9}",
        one.title, one.factor, counted(one.steps, "step"), "", "");
    for (const std::int64_t length : one.lengths) text += fmt::format("{:>9}", length);
    text += "\n";
    for (const ExtensionRow& row : one.rows) {
      text += fmt::format("{:<29}{:>9}", row.title, name(row.stage));
      for (const double bits : row.bits)
        text += fmt::format("{:>9}", number_or_diverged("{:.3f}", bits));
      text += "\n";
    }
  }
  return text;
}

std::string recommendation_lines(const Results& results) {
  if (results.recommendations.empty()) return "";
  const std::string unit(length_unit(results.settings));
  std::string text = "\nRecommendation\n";
  for (const Recommendation& one : results.recommendations) {
    const std::string head = fmt::format("  {} {}: ", length_range(one), unit);
    text += wrapped(fmt::format("{} ({})", choices_text(one), one.confidence), head, "      ",
                    terminal_width());
  }
  return text;
}

std::string findings_table(const Results& results, Colour colour) {
  const std::string_view unit = length_unit(results.settings);
  switch (results.settings.task->predicts) {
    case Predicts::next:
      return fmt::format(
                 "\nBits per byte on the same test {}, each in the second half of a window of "
                 "this number of {}\n",
                 unit, unit) +
             text_table(results, colour);
    case Predicts::masked:
      return fmt::format(
                 "\nBits per masked byte on the same masked {} at every length in {}; byte "
                 "frequencies alone: {:.3f}\n",
                 unit, unit, results.texts.byte_frequency_bits) +
             text_table(results, colour);
    default:
      return fmt::format("\n{}{}{} in percent, by {}\n", capitalized(results.metric.name),
                         results.settings.task->second.empty() ? "" : " and ",
                         results.settings.task->second, results.settings.task->unit) +
             example_table(results, colour);
  }
}

std::string tables(const Results& results, Colour colour) {
  return recommendation_lines(results) + findings_table(results, colour) +
         extension_tables(results.extensions) + cost_table(results, colour);
}

}  // namespace

std::string terminal_summary(const Results& results, Colour colour) {
  std::string text = "\n";
  for (const std::string& sentence : results.answer)
    text += wrapped(internal::printable_lines(sentence), "", "", terminal_width());
  for (const LeftOut& one : results.left_out)
    text += fmt::format("Left out: {}. Reason: {}\n", internal::printable(one.name),
                        internal::printable(one.reason));
  if (results.encodings.empty()) return text;
  if (results.sizes.empty()) return text + tables(results, colour);
  const std::vector<Results> sizes = results_by_size(results);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (!sizes[i].encodings.empty())
      text += "\n" + coloured(colour, "1", capitalized(size_text(results.sizes[i]))) + "\n" +
              tables(sizes[i], colour);
  return text;
}

}  // namespace gnomon::lab
