#include "apps/lab/commands.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "apps/command_line/command_line.h"
#include "apps/lab/data/batches.h"
#include "apps/lab/data/run_json.h"
#include "apps/lab/runs/options.h"
#include "apps/lab/runs/plan.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/version.h"
#include "src/core/json.h"

namespace gnomon::lab {

const char* const batches_help = R"(Usage: gnomon batches PLAN [TEXT...] [options]

Writes the batches that `gnomon lab` trains and tests on to the standard output, for
another program that trains. PLAN: a plan of --list-runs, or the settings.json of a
folder of the lab. TEXT: the texts of the plan, if they are elsewhere.

  --seed N     the training batches of this seed
  --from STEP  with --seed: begin with this step (0)
  --part NAME  instead of --seed: validation or test

First a line of JSON, then int32 records: docs/lab/run-format.md.

Example: gnomon batches report/settings.json --seed 1 > batches.bin
)";

namespace {

static_assert(std::endian::native == std::endian::little);

void write(const void* data, std::size_t bytes) {
  if (std::fwrite(data, 1, bytes, stdout) != bytes)
    refuse("batches", "the standard output must be open", std::strerror(errno));
}

void write(const at::Tensor& tensor) {
  const at::Tensor narrow = tensor.to(at::kInt).contiguous();
  write(narrow.data_ptr<std::int32_t>(), narrow.nbytes());
}

// A record: the number of rows and tokens, two numbers that say which batch it is, the arrays.
void write_record(std::int64_t index, std::int64_t group,
                  std::initializer_list<at::Tensor> arrays) {
  const at::Tensor& first = *arrays.begin();
  for (const std::int64_t number : {first.size(0), first.size(1), index, group}) {
    const auto narrow = static_cast<std::int32_t>(number);
    write(&narrow, sizeof narrow);
  }
  for (const at::Tensor& one : arrays) write(one);
}

// Whether each target counts for the tail (1), for the adjacent windows (2) or for both (3), as
// in evaluate.cc.
at::Tensor roles(const Settings& settings, const at::Tensor& targets) {
  if (settings.task->predicts != Predicts::next) return targets.ne(uncounted).mul(3);
  at::Tensor bits = at::zeros_like(targets);
  const std::int64_t length = targets.size(1);
  bits.narrow(1, length / 2, length - length / 2).add_(1);
  bits.slice(0, 1, targets.size(0), 2).add_(2);
  return bits;
}

void write_text_test(const Settings& settings, const Corpus& corpus) {
  const auto segments = test_segments(corpus.test, settings);
  for (std::size_t group = 0; group < settings.eval_lengths.size(); ++group)
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const std::int64_t length = settings.eval_lengths[group];
      const Batch batch = settings.task->is_masked()
                              ? masked_segment(segments[i], length, settings)
                              : segment_windows(segments[i], length, settings.longest());
      write_record(static_cast<std::int64_t>(i), static_cast<std::int64_t>(group),
                   {batch.inputs, batch.targets, roles(settings, batch.targets)});
    }
}

void write_example_test(const Settings& settings, const std::vector<Stretch>& stretches) {
  for (std::size_t group = 0; group < stretches.size(); ++group)
    for (std::int64_t i = 0; i < stretches[group].examples; i += examples_at_once) {
      const Batch batch = batch_of(test_examples(settings, stretches[group], i));
      write_record(i, static_cast<std::int64_t>(group),
                   {batch.inputs, batch.targets, roles(settings, batch.targets)});
    }
}

// The stretches, with their tokens and without scores.
Json stretches_json(const Settings& settings, const std::vector<Stretch>& stretches) {
  Json all = Json::array();
  for (const Stretch& one : stretches)
    all.push_back({{"from", one.from},
                   {"to", one.to},
                   {"up_to", one.up_to},
                   {"tokens", settings.task->window_tokens(one.to)},
                   {"examples", one.examples},
                   {"chance_score", one.chance_score},
                   {"chance_second", one.chance_second}});
  return all;
}

Json token_bytes(const Settings& settings, const Corpus& corpus) {
  Json all = Json::array();
  for (std::int64_t token = 0; token < vocabulary(settings); ++token)
    all.push_back(corpus.bytes_of(token));
  return all;
}

// A plan of --list-runs, or settings.json. Both have settings and the hash of the texts.
Plan read_plan_or_settings(const std::string& path) {
  const io::MappedFile file{std::filesystem::path(path)};
  const Json json = internal::parse_json<Json>(file.text(), "batches", "PLAN");
  if (json.is_object() && json.value("protocol", Json()).is_number()) return read_plan(path);
  const StoredSettings stored = read_settings(std::filesystem::path(path));
  if (stored.gnomon != GNOMON_VERSION)
    refuse("batches", path + " must be of version " GNOMON_VERSION,
           stored.gnomon.value_or("an earlier version"));
  return {.settings = stored.settings, .fingerprint = stored.fingerprint};
}

}  // namespace

int batches_command(int argc, char** argv) {
  std::string path, part = "train";
  std::vector<std::string> texts;
  std::optional<std::int64_t> seed;
  std::int64_t from = 0;
  CommandLine command("batches");
  command.required("PLAN", &path).option("TEXT", &texts);
  command.option("--part", &part).choices({"train", "validation", "test"});
  command.option("--seed", &seed).at_least(0);
  command.option("--from", &from).at_least(0).only_with({"--seed"});
  if (!parse_command_line(command, argc, argv, batches_help)) return 0;
  if (seed.has_value() != (part == "train"))
    refuse("batches", "either --seed or --part validation or test must be given",
           seed ? "both" : "neither");
  const Plan plan = read_plan_or_settings(path);
  Settings settings = plan.settings;
  check_portable(settings, "gnomon batches");
  if (!texts.empty()) settings.texts = texts;
  if (from > settings.steps)
    refuse("batches", fmt::format("--from must be at most {}", settings.steps), from);
  const Corpus corpus = load_corpus(settings, plan.tokenizer);
  if (!plan.fingerprint.empty() && fingerprint(corpus) != plan.fingerprint)
    refuse("batches", "TEXT must be the texts of " + path, "different texts");

  const bool test = part == "test", examples = settings.task->has_examples();
  std::vector<Stretch> stretches;
  if (test && examples) stretches = length_stretches(settings);
  for (Stretch& one : stretches) count_examples(settings, one);
  Json header{
      {"format", run_format},
      {"gnomon", GNOMON_VERSION},
      {"part", part},
      {"task", std::string(settings.task->name)},
      {"dtype", "int32"},
      {"vocabulary", vocabulary(settings)},
      {"window_tokens", training_window(settings)},
      {"arrays", test ? Json{"inputs", "targets", "counted"} : Json{"inputs", "targets"}}};
  if (corpus.tokenizer) header["token_bytes"] = token_bytes(settings, corpus);
  if (test && examples) header["stretches"] = stretches_json(settings, stretches);
  if (test && !examples) header["lengths"] = settings.eval_lengths;
  fmt::print("{}\n", header.dump());

  if (test) {
    examples ? write_example_test(settings, stretches) : write_text_test(settings, corpus);
  } else {
    const bool train = part == "train";
    const std::int64_t end = train ? settings.steps : validation_batches;
    for (std::int64_t step = from; step < end; ++step) {
      const Batch batch = batch_of(settings, corpus, train ? Part::train : Part::validation,
                                   train ? static_cast<std::uint64_t>(*seed) : validation_seed,
                                   static_cast<std::uint64_t>(step));
      write_record(step, 0, {batch.inputs, batch.targets});
    }
  }
  if (std::fflush(stdout) != 0)
    refuse("batches", "the standard output must be open", std::strerror(errno));
  return 0;
}

}  // namespace gnomon::lab
