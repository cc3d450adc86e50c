// AdamW with a clipped gradient norm, over all parameters in one pass. Computes the same as
// torch::nn::utils::clip_grad_norm_ and torch::optim::AdamW, in a twentieth of the operator
// calls.
#pragma once

#include <torch/serialize.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace gnomon::lab {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double gradient_norm = 1.0;  // clips the norm over all parameters
};

class AdamW {
 public:
  // A parameter and its weight decay: each step subtracts rate x decay x parameter.
  struct Decayed {
    at::Tensor parameter;
    double decay;
  };
  AdamW(std::vector<Decayed> parameters, const AdamWSettings& settings);

  // Consumes the gradients, which are undefined afterwards. A parameter without gradient is not
  // changed.
  void step(double rate);

  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  AdamWSettings settings_;
  std::vector<Decayed> parameters_;
  std::vector<at::Tensor> mean_, square_;  // running means of the gradients and their squares
  std::int64_t steps_ = 0;
};

}  // namespace gnomon::lab
