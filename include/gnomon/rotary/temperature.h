// Query temperature: queries far into a text are multiplied by a factor that grows with the
// logarithm of their position, so that the softmax over ever more keys stays as sharp.
//
//   factor(p) = 1 + beta ln(1 + floor((p + shift) / length))
//
// After Nakanishi, "Scalable-Softmax Is Superior for Attention", 2025.
// https://arxiv.org/abs/2501.19399. It is the query's own number: neither a scale of cos and
// sin nor the scale of the softmax, though only the products of the three can be told apart.
//
// Letters: B batch, T tokens, H heads, D head size.
#pragma once

#include <cstdint>

#include "gnomon/position/positions.h"
#include "gnomon/tensor.h"

namespace gnomon {

// A plain value. The factor is 1 for p + shift below `length`, then steps up every `length`.
struct QueryTemperature {
  double beta = 0;          // finite, not negative
  std::int64_t length = 0;  // positions of a step; at least 1
  std::int64_t shift = 0;   // added to a position before it is divided

  bool operator==(const QueryTemperature&) const = default;
};

// Llama 4, on its layers without rotary only: `attn_scale` and `floor_scale`. Shift 1.
QueryTemperature llama4_temperature(double attn_scale = 0.1, std::int64_t floor_scale = 8192);
// Ministral 3 and Mistral 4, on every layer, after the rotation: `llama_4_scaling_beta` and
// `original_max_position_embeddings`. Shift 0.
QueryTemperature ministral3_temperature(double llama_4_scaling_beta,
                                        std::int64_t original_max_position_embeddings);

// The factor of a query at `position`, within two ulps. Throws std::invalid_argument when the
// spec breaks the bounds beside its fields, or position + shift is negative or overflows.
double factor(const QueryTemperature& temperature, std::int64_t position);

// Multiplies queries by the factor of their position, in place. q: [B, T, H, D] or [T, H, D] (a
// batch of one), any strides, D contiguous; positions: of B rows or of one that all share.
// Tokens that are padding are left alone. Element types: float, Half, BFloat16, double.
//
// Error, relative to the product: half an ulp of the element type + 2^-51, for half and
// bfloat16 + 2^-22. Cost: reads and writes once the q of the tokens whose factor is not 1.
//
// Throws as `factor`, and when q has other than the positions' tokens, other than their rows
// where they have more than one, or D not contiguous.
//
// The factor of a position is its own transpose, so the gradient of q is scale_queries of the
// gradient of the result.
void scale_queries(const Tensor& q, const QueryTemperature& temperature,
                   const Positions& positions);

}  // namespace gnomon
