// --finetune: a released model, evaluated by length before and after a fine-tune, with its own
// encoding and with each method of --extend.
//
// A run is one entry (finetune_config.h). Lengths are in tokens of the model, losses in bits
// per byte of the text, so models with different tokenizers compare.
#pragma once

#include <torch/nn.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/lab/model/task_model.h"
#include "apps/lab/tasks/finetune_config.h"
#include "apps/lab/tasks/finetune_tokenizer.h"
#include "gnomon/error.h"
#include "gnomon/io/checkpoint.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab::finetune {

// A Llama, GPT-2 or BERT with a language model head. Weights have the names and shapes of the
// checkpoint, so they are saved as they are. There is no dropout.
//
// Letters: B windows, T tokens in a window, V vocabulary, C width, H heads, Hk key heads, D
// head dimension.
class Network : public torch::nn::Module {
 public:
  // Reads the weights as float32. Throws std::invalid_argument, with the name and both shapes,
  // if the checkpoint does not have exactly the tensors of the config.
  Network(Config config, std::shared_ptr<const io::Checkpoint> checkpoint);

  // tokens: [B, T] int64 below V. Returns the logits [B, T, V]. Throws std::invalid_argument
  // for positions beyond a learned table. Frequencies that depend on the length are those of T.
  at::Tensor forward(const at::Tensor& tokens);

  const Config& config() const { return config_; }

  // Writes config.json and model.safetensors: the tensors of the checkpoint with their names
  // and types, and the trained values. Copies the tokenizer's files.
  void save_folder(const std::filesystem::path& folder) const;

 private:
  // A tensor of the checkpoint as float32.
  at::Tensor read(const std::string& name, std::vector<std::int64_t> shape) const;
  // The name in the checkpoint: heads have no prefix.
  std::string full(const std::string& name) const {
    return name.starts_with("lm_head.") || name.starts_with("cls.") ? name : prefix_ + name;
  }
  // Registers the tensor as a parameter. `take_pair`: NAME.weight and, with `bias`, NAME.bias.
  void take(const std::string& name, std::vector<std::int64_t> shape);
  void take_pair(const std::string& name, std::vector<std::int64_t> shape, bool bias = true);
  at::Tensor weight(const std::string& name) const { return weights_.at(full(name)); }
  at::Tensor linear(const at::Tensor& x, const std::string& name) const;
  at::Tensor layer_norm(const at::Tensor& x, const std::string& name) const;
  at::Tensor rms_norm(const at::Tensor& x, const std::string& name) const;
  at::Tensor activated(const at::Tensor& x) const;
  void find_prefix(const std::string& prefix, const std::string& probe);
  void take_llama();
  void take_gpt2();
  void take_bert();
  void take_table(const std::string& name);
  void check_leftovers() const;
  libtorch::PositionScheme position_for(std::int64_t length);
  libtorch::AttendOptions options_of(std::int64_t layer) const;
  at::Tensor forward_llama(const at::Tensor& tokens, libtorch::PositionScheme& position);
  at::Tensor forward_gpt2(const at::Tensor& tokens, libtorch::PositionScheme& position);
  at::Tensor forward_bert(const at::Tensor& tokens, libtorch::PositionScheme& position);

  Config config_;
  std::shared_ptr<const io::Checkpoint> checkpoint_;
  std::string prefix_;                         // prefix of checkpoint names: "transformer."
  std::map<std::string, at::Tensor> weights_;  // keyed by their names in the checkpoint
  libtorch::PositionScheme position_{nullptr};
  std::map<std::int64_t, libtorch::PositionScheme> by_length_;  // without parameters
};

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
  Json specification() const override { return json_of_scheme(network_->config().scheme); }
  LossSum loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) override;
  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) override;
  void save(const std::filesystem::path& folder, const RunResult& result) override;
  std::int64_t steps() const override { return entry_.tuned ? settings_.steps : 0; }

 private:
  // Empty if `stop` returns true.
  std::optional<LengthLoss> test(std::int64_t length, const std::function<bool()>& stop);

  const Data& data_;
  Entry entry_;
  std::unique_ptr<Network> network_;
  std::vector<double> position_sums_, position_bytes_;  // bits and bytes by position
};

}  // namespace gnomon::lab::finetune
