#include "apps/lab/run.h"

#include <ATen/ATen.h>
#include <torch/serialize.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>

#include "apps/lab/tasks.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"

namespace gnomon::lab {
namespace {

constexpr double weight_decay = 0.1, gradient_norm = 1, last_rate = 0.1;
constexpr std::int64_t curve_points = 30, validation_every = 3, validation_batches = 4;
constexpr std::uint64_t validation_seed = 0x76616c6964;  // the same windows for all runs

std::unique_ptr<torch::optim::AdamW> optimizer_for(torch::nn::Module& model) {
  // Weight decay applies to matrices, not to norms or parameters of encodings.
  std::vector<at::Tensor> matrices, others;
  for (const auto& item : model.named_parameters())
    (item.value().dim() > 1 && item.key().rfind("position", 0) != 0 ? matrices : others)
        .push_back(item.value());
  using torch::optim::AdamWOptions;
  const auto options = AdamWOptions().betas({0.9, 0.95});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& [parameters, decay] : {std::pair{matrices, weight_decay}, {others, 0.0}})
    groups.emplace_back(
        parameters, std::make_unique<AdamWOptions>(AdamWOptions(options).weight_decay(decay)));
  return std::make_unique<torch::optim::AdamW>(std::move(groups), options);
}

std::unique_ptr<MicroBatches> micro_batches_of(const Settings& settings, TaskModel& model,
                                               Team& team) {
  if (settings.micro_batches)
    return std::make_unique<MicroBatches>(model, settings.batch, team);
  if (team.size() > 1)
    refuse("lab", "a run without micro-batches must have one worker", team.size());
  return nullptr;
}

// The bytes of the file of rank 0, for all members.
std::string read_once(const std::filesystem::path& path, Team& team) {
  std::string bytes;
  if (team.leads()) bytes = io::MappedFile(path).text();
  bytes.resize(static_cast<std::size_t>(team.decide(std::ssize(bytes))));
  const at::Tensor own = at::from_blob(bytes.data(), {std::ssize(bytes)}, at::kByte).clone();
  const at::Tensor sent = team.broadcast(own);
  const auto* begin = reinterpret_cast<const char*>(sent.data_ptr<std::uint8_t>());
  return {begin, begin + sent.numel()};
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
                         const std::string& encoding, std::int64_t seed, Team& team)
    : settings_(settings),
      encoding_(encoding),
      seed_(seed),
      team_(team),
      model_(make_model(settings, corpus, encoding, seed)),
      micro_batches_(micro_batches_of(settings, *model_, team)),
      optimizer_(optimizer_for(model_->module())) {}

TrainingRun::TrainingRun(const Settings& settings, std::unique_ptr<TaskModel> model,
                         std::int64_t seed)
    : settings_(settings),
      seed_(seed),
      team_(no_team()),
      model_(std::move(model)),
      micro_batches_(micro_batches_of(settings, *model_, team_)),
      optimizer_(optimizer_for(model_->module())) {}

double TrainingRun::backward() {
  const auto seed = static_cast<std::uint64_t>(seed_), step = static_cast<std::uint64_t>(step_);
  if (micro_batches_) {
    const MicroBatches::Loss sum = micro_batches_->backward(seed, step);
    return sum.nats / sum.units;
  }
  const LossSum sum = model_->loss(Part::train, seed, step, {0, settings_.batch});
  const at::Tensor loss = sum.nats / sum.targets;
  model_->module().zero_grad(/*set_to_none=*/true);
  loss.backward();
  return loss.item<double>() * static_cast<double>(sum.targets) /
         static_cast<double>(sum.units);
}

double TrainingRun::train_step() {
  const auto start = std::chrono::steady_clock::now();
  const double bits = backward() * bits_per_nat;
  torch::nn::utils::clip_grad_norm_(model_->module().parameters(), gradient_norm);
  for (auto& group : optimizer_->param_groups())
    group.options().set_lr(learning_rate(settings_, step_));
  optimizer_->step();
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
  curve_.push_back({step_, loss_sum_ / static_cast<double>(loss_count_), {}});
  if (validate) curve_.back().validation_bits = validation_bits();
  loss_sum_ = 0;
  loss_count_ = 0;
}

double TrainingRun::validation_bits() {
  const at::NoGradGuard no_grad;
  double bits = 0;
  for (std::int64_t i = 0; i < validation_batches; ++i) {
    const auto step = static_cast<std::uint64_t>(i);
    if (micro_batches_) {
      const auto sum = micro_batches_->loss(Part::validation, validation_seed, step);
      bits += sum.nats / sum.units * bits_per_nat;
      continue;
    }
    const LossSum sum =
        model_->loss(Part::validation, validation_seed, step, {0, settings_.batch});
    bits += sum.nats.item<double>() / static_cast<double>(sum.units) * bits_per_nat;
  }
  return bits / static_cast<double>(validation_batches);
}

void TrainingRun::save(const std::filesystem::path& path) {
  torch::serialize::OutputArchive archive, model, optimizer;
  model_->module().save(model);
  optimizer_->save(optimizer);
  archive.write("model", model);
  archive.write("optimizer", optimizer);
  std::vector<double> numbers{static_cast<double>(step_), seconds_, loss_sum_,
                              static_cast<double>(loss_count_)};
  for (const CurvePoint& point : curve_)
    numbers.insert(numbers.end(), {static_cast<double>(point.step), point.train_bits,
                                   point.validation_bits.value_or(std::nan(""))});
  archive.write("numbers", at::tensor(numbers, at::kDouble), /*is_buffer=*/true);
  std::ostringstream bytes;
  archive.save_to(bytes);
  io::write_aside(path, bytes.view());
}

void TrainingRun::load(const std::filesystem::path& path) {
  torch::serialize::InputArchive archive, model, optimizer;
  std::istringstream file(read_once(path, team_));
  archive.load_from(file);
  archive.read("model", model);
  archive.read("optimizer", optimizer);
  model_->module().load(model);
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
    curve_.push_back({static_cast<std::int64_t>(number[i]), number[i + 1],
                      std::isnan(number[i + 2]) ? std::nullopt : std::optional(number[i + 2])});
}

RunResult TrainingRun::summary() {
  RunResult run{.encoding = encoding_, .seed = seed_};
  run.specification = model_->specification();
  run.parameters = model_->parameter_count();
  run.position_parameters = model_->position_parameter_count();
  run.steps = step_;
  run.trained_tokens = step_ * settings_.batch * model_->window();
  run.train_seconds = seconds_;
  if (seconds_ > 0) run.tokens_per_second = static_cast<double>(run.trained_tokens) / seconds_;
  run.curve = curve_;
  run.unfinished = true;
  return run;
}

}  // namespace gnomon::lab
