#include "apps/lab/statistics/compare.h"

#include <fmt/format.h>

#include <cstdio>

#include "apps/command_line/command_line.h"
#include "apps/lab/data/lists.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/data/words.h"
#include "apps/lab/runs/options.h"
#include "apps/lab/statistics/rankings.h"
#include "apps/lab/statistics/results_by_size.h"
#include "apps/lab/statistics/training.h"
#include "gnomon/error.h"
#include "src/core/text.h"

namespace gnomon::lab {

const char* const compare_help = R"(Usage: gnomon compare A B [--json]

Compares the results of two output folders of `gnomon lab` with the same task:
the settings that differ, for each encoding and length the difference B - A
with its 95 % confidence interval, and the recommendations that change.

  --json

Example: gnomon compare report report-2
)";

namespace comparison {

namespace fs = std::filesystem;

// A length or range that both sessions have, by its index in Results::rankings.
struct Place {
  std::int64_t from = 0, to = 0;
  std::size_t in_a = 0, in_b = 0;
};

std::vector<Place> common_places(const Results& a, const Results& b) {
  std::vector<Place> all;
  for (std::size_t i = 0; i < a.rankings.size(); ++i)
    for (std::size_t k = 0; k < b.rankings.size(); ++k)
      if (a.rankings[i].from == b.rankings[k].from && a.rankings[i].to == b.rankings[k].to)
        all.push_back({a.rankings[i].from, a.rankings[i].to, i, k});
  return all;
}

Observations sample_at(const Results& results, const std::string& name, std::size_t place) {
  return results.settings.task->has_examples()
             ? observations_of(name, place, &Stretch::scores, results.runs)
             : observations_of(Way{.name = name}, place, results.runs);
}

// Marks what the samples of two sessions do not have in common: seeds, if runs of equal seed do
// not begin with the same weights and read the same batches, and units.
void separate(Observations& b, const Settings& x, const Settings& y, Texts texts) {
  constexpr std::int64_t other = std::int64_t{1} << 40;
  const bool same = texts == Texts::same;
  if (!same || x.longest() != y.longest() || x.eval_segments != y.eval_segments) b.unit_set = 1;
  if (same && x.layers == y.layers && x.width == y.width && x.heads == y.heads &&
      x.train_length == y.train_length && x.batch == y.batch)
    return;
  for (std::int64_t& seed : b.seeds) seed += other;
}

std::vector<std::string> titles_without(const Results& all, const Results& others) {
  std::vector<std::string> titles;
  for (const EncodingResult& one : all.encodings)
    if (!find_encoding(others, one.name)) titles.push_back(one.title);
  return titles;
}

// The recommendation at a length or range, or null.
const Recommendation* at(const Results& results, std::int64_t from, std::int64_t to) {
  for (const Recommendation& one : results.recommendations)
    if (from == 0 ? one.from <= to && to <= one.to : one.from == from && one.to == to)
      return &one;
  return nullptr;
}

void add_recommendations(Comparison& found, const Results& a, const Results& b) {
  for (const auto& [from, to, i, k] : common_places(a, b)) {
    const Recommendation *in_a = at(a, from, to), *in_b = at(b, from, to);
    if (!in_a && !in_b) continue;
    found.recommendations.push_back(
        {from, to, in_a ? choices_text(*in_a) : "", in_b ? choices_text(*in_b) : "",
         !in_a || !in_b || !same_choices(in_a->choices, in_b->choices)});
  }
}

std::string place_text(std::int64_t from, std::int64_t to) {
  return from == 0 || from == to ? std::to_string(to) : fmt::format("{}-{}", from, to);
}

std::string differences_text(const Comparison& found, bool examples) {
  std::vector<std::string> places;
  for (const LengthDifference& one : found.differences)
    add_once(places, place_text(one.from, one.to));
  const double factor = examples ? 100 : 1;
  const char *form = examples ? "{:+.1f} ± {}{}" : "{:+.3f} ± {}{}",
             *margin_form = examples ? "{:.1f}" : "{:.3f}";
  std::string text = fmt::format(
      "\n{}{}: B - A ± half of the simultaneous 95 % confidence interval; "
      "*: the interval does not contain 0\n{:<26}",
      capitalized(found.metric), examples ? ", in points" : "", "");
  for (const std::string& place : places) text += fmt::format("{:>18}", place);
  std::string row;
  std::size_t column = 0;
  for (const LengthDifference& one : found.differences) {
    if (row != one.name) {
      text += fmt::format("\n{:<26}", one.title.size() < 26 ? one.title : one.name);
      row = one.name, column = 0;
    }
    for (; column < places.size() && places[column] != place_text(one.from, one.to); ++column)
      text += fmt::format("{:>18}", "n/a");
    ++column;
    text += fmt::format(
        "{:>18}",
        !std::isfinite(one.difference())
            ? "diverged "
            : fmt::format(fmt::runtime(form), factor * one.difference(),
                          std::isfinite(one.margin)
                              ? fmt::format(fmt::runtime(margin_form), factor * one.margin)
                              : "n/a",
                          one.is_measurable() ? "*" : " "));
  }
  std::int64_t finite = 0, measurable = 0, without_margin = 0;
  for (const LengthDifference& one : found.differences) {
    if (!std::isfinite(one.difference())) continue;
    ++finite;
    measurable += one.is_measurable();
    without_margin += !std::isfinite(one.margin);
  }
  text += fmt::format(
      "\n{} of {} finite differences are measurable. If nothing differed, none would be in "
      "95 % of all comparisons.\n",
      measurable, finite);
  if (finite > 0 && without_margin == finite)
    text += fmt::format("Intervals require at least {} seeds in both folders.\n", least_seeds);
  return text;
}

std::string answers_text(const Comparison& found, const std::string& unit, bool examples) {
  std::string text = "\nRecommendations";
  if (found.several_sizes) text += ": compare the folders of one size, DIR/SIZE";
  text += "\n";
  for (const auto& [folder, reason] :
       {std::pair{"A", &found.no_advice_a}, {"B", &found.no_advice_b}})
    if (!reason->empty()) text += fmt::format("  None in {}. {}\n", folder, *reason);
  for (const Recommended& one : found.recommendations) {
    text += fmt::format("  {} {}: ", place_text(one.from, one.to), unit);
    if (!one.changed) {
      text += "the same, " + one.a + "\n";
      continue;
    }
    const auto or_none = [](const std::string& choices) {
      return choices.empty() ? "none" : choices;
    };
    text += fmt::format("A: {}; B: {}\n", or_none(one.a), or_none(one.b));
  }
  for (const ReachChange& one : found.reaches)
    text += fmt::format("  {} {} {} {} in A and {} {} in B.\n", one.title,
                        examples ? "is answered to" : "holds to", one.a, unit, one.b, unit);
  return text;
}

// "bytes", or "tokens of 3.12 bytes".
std::string token_text(const Results& results) {
  const std::string unit(length_unit(results.settings));
  const auto each = results.texts.bytes_per_token;
  return each ? fmt::format("{} of {:.2f} bytes", unit, *each) : unit;
}

Results read(const fs::path& folder) {
  Results results = read_results(folder / "results.json");
  compare_encodings(results);
  if (results.encodings.empty())
    refuse("compare", "a folder must have finished runs", folder.string() + " without any");
  return results;
}

// Whether the texts or data of two sessions are the same: by the hash in settings.json, if both
// folders have it, else by the names and sizes in results.json.
Texts texts_of(const fs::path& a, const fs::path& b, const Results& in_a, const Results& in_b) {
  const fs::path file = "settings.json";
  if (fs::exists(a / file) && fs::exists(b / file))
    return read_settings(a / file).fingerprint == read_settings(b / file).fingerprint
               ? Texts::same
               : Texts::other;
  const auto sizes = [](const Results& results) {
    const TextsResult& texts = results.texts;
    std::vector<std::pair<std::string, std::int64_t>> all;
    for (const auto* part : {&texts.train, &texts.validation, &texts.test})
      for (const TextSize& one : *part) all.emplace_back(one.name, one.bytes);
    return all;
  };
  return sizes(in_a) == sizes(in_b) ? Texts::same : Texts::other;
}

}  // namespace comparison

void describe(auto& f, ChangedSetting& s) { f("key", s.key)("a", s.a)("b", s.b); }
void describe(auto& f, LengthDifference& s) {
  f("name", s.name)("title", s.title);
  s.from ? f("from", s.from)("to", s.to) : f("length", s.to);
  f("a", s.a)("b", s.b)("difference", s.difference())("margin", s.margin);
  f("measurable", s.is_measurable());
}
void describe(auto& f, Recommended& s) {
  s.from ? f("from", s.from)("to", s.to) : f("length", s.to);
  f("a", s.a)("b", s.b)("changed", s.changed);
}
void describe(auto& f, ReachChange& s) {
  f("name", s.name)("title", s.title)("a", s.a)("b", s.b);
}
void describe(auto& f, Comparison& s) {
  f("task", s.task)("metric", s.metric)("warnings", s.warnings)("settings", s.settings);
  f("differences", s.differences)("only_a", s.only_a)("only_b", s.only_b);
  f("recommendations", s.recommendations)("reaches", s.reaches);
}

Comparison compare(const Results& a, const Results& b, Texts texts) {
  if (a.settings.task != b.settings.task)
    refuse("compare", "both folders must have the same task",
           fmt::format("{} and {}", a.settings.task->name, b.settings.task->name));
  if (a.metric.name != b.metric.name)
    refuse("compare", "both folders must have the same metric",
           a.metric.name + " and " + b.metric.name);
  Comparison found{.task = a.settings.task,
                   .metric = a.metric.name,
                   .unit = std::string(length_unit(a.settings))};
  if (const auto x = comparison::token_text(a), y = comparison::token_text(b); x != y)
    found.warnings.push_back(
        fmt::format("A length is a number of {} in A and of {} in B.", x, y));
  if (texts == Texts::other)
    found.warnings.push_back(
        fmt::format("The data differ ({} and {}), so differences are also those of the data.",
                    a.texts.source, b.texts.source));
  found.settings = changed_settings(a.settings, b.settings);
  found.only_a = comparison::titles_without(a, b);
  found.only_b = comparison::titles_without(b, a);

  const bool examples = a.settings.task->has_examples();
  std::vector<std::pair<LengthDifference, std::pair<Observations, Observations>>> pairs;
  for (const EncodingResult& one : a.encodings) {
    const EncodingResult* other = find_encoding(b, one.name);
    if (!other) continue;
    for (const auto& [from, to, i, k] : comparison::common_places(a, b)) {
      if (!result_at(one, i).applicable || !result_at(*other, k).applicable) continue;
      pairs.push_back(
          {{one.name, one.title, from, to},
           {comparison::sample_at(a, one.name, i), comparison::sample_at(b, one.name, k)}});
      comparison::separate(pairs.back().second.second, a.settings, b.settings, texts);
    }
    const std::int64_t reach = examples ? one.answered_to : one.holds_to,
                       other_reach = examples ? other->answered_to : other->holds_to;
    if (reach != other_reach)
      found.reaches.push_back({one.name, one.title, reach, other_reach});
  }
  for (auto& [difference, samples] : pairs) {
    difference.a = mean(mapped(samples.first.units, mean));
    difference.b = mean(mapped(samples.second.units, mean));
    difference.margin = Contrasts({samples.second, samples.first},
                                  examples ? Better::higher : Better::lower, pairs.size())
                            .between(0, 1)
                            .margin;
    found.differences.push_back(difference);
  }
  if (found.differences.empty())
    refuse("compare", "both folders must have an encoding and a length in common", "none");
  found.several_sizes = has_sizes(a) || has_sizes(b);
  if (found.several_sizes) return found;
  comparison::add_recommendations(found, a, b);
  found.no_advice_a = no_advice(a).value_or("");
  found.no_advice_b = no_advice(b).value_or("");
  return found;
}

std::string comparison_text(const Comparison& found) {
  const Task& task = *found.task;
  const bool examples = task.has_examples();
  std::string text;
  for (const std::string& one : found.warnings) text += "Warning: " + one + "\n";
  text += found.settings.empty() ? "The settings are the same.\n" : "Settings that differ\n";
  for (const ChangedSetting& one : found.settings)
    text += fmt::format("  {:<16}{} in A, {} in B\n", one.key, one.a.dump(), one.b.dump());
  if (!found.only_a.empty()) text += "Only in A: " + listed(found.only_a) + "\n";
  if (!found.only_b.empty()) text += "Only in B: " + listed(found.only_b) + "\n";
  return text + comparison::differences_text(found, examples) +
         comparison::answers_text(found, found.unit, examples);
}

Json to_json(const Comparison& found) { return Writer::written(found); }

int compare_command(int argc, char** argv) {
  std::string a, b;
  bool json = false;
  CommandLine command("compare");
  command.required("A", &a).required("B", &b).flag("--json", &json);
  if (!parse_command_line(command, argc, argv, compare_help)) return 0;
  const Results in_a = comparison::read(a), in_b = comparison::read(b);
  const Comparison found = compare(in_a, in_b, comparison::texts_of(a, b, in_a, in_b));
  if (json)
    std::puts(to_json(found).dump(1, ' ', /*ensure_ascii=*/true).c_str());
  else
    fmt::print("{}", internal::printable_lines(
                         fmt::format("A: {}\nB: {}\n{}", a, b, comparison_text(found))));
  return 0;
}

}  // namespace gnomon::lab
