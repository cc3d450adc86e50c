// One training run: one encoding, one seed. It has one thread, so its results do not depend on
// other runs or on the number of cores.
#pragma once

#include <torch/optim/adamw.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/lab/corpus.h"
#include "apps/lab/run_result.h"
#include "apps/lab/task_model.h"

namespace gnomon::lab {

class Transformer;

// Bits per nat: losses are reported in bits.
constexpr double bits_per_nat = 1.4426950408889634;

// The learning rate of a step, counted from 0: it rises over the first tenth of the steps, then
// falls along half a cosine to a tenth of the peak.
double learning_rate(const Settings& settings, std::int64_t step);

class TrainingRun {
 public:
  TrainingRun(const Settings& settings, const Corpus& corpus, const std::string& encoding,
              std::int64_t seed);

  // Continues with the weights of a model.
  TrainingRun(const Settings& settings, std::unique_ptr<TaskModel> model, std::int64_t seed);

  std::int64_t seed() const { return seed_; }
  std::int64_t step() const { return step_; }
  bool trained() const { return step_ == model_->steps(); }
  TaskModel& model() { return *model_; }
  Transformer& transformer() { return *model_->transformer(); }

  // One step of AdamW. Returns its mean loss over targets, in bits.
  double train_step();

  // Saves or loads the whole state. A loaded run continues with the same bits.
  void save(const std::filesystem::path& path);
  void load(const std::filesystem::path& path);

  // The training curve, sizes and timing, marked as unfinished.
  RunResult summary();

 private:
  double validation_bits();
  void record();

  const Settings& settings_;
  std::string encoding_;
  std::int64_t seed_;
  std::unique_ptr<TaskModel> model_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
  std::int64_t step_ = 0;
  double seconds_ = 0;  // duration of train_step, without validation
  double loss_sum_ = 0;
  std::int64_t loss_count_ = 0;
  std::vector<CurvePoint> curve_;
};

}  // namespace gnomon::lab
