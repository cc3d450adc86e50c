// The options of the lab. Presets give values for options that the command line omits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/lab/world.h"

namespace gnomon {
class CommandLine;
}

namespace gnomon::lab {

using Json = nlohmann::ordered_json;

// The number of micro-batches of a step with --workers-per-run.
constexpr std::int64_t micro_batch_count = 8;

// All settings that the results of a run depend on, and nothing else: two runs with equal
// settings and equal texts give equal results. Stored as settings.json beside the results.
struct Settings {
  std::string preset = "default";
  std::string task = "text";
  std::vector<std::string> encodings;
  std::vector<std::string> extend;  // methods, for rotary
  std::vector<std::string> texts;   // empty: the shipped novels
  std::string tokens = "bytes";     // "bytes" or "bpe:N" (tokenizer.h)
  std::string finetune;             // the folder of a released model; empty: train new ones
  // Lengths in tokens of text, or in the unit of the task's examples (find_task).
  std::int64_t train_length = 128;
  std::vector<std::int64_t> eval_lengths;  // ascending, the first is train_length
  std::int64_t layers = 4, width = 128, heads = 4;
  std::int64_t seeds = 1;
  std::int64_t steps = 0;
  std::int64_t batch = 16;  // windows or examples in a step
  double learning_rate = 2e-3;
  // Number of test segments, each as long as the longest length; or half the number of examples
  // in each stretch of lengths (an eighth with --task image and image-text).
  std::int64_t eval_segments = 48;
  std::string device = "cpu";
  // 8: the gradient of a step is the sum over 8 micro-batches (micro_batches.h), for
  // --workers-per-run. Empty: the batch is one piece.
  std::optional<std::int64_t> micro_batches = {};

  bool operator==(const Settings&) const = default;
  std::int64_t longest() const { return eval_lengths.back(); }
};

// The number of different tokens: 256 bytes, or N.
std::int64_t vocabulary(const Settings& settings);
// The number of training steps of preset and task, without a time limit. 0 with --finetune.
std::int64_t preset_steps(const Settings& settings);

// Throws std::invalid_argument if a setting is outside its range.
void check_settings(const Settings& settings);

// The value of --encodings if it is not given.
inline constexpr const char* default_encodings = "none,sinusoidal,learned,rotary,alibi,t5";

struct Options {
  Settings settings;
  // The time limit in minutes, from the preset or --minutes. The steps are lowered to fit,
  // equally for every encoding. Empty if --steps was given.
  std::optional<double> minutes;
  bool steps_follow_minutes = false;  // --minutes: also raise the steps to fill the time
  bool seeds_follow_minutes = false;  // no --seeds: three if they fit into `minutes` (budget.h)
  std::string out;                    // --out; empty: chosen by OutputFolder
  bool resume = false;
  bool json = false;
  bool cost = true;                // measure the cost; --no-cost
  std::vector<std::string> given;  // the keys of `settings` in the command line
  int jobs = 0;                    // runs at the same time; 0: rank 0 only
  int workers_per_run = 1;         // threads of a run; the results do not depend on it
  int processes_per_run = 1;       // ranks of a launcher that train one run (run_team.h)
  World world;                     // --serve, --join or the variables of a launcher
  std::optional<Shard> shard;      // --shard
  bool merge = false;              // --merge; `settings.texts` are the folders
  double lease_seconds = 60;       // a worker that is silent for this time is lost
  double checkpoint_seconds = 20;  // time between checkpoints of a run
  std::string command;             // the command line, quoted for a shell
};

extern const char* const lab_help;

// Parses and checks the command line. --help prints the help and exits with status 0. Throws
// std::invalid_argument for bad usage.
Options parse_options(int argc, char** argv);

// Ascending lengths from "64,128". Throws std::invalid_argument unless all are integers > 0.
std::vector<std::int64_t> parse_lengths(const char* option, const std::string& text);

// Parses the words after argv[0]. If --help is one of them, prints `help` and returns false.
bool parse_command_line(CommandLine& command, int argc, char** argv, const char* help);

// The settings for --resume. Throws std::invalid_argument if the command line gives a setting
// another value than the stored run has.
Settings resumed_settings(const Options& options, const Settings& stored);
// The same for a worker and the settings of rank 0, except for the paths of the texts.
Settings joined_settings(const Options& options, const Settings& stored);

}  // namespace gnomon::lab
