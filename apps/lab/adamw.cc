#include "apps/lab/adamw.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "apps/lab/kernels.h"

namespace gnomon::lab {
namespace {

double sum_of_squares(const at::Tensor& x) {
  if (x.device().is_cpu() && x.scalar_type() == at::kFloat)
    return kernels::sum_of_squares(x.numel(), x.data_ptr<float>());
  return x.to(at::kDouble).square().sum().item<double>();
}

void update(const kernels::AdamWStep& s, const at::Tensor& grad, at::Tensor& mean,
            at::Tensor& square, at::Tensor& x) {
  if (x.device().is_cpu() && x.scalar_type() == at::kFloat)
    return kernels::adamw(x.numel(), s, grad.data_ptr<float>(), mean.data_ptr<float>(),
                          square.data_ptr<float>(), x.data_ptr<float>());
  const at::Tensor scaled = grad * s.gradient_scale;
  mean.mul_(s.beta1).add_(scaled, 1 - s.beta1);
  square.mul_(s.beta2).addcmul_(scaled, scaled, 1 - s.beta2);
  x.mul_(s.keep).addcdiv_(mean, square.sqrt().div_(s.root).add_(s.epsilon), -s.step);
}

}  // namespace

AdamW::AdamW(std::vector<Decayed> parameters, const AdamWSettings& settings)
    : settings_(settings), parameters_(std::move(parameters)) {
  for (const Decayed& one : parameters_) {
    mean_.push_back(at::zeros_like(one.parameter, at::MemoryFormat::Contiguous));
    square_.push_back(at::zeros_like(mean_.back()));
  }
}

void AdamW::step(double rate) {
  const at::NoGradGuard no_grad;
  ++steps_;
  std::vector<at::Tensor> grads;
  double squares = 0;
  for (const Decayed& one : parameters_) {
    const at::Tensor& grad = one.parameter.grad();
    grads.push_back(grad.defined() ? grad.contiguous() : grad);
    if (grad.defined()) squares += sum_of_squares(grads.back());
  }
  const AdamWSettings& s = settings_;
  const auto at_step = static_cast<double>(steps_);
  kernels::AdamWStep now{};
  now.beta1 = static_cast<float>(s.beta1), now.beta2 = static_cast<float>(s.beta2);
  now.epsilon = static_cast<float>(s.epsilon);
  now.gradient_scale =
      static_cast<float>(std::min(1.0, s.gradient_norm / (std::sqrt(squares) + 1e-6)));
  now.step = static_cast<float>(rate / (1 - std::pow(s.beta1, at_step)));
  now.root = static_cast<float>(std::sqrt(1 - std::pow(s.beta2, at_step)));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!grads[i].defined()) continue;
    now.keep = static_cast<float>(1 - rate * parameters_[i].decay);
    at::Tensor& x = parameters_[i].parameter;
    update(now, grads[i], mean_[i], square_[i], x);
    x.unsafeGetTensorImpl()->bump_version();  // autograd does not see the writes of the kernel
    x.mutable_grad().reset();
  }
}

void AdamW::save(torch::serialize::OutputArchive& archive) const {
  archive.write("steps", at::scalar_tensor(steps_, at::kLong), /*is_buffer=*/true);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    archive.write("mean" + std::to_string(i), mean_[i], /*is_buffer=*/true);
    archive.write("square" + std::to_string(i), square_[i], /*is_buffer=*/true);
  }
}

void AdamW::load(torch::serialize::InputArchive& archive) {
  const auto device = [](const at::Tensor& like) { return like.device(); };
  at::Tensor steps;
  archive.read("steps", steps, /*is_buffer=*/true);
  steps_ = steps.item<std::int64_t>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    archive.read("mean" + std::to_string(i), mean_[i], /*is_buffer=*/true);
    archive.read("square" + std::to_string(i), square_[i], /*is_buffer=*/true);
    mean_[i] = mean_[i].to(device(parameters_[i].parameter));
    square_[i] = square_[i].to(device(parameters_[i].parameter));
  }
}

}  // namespace gnomon::lab
