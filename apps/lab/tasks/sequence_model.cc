#include "apps/lab/tasks/sequence_model.h"

#include "apps/lab/data/batches.h"
#include "apps/lab/model/evaluate.h"
#include "apps/lab/model/generate.h"
#include "apps/lab/model/picture.h"
#include "apps/lab/tasks/model_file.h"
#include "gnomon/model/scheme.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::lab {

Json json_of_scheme(const model::Scheme& scheme) {
  const model::Mixture& first = scheme.layers[0];
  const bool plain =
      first.size() == 1 && scheme == model::every_layer(first, std::ssize(scheme.layers));
  return plain ? model::internal::json_of(first[0]) : model::internal::json_of(scheme);
}

SequenceModel::SequenceModel(const Settings& settings, const Corpus& corpus,
                             Candidate candidate, Transformer model)
    : TaskModel(settings),
      corpus_(corpus),
      candidate_(std::move(candidate)),
      model_(std::move(model)) {
  model_->to(torch::Device(settings.device));
}

Json SequenceModel::specification() const { return json_of_scheme(model_->scheme()); }

LossSum SequenceModel::loss(Part part, std::uint64_t seed, std::uint64_t step,
                            BatchRange rows) {
  const Batch batch = batch_of(settings_, corpus_, part, seed, step);
  const torch::Device device(settings_.device);
  const std::int64_t count = rows.end - rows.begin;
  const at::Tensor inputs = batch.inputs.narrow(0, rows.begin, count),
                   targets = batch.targets.narrow(0, rows.begin, count);
  ForwardOptions options{.visibility = visibility(settings_)};
  if (part == Part::train && candidate_.numbering == Numbering::random)
    options.positions = explicit_ids(random_ids(
        inputs.size(1), settings_.task->window_tokens(settings_.longest()), seed, step));
  LossSum sum{sum_of_losses(model_->forward(inputs.to(device), options), targets.to(device)),
              targets.ne(uncounted).sum().item<std::int64_t>()};
  if (corpus_.tokenizer) {
    sum.units = 0;
    for (const at::Tensor& row : targets.unbind())
      for (std::int64_t i = 0; i < row.numel(); ++i)
        sum.units += corpus_.bytes_of(row.data_ptr<std::int64_t>()[i]);
  }
  return sum;
}

std::optional<Evaluation> SequenceModel::evaluate(const std::function<bool()>& stop) {
  return lab::evaluate(model_, settings_, corpus_, stop);
}

void SequenceModel::describe(RunResult& result) {
  result.picture = picture(model_, settings_);
  if (position_parameter_count() > 0) {
    Transformer untrained =
        transformer_for(settings_, candidate_,
                        settings_.task->window_tokens(settings_.train_length), result.seed);
    add_initial(result.picture, untrained, settings_);
  }
  result.samples = samples(model_, settings_, corpus_);
  result.attention = trained_attention(model_, settings_, corpus_);
}

void SequenceModel::save(const std::filesystem::path& folder, const RunResult& result) {
  save_model(folder, model_, result, settings_, corpus_.tokenizer.get());
}

}  // namespace gnomon::lab
