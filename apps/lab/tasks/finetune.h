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
#include "gnomon/error.h"
#include "gnomon/io/checkpoint.h"
#include "gnomon/torch/scheme.h"

namespace gnomon::lab::finetune {

// The tokenizers of --finetune, read from the folder of the model:
//
//   none                      a token is a byte, if the vocabulary has 256 to 272 entries
//   tokenizer.json            byte-level BPE (GPT-2, Llama 3, Qwen2), WordPiece (BERT)
//   vocab.json, merges.txt    byte-level BPE of GPT-2
//   vocab.txt                 WordPiece of BERT, lower case if tokenizer_config.json says so
//
// Special tokens are never read from the text, and none is added to it.

// A text as tokens, and the bytes of the text that each token stands for. The sum of `bytes` is
// the size of the text: a loss in bits per byte divides by them.
struct Tokens {
  std::vector<std::int64_t> ids, bytes;

  std::int64_t size() const { return std::ssize(ids); }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual Tokens encode(std::string_view text) const = 0;
  virtual bool of_bytes() const { return false; }

  // Tokens of a masked model: the one that replaces a masked token, and the first and the last
  // one of every window.
  std::optional<std::int64_t> mask = {}, first = {}, last = {};
};

// Throws std::invalid_argument, with the file and the reason, if the folder has no tokenizer of
// this list or if a token is not below `vocabulary`, vocab_size of the config.
std::unique_ptr<Tokenizer> read_tokenizer(const std::filesystem::path& folder,
                                          std::int64_t vocabulary);

using Vocabulary = std::unordered_map<std::string, std::int64_t>;

[[noreturn]] inline void refuse_file(const std::filesystem::path& path, const std::string& rule,
                                     const std::string& got) {
  refuse("finetune", path.string() + ": " + rule, got);
}

struct WordPieceOptions {
  bool lowercase = true, strip_accents = true;
  std::string prefix = "##", unknown = "[UNK]";
  std::int64_t longest = 100;  // characters of a word; a longer one is unknown
};
// BERT's tokenizer. Throws std::invalid_argument, with the path, if a special token is missing.
std::unique_ptr<Tokenizer> word_pieces(Vocabulary vocabulary, WordPieceOptions options,
                                       const std::filesystem::path& path);

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
