#include "apps/lab/tasks/sequence_model.h"

#include <algorithm>

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
      reading_(reading_of(candidate_.suffix)),
      model_(std::move(model)),
      segments_(settings) {
  model_->to(torch::Device(settings.device));
}

Json SequenceModel::specification() const { return json_of_scheme(model_->scheme()); }

at::Tensor SequenceModel::loss_by_segments(const Batch& batch, Part part, std::uint64_t seed,
                                           std::uint64_t step, BatchRange rows) {
  const PrecedingTokens before =
      preceding_tokens(part == Part::train ? corpus_.train : corpus_.validation,
                       settings_.batch, settings_.train_length, seed, step);
  std::vector<std::int64_t> with, without, index;  // rows, and rows of before.tokens
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const auto found = std::lower_bound(before.rows.begin(), before.rows.end(), row);
    if (found != before.rows.end() && *found == row) {
      with.push_back(row);
      index.push_back(found - before.rows.begin());
    } else {
      without.push_back(row);
    }
  }
  const torch::Device device(settings_.device);
  const auto chosen = [&](const at::Tensor& from, const std::vector<std::int64_t>& which) {
    return from.index_select(0, at::tensor(which, at::kLong)).to(device);
  };
  at::Tensor nats = at::zeros({}, at::TensorOptions(device).dtype(at::kFloat));
  if (!without.empty())
    nats = nats + sum_of_losses(model_->forward(chosen(batch.inputs, without)),
                                chosen(batch.targets, without));
  if (!with.empty()) {
    {
      const at::NoGradGuard no_grad;
      segments_.read(model_, chosen(before.tokens, index));
    }
    nats = nats + sum_of_losses(segments_.read_next(model_, chosen(batch.inputs, with)),
                                chosen(batch.targets, with));
  }
  return nats;
}

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
  LossSum sum{
      reading_ == Reading::memory
          ? loss_by_segments(batch, part, seed, step, rows)
          : sum_of_losses(model_->forward(inputs.to(device), options), targets.to(device)),
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
  return lab::evaluate(model_, settings_, corpus_, stop, reading_);
}

void SequenceModel::describe(RunResult& result) {
  result.picture = picture(model_, settings_);
  if (position_parameter_count() > 0) {
    Transformer untrained =
        transformer_for(settings_, candidate_,
                        settings_.task->window_tokens(settings_.train_length), result.seed);
    add_initial(result.picture, untrained, settings_);
  }
  result.samples = samples(model_, settings_, corpus_, reading_);
  result.attention = trained_attention(model_, settings_, corpus_);
}

void SequenceModel::save(const std::filesystem::path& folder, const RunResult& result) {
  save_model(folder, model_, result, settings_, corpus_.tokenizer.get());
}

}  // namespace gnomon::lab
