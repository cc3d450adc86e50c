#include "apps/lab/runs/run.h"

#include <ATen/ATen.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/clock.h"
#include "apps/lab/data/schedule.h"
#include "apps/lab/data/task.h"
#include "apps/lab/tasks/make_model.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

constexpr double weight_decay = 0.1, gradient_norm = 1;
constexpr std::int64_t curve_points = 30, validation_every = 3;

constexpr std::size_t position_group = 2;

std::unique_ptr<torch::optim::AdamW> optimizer_for(torch::nn::Module& model) {
  // Weight decay applies to matrices, not to norms or parameters of encodings.
  std::vector<at::Tensor> matrices, others, positions;
  for (const auto& item : model.named_parameters())
    (item.key().rfind("position", 0) == 0 ? positions
     : item.value().dim() > 1             ? matrices
                                          : others)
        .push_back(item.value());
  using torch::optim::AdamWOptions;
  const auto options = AdamWOptions().betas({0.9, 0.95});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& [parameters, decay] :
       {std::pair{matrices, weight_decay}, {others, 0.0}, {positions, 0.0}})
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

}  // namespace

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
  const auto seed = static_cast<std::uint64_t>(seed_),
             step = static_cast<std::uint64_t>(state_.step);
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
  const auto start = Clock::now();
  const double bits = backward() * bits_per_nat;
  torch::nn::utils::clip_grad_norm_(model_->module().parameters(), gradient_norm);
  const double rate =
      learning_rate_of(settings_, encoding_) * rate_at(state_.step, settings_.steps);
  auto& groups = optimizer_->param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i)
    groups[i].options().set_lr(i == position_group ? settings_.position_rate * rate : rate);
  optimizer_->step();
  ++state_.step;
  state_.loss_sum += bits;
  ++state_.loss_count;
  state_.seconds += seconds_since(start);
  record();
  return bits;
}

void TrainingRun::record() {
  const std::int64_t every = std::max<std::int64_t>(1, settings_.steps / curve_points);
  if (state_.step % every != 0 && !trained()) return;
  const bool validate = state_.step / every % validation_every == 0 || trained();
  state_.curve.push_back(
      {state_.step, state_.loss_sum / static_cast<double>(state_.loss_count), {}});
  if (validate) state_.curve.back().validation_bits = validation_bits();
  state_.loss_sum = 0;
  state_.loss_count = 0;
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
  write_checkpoint(path, {encoding_, seed_}, state_, model_->module(), *optimizer_);
}

void TrainingRun::load(const std::filesystem::path& path) {
  state_ = read_checkpoint(path, {encoding_, seed_}, model_->steps(), model_->module(),
                           *optimizer_, team_);
}

RunResult TrainingRun::summary() {
  RunResult run{.encoding = encoding_, .seed = seed_};
  run.specification = model_->specification();
  run.parameters = model_->parameter_count();
  run.position_parameters = model_->position_parameter_count();
  run.steps = state_.step;
  run.trained_tokens = state_.step * settings_.batch * model_->window();
  run.train_seconds = state_.seconds;
  if (state_.seconds > 0)
    run.tokens_per_second = static_cast<double>(run.trained_tokens) / state_.seconds;
  run.curve = state_.curve;
  run.unfinished = true;
  return run;
}

}  // namespace gnomon::lab
