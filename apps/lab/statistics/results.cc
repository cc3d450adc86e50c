#include "apps/lab/statistics/results.h"
#include "apps/lab/statistics/cost_results.h"
#include "apps/lab/statistics/extension_results.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <thread>

#include "apps/lab/data/numbers.h"
#include "apps/lab/data/task.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/runs/cost.h"
#include "apps/lab/runs/extend.h"
#include "apps/lab/runs/session.h"
#include "apps/lab/statistics/answer.h"
#include "apps/lab/statistics/observations.h"
#include "apps/lab/statistics/recommend.h"
#include "apps/lab/statistics/results_by_size.h"
#include "apps/lab/statistics/task_results.h"
#include "apps/lab/statistics/training.h"
#include "apps/lab/statistics/ways.h"
#include "apps/lab/tasks/finetune_config.h"
#include "gnomon/isa.h"
#include "gnomon/version.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

using Runs = std::vector<const RunResult*>;

std::vector<double> collect(const Runs& runs, double RunResult::* number) {
  std::vector<double> numbers;
  for (const RunResult* one : runs) numbers.push_back(one->*number);
  return numbers;
}

// `lengths` and `holds_to` of an encoding with text.
void add_text_lengths(EncodingResult& all, const Runs& runs) {
  bool holds = true;
  const std::vector<LengthLoss>& first = runs.front()->tests.lengths;
  for (std::size_t i = 0; i < first.size(); ++i) {
    LengthMean& one = all.lengths.emplace_back();
    one.length = first[i].length;
    one.applicable = first[i].applicable;
    if (!one.applicable) continue;
    const auto over_seeds = [&](double LengthLoss::* number) {
      std::vector<double> numbers;
      for (const RunResult* run : runs) numbers.push_back(run->tests.lengths[i].*number);
      return numbers;
    };
    const auto tails = over_seeds(&LengthLoss::tail_bits);
    one.tail_bits = mean(tails);
    one.tail_deviation = deviation(tails);
    Observations sample;
    for (const RunResult* run : runs) {
      sample.seeds.push_back(run->seed);
      sample.units.push_back(run->tests.lengths[i].tail_by_segment);
    }
    one.uncertainty = mean_margin(sample);
    one.window_bits = mean(over_seeds(&LengthLoss::window_bits));
    one.accuracy = mean(over_seeds(&LengthLoss::accuracy));
    if (!std::isfinite(one.tail_bits + one.uncertainty + one.window_bits + one.accuracy))
      one.tail_bits = one.uncertainty = NAN;
    // The loss on the same bytes with the context cut to the training length is the tail at
    // that length.
    one.cut_bits = all.lengths.front().tail_bits;
    one.change = one.tail_bits / one.cut_bits - 1;
    one.windows = first[i].windows;
    holds = holds && one.change <= holds_within;
    if (holds) all.holds_to = one.length;
  }
}

// The results of one encoding over its seeds.
EncodingResult encoding_results(const std::string& name, const Runs& runs,
                                const Settings& settings) {
  const RunResult& first = *runs.front();
  const auto describe = settings.task->describe_entry;
  const Candidate info = !settings.finetune.empty()
                             ? finetune::describe_entry(name, settings, first.specification)
                         : describe ? describe(name, settings)
                                    : find_candidate(name);
  EncodingResult all{name,
                     info.title,
                     info.enters,
                     info.summary,
                     info.source,
                     first.specification,
                     std::ssize(runs),
                     first.parameters,
                     first.position_parameters};
  first.tests.stretches.empty() ? add_text_lengths(all, runs) : add_example_lengths(all, runs);
  all.tokens_per_second = mean(collect(runs, &RunResult::tokens_per_second));
  all.train_seconds = mean(collect(runs, &RunResult::train_seconds));
  all.test_seconds = mean(collect(runs, &RunResult::test_seconds));
  return all;
}

std::vector<TextSize> sizes(const std::vector<Text>& texts) {
  std::vector<TextSize> all;
  for (const Text& text : texts)
    all.push_back({internal::printable(text.name), std::ssize(text.bytes)});
  return all;
}

std::size_t index_of(char c) { return static_cast<unsigned char>(c); }

TextsResult texts_result(const Corpus& corpus) {
  // A byte that does not occur in training has a small probability. Pairs are mixed with one
  // count of the frequencies of single bytes.
  std::array<double, 256> counts;
  counts.fill(1);
  double total = 256;
  std::vector<double> pairs(256 * 256), firsts(256);
  for (const Text& text : corpus.train)
    for (std::size_t i = 0; i < text.bytes.size(); ++i) {
      counts[index_of(text.bytes[i])] += 1;
      total += 1;
      if (i == 0) continue;
      pairs[256 * index_of(text.bytes[i - 1]) + index_of(text.bytes[i])] += 1;
      firsts[index_of(text.bytes[i - 1])] += 1;
    }
  const auto likeliest =
      static_cast<char>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  double bits = 0, pair_bits = 0, accuracy = 0, tested = 0;
  for (const Text& text : corpus.test)
    for (std::size_t i = 0; i < text.bytes.size(); ++i) {
      const double alone = counts[index_of(text.bytes[i])] / total;
      double after = alone;
      if (i > 0) {
        const std::size_t first = index_of(text.bytes[i - 1]);
        after = (pairs[256 * first + index_of(text.bytes[i])] + alone) / (firsts[first] + 1);
      }
      bits -= std::log2(alone);
      pair_bits -= std::log2(after);
      accuracy += text.bytes[i] == likeliest;
      tested += 1;
    }
  tested = std::max(1.0, tested);
  // Files and pages are UTF-8, and names of files are any bytes.
  TextsResult result{.source = internal::printable(corpus.source),
                     .split = internal::printable(corpus.split)};
  result.byte_frequency_bits = bits / tested;
  result.byte_frequency_accuracy = accuracy / tested;
  result.byte_pair_bits = pair_bits / tested;
  if (corpus.tokens) {
    result.bytes_per_token = corpus.tokens->bytes_per_token;
    result.token_frequency_bits = corpus.tokens->frequency_bits;
  }
  result.train = sizes(corpus.train);
  result.validation = sizes(corpus.validation);
  result.test = sizes(corpus.test);
  return result;
}

// The metric, and its value for guesses without reading.
Metric metric(const Settings& settings, const TextsResult& texts) {
  const bool tokens = texts.bytes_per_token.has_value();
  const std::string by_token =
      tokens ? fmt::format(", {:.3f} from token frequencies", *texts.token_frequency_bits) : "";
  const std::string unit = tokens ? "tokens" : "bytes";
  const std::string loss = tokens ? "the loss of" : "the mean loss of",
                    per_byte = tokens ? ", divided by the number of their bytes" : "";
  switch (settings.task->predicts) {
    case Predicts::next:
      return {
          "bits per byte",
          fmt::format("{} the test {}, each in the second half of a window of this length{}",
                      loss, unit, per_byte),
          fmt::format("{:.3f} bits from byte frequencies alone{}, "
                      "{:.3f} from those after the byte before",
                      texts.byte_frequency_bits, by_token, texts.byte_pair_bits)};
    case Predicts::masked:
      return {
          "bits per masked byte",
          fmt::format("{} the masked {:.0f} % of the test {}, each predicted from all other "
                      "{} of its window{}",
                      loss, 100 * masked_share, unit, unit, per_byte),
          fmt::format("{:.3f} bits from byte frequencies alone", texts.byte_frequency_bits) +
              (tokens ? by_token
                      : fmt::format("; the most frequent byte is right in {:.1f} %",
                                    100 * texts.byte_frequency_accuracy))};
    default: {
      const Task& task = *settings.task;
      return {std::string(task.score), std::string(task.what), std::string(task.chance)};
    }
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

}  // namespace

const EncodingResult& find_encoding(const Results& results, const std::string& name) {
  return *std::find_if(results.encodings.begin(), results.encodings.end(),
                       [&](const EncodingResult& one) { return one.name == name; });
}

std::string length_text(const Results& results, std::int64_t length) {
  std::string text = fmt::format("{} {}", length, length_unit(results.settings));
  if (const auto each = results.texts.bytes_per_token)
    text += fmt::format(" (about {:.0f} bytes)", *each * static_cast<double>(length));
  return text;
}

void compare_encodings(Results& results) {
  const bool examples = results.settings.task->has_examples();
  for (const std::string& name : results.settings.encodings) {
    Runs runs;
    for (const RunResult& run : results.runs)
      if (run.encoding == name) runs.push_back(&run);
    if (!runs.empty())
      results.encodings.push_back(encoding_results(name, runs, results.settings));
  }
  judge_training(results);
  (examples ? rank_examples : rank_ways)(results);
  results.extensions = extension_results(results.encodings, results.runs);
  if (has_sizes(results)) return compare_sizes(results);
  results.recommendations = recommendations(results);
  results.answer = answer(results);
  for (const std::string& one :
       extension_answer(results.extensions, length_unit(results.settings)))
    results.answer.push_back(one);
}

Results assemble_results(const SessionResult& session, const Corpus& corpus) {
  const Settings& settings = session.settings;
  Results results;
  results.gnomon = GNOMON_VERSION;
  results.date = now();
  results.command = session.command;
  results.protocol = session.protocol;
  results.missing = session.missing;
  results.settings = settings;
  results.texts = texts_result(corpus);
  results.metric = metric(settings, results.texts);
  results.runs_asked = std::ssize(settings.seeds) * std::ssize(settings.encodings);
  results.left_out = session.left_out;
  results.stopped = session.stopped;
  results.runs = session.runs;
  results.sweep = session.sweep;
  results.machine = {processor(), std::thread::hardware_concurrency(), settings.device,
                     std::string(name(current_isa())), TORCH_VERSION};
  compare_encodings(results);
  results.cost = cost_results(session.cost, results.encodings);
  results.unfinished = session.unfinished;
  results.seconds = session.seconds;
  return results;
}

}  // namespace gnomon::lab
