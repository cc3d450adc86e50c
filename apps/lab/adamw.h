// AdamW with a clipped gradient norm, over all parameters in one pass. What
// torch::nn::utils::clip_grad_norm_ and torch::optim::AdamW say, in a twentieth of their calls.
#pragma once

#include <torch/serialize.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace gnomon::lab {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double gradient_norm = 1.0;  // longer gradients, of all parameters together, are shortened
};

class AdamW {
 public:
  // A parameter and how much of it each step takes away, times the rate.
  struct Decayed {
    at::Tensor parameter;
    double decay;
  };
  AdamW(std::vector<Decayed> parameters, const AdamWSettings& settings);

  // Uses up the gradients: they are undefined afterwards. Parameters without one stay.
  void step(double rate);

  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  AdamWSettings settings_;
  std::vector<Decayed> parameters_;
  std::vector<at::Tensor> mean_, square_;  // of the gradients, running
  std::int64_t steps_ = 0;
};

}  // namespace gnomon::lab
