// One training run: one encoding, one seed. Each of its workers has one thread, so its results
// do not depend on other runs or on the number of cores. If settings.micro_batches is set, a
// team of workers may train it together (micro_batches.h), and its results do not depend on
// their number.
#pragma once

#include <torch/optim/adamw.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_result.h"
#include "apps/lab/model/task_model.h"
#include "apps/lab/runs/checkpoint.h"
#include "apps/lab/runs/micro_batches.h"
#include "apps/lab/runs/team.h"

namespace gnomon::lab {

class Transformer;

class TrainingRun {
 public:
  // All members of the team construct the run, and call train_step and load at the same time.
  // Throws std::invalid_argument if the team has several members without micro-batches.
  TrainingRun(const Settings& settings, const Corpus& corpus, const std::string& encoding,
              std::int64_t seed, Team& team = no_team());

  // Continues with the weights of a model.
  TrainingRun(const Settings& settings, std::unique_ptr<TaskModel> model, std::int64_t seed);

  std::int64_t seed() const { return seed_; }
  std::int64_t step() const { return state_.step; }
  bool trained() const { return state_.step == model_->steps(); }
  TaskModel& model() { return *model_; }
  Transformer& transformer() { return *model_->transformer(); }

  // One step of AdamW. Returns its loss in bits per unit of LossSum.
  double train_step();

  // Saves or loads the whole state. A loaded run continues with the same bits, also with
  // another number of workers. Only rank 0 of the team has to save. Only rank 0 reads the file
  // of `load`, with the errors of read_checkpoint: it sends the contents to the others.
  void save(const std::filesystem::path& path);
  void load(const std::filesystem::path& path);

  // The training curve, sizes and timing, marked as unfinished.
  RunResult summary();

  // Null without micro-batches.
  const MicroBatches* micro_batches() const { return micro_batches_.get(); }

 private:
  // Computes the gradients of a step. Returns its loss in nats by unit (LossSum).
  double backward();
  double validation_bits();
  void record();

  const Settings& settings_;
  std::string encoding_;
  std::int64_t seed_;
  Team& team_;
  std::unique_ptr<TaskModel> model_;
  std::unique_ptr<MicroBatches> micro_batches_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
  RunState state_;
};

}  // namespace gnomon::lab
