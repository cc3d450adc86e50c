
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <thread>

#include "apps/lab/data/lists.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/runs/calibration.h"
#include "apps/lab/statistics/answer.h"
#include "apps/lab/statistics/rankings.h"
#include "apps/lab/statistics/results_by_size.h"
#include "apps/lab/statistics/training.h"
#include "apps/lab/tasks/finetune_config.h"
#include "gnomon/isa.h"
#include "gnomon/version.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

using Runs = std::vector<const RunResult*>;

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
      return mapped(runs, [&](const RunResult* run) { return run->tests.lengths[i].*number; });
    };
    const auto tails = over_seeds(&LengthLoss::tail_bits);
    one.tail_bits = mean(tails);
    one.tail_deviation = deviation(tails);
    one.uncertainty = mean_margin({.seeds = mapped(runs, &RunResult::seed),
                                   .units = mapped(runs, [&](const RunResult* run) {
                                     return run->tests.lengths[i].tail_by_segment;
                                   })});
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
  first.tests.stretches.empty()
      ? add_text_lengths(all, runs)
      : add_example_lengths(all, runs, settings.task->letters.depths.count);
  all.tokens_per_second = mean(mapped(runs, &RunResult::tokens_per_second));
  all.train_seconds = mean(mapped(runs, &RunResult::train_seconds));
  all.test_seconds = mean(mapped(runs, &RunResult::test_seconds));
  return all;
}

std::vector<TextSize> sizes(const std::vector<Text>& texts) {
  return mapped(texts, [](const Text& text) {
    return TextSize{internal::printable(text.name), std::ssize(text.bytes)};
  });
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

const EncodingResult* find_encoding(const Results& results, const std::string& name) {
  return find_by(results.encodings, &EncodingResult::name, name);
}

PlaceResult result_at(const EncodingResult& encoding, std::size_t place) {
  if (encoding.lengths.empty()) {
    const StretchMean& range = encoding.ranges[place];
    return {range.applicable, range.score, range.score_interval};
  }
  const LengthMean& at = encoding.lengths[place];
  return {at.applicable,
          at.tail_bits,
          {at.tail_bits - at.uncertainty, at.tail_bits + at.uncertainty}};
}

std::string length_text(const Results& results, std::int64_t length) {
  std::string text = fmt::format("{} {}", length, length_unit(results.settings));
  if (const auto each = results.texts.bytes_per_token)
    text += fmt::format(" (about {:.0f} bytes)", *each * static_cast<double>(length));
  return text;
}

void compare_encodings(Results& results) {
  results.encodings.clear();
  for (const std::string& name : results.settings.encodings) {
    Runs runs;
    for (const RunResult& run : results.runs)
      if (run.encoding == name) runs.push_back(&run);
    if (!runs.empty())
      results.encodings.push_back(encoding_results(name, runs, results.settings));
  }
  judge_training(results);
  rank(results);
  results.extensions = extension_results(results.encodings, results.runs);
  if (has_sizes(results)) return compare_sizes(results);
  results.recommendations = recommendations(results);
  results.answer = answer(results);
}

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
        const auto here = mapped(seeds, [&](const Extension* seed) { return of(*seed)[i]; });
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
      if (method != control_extension)
        add(method, extension_title(method), Stage::without,
            [&](const Extension& seed) { return seed.methods[m].without; });
      add(method, extension_title(method), Stage::after,
          [&](const Extension& seed) { return seed.methods[m].after; });
    }
    result.lengths = mapped(encoding.lengths, &LengthMean::length);
    all.push_back(result);
  }
  return all;
}

std::vector<EncodingCost> cost_results(const std::vector<MeasuredCost>& measured,
                                       const std::vector<EncodingResult>& encodings) {
  // The heap grows by more than it needs: a difference of less is none.
  constexpr double least_extra = 2 << 20, least_share = 0.02;  // bytes; share of none
  const auto of = [&](const std::string& name) {
    return find_by(measured, &MeasuredCost::encoding, name);
  };
  std::vector<EncodingCost> all;
  for (const EncodingResult& one : encodings) {
    const auto found = of(one.name), plain = of(reference_of(one.name));
    if (!found || !plain) continue;
    EncodingCost row{one.name,
                     one.title,
                     one.position_parameters,
                     found->step_seconds,
                     found->relative_step,
                     found->memory};
    if (plain->relative_step) row.step_noise = plain->relative_step->from_one();
    if (one.fall && row.relative_step && !one.lengths.empty()) {
      const bool slower = row.relative_step->shows_cost(row.step_noise.value_or(0));
      const double doublings = slower ? std::log2(row.relative_step->median) : 0;
      row.equal_time_bits = one.lengths.front().tail_bits + doublings * *one.fall;
    }
    for (std::size_t i = 0; i < std::min(row.memory.size(), plain->memory.size()); ++i) {
      MemoryUse& use = row.memory[i];
      const double extra = use.bytes - plain->memory[i].bytes;
      const double noise = std::max(least_extra, least_share * plain->memory[i].bytes);
      // An encoding adds to the memory of none. A difference below 0 is noise, of the heap.
      if (extra > noise + use.spread + plain->memory[i].spread) use.extra_bytes = extra;
    }
    all.push_back(row);
  }
  return all;
}

Results assemble_results(const SessionResult& session, const Corpus& corpus) {
  const Settings& settings = session.settings;
  Results results{session};
  results.gnomon = GNOMON_VERSION;
  results.date = now();
  results.texts = texts_result(corpus);
  results.metric = metric(settings, results.texts);
  results.runs_asked = std::ssize(settings.seeds) * std::ssize(settings.encodings);
  results.machine = {processor(), std::thread::hardware_concurrency(), settings.device,
                     std::string(name(current_isa())), TORCH_VERSION};
  compare_encodings(results);
  results.cost = cost_results(session.measured_cost, results.encodings);
  return results;
}

}  // namespace gnomon::lab
