// The networks of --finetune: Llama, GPT-2 and BERT with a language model head. Weights have
// the names and shapes of the checkpoint, so they are saved as they are. There is no dropout.
//
// Letters: B windows, T tokens in a window, V vocabulary, C width, H heads, Hk key heads, D
// head dimension.
#pragma once

#include <torch/nn.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/lab/tasks/finetune_config.h"
#include "gnomon/io/checkpoint.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab::finetune {

class Network : public torch::nn::Module {
 public:
  // Reads the weights as float32. Throws std::invalid_argument, with the name of the tensor,
  // the expected shape and the shape found, if the checkpoint does not have exactly the tensors
  // of the config.
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
  // Registers the tensor prefix_ + name as a parameter.
  void take(const std::string& name, std::vector<std::int64_t> shape);
  at::Tensor weight(const std::string& name) const { return weights_.at(prefix_ + name); }
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

}  // namespace gnomon::lab::finetune
