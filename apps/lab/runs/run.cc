#include "apps/lab/runs/run.h"

#include <ATen/ATen.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/task.h"
#include "apps/lab/runs/process.h"
#include "apps/lab/tasks/make_model.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

constexpr double weight_decay = 0.1, gradient_norm = 1;
constexpr std::int64_t curve_points = 30, validation_every = 3;

// The factor of the learning rate at a step, counted from 0: it rises over the first steps, is
// constant, and falls linearly at the end (warm-up, stable, decay). While it is constant, the
// fall of the loss shows how far training has come. With a cosine, which falls from the
// beginning, every curve flattens.
double rate_at(std::int64_t step, std::int64_t steps) {
  constexpr double warm_until = 0.1, last_rate = 0.02;
  const auto at = static_cast<double>(step) + 1, all = static_cast<double>(steps);
  const double warm = std::max(1.0, warm_until * all), stable = stable_until * all;
  if (at < warm) return at / warm;
  if (at <= stable || all <= stable) return 1;
  return std::max(last_rate, 1 - (at - stable) / (all - stable));
}

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
    : TrainingRun(settings, make_model(settings, corpus, encoding, seed), seed, encoding,
                  team) {}

TrainingRun::TrainingRun(const Settings& settings, std::unique_ptr<TaskModel> model,
                         std::int64_t seed, const std::string& encoding, Team& team)
    : settings_(settings),
      job_{encoding, seed},
      team_(team),
      model_(std::move(model)),
      micro_batches_(micro_batches_of(settings, *model_, team)),
      optimizer_(optimizer_for(model_->module())) {}

double TrainingRun::backward() {
  const auto seed = static_cast<std::uint64_t>(job_.seed),
             step = static_cast<std::uint64_t>(state_.step);
  if (micro_batches_) {
    const MicroBatches::Loss sum = micro_batches_->backward(seed, step);
    return sum.nats / sum.units;
  }
  const LossSum sum = model_->loss(Part::train, seed, step, {0, settings_.batch});
  const at::Tensor loss = sum.nats / sum.targets;
  model_->module().zero_grad(/*set_to_none=*/true);
  (sum.penalty.defined() ? sum.objective() / sum.targets : loss).backward();
  return loss.item<double>() * static_cast<double>(sum.targets) /
         static_cast<double>(sum.units);
}

double TrainingRun::train_step() {
  const auto start = Clock::now();
  const double bits = backward() * bits_per_nat;
  torch::nn::utils::clip_grad_norm_(model_->module().parameters(), gradient_norm);
  const double rate =
      learning_rate_of(settings_, job_.encoding) * rate_at(state_.step, settings_.steps);
  auto& groups = optimizer_->param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i)
    groups[i].options().set_lr(i == position_group ? settings_.position_rate * rate : rate);
  optimizer_->step();
  model_->set_step(++state_.step);
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
  write_checkpoint(path, job_, state_, model_->module(), *optimizer_);
}

void TrainingRun::load(const std::filesystem::path& path) {
  state_ = read_checkpoint(path, job_, model_->steps(), model_->module(), *optimizer_, team_);
  model_->set_step(state_.step);
}

RunResult TrainingRun::summary() {
  RunResult run{.encoding = job_.encoding, .seed = job_.seed};
  run.specification = model_->specification();
  run.parameters = parameter_count(model_->module());
  run.position_parameters = parameter_count(model_->module(), "position");
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
