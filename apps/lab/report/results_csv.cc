#include "apps/lab/report/results_csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/lab/data/task.h"

namespace gnomon::lab {
namespace {

// A field with quotes if it contains a separator.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string text_lines(const Results& results) {
  std::string text =
      "encoding,title,seeds,position_parameters,length,context,method,bits,uncertainty,"
      "accuracy,verdict\n";
  for (std::size_t i = 0; i < results.ways.size(); ++i)
    for (const Way& way : results.ways[i].order) {
      const EncodingResult& one =
          *std::find_if(results.encodings.begin(), results.encodings.end(),
                        [&](const EncodingResult& each) { return each.name == way.name; });
      const LengthMean& at = one.lengths[way.context == Context::cut ? 0 : i];
      const bool measured = way.context == Context::whole || way.context == Context::cut;
      text += fmt::format(
          "{},{},{},{},{},{},{},{:.6g},{},{},{}\n", field(one.name), field(one.title),
          one.seeds, one.position_parameters, results.ways[i].length, name(way.context),
          field(way.method), way.bits, measured ? fmt::format("{:.3g}", at.uncertainty) : "",
          measured ? fmt::format("{:.6g}", at.accuracy) : "", name(way.verdict));
    }
  return text;
}

std::string example_lines(const Results& results) {
  std::string text =
      "encoding,title,seeds,position_parameters,from,to,examples,score,score_deviation,second,"
      "chance_score,chance_second,score_low,score_high,second_low,second_high\n";
  const bool two = !results.settings.task->second.empty();
  const auto second = [&](double number) { return two ? fmt::format("{:.6g}", number) : ""; };
  for (const EncodingResult& one : results.encodings)
    for (const StretchMean& at : one.ranges)
      if (at.applicable)
        text +=
            fmt::format("{},{},{},{},{},{},{},{:.6g},{:.6g},{},{:.6g},{},{:.6g},{:.6g},{},{}\n",
                        field(one.name), field(one.title), one.seeds, one.position_parameters,
                        at.from, at.to, at.examples, at.score, at.score_deviation,
                        second(at.second), at.chance_score, second(at.chance_second),
                        at.score_interval.low, at.score_interval.high,
                        second(at.second_interval.low), second(at.second_interval.high));
  return text;
}

}  // namespace

std::string to_csv(const Results& results) {
  return results.ways.empty() ? example_lines(results) : text_lines(results);
}

}  // namespace gnomon::lab
