// The state of an unfinished run as a `.safetensors` file: tensors and numbers, and nothing
// that a reader executes.
//
//   metadata                  format "gnomon-lab-checkpoint", version "2", encoding, seed
//   progress.counts           I64 [2]: steps, number of losses in the sum
//   progress.numbers          F64 [2]: seconds of training, sum of the losses since the
//                             last point
//   curve.steps               I64 [N, 2]: step, 1 if the point has a validation loss
//   curve.bits                F64 [N, 2]: training loss, validation loss
//   updates.NAME              I64 []: updates of the parameter NAME by AdamW
//   weights.NAME              F32, the shape of the parameter
//   first.NAME, second.NAME   as weights.NAME: the moments; absent without updates
//
// Losses, weights and moments may be NaN or infinite: a run that diverged continues, too.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/adamw.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "apps/lab/data/run_result.h"
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

}  // namespace gnomon::lab
