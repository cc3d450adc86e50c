// Rotary with learned frequencies: LeRoPE, and GRAPE-M without context.
//
//   Mistral Large 4, 2026, https://arxiv.org/abs/2607.10134 (LeRoPE).
//   Zhang et al. "Group Representational Position Encoding", ICLR 2026.
//   https://arxiv.org/abs/2512.07805 (GRAPE-M, which rotates in the other direction).
//
//   f_i = base^(-2i/R) exp(alpha_i)       alpha starts at 0: plain rotary
//
// Letters: R rotary dimension.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/rotary/rotary.h"
#include "gnomon/rotary/token_angles.h"
#include "gnomon/view.h"

namespace gnomon {

// A plain value; bounds as those of Rotary.
struct RotaryLearned {
  std::int64_t rotary_dim = 0;  // R; even, at least 2
  Pairing pairing = {};
  double base = 10'000.0;        // `rope_theta` in Hugging Face configs; greater than 1
  std::int64_t head_offset = 0;  // first rotated element of the head; not negative

  bool operator==(const RotaryLearned&) const = default;
};

// Returns the frequencies. alpha: [R/2]. Throws std::invalid_argument if a field violates its
// bound or alpha has another length.
RotaryFrequencies lower(const RotaryLearned& rotary, View<const float, 1> alpha);

// Adds the gradient of alpha, f_i times that of f_i, which frequencies_backward
// (token_angles.h) computes from queries and keys: frequencies_grad [R/2]. Throws as `lower`.
void lower_backward(const RotaryLearned& rotary, View<const float, 1> alpha,
                    std::span<const double> frequencies_grad, View<float, 1> alpha_grad);

}  // namespace gnomon
