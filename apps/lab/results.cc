#include "apps/lab/results.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <map>
#include <thread>

#include "apps/lab/answer.h"
#include "apps/lab/candidate.h"
#include "apps/lab/cost.h"
#include "apps/lab/extend.h"
#include "apps/lab/statistics.h"
#include "apps/lab/task_results.h"
#include "apps/lab/tasks.h"
#include "gnomon/isa.h"
#include "gnomon/version.h"

namespace gnomon::lab {
namespace {

std::vector<double> collect(const std::vector<const Json*>& objects, const char* key) {
  std::vector<double> numbers;
  for (const Json* one : objects) numbers.push_back(one->at(key).get<double>());
  return numbers;
}

// The keys "lengths" and "holds_to" of an encoding with text, over its seeds.
Json text_lengths(const std::vector<const Json*>& runs) {
  const Json& first = *runs.front();
  Json lengths = Json::array();
  double at_training_length = 0;
  std::int64_t holds_to = 0;
  bool holds = true;
  for (std::size_t i = 0; i < first.at("lengths").size(); ++i) {
    std::vector<const Json*> here;
    for (const Json* run : runs) here.push_back(&run->at("lengths")[i]);
    const std::int64_t length = here[0]->at("length");
    if (!here[0]->at("applicable")) {
      lengths.push_back({{"length", length}, {"applicable", false}});
      continue;
    }
    const auto tails = collect(here, "tail_bits");
    if (i == 0) at_training_length = mean(tails);
    const double change = mean(tails) / at_training_length - 1;
    holds = holds && change <= holds_within;
    if (holds) holds_to = length;
    lengths.push_back({{"length", length},
                       {"applicable", true},
                       {"tail_bits", mean(tails)},
                       {"tail_deviation", deviation(tails)},
                       {"window_bits", mean(collect(here, "window_bits"))},
                       {"accuracy", mean(collect(here, "accuracy"))},
                       // The loss on the same bytes with the context cut to the training length
                       // is the tail at that length.
                       {"cut_bits", at_training_length},
                       {"change", change},
                       {"windows", here[0]->at("windows")}});
  }
  return {{"lengths", lengths}, {"holds_to", holds_to}};
}

// The results of one encoding over its seeds.
Json encoding_results(const std::string& name, const std::vector<const Json*>& runs) {
  const Candidate info = find_candidate(name);
  const Json& first = *runs.front();
  Json all{{"name", name},
           {"title", info.title},
           {"enters", info.enters},
           {"summary", info.summary},
           {"source", info.source},
           {"specification", first.at("specification")},
           {"seeds", runs.size()},
           {"parameters", first.at("parameters")},
           {"position_parameters", first.at("position_parameters")}};
  all.update(first.contains("stretches") ? example_lengths(runs) : text_lengths(runs));
  all.update({{"bytes_per_second", mean(collect(runs, "bytes_per_second"))},
              {"train_seconds", mean(collect(runs, "train_seconds"))},
              {"test_seconds", mean(collect(runs, "test_seconds"))}});
  return all;
}

// The loss on the test texts with the byte frequencies of the training texts, in bits per byte,
// and the share of right predictions if the most frequent byte is always predicted. A model
// that has learned from context must be clearly better.
struct ByteFrequency {
  double bits = 0, accuracy = 0;
};
ByteFrequency byte_frequency(const Corpus& corpus) {
  std::array<double, 256> counts;
  counts.fill(1);  // a byte that does not occur in training has a small probability
  double total = 256;
  for (const Text& text : corpus.train) {
    for (const char c : text.bytes) counts[static_cast<unsigned char>(c)] += 1;
    total += static_cast<double>(text.bytes.size());
  }
  const auto likeliest =
      static_cast<char>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  ByteFrequency sums;
  double tested = 0;
  for (const Text& text : corpus.test) {
    for (const char c : text.bytes) {
      sums.bits -= std::log2(counts[static_cast<unsigned char>(c)] / total);
      sums.accuracy += c == likeliest;
    }
    tested += static_cast<double>(text.bytes.size());
  }
  return {sums.bits / std::max(1.0, tested), sums.accuracy / std::max(1.0, tested)};
}

// The metric, and its value for guesses without reading.
Json metric(const Settings& settings, const ByteFrequency& frequency) {
  switch (task_of(settings)) {
    case Task::text:
      return {
          {"name", "bits per byte"},
          {"what",
           "the mean loss of the test bytes, each in the second half of a window of this "
           "length"},
          {"chance", fmt::format("{:.3f} bits from byte frequencies alone", frequency.bits)}};
    case Task::masked:
      return {
          {"name", "bits per masked byte"},
          {"what", fmt::format("the mean loss of the masked {:.0f} % of the test bytes, each "
                               "predicted from all other bytes of its window",
                               100 * masked_share)},
          {"chance", fmt::format("{:.3f} bits from byte frequencies alone; the most frequent "
                                 "byte is right in {:.1f} %",
                                 frequency.bits, 100 * frequency.accuracy)}};
    default:
      return {{"name", "whole answers"},
              {"what",
               "the share of unseen examples whose answer is right in every byte, the result "
               "of greedy decoding; also the share of right bytes, each predicted after the "
               "right previous bytes"},
              {"chance", "the best guess that knows the length but not the prompt"}};
  }
}

std::string processor() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string now() {
  const std::time_t time =
      std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

Json text_names(const std::vector<Text>& texts) {
  Json names = Json::array();
  for (const Text& text : texts)
    names.push_back({{"name", text.name}, {"bytes", text.bytes.size()}});
  return names;
}

}  // namespace

Json assemble_results(const SessionResult& session, const Corpus& corpus) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const Json*>> by_encoding;
  for (const Json& run : session.runs) {
    const std::string name = run.at("encoding");
    if (by_encoding[name].empty()) order.push_back(name);
    by_encoding[name].push_back(&run);
  }
  // In the order of --encodings.
  Json encodings = Json::array();
  for (const std::string& name : session.settings.encodings)
    if (by_encoding.count(name)) encodings.push_back(encoding_results(name, by_encoding[name]));

  Json results{{"gnomon", GNOMON_VERSION}, {"schema", 1}, {"date", now()}};
  results["answer"] = Json::array();
  results["settings"] = to_json(session.settings);
  const ByteFrequency frequency = byte_frequency(corpus);
  results["metric"] = metric(session.settings, frequency);
  results["texts"] = {{"source", corpus.source},
                      {"split", corpus.split},
                      {"byte_frequency_bits", frequency.bits},
                      {"byte_frequency_accuracy", frequency.accuracy},
                      {"train", text_names(corpus.train)},
                      {"validation", text_names(corpus.validation)},
                      {"test", text_names(corpus.test)}};
  results["runs_asked"] =
      session.settings.seeds * static_cast<std::int64_t>(session.settings.encodings.size());
  results["left_out"] = session.left_out;
  results["stopped"] = session.stopped;
  results["encodings"] = encodings;
  results["rankings"] = has_examples(task_of(session.settings))
                            ? example_rankings(encodings, session.runs)
                            : rankings(encodings, session.runs);
  results["extensions"] = extension_results(encodings, session.runs);
  results["answer"] = answer(results);
  for (const Json& one : extension_answer(results["extensions"]))
    results["answer"].push_back(one);
  results["cost"] = cost_results(session.cost, encodings);
  results["runs"] = session.runs;
  results["unfinished"] = session.unfinished;
  results["machine"] = {{"processor", processor()},
                        {"cores", std::thread::hardware_concurrency()},
                        {"device", session.settings.device},
                        {"isa", name(current_isa())},
                        {"libtorch", TORCH_VERSION}};
  results["seconds"] = session.seconds;
  return results;
}

}  // namespace gnomon::lab
