// The model of tasks with text or letters: one Transformer that predicts bytes.
#pragma once

#include "apps/lab/model/candidate.h"
#include "apps/lab/model/segment_reader.h"
#include "apps/lab/model/task_model.h"
#include "apps/lab/model/transformer.h"

namespace gnomon::lab {

// The JSON of the encoding if every layer has the same one, else of the scheme.
Json json_of_scheme(const model::Scheme& scheme);

class SequenceModel final : public TaskModel {
 public:
  // `candidate`: whether its positions in training are random, and how it reads text.
  SequenceModel(const Settings& settings, const Corpus& corpus, Candidate candidate,
                Transformer model);

  torch::nn::Module& module() override { return *model_; }
  Json specification() const override;
  LossSum loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) override;
  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) override;
  void describe(RunResult& result) override;
  void save(const std::filesystem::path& folder, const RunResult& result) override;
  Transformer* transformer() override { return &model_; }

 private:
  // The loss of the rows `rows` of a batch, of which some have a memory of the tokens before
  // them, and the others an empty one.
  at::Tensor loss_by_segments(const Batch& batch, Part part, std::uint64_t seed,
                              std::uint64_t step, BatchRange rows);

  const Corpus& corpus_;
  Candidate candidate_;
  Reading reading_;
  Transformer model_;
  SegmentReader segments_;
};

}  // namespace gnomon::lab
