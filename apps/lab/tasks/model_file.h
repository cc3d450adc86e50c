// Trained models as folders that Python reads, too:
//
//   NAME-seedN/model.safetensors   the weights, float32, by their names in the module
//   NAME-seedN/config.json         ModelConfig
//   NAME-seedN/tokenizer.model     with --tokens bpe, for SentencePiece
//
// docs/lab/models.md describes both.
#pragma once

#include <filesystem>

#include "apps/lab/data/run_result.h"
#include "apps/lab/data/tokenizer.h"
#include "apps/lab/model/transformer.h"

namespace gnomon::lab {

struct TrainedModel {
  ModelConfig config;
  Transformer model{nullptr};  // model on the CPU
  std::shared_ptr<const Tokenizer> tokenizer = {};
};

// Writes the folder. An existing one is replaced, file by file.
void save_model(const std::filesystem::path& folder, Transformer& model,
                const RunResult& result, const Settings& settings,
                const Tokenizer* tokenizer = nullptr);

// Throws std::invalid_argument, with the path and the reason, if the folder is not what
// save_model wrote, and FormatError if model.safetensors is not valid.
TrainedModel load_model(const std::filesystem::path& folder);

}  // namespace gnomon::lab
