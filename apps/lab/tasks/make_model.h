// The data of a session and the model of a run, as a module and as a folder.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/lab/data/run_result.h"
#include "apps/lab/data/tokenizer.h"
#include "apps/lab/model/candidate.h"
#include "apps/lab/model/task_model.h"
#include "apps/lab/model/transformer.h"

namespace gnomon::lab {

// The texts of the settings (load_texts, and its errors), the data of other tasks, and nothing
// for a task with letters. `tokenizer`: empty, or of SentencePiece for --tokens bpe.
Corpus load_corpus(const Settings& settings, const std::string& tokenizer = {});

// The untrained model of the task. `encoding`: an entry of --encodings. Weights that all
// encodings have in common depend on `seed` only. Throws std::invalid_argument if the encoding
// cannot take part, or is own:NAME.
std::unique_ptr<TaskModel> make_model(const Settings& session, const Corpus& corpus,
                                      const std::string& encoding, std::int64_t seed);

// The model of tasks with text or letters. `candidate`: whether its positions in training are
// random, and how it reads text.
std::unique_ptr<TaskModel> sequence_model(const Settings& settings, const Corpus& corpus,
                                          Candidate candidate, Transformer model);

// Why an encoding cannot take part with these settings. Empty if it can, or is own:NAME.
std::optional<std::string> unusable(const std::string& name, const Settings& settings,
                                    const Corpus& corpus);

// Trained models are folders that Python reads, too (docs/lab/models.md):
//
//   NAME-seedN/model.safetensors   the weights, float32, by their names in the module
//   NAME-seedN/config.json         ModelConfig
//   NAME-seedN/tokenizer.model     with --tokens bpe, for SentencePiece

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
