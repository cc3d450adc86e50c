#include "apps/lab/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "apps/lab/results.h"
#include "apps/lab/task_results.h"

namespace gnomon::lab {

std::string text(const Json& json) { return json.get<std::string>(); }

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
plot::Cell bits_cell(const Json& one, const Json& at, double best) {
  if (!at.at("applicable")) return plot::muted("n/a");
  const double bits = at.at("tail_bits");
  std::string shown = fmt::format("{:.3f}", bits);
  if (one.at("seeds") > 1)
    shown += fmt::format(" ± {:.3f}", at.at("tail_deviation").get<double>());
  return bits == best ? plot::best(shown) : plot::Cell(shown);
}

}  // namespace

plot::Table summary_table(const Json& results) {
  plot::Table table;
  table.columns = {{"encoding"}, {"position enters"}};
  std::map<std::int64_t, double> best;
  for (const Json& ranking : results.at("rankings"))
    if (!ranking.at("order").empty())
      best[ranking.at("length")] = ranking.at("order")[0].at("bits");
  for (const Json& length : results.at("settings").at("eval_lengths"))
    table.columns.push_back({grouped(length), plot::Align::number});
  table.columns.push_back({"holds to", plot::Align::number});
  for (const Json& one : results.at("encodings")) {
    std::vector<plot::Cell> row{text(one.at("title")), text(one.at("enters"))};
    for (const Json& at : one.at("lengths"))
      row.push_back(bits_cell(one, at, best[at.at("length")]));
    row.push_back(grouped(one.at("holds_to")));
    table.rows.push_back(row);
  }
  std::string metric = text(results.at("metric").at("name"));
  metric[0] = 'B';
  table.caption = fmt::format(
      "{} by context length: {}. Chance: {}. The best of each length is green; n/a: the "
      "encoding has no positions for this length. Holds to: the longest length up to which the "
      "loss stays within {:.0f} % of the loss at the training length.",
      metric, text(results.at("metric").at("what")), text(results.at("metric").at("chance")),
      100 * holds_within);
  return table;
}

plot::Table example_table(const Json& results) {
  plot::Table table;
  table.columns = {{"encoding"}, {"position enters"}};
  const Json& rankings = results.at("rankings");
  for (const Json& range : rankings) {
    const std::string lengths = grouped(range.at("from")) + " to " + grouped(range.at("to"));
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
    for (const Json& one : results.at("encodings"))
      if (const Json& range = one.at("ranges")[i]; range.at("applicable")) {
        chance[2 + 2 * i] = plot::muted(percent(range.at("chance_whole")));
        chance[3 + 2 * i] = plot::muted(percent(range.at("chance_byte")));
      }
  }
  chance.emplace_back("");
  for (const Json& one : results.at("encodings")) {
    std::vector<plot::Cell> row{text(one.at("title")), text(one.at("enters"))};
    for (std::size_t i = 0; i < rankings.size(); ++i) {
      const Json& range = one.at("ranges")[i];
      if (!range.at("applicable")) {
        row.push_back(plot::muted("n/a")), row.push_back(plot::muted("n/a"));
        continue;
      }
      std::string whole = percent(range.at("whole"));
      if (one.at("seeds") > 1)
        whole += fmt::format(" ± {:.1f}", 100 * range.at("whole_deviation").get<double>());
      const Json& first = rankings[i].at("order")[0];
      row.push_back(first.at("name") == one.at("name") && range.at("whole") > 0
                        ? plot::best(whole)
                        : plot::Cell(whole));
      row.push_back(percent(range.at("byte")));
    }
    row.push_back(grouped(one.at("answered_to")));
    table.rows.push_back(row);
  }
  table.rows.push_back(chance);
  table.caption = fmt::format(
      "Right whole answers and right bytes of unseen examples by length, in percent. The best "
      "of each range is green; n/a: the encoding has no positions for these lengths. "
      "Chance: {}. Answered to: the longest length up to which {:.0f} % of whole answers are "
      "right.",
      text(results.at("metric").at("chance")), 100 * answered_from);
  return table;
}

namespace {

std::string mebibytes(double bytes) {
  const double shown = bytes / (1 << 20);
  return std::abs(shown) < 0.95 ? "< 1" : fmt::format("{:.0f}", shown);
}

}  // namespace

plot::Table cost_table(const Json& cost) {
  plot::Table table;
  table.columns = {
      {"encoding"}, {"parameters", plot::Align::number}, {"step time", plot::Align::number}};
  std::size_t lengths = 0;
  for (const Json& one : cost) lengths = std::max(lengths, one.at("memory").size());
  for (const Json& one : cost)
    if (one.at("memory").size() == lengths) {
      for (const Json& at : one.at("memory"))
        table.columns.push_back({grouped(at.at("tokens")) + " tokens", plot::Align::number});
      break;
    }
  for (const Json& one : cost) {
    std::vector<plot::Cell> row{text(one.at("title")), grouped(one.at("position_parameters"))};
    row.push_back(
        one.contains("relative_step")
            ? plot::Cell(fmt::format("x {:.2f}", one.at("relative_step").get<double>()))
            : plot::muted("n/a"));
    for (std::size_t i = 0; i < lengths; ++i) {
      const Json& memory = one.at("memory");
      row.push_back(i < memory.size() && memory[i].contains("extra_bytes")
                        ? plot::Cell(mebibytes(memory[i].at("extra_bytes")))
                        : plot::muted("n/a"));
    }
    table.rows.push_back(row);
  }
  std::string passes;
  for (const Json& one : cost)
    if (one.at("name") == "none")
      for (const Json& at : one.at("memory"))
        passes +=
            fmt::format("{}{} MiB at {}", passes.empty() ? "; the encoding none uses " : ", ",
                        mebibytes(at.at("bytes")), grouped(at.at("tokens")));
  table.caption =
      "Time of a training step relative to the encoding none, and additional peak memory of a "
      "forward and a backward pass over one long window in MiB, each measured alone on one "
      "thread" +
      passes + ". n/a: not measured, because it takes too long.";
  return table;
}

plot::Table timings_table(const Json& results) {
  plot::Table table;
  table.columns = {{"encoding"},
                   {"parameters", plot::Align::number},
                   {"bytes per second in training", plot::Align::number},
                   {"training", plot::Align::number},
                   {"testing", plot::Align::number}};
  for (const Json& one : results.at("encodings"))
    table.rows.push_back(
        {text(one.at("title")), grouped(one.at("parameters")),
         grouped(static_cast<std::int64_t>(one.at("bytes_per_second").get<double>())),
         duration_in_words(one.at("train_seconds")),
         duration_in_words(one.at("test_seconds"))});
  table.caption =
      "Each run has one thread; as many runs as cores are executed at the same time.";
  return table;
}

plot::Table extension_table(const Json& extension) {
  const std::int64_t steps = extension.at("steps");
  plot::Table table;
  table.columns = {{"method"}, {"fine-tune"}};
  std::vector<double> least;
  for (const Json& length : extension.at("lengths")) {
    table.columns.push_back({grouped(length), plot::Align::number});
    double best = 1e9;
    for (const Json& row : extension.at("rows"))
      best = std::min(best, row.at("bits")[least.size()].get<double>());
    least.push_back(best);
  }
  for (const Json& row : extension.at("rows")) {
    const bool before = row.at("stage") == "before";
    std::vector<plot::Cell> cells{
        before ? "None: " + text(row.at("title")) + " as trained" : text(row.at("title")),
        row.at("stage") == "after" ? fmt::format("{} step{}", steps, steps == 1 ? "" : "s")
                                   : std::string("none")};
    for (std::size_t i = 0; i < least.size(); ++i) {
      const double bits = row.at("bits")[i];
      const std::string shown = fmt::format("{:.3f}", bits);
      cells.push_back(bits == least[i] ? plot::best(shown) : plot::Cell(shown));
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
