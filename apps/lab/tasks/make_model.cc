#include "apps/lab/tasks/make_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/model_size.h"
#include "apps/lab/model/evaluate.h"
#include "apps/lab/model/transformer.h"
#include "apps/lab/tasks/finetune.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/io/safetensors.h"
#include "gnomon/version.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::lab {
namespace {

// The model of tasks with text or letters: one Transformer that predicts bytes.
class SequenceModel final : public TaskModel {
 public:
  SequenceModel(const Settings& settings, const Corpus& corpus, Candidate candidate,
                Transformer model)
      : TaskModel(settings),
        corpus_(corpus),
        candidate_(std::move(candidate)),
        reading_(reading_of(candidate_.suffix)),
        model_(std::move(model)),
        segments_(settings) {
    model_->to(torch::Device(settings.device));
  }

  torch::nn::Module& module() override { return *model_; }
  Transformer* transformer() override { return &model_; }
  Json specification() const override { return json_of_scheme(model_->scheme()); }

  LossSum loss(Part part, std::uint64_t seed, std::uint64_t step, BatchRange rows) override {
    const Batch batch = batch_of(settings_, corpus_, part, seed, step);
    const torch::Device device(settings_.device);
    const std::int64_t count = rows.end - rows.begin;
    const at::Tensor inputs = batch.inputs.narrow(0, rows.begin, count),
                     targets = batch.targets.narrow(0, rows.begin, count);
    Ponder ponder;
    ForwardOptions options{.visibility = visibility(settings_), .ponder = &ponder};
    if (part == Part::train && candidate_.has_random_positions())
      options.positions = explicit_ids(random_ids(
          inputs.size(1), settings_.task->window_tokens(settings_.longest()), seed, step));
    LossSum sum{
        reading_ == Reading::memory
            ? loss_by_segments(batch, part, seed, step, rows)
            : sum_of_losses(model_->forward(inputs.to(device), options), targets.to(device)),
        targets.ne(uncounted).sum().item<std::int64_t>()};
    if (settings_.ponder_cost && reading_ != Reading::memory) {
      // The mean over the tokens up to the last target of each row: not over those that fill
      // it up.
      const at::Tensor counts =
          targets.ne(uncounted).flip(1).cumsum(1).gt(0).flip(1).to(device).to(at::kFloat);
      sum.penalty = *settings_.ponder_cost * static_cast<double>(sum.targets) *
                    ((ponder.steps + ponder.remainder) * counts).sum() / counts.sum();
    }
    if (corpus_.tokenizer) {
      sum.units = 0;
      for (const at::Tensor& row : targets.unbind())
        for (std::int64_t i = 0; i < row.numel(); ++i)
          sum.units += corpus_.bytes_of(row.data_ptr<std::int64_t>()[i]);
    }
    return sum;
  }

  void set_step(std::int64_t step) override {
    if (candidate_.drops_positions() && step >= drop_step(settings_)) model_->drop_positions();
  }

  std::optional<Evaluation> evaluate(const std::function<bool()>& stop) override {
    return lab::evaluate(model_, settings_, corpus_, stop, reading_);
  }

  void describe(RunResult& result) override {
    result.picture = picture(model_, settings_);
    if (parameter_count(module(), "position") > 0) {
      Transformer untrained =
          transformer_for(settings_, candidate_,
                          settings_.task->window_tokens(settings_.train_length), result.seed);
      add_initial(result.picture, untrained, settings_);
    }
    result.samples = samples(model_, settings_, corpus_, reading_);
    result.attention = trained_attention(model_, settings_, corpus_);
  }

  void save(const std::filesystem::path& folder, const RunResult& result) override {
    save_model(folder, model_, result, settings_, corpus_.tokenizer.get());
  }

 private:
  // The loss of the rows `rows` of a batch, of which some have a memory of the tokens before
  // them, and the others an empty one.
  at::Tensor loss_by_segments(const Batch& batch, Part part, std::uint64_t seed,
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

  const Corpus& corpus_;
  Candidate candidate_;
  Reading reading_;
  Transformer model_;
  SegmentReader segments_;
};

constexpr const char* config_name = "config.json";
constexpr const char* weights_name = "model.safetensors";
constexpr const char* tokenizer_name = "tokenizer.model";

void check_shape(const io::SafeTensors& file, const std::string& name,
                 const io::Array::Shape& shape) {
  const io::TensorEntry* entry = file.find(name);
  if (!entry) refuse("model", file.name() + " must have the tensor " + name, "none");
  if (entry->shape != shape || entry->dtype != "F32")
    refuse("model",
           fmt::format("{} in {} must be F32 {}", name, file.name(), io::to_string(shape)),
           entry->dtype + " " + io::to_string(entry->shape));
}

}  // namespace

void save_model(const std::filesystem::path& folder, Transformer& model,
                const RunResult& result, const Settings& settings, const Tokenizer* tokenizer) {
  save_weights(folder, *model);
  if (tokenizer) io::write_atomically(folder / tokenizer_name, tokenizer->serialized());
  Settings portable = settings;
  portable.device = "cpu";
  portable.encodings = {split_size(result.encoding).name};
  io::write_atomically(
      folder / config_name,
      to_json(ModelConfig{.model_type = model_type(settings),
                          .gnomon = GNOMON_VERSION,
                          .encoding = portable.encodings[0],
                          .seed = result.seed,
                          .position = model::internal::json_of(model->scheme()),
                          .settings = portable,
                          .lengths = result.tests.lengths})
              .dump(1) +
          "\n");
}

TrainedModel load_model(const std::filesystem::path& folder) {
  TrainedModel trained{read_model_config(folder / config_name)};
  const ModelConfig& config = trained.config;
  const Settings& s = config.settings;
  const io::SafeTensors file(folder / weights_name);
  // Checked before the model is allocated: a config cannot ask for more memory than its file.
  check_shape(file, "embedding.weight", {vocabulary(s), s.width});
  for (std::int64_t layer = 0; layer < block_count(s); ++layer)
    check_shape(file, fmt::format("block{}.feed_in.weight", layer), {4 * s.width, s.width});
  trained.model = transformer_for(s, find_candidate(config.encoding),
                                  s.task->window_tokens(s.train_length), config.seed);
  if (find_candidate(config.encoding).drops_positions()) trained.model->drop_positions();
  if (Json(model::internal::json_of(trained.model->scheme())) != config.position)
    refuse("model",
           (folder / config_name).string() + " must have the position of " + config.encoding +
               " in this version of the library",
           config.position.dump().substr(0, 200));
  if (parse_tokens(s.tokens)) {
    trained.tokenizer =
        Tokenizer::load(std::string(io::MappedFile(folder / tokenizer_name).text()));
    if (trained.tokenizer->size() != vocabulary(s))
      refuse("model",
             fmt::format("{} must have {} tokens", (folder / tokenizer_name).string(),
                         vocabulary(s)),
             trained.tokenizer->size());
  }
  const at::NoGradGuard no_grad;
  for (auto& item : trained.model->named_parameters()) {
    check_shape(file, item.key(), item.value().sizes().vec());
    const io::Array array = file.tensor(item.key());
    item.value().copy_(
        at::from_blob(const_cast<std::byte*>(array.bytes().data()), array.shape(), at::kFloat));
  }
  return trained;
}

Corpus load_corpus(const Settings& settings, const std::string& tokenizer) {
  const Task& task = *settings.task;
  if (task.load) return task.load(settings);
  if (task.has_examples()) {
    Corpus none;
    none.source = "synthetic examples: " + std::string(task.summary);
    none.split =
        task.model
            ? "a separate random generator for each of the three parts"
            : "by a hash of the prompt: of sixteen prompts, fourteen train, one validates "
              "and one tests";
    return none;
  }
  Corpus corpus =
      load_texts(settings, tokenizer.empty() ? nullptr : Tokenizer::load(tokenizer));
  if (!settings.finetune.empty()) finetune::add_data(settings, corpus);
  return corpus;
}

std::unique_ptr<TaskModel> make_model(const Settings& session, const Corpus& corpus,
                                      const std::string& encoding, std::int64_t seed) {
  require_trainable(encoding);
  if (!session.finetune.empty())
    return std::make_unique<finetune::Model>(session, corpus, encoding);
  const Settings settings = sized(session, encoding);
  const Task& task = *settings.task;
  if (task.model) return task.model(settings, corpus, encoding, seed);
  const Candidate candidate = find_candidate(encoding);
  return sequence_model(
      settings, corpus, candidate,
      transformer_for(settings, candidate, task.window_tokens(settings.train_length), seed));
}

std::unique_ptr<TaskModel> sequence_model(const Settings& settings, const Corpus& corpus,
                                          Candidate candidate, Transformer model) {
  return std::make_unique<SequenceModel>(settings, corpus, std::move(candidate),
                                         std::move(model));
}

std::optional<std::string> unusable(const std::string& name, const Settings& settings,
                                    const Corpus& corpus) {
  if (is_own(name)) return std::nullopt;
  try {
    const at::NoGradGuard no_grad;
    make_model(settings, corpus, name, 1)->loss(Part::train, 1, 0, {0, 1});
    return std::nullopt;
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

}  // namespace gnomon::lab
