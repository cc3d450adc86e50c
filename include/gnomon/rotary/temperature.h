// Query temperature: a query is multiplied by a factor that grows with the logarithm of its
// position. The softmax over many keys then stays as sharp as over few.
//
//   factor(p) = 1 + beta ln(1 + floor((p + shift) / length))
//
// After Nakanishi, "Scalable-Softmax Is Superior for Attention", 2025.
// https://arxiv.org/abs/2501.19399. The factor is separate from the scale of cos and sin and
// from the softmax scale, although a score depends only on the product of the three.
//
// Letters: B batch, T tokens, H heads, D head dimension.
//
// Naive version: tests/naive/rotary.h, `naive_scale_queries`.
#pragma once

#include <cstdint>

#include "gnomon/position/positions.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Parameters of the factor. The factor is 1 if p + shift < `length`, and increases every
// `length` positions. A plain value.
struct QueryTemperature {
  double beta = 0;          // finite, not negative
  std::int64_t length = 0;  // length of a step, in positions; at least 1
  std::int64_t shift = 0;   // added to the position before the division, in positions

  bool operator==(const QueryTemperature&) const = default;
};

// Llama 4, only on layers without rotary: `attn_scale` and `floor_scale`. Shift 1.
QueryTemperature llama4_temperature(double attn_scale = 0.1, std::int64_t floor_scale = 8192);
// Ministral 3 and Mistral 4, on every layer, after the rotation: `llama_4_scaling_beta` and
// `original_max_position_embeddings`. Shift 0.
QueryTemperature ministral3_temperature(double llama_4_scaling_beta,
                                        std::int64_t original_max_position_embeddings);

// Returns the factor of a query at `position`. Error bound: two ulps. Throws
// std::invalid_argument if the spec violates the bounds stated next to its fields, or
// position + shift is negative or overflows.
double query_scale(const QueryTemperature& temperature, std::int64_t position);

// Multiplies each query by the factor of its position, in place. q: [B, T, H, D] or [T, H, D]
// (a batch of one), any strides, D contiguous. positions: [B, T], or one row [1, T] shared by
// the batch. Padding tokens are not changed. Element types: float, Half, BFloat16, double.
//
// Error bound, relative to the product: half an ulp of the element type + 2^-51; for half and
// bfloat16 half an ulp + 2^-22. Cost: reads and writes once the queries whose factor is not 1.
//
// Throws as `query_scale`, and if q and positions differ in tokens, positions have several rows
// and q has another number of rows, or D is not contiguous.
//
// Gradient: apply scale_queries to the gradient of the result, since the transpose of the
// multiplication by a factor is the same multiplication.
void scale_queries(const Tensor& q, const QueryTemperature& temperature,
                   const Positions& positions);

}  // namespace gnomon
