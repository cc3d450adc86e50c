#include "apps/lab/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "apps/command_line/command_line.h"
#include "apps/lab/data/batches.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/model/evaluate.h"
#include "apps/lab/runs/options.h"
#include "apps/lab/tasks/make_model.h"
#include "gnomon/error.h"
#include "src/core/text.h"

namespace gnomon::lab {

const char* const generate_help = R"(Usage: gnomon generate MODEL TEXT [options]

Continues TEXT with a model that `gnomon lab` trained, token by token, with a KV
cache. MODEL: a folder in DIR/models, for example report/models/rotary-seed1.

  --bytes N        length of the continuation (256)
  --context N      tokens that the model sees at most (its training length). A
                   full cache starts again with the second half of its tokens
  --temperature R  of the softmax (0.8; 0 for a synthetic task); 0: always the
                   most likely token
  --seed N         of the random numbers (1)
  --json

Control characters and bytes that are not UTF-8 are printed as \xNN.

Example: gnomon generate report/models/alibi-seed1 "It is a truth"
)";

const char* const evaluate_help = R"(Usage: gnomon evaluate MODEL [TEXT...] [options]

Measures the loss of a model that `gnomon lab` trained on other texts, at each
context length on the same part of them. MODEL: a folder in DIR/models. For a model of
a synthetic task, without TEXT: its answers by length.

  --lengths A,..   context lengths in tokens (those of the training run)
  --segments N     test segments, each as long as the longest length (48)
  --shuffle N      also the loss with the tokens before the predicted one in
                   random order, except for the last N of them
  --json

Example: gnomon evaluate report/models/rotary-seed1 book.txt --lengths 64,512
)";

void describe(auto& f, ShuffledLoss& s) {
  f("length", s.length)("kept", s.kept)("targets", s.targets)("bits", s.bits);
  f("shuffled_bits", s.shuffled_bits)("margin", s.margin);
}

namespace {

// The entropy of the bytes: the loss of a model that knows the byte frequencies of these texts.
double entropy(const std::vector<Text>& texts) {
  std::array<double, 256> counts{};
  double total = 0;
  for (const Text& text : texts)
    for (const char c : text.bytes) counts[static_cast<unsigned char>(c)] += 1, total += 1;
  double bits = 0;
  for (const double count : counts)
    if (count > 0) bits -= count / total * std::log2(count / total);
  return bits;
}

Settings evaluation_settings(const Settings& trained, const std::string& lengths,
                             std::int64_t segments) {
  Settings s = trained;
  if (!lengths.empty()) s.eval_lengths = parse_lengths("--lengths", lengths);
  s.eval_segments = segments;
  if (s.task->has_examples()) {
    const auto most = s.task->letters.longest;
    if (most && s.longest() > *most)
      refuse("evaluate", fmt::format("--lengths must be at most {}", *most), s.longest());
    return s;
  }
  for (const std::int64_t length : s.eval_lengths) {
    if (length % 2) refuse("evaluate", "--lengths must be even", length);
    if (s.longest() % length)
      refuse("evaluate", "each of --lengths must divide the longest", length);
  }
  return s;
}

void print_losses(const Settings& s, const Evaluation& found) {
  if (!found.stretches.empty()) {
    fmt::print("{:>12}{:>16}{:>14}\n", "length", "whole answers", "right bytes");
    for (const Stretch& one : found.stretches) {
      const std::string range = fmt::format("{} to {}", one.from, one.to);
      if (one.applicable)
        fmt::print("{:>12}{:>14.1f} %{:>12.1f} %\n", range, 100 * one.score, 100 * one.second);
      else
        fmt::print("{:>12}{:>16}{:>14}\n", range, "n/a", "n/a");
    }
    return;
  }
  fmt::print("{:>12}{:>16}{:>14}\n", length_unit(s),
             s.task->is_masked() ? "bits per masked" : "bits per byte",
             fmt::format("right {}", length_unit(s)));
  for (const LengthLoss& one : found.lengths)
    if (one.applicable)
      fmt::print("{:>12}{:>16.3f}{:>12.1f} %\n", one.length, one.tail_bits, 100 * one.accuracy);
    else
      fmt::print("{:>12}{:>16}{:>14}\n", one.length, "n/a", "n/a");
}

void print_shuffled(const Settings& s, const std::vector<ShuffledLoss>& shuffled,
                    std::int64_t kept) {
  const std::string unit(length_unit(s));
  fmt::print(
      "\n{0} that are predicted from the whole length before them, in bits per {5}.\n"
      "Shuffled: the context without its last {1} in random order.\n"
      "{2:>12}{3:>10}{4:>16}{6:>14}{7:>22}\n",
      capitalized(unit), counted(kept, singular(unit)), unit, "targets", "as in the text",
      singular(unit), "shuffled", "difference");
  for (const ShuffledLoss& one : shuffled)
    fmt::print("{:>12}{:>10}{:>16.3f}{:>14.3f}{:>22}\n", one.length, one.targets, one.bits,
               one.shuffled_bits,
               fmt::format("{:+.3f} ± {:.3f}", one.shuffled_bits - one.bits, one.margin));
}

}  // namespace

int generate_command(int argc, char** argv) {
  std::string folder, text;
  GenerateOptions options;
  std::optional<std::int64_t> context;
  std::optional<double> temperature;
  std::int64_t seed = 1;
  bool json = false;
  CommandLine command("generate");
  command.required("MODEL", &folder).required("TEXT", &text);
  command.option("--bytes", &options.bytes).at_least(0);
  command.option("--context", &context).at_least(2);
  command.option("--temperature", &temperature);
  command.option("--seed", &seed).at_least(0);
  command.flag("--json", &json);
  if (!parse_command_line(command, argc, argv, generate_help)) return 0;
  if (options.bytes > 1 << 20)
    refuse("generate", "--bytes must be at most 1048576", options.bytes);
  options.temperature = temperature.value_or(options.temperature);
  if (!(options.temperature >= 0 && options.temperature <= 100))
    refuse("generate", "--temperature must be 0 to 100", options.temperature);
  TrainedModel trained = load_model(folder);
  const Settings& s = trained.config.settings;
  const Task& task = *s.task;
  if (task.is_masked())
    refuse("generate", "MODEL must predict the next byte", folder + ", of --task masked");
  const std::int64_t usual = task.window_tokens(s.train_length);
  options.context = context.value_or(std::max<std::int64_t>(2, usual));
  if (options.context > 1 << 20)
    refuse("generate", "--context must be at most 1048576", options.context);
  if (const auto most = model::capacity(trained.model->scheme());
      most && options.context > *most)
    refuse("generate",
           fmt::format("--context must be at most {}, the positions of {}", *most,
                       trained.config.encoding),
           options.context);
  if (!temperature && task.has_examples()) options.temperature = 0;
  options.tokenizer = trained.tokenizer.get();
  options.seed = static_cast<std::uint64_t>(seed);
  const std::string next = internal::printable_lines(generate(trained.model, text, options));
  if (json)
    fmt::print("{}\n", Json{{"model", folder},
                            {"encoding", trained.config.encoding},
                            {"text", internal::printable_lines(text)},
                            {"continuation", next},
                            {"context", options.context},
                            {"temperature", options.temperature},
                            {"seed", seed}}
                           .dump(-1, ' ', /*ensure_ascii=*/true));
  else
    fmt::print("{}{}\n", internal::printable_lines(text), next);
  return 0;
}

int evaluate_command(int argc, char** argv) {
  std::string folder, lengths;
  std::vector<std::string> texts;
  std::int64_t segments = 48;
  std::optional<std::int64_t> kept;
  bool json = false;
  CommandLine command("evaluate");
  command.required("MODEL", &folder).option("TEXT", &texts);
  command.option("--lengths", &lengths);
  command.option("--segments", &segments).at_least(1);
  command.option("--shuffle", &kept).at_least(0);
  command.flag("--json", &json);
  if (!parse_command_line(command, argc, argv, evaluate_help)) return 0;
  TrainedModel trained = load_model(folder);
  const ModelConfig& config = trained.config;
  const Settings s = evaluation_settings(config.settings, lengths, segments);
  const bool examples = s.task->has_examples();
  if (examples != texts.empty())
    refuse("evaluate",
           examples ? fmt::format("a model of --task {} must have no TEXT", s.task->name)
                    : "a model of text must have a TEXT",
           examples ? texts[0] : "none");
  if (kept && s.task->predicts != Predicts::next)
    refuse("evaluate", "--shuffle requires a model of --task text", s.task->name);
  if (kept && *kept >= s.longest())
    refuse("evaluate", "--shuffle must be below the longest length", *kept);
  Corpus corpus;
  if (!examples) {
    corpus.test = read_texts(texts, 1);
    corpus.tokenizer = trained.tokenizer;
    if (corpus.tokenizer) encode(corpus.test, *corpus.tokenizer);
    if (test_segments(corpus.test, s).empty())
      refuse("evaluate",
             fmt::format("TEXT must have at least {} {}, one and a half of the longest length",
                         segment_tokens(s), length_unit(s)),
             corpus.tokenizer
                 ? std::to_string(corpus.test[0].size()) + " tokens in " + corpus.test[0].name
                 : std::to_string(Corpus::bytes(corpus.test)));
  }
  const Reading reading = reading_of(find_candidate(config.encoding).suffix);
  if (kept && reading != Reading::whole)
    refuse("evaluate", "--shuffle requires a model that reads the whole context",
           config.encoding);
  const auto found = evaluate(trained.model, s, corpus, [] { return false; }, reading);
  std::vector<ShuffledLoss> shuffled;
  if (kept) shuffled = shuffled_losses(trained.model, s, corpus, *kept);
  if (json) {
    Json all{{"model", folder},
             {"encoding", config.encoding},
             {"task", std::string(s.task->name)},
             {"train_length", s.train_length}};
    if (!examples) all["byte_entropy"] = entropy(corpus.test);
    all["lengths"] = examples ? to_json(found->stretches) : to_json(found->lengths);
    if (kept) all["shuffled"] = to_json(shuffled);
    fmt::print("{}\n", all.dump(-1, ' ', /*ensure_ascii=*/true));
    return 0;
  }
  fmt::print("{} ({} with seed {}, trained at {} {})\n\n", internal::printable(folder),
             config.encoding, config.seed, s.train_length, length_unit(s));
  print_losses(s, *found);
  if (kept) print_shuffled(s, shuffled, *kept);
  if (!examples)
    fmt::print("\nThe entropy of the bytes of these texts is {:.3f} bits per byte.\n",
               entropy(corpus.test));
  return 0;
}

}  // namespace gnomon::lab
