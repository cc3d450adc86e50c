// The model of one run: what training, tests and the report require of it. Tasks of text and of
// letters share SequenceModel. Every other task has its own class, tasks/NAME.cc.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_result.h"
#include "apps/lab/data/task.h"
#include "gnomon/io/safetensors.h"
#include "gnomon/model/scheme.h"

namespace gnomon::lab {

class Transformer;

// The examples [begin, end) of a batch.
struct BatchRange {
  std::int64_t begin = 0, end = 0;
};

// The sum of the losses of all targets, in nats, and the number of targets. Losses are reported
// by `units`, for example the number of bytes of all targets.
struct LossSum {
  at::Tensor nats;
  std::int64_t targets = 0, units = targets;
  at::Tensor penalty = {};  // added to `nats` for the gradient, and not reported

  at::Tensor objective() const { return penalty.defined() ? nats + penalty : nats; }
};

class TaskModel {
 public:
  virtual ~TaskModel() = default;

  // The weights. Parameters of encodings have names that begin with "position".
  virtual torch::nn::Module& module() = 0;

  // The spec of the encoding as JSON, or of all its encodings if there are several.
  virtual Json specification() const = 0;

  // The loss of some examples of the batch of a step, with gradients of the weights. A pure
  // function of the weights, the data and the arguments. All rows: {0, settings.batch}.
  // Part::validation: the same examples for all runs, with any `seed` and `step`.
  virtual LossSum loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) = 0;

  // The number of steps that are done: called after each step and when a run is loaded.
  virtual void set_step(std::int64_t) {}

  // The tests. Calls `stop` between groups of examples, and returns nothing if it returns true.
  virtual std::optional<Evaluation> evaluate(const Stop& stop) = 0;

  // Sets `picture`, `samples` and `attention` of a trained model, those that the task has.
  virtual void describe(RunResult&) {}

  // Writes the trained model. By default: NAME/model.safetensors with the parameters, and
  // NAME/config.json with the settings.
  virtual void save(const std::filesystem::path& folder, const RunResult& result);

  // The number of training steps, 0 or settings.steps, and the tokens of a training example.
  virtual std::int64_t steps() const { return settings_.steps; }
  std::int64_t window() const { return training_window(settings_); }

  // The byte-level Transformer of SequenceModel. Null for other tasks.
  virtual Transformer* transformer() { return nullptr; }

 protected:
  explicit TaskModel(const Settings& settings) : settings_(settings) {}
  const Settings settings_;  // settings with the size of this model
};

// Task::model of a class.
template <typename Model>
std::unique_ptr<TaskModel> made(const Settings& settings, const Corpus& corpus,
                                const std::string& encoding, std::int64_t seed) {
  return std::make_unique<Model>(settings, corpus, encoding, seed);
}

// The JSON of the encoding if every layer has the same one, else of the scheme.
Json json_of_scheme(const model::Scheme& scheme);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
// Writes a .safetensors file.
void write_tensors(const std::filesystem::path& path, const NamedTensors& tensors,
                   const io::Metadata& metadata);

// Writes model.safetensors with all parameters of a module.
void save_weights(const std::filesystem::path& folder, const torch::nn::Module& module);

}  // namespace gnomon::lab
