// The settings of a session.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace gnomon::lab {

struct Task;
extern const Task text_task;  // tasks/tasks.cc

using Json = nlohmann::ordered_json;

// The number of micro-batches of a step with --workers-per-run.
constexpr std::int64_t micro_batch_count = 8;

// The learning rate of an entry of Settings::encodings.
struct EntryRate {
  std::string encoding = {};
  double learning_rate = 0;

  bool operator==(const EntryRate&) const = default;
};

// AdamW moves a parameter by about the learning rate in each step, so a bias of -8 would take
// thousands of steps at the rate of the weights (docs/lab/statistics.md).
constexpr double default_position_rate = 10;
// The learning rate is constant until this share of the steps.
constexpr double stable_until = 0.8;
constexpr std::int64_t most_seeds = 100, largest_seed = std::int64_t{1} << 31;

// All settings that the results of a run depend on, and nothing else: two runs with equal
// settings and equal texts give equal results. Stored as settings.json beside the results.
struct Settings {
  std::string preset = "default";
  const Task* task = &text_task;
  std::vector<std::string> encodings;
  std::vector<std::string> extend;  // methods, for rotary
  std::vector<std::string> texts;   // empty: the shipped novels
  std::string tokens = "bytes";     // "bytes" or "bpe:N" (tokenizer.h)
  std::string finetune;             // the folder of a released model; empty: train new ones
  // Lengths in tokens of text, or in the unit of the task's examples (find_task).
  std::int64_t train_length = 128;
  std::vector<std::int64_t> eval_lengths;  // ascending, the first is train_length
  std::int64_t layers = 4, width = 128, heads = 4;
  std::vector<std::int64_t> seeds = {1};  // ascending, at most most_seeds
  std::int64_t steps = 0;
  std::int64_t batch = 16;  // windows or examples in a step
  double learning_rate = 2e-3;
  std::vector<EntryRate> rates = {};  // those of --sweep; other entries have learning_rate
  // The learning rate of the parameters of an encoding, relative to that of the other weights.
  double position_rate = default_position_rate;
  // Number of test segments, each as long as the longest length; or half the number of examples
  // in each stretch of lengths (an eighth with --task image and image-text).
  std::int64_t eval_segments = 48;
  std::string device = "cpu";
  // 8: the gradient of a step is the sum over 8 micro-batches (micro_batches.h), for
  // --workers-per-run. Empty: the batch is one piece.
  std::optional<std::int64_t> micro_batches = {};
  // The step after which entries with @drope have no position. Empty: drop_step().
  std::optional<std::int64_t> drop_position = {};
  // "universal": one layer that runs up to `layers` times; empty: a Transformer.
  std::string model = {};
  // With "universal": the weight of the number of steps in the loss.
  std::optional<double> ponder_cost = {};

  bool operator==(const Settings&) const = default;
  std::int64_t longest() const { return eval_lengths.back(); }
};

// The peak learning rate of an entry.
double learning_rate_of(const Settings& settings, const std::string& encoding);
// The seeds 1, ..., count.
std::vector<std::int64_t> seeds_up_to(std::int64_t count);
inline constexpr const char* universal_model = "universal";
// The number of blocks of a Transformer with these settings.
std::int64_t block_count(const Settings& settings);
// The step after which entries with @drope have no position: by default the last one with the
// full learning rate.
std::int64_t drop_step(const Settings& settings);
// The number of different tokens: 256 bytes, or N.
std::int64_t vocabulary(const Settings& settings);
// The number of training steps of preset and task, without a time limit. 0 with --finetune.
std::int64_t preset_steps(const Settings& settings);

// The value of --encodings if it is not given.
inline constexpr const char* default_encodings = "none,sinusoidal,learned,rotary,alibi,t5";

// The defaults of a name of --preset.
struct Preset {
  const char* name;
  std::int64_t seeds, steps, segments;
  double minutes;
};
// Throws std::invalid_argument if there is no such preset.
const Preset& find_preset(const std::string& name);

}  // namespace gnomon::lab
