#include "apps/lab/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "apps/lab/task_results.h"

namespace gnomon::lab {

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), "\u202f");
  return digits;
}

std::string duration_in_words(double seconds) {
  return seconds < 90 ? fmt::format("{:.0f} s", seconds)
                      : fmt::format("{:.1f} minutes", seconds / 60);
}

namespace {

// "2.63" or "2.63 ± 0.02". Green if it is the best of its length.
plot::Cell bits_cell(const EncodingResult& one, const LengthMean& at, double best) {
  if (!at.applicable) return plot::muted("n/a");
  std::string shown = fmt::format("{:.3f}", at.tail_bits);
  if (one.seeds > 1) shown += fmt::format(" ± {:.3f}", at.tail_deviation);
  return at.tail_bits == best ? plot::best(shown) : plot::Cell(shown);
}

}  // namespace

plot::Table summary_table(const Results& results) {
  plot::Table table;
  table.columns = {{"encoding"}, {"position enters"}};
  std::map<std::int64_t, double> best;
  for (const Ranking& ranking : results.rankings)
    if (!ranking.order.empty()) best[ranking.to] = *ranking.order[0].bits;
  for (const std::int64_t length : results.settings.eval_lengths)
    table.columns.push_back({grouped(length), plot::Align::number});
  table.columns.push_back({"holds to", plot::Align::number});
  for (const EncodingResult& one : results.encodings) {
    std::vector<plot::Cell> row{one.title, one.enters};
    for (const LengthMean& at : one.lengths) row.push_back(bits_cell(one, at, best[at.length]));
    row.push_back(grouped(one.holds_to));
    table.rows.push_back(row);
  }
  std::string metric = results.metric.name;
  metric[0] = 'B';
  table.caption = fmt::format(
      "{} by context length: {}. Chance: {}. The best of each length is green; n/a: the "
      "encoding has no positions for this length. Holds to: the longest length up to which the "
      "loss stays within {:.0f} % of the loss at the training length.",
      metric, results.metric.what, results.metric.chance, 100 * holds_within);
  return table;
}

plot::Table example_table(const Results& results) {
  plot::Table table;
  table.columns = {{"encoding"}, {"position enters"}};
  const std::vector<Ranking>& rankings = results.rankings;
  for (const Ranking& range : rankings) {
    const std::string lengths = grouped(range.from) + " to " + grouped(range.to);
    table.columns.push_back({lengths, plot::Align::number});
    table.columns.push_back({"bytes", plot::Align::number});
  }
  table.columns.push_back({"answered to", plot::Align::number});
  const auto percent = [](double share) {
    return share > 0 && share < 1e-3 ? fmt::format("{:.0e}", 100 * share)
                                     : fmt::format("{:.1f}", 100 * share);
  };
  std::vector<plot::Cell> chance{"chance", ""};
  for (std::size_t i = 0; i < rankings.size(); ++i) {
    chance.emplace_back(""), chance.emplace_back("");
    for (const EncodingResult& one : results.encodings)
      if (const StretchMean& range = one.ranges[i]; range.applicable) {
        chance[2 + 2 * i] = plot::muted(percent(range.chance_whole));
        chance[3 + 2 * i] = plot::muted(percent(range.chance_byte));
      }
  }
  chance.emplace_back("");
  for (const EncodingResult& one : results.encodings) {
    std::vector<plot::Cell> row{one.title, one.enters};
    for (std::size_t i = 0; i < rankings.size(); ++i) {
      const StretchMean& range = one.ranges[i];
      if (!range.applicable) {
        row.push_back(plot::muted("n/a")), row.push_back(plot::muted("n/a"));
        continue;
      }
      std::string whole = percent(range.whole);
      if (one.seeds > 1) whole += fmt::format(" ± {:.1f}", 100 * range.whole_deviation);
      row.push_back(rankings[i].order[0].name == one.name && range.whole > 0
                        ? plot::best(whole)
                        : plot::Cell(whole));
      row.push_back(percent(range.byte));
    }
    row.push_back(grouped(one.answered_to));
    table.rows.push_back(row);
  }
  table.rows.push_back(chance);
  table.caption = fmt::format(
      "Right whole answers and right bytes of unseen examples by length, in percent. The best "
      "of each range is green; n/a: the encoding has no positions for these lengths. "
      "Chance: {}. Answered to: the longest length up to which {:.0f} % of whole answers are "
      "right.",
      results.metric.chance, 100 * answered_from);
  return table;
}

namespace {

std::string mebibytes(double bytes) {
  const double shown = bytes / (1 << 20);
  return std::abs(shown) < 0.95 ? "< 1" : fmt::format("{:.0f}", shown);
}

}  // namespace

plot::Table cost_table(const std::vector<EncodingCost>& cost) {
  plot::Table table;
  table.columns = {
      {"encoding"}, {"parameters", plot::Align::number}, {"step time", plot::Align::number}};
  std::size_t lengths = 0;
  for (const EncodingCost& one : cost)
    for (; lengths < one.memory.size(); ++lengths)
      table.columns.push_back(
          {grouped(one.memory[lengths].tokens) + " tokens", plot::Align::number});
  std::string passes;
  for (const EncodingCost& one : cost) {
    std::vector<plot::Cell> row{one.title, grouped(one.position_parameters)};
    row.push_back(one.relative_step ? plot::Cell(fmt::format("x {:.2f}", *one.relative_step))
                                    : plot::muted("n/a"));
    for (std::size_t i = 0; i < lengths; ++i)
      row.push_back(i < one.memory.size() && one.memory[i].extra_bytes
                        ? plot::Cell(mebibytes(*one.memory[i].extra_bytes))
                        : plot::muted("n/a"));
    table.rows.push_back(row);
    if (one.name != "none") continue;
    for (const MemoryUse& at : one.memory)
      passes +=
          fmt::format("{}{} MiB at {}", passes.empty() ? "; the encoding none uses " : ", ",
                      mebibytes(at.bytes), grouped(at.tokens));
  }
  table.caption =
      "Time of a training step relative to the encoding none, and additional peak memory of a "
      "forward and a backward pass over one long window in MiB, each measured alone on one "
      "thread" +
      passes + ". n/a: not measured, because it takes too long.";
  return table;
}

plot::Table timings_table(const Results& results) {
  plot::Table table;
  table.columns = {{"encoding"},
                   {"parameters", plot::Align::number},
                   {"bytes per second in training", plot::Align::number},
                   {"training", plot::Align::number},
                   {"testing", plot::Align::number}};
  for (const EncodingResult& one : results.encodings)
    table.rows.push_back({one.title, grouped(one.parameters),
                          grouped(static_cast<std::int64_t>(one.bytes_per_second)),
                          duration_in_words(one.train_seconds),
                          duration_in_words(one.test_seconds)});
  table.caption =
      "Each run has one thread; as many runs as cores are executed at the same time.";
  return table;
}

plot::Table extension_table(const ExtensionResult& extension) {
  plot::Table table;
  table.columns = {{"method"}, {"fine-tune"}};
  std::vector<double> least;
  for (const std::int64_t length : extension.lengths) {
    table.columns.push_back({grouped(length), plot::Align::number});
    double best = 1e9;
    for (const ExtensionRow& row : extension.rows)
      best = std::min(best, row.bits[least.size()]);
    least.push_back(best);
  }
  const std::string tune =
      fmt::format("{} step{}", extension.steps, extension.steps == 1 ? "" : "s");
  for (const ExtensionRow& row : extension.rows) {
    std::vector<plot::Cell> cells{
        row.stage == Stage::before ? "None: " + row.title + " as trained" : row.title,
        row.stage == Stage::after ? tune : std::string("none")};
    for (std::size_t i = 0; i < least.size(); ++i) {
      const std::string shown = fmt::format("{:.3f}", row.bits[i]);
      cells.push_back(row.bits[i] == least[i] ? plot::best(shown) : plot::Cell(shown));
    }
    table.rows.push_back(cells);
  }
  table.caption =
      "Bits per byte by context length. The methods extend the context to 4 times the training "
      "length. The fine-tune has windows of this length, with as many bytes per step as in "
      "training; without positions, it has windows of the training length. The best of "
      "each length is green.";
  return table;
}

}  // namespace gnomon::lab
