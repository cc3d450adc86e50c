// Adaptive computation time (Graves 2016, arXiv:1603.08983) as in the Universal Transformer
// (Dehghani et al. 2018, arXiv:1807.03819): each token decides after how many steps of the
// shared layer it halts.
//
//   p_n       probability of step n, a function of the state before the step
//   N         the first n with p_1 + ... + p_n > 1 - 0.01, or the last step
//   R         1 - (p_1 + ... + p_(N-1))
//   output    p_1 s_1 + ... + p_(N-1) s_(N-1) + R s_N, with s_n the state after step n
//   ponder    N + R
//
// The state of a token that has halted is s_N in all later steps. The gradient of N is 0.
//
// Letters: B windows, T tokens, C width.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace gnomon::lab {

// Per token, [B, T].
struct Ponder {
  at::Tensor steps, remainder;  // N and R
};

class Halting {
 public:
  static constexpr double epsilon = 0.01;
  // As in tensor2tensor: of the bias of p, and the weight of the ponder cost in the loss.
  static constexpr double initial_bias = 1, default_cost = 0.01;

  // x: the state before the first step, [B, T, C]. steps: at most.
  Halting(const at::Tensor& x, std::int64_t steps);

  // One step. x: the state before it; y: the output of the layer for x; probability: p of x,
  // [B, T]. Returns the state after the step.
  at::Tensor step(const at::Tensor& x, const at::Tensor& y, const at::Tensor& probability);

  bool ended() const;                                   // all tokens have halted
  const at::Tensor& output() const { return output_; }  // the sum so far
  const Ponder& ponder() const { return ponder_; }

 private:
  std::int64_t left_;   // steps
  at::Tensor running_;  // [B, T], 1 or 0
  at::Tensor sum_;      // of p
  at::Tensor output_;
  Ponder ponder_;
};

}  // namespace gnomon::lab
