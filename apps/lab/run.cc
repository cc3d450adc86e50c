#include "apps/lab/run.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "apps/lab/batches.h"
#include "gnomon/model/scheme.h"
#include "src/model/encoding_json.h"

namespace gnomon::lab {
namespace {

constexpr double weight_decay = 0.1, last_rate = 0.1;
constexpr std::int64_t curve_points = 30, validation_every = 3, validation_batches = 4;
constexpr std::uint64_t validation_seed = 0x76616c6964;  // the same windows for all runs

at::Tensor loss_of(Transformer& model, const Batch& batch, const Settings& settings,
                   std::vector<std::int64_t> ids = {}) {
  const torch::Device device(settings.device);
  return mean_loss(model->forward(batch.inputs.to(device),
                                  {.visibility = visibility(settings), .ids = std::move(ids)}),
                   batch.targets.to(device));
}

AdamW optimizer_for(Transformer& model) {
  // Weight decay applies to matrices, not to norms or parameters of encodings.
  std::vector<AdamW::Decayed> parameters;
  for (const auto& item : model->named_parameters()) {
    const bool decays = item.value().dim() > 1 && item.key().rfind("position.", 0) != 0;
    parameters.push_back({item.value(), decays ? weight_decay : 0});
  }
  return AdamW(std::move(parameters), {});
}

// Writes a temporary file and renames it, so that the file is complete or unchanged.
template <typename Write>
void replace(const std::filesystem::path& path, Write&& write) {
  std::filesystem::path aside = path;
  aside += ".part";
  write(aside.string());
  std::filesystem::rename(aside, path);
}

// The spec of the only encoding, or the scheme if there are several.
Json specification(const model::Scheme& scheme) {
  const model::Mixture& first = scheme.layers[0];
  const bool plain =
      first.size() == 1 && scheme == model::every_layer(first, std::ssize(scheme.layers));
  return plain ? model::internal::json_of(first[0]) : model::internal::json_of(scheme);
}

}  // namespace

double learning_rate(const Settings& settings, std::int64_t step) {
  const double warm = std::max(1.0, 0.1 * static_cast<double>(settings.steps));
  const double at = static_cast<double>(step) + 1;
  if (at < warm) return settings.learning_rate * at / warm;
  const double progress =
      (at - warm) / std::max(1.0, static_cast<double>(settings.steps) - warm);
  return settings.learning_rate *
         (last_rate + (1 - last_rate) * 0.5 * (1 + std::cos(M_PI * progress)));
}

TrainingRun::TrainingRun(const Settings& settings, const Corpus& corpus,
                         const std::string& encoding, std::int64_t seed)
    : settings_(settings), corpus_(corpus), candidate_(find_candidate(encoding)), seed_(seed) {
  model_ = transformer_for(settings, candidate_,
                           window_tokens(task_of(settings), settings.train_length), seed);
  model_->to(torch::Device(settings.device));
  optimizer_.emplace(optimizer_for(model_));
}

TrainingRun::TrainingRun(const Settings& settings, const Corpus& corpus, Transformer model,
                         std::int64_t seed)
    : settings_(settings), corpus_(corpus), seed_(seed), model_(std::move(model)) {
  optimizer_.emplace(optimizer_for(model_));
}

double TrainingRun::train_step() {
  const auto start = std::chrono::steady_clock::now();
  const Batch batch =
      batch_of(settings_, corpus_, Part::train, static_cast<std::uint64_t>(seed_),
               static_cast<std::uint64_t>(step_));
  std::vector<std::int64_t> ids;
  if (candidate_.numbering == Numbering::random)
    ids =
        random_ids(batch.inputs.size(1), window_tokens(task_of(settings_), settings_.longest()),
                   static_cast<std::uint64_t>(seed_), static_cast<std::uint64_t>(step_));
  const at::Tensor loss = loss_of(model_, batch, settings_, std::move(ids));
  loss.backward();
  optimizer_->step(learning_rate(settings_, step_));
  const double bits = loss.item<double>() * bits_per_nat;
  ++step_;
  loss_sum_ += bits;
  ++loss_count_;
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  record();
  return bits;
}

void TrainingRun::record() {
  const std::int64_t every = std::max<std::int64_t>(1, settings_.steps / curve_points);
  if (step_ % every != 0 && !trained()) return;
  const bool validate = step_ / every % validation_every == 0 || trained();
  curve_.push_back({static_cast<double>(step_), loss_sum_ / static_cast<double>(loss_count_),
                    validate ? validation_bits() : std::nan("")});
  loss_sum_ = 0;
  loss_count_ = 0;
}

double TrainingRun::validation_bits() {
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (std::int64_t i = 0; i < validation_batches; ++i)
    sum += loss_of(model_,
                   batch_of(settings_, corpus_, Part::validation, validation_seed,
                            static_cast<std::uint64_t>(i)),
                   settings_)
               .item<double>();
  return sum / static_cast<double>(validation_batches) * bits_per_nat;
}

void TrainingRun::save(const std::filesystem::path& path) {
  replace(path, [&](const std::string& aside) {
    torch::serialize::OutputArchive archive, model, optimizer;
    model_->save(model);
    optimizer_->save(optimizer);
    archive.write("model", model);
    archive.write("optimizer", optimizer);
    std::vector<double> numbers{static_cast<double>(step_), seconds_, loss_sum_,
                                static_cast<double>(loss_count_)};
    for (const auto& point : curve_) numbers.insert(numbers.end(), point.begin(), point.end());
    archive.write("numbers", at::tensor(numbers, at::kDouble), /*is_buffer=*/true);
    archive.save_to(aside);
  });
}

void TrainingRun::load(const std::filesystem::path& path) {
  torch::serialize::InputArchive archive, model, optimizer;
  archive.load_from(path.string());
  archive.read("model", model);
  archive.read("optimizer", optimizer);
  model_->load(model);
  optimizer_->load(optimizer);
  at::Tensor numbers;
  archive.read("numbers", numbers, /*is_buffer=*/true);
  const double* number = numbers.data_ptr<double>();
  step_ = static_cast<std::int64_t>(number[0]);
  seconds_ = number[1];
  loss_sum_ = number[2];
  loss_count_ = static_cast<std::int64_t>(number[3]);
  curve_.clear();
  for (std::int64_t i = 4; i + 2 < numbers.numel(); i += 3)
    curve_.push_back({number[i], number[i + 1], number[i + 2]});
}

void TrainingRun::save_weights(const std::filesystem::path& path) {
  replace(path, [&](const std::string& aside) { torch::save(model_, aside); });
}

Json TrainingRun::summary() const {
  Json curve = Json::array();
  for (const auto& [step, train, validation] : curve_) {
    Json point{{"step", static_cast<std::int64_t>(step)}, {"train_bits", train}};
    if (!std::isnan(validation)) point["validation_bits"] = validation;
    curve.push_back(point);
  }
  const double bytes = static_cast<double>(
      step_ * settings_.batch * window_tokens(task_of(settings_), settings_.train_length));
  return {{"encoding", candidate_.name},
          {"seed", seed_},
          {"specification", specification(model_->scheme())},
          {"parameters", model_->parameter_count()},
          {"position_parameters", model_->position_parameter_count()},
          {"steps", step_},
          {"trained_bytes", static_cast<std::int64_t>(bytes)},
          {"train_seconds", seconds_},
          {"bytes_per_second", seconds_ > 0 ? bytes / seconds_ : 0.0},
          {"curve", curve}};
}

}  // namespace gnomon::lab
