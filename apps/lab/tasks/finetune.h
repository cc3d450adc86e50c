// --finetune: a released model, evaluated by length before and after a fine-tune, with its own
// encoding and with each method of --extend.
//
// A run is one entry (finetune_config.h). Lengths are in tokens of the model, losses in bits
// per byte of the text, so models with different tokenizers compare.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/lab/model/task_model.h"
#include "apps/lab/tasks/finetune_network.h"
#include "apps/lab/tasks/finetune_tokens.h"

namespace gnomon::lab::finetune {

struct Data : TaskData {
  Config config;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<Tokens> train, validation, test;  // texts of the corpus
};

// Windows [begin, end) of a batch, as rows: inputs and targets [B, T]. A target is the next
// token, or `uncounted` for places without a loss. `bytes` [B, T]: those of the targets.
struct Windows {
  at::Tensor inputs, targets, bytes;
};
// Windows at random places of the texts: pure functions of (seed, step).
Windows random_windows(const Data& data, const std::vector<Tokens>& texts, std::int64_t length,
                       BatchRange rows, std::uint64_t seed, std::uint64_t step);

class Model final : public TaskModel {
 public:
  Model(const Settings& settings, const Corpus& corpus, const std::string& entry);

  torch::nn::Module& module() override { return *network_; }
  Json specification() const override;
  LossSum loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) override;
  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) override;
  void save(const std::filesystem::path& folder, const RunResult& result) override;
  std::int64_t steps() const override { return entry_.tuned ? settings_.steps : 0; }

 private:
  // The test at one length. Empty if `stop` returns true.
  std::optional<LengthLoss> test(std::int64_t length, const std::function<bool()>& stop);

  const Data& data_;
  Entry entry_;
  std::unique_ptr<Network> network_;
  std::vector<double> position_sums_, position_bytes_;  // bits and bytes by position
};

}  // namespace gnomon::lab::finetune
