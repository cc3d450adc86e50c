// One training run: one encoding, one seed. Each of its workers has one thread, so its results
// do not depend on other runs or on the number of cores. If settings.micro_batches is set, a
// team of workers may train it together (micro_batches.h), and its results do not depend on
// their number.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/adamw.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_result.h"
#include "apps/lab/model/task_model.h"
#include "apps/lab/runs/micro_batches.h"
#include "apps/lab/runs/plan.h"
#include "apps/lab/runs/team.h"

namespace gnomon::lab {

// The state of a run in addition to its weights and moments.
struct RunState {
  std::int64_t step = 0;
  double seconds = 0;   // duration of train_step, without validation
  double loss_sum = 0;  // since the last point of the curve, in bits
  std::int64_t loss_count = 0;
  std::vector<CurvePoint> curve = {};
};

// Writes the file atomically. All parameters are float32.
void write_checkpoint(const std::filesystem::path& path, const Job& job, const RunState& state,
                      const torch::nn::Module& model, const torch::optim::AdamW& optimizer);

// Sets the weights and moments of every member of the team. Only rank 0 reads the file. Throws
// std::invalid_argument, with the path and the reason, unless the file has exactly the tensors
// of this run with at most `steps` steps. Then nothing is changed.
RunState read_checkpoint(const std::filesystem::path& path, const Job& job, std::int64_t steps,
                         torch::nn::Module& model, torch::optim::AdamW& optimizer,
                         Team& team = no_team());

// Throws std::invalid_argument if the folder of a session has checkpoints of an earlier
// version, which were archives of LibTorch. `version`: that of settings.json.
void refuse_old_checkpoints(const std::filesystem::path& folder,
                            const std::optional<std::string>& version);

class TrainingRun {
 public:
  // All members of the team construct the run, and call train_step and load at the same time.
  // Throws std::invalid_argument if the team has several members without micro-batches.
  TrainingRun(const Settings& settings, const Corpus& corpus, const std::string& encoding,
              std::int64_t seed, Team& team = no_team());

  // Continues with the weights of a model.
  TrainingRun(const Settings& settings, std::unique_ptr<TaskModel> model, std::int64_t seed,
              const std::string& encoding = {}, Team& team = no_team());

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
  const Job job_;
  Team& team_;
  std::unique_ptr<TaskModel> model_;
  std::unique_ptr<MicroBatches> micro_batches_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
  RunState state_;
};

// Applies the methods of settings.extend to a trained model. The fine-tune has at most a
// twentieth of the training steps. Its windows are 4 times as long as in training and a quarter
// as many, so the number of bytes in a step is the same. drope is fine-tuned at the training
// length. The last method is "control", a fine-tune without scaling. Bits are the tail_bits of
// evaluate. Empty if `stop` returns true.
std::optional<Extension> extend(Transformer& trained, const Settings& settings,
                                const Corpus& corpus, std::int64_t seed, const Stop& stop);

}  // namespace gnomon::lab
