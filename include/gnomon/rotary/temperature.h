// Query temperature: a query is multiplied by a factor that grows with the logarithm of its
// position. The softmax over many keys then stays as sharp as over few. n = p + shift:
//
//   floored_log   1 + beta ln(1 + floor(n / length))      Llama 4, Ministral 3, Mistral 4
//   clipped_log   1 + beta ln(max(n / length, 1))         Inkling (tau)
//   power         exp(beta ln(1 + n / length))            Beam
//   head_log      slope_h ln(n) + offset_h, trained       Mistral Large 4
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
#include <span>
#include <vector>

#include "gnomon/position/positions.h"
#include "gnomon/tensor.h"

namespace gnomon {

enum class TemperatureForm { floored_log = 1, clipped_log, power, head_log };

// Parameters of the factor. A plain value.
struct QueryTemperature {
  double beta = 0;          // finite, not negative
  std::int64_t length = 0;  // in positions; at least 1. head_log: not used
  std::int64_t shift = 0;   // added to the position, in positions
  TemperatureForm form = TemperatureForm::floored_log;
  std::vector<double> slopes = {}, offsets = {};  // [H], head_log only; finite

  bool operator==(const QueryTemperature&) const = default;
};

// Llama 4, only on layers without rotary: `attn_scale` and `floor_scale`. Shift 1.
QueryTemperature llama4_temperature(double attn_scale = 0.1, std::int64_t floor_scale = 8192);
// Ministral 3 and Mistral 4, on every layer, after the rotation: `llama_4_scaling_beta` and
// `original_max_position_embeddings`. Shift 0.
QueryTemperature ministral3_temperature(double llama_4_scaling_beta,
                                        std::int64_t original_max_position_embeddings);

// Inkling, full layers: tau, which multiplies the relative logits too. `length`:
// `log_scaling_n_floor`. Shift 1.
QueryTemperature inkling_temperature(std::int64_t length, double beta = 0.1);
// Beam, layers without rotary. Shift 1.
QueryTemperature beam_temperature(double beta = 0.1, std::int64_t length = 2048);
// Mistral Large 4, every layer. Shift 1. slopes, offsets: [H], `softmax_scaling.scale` and
// `softmax_scaling.bias` of the checkpoint.
QueryTemperature mistral_large4_temperature(std::vector<double> slopes,
                                            std::vector<double> offsets);

// Returns the factor of a query of a head at `position`; `head` counts only for head_log. Error
// bound: four ulps of the largest term. Throws std::invalid_argument if the spec violates the
// bounds stated next to its fields, the spec has no such head, or position + shift is negative
// (head_log: less than 1) or overflows.
double query_scale(const QueryTemperature& temperature, std::int64_t position,
                   std::int64_t head = 0);

// Multiplies each query by the factor of its position, in place. q: [B, T, H, D] or [T, H, D]
// (a batch of one), any strides, D contiguous. positions: [B, T], or one row [1, T] shared by
// the batch. Padding tokens are not changed. Element types: float, Half, BFloat16, double.
//
// Error bound, relative to the product: half an ulp of the element type + 2^-51; for half and
// bfloat16 half an ulp + 2^-22. Cost: reads and writes once the queries whose factor is not 1.
//
// Throws as `query_scale`, and if q has another number of heads than a head_log, q and
// positions differ in tokens, positions have several rows
// and q has another number of rows, or D is not contiguous.
//
// Gradient of q: apply scale_queries to the gradient of the result, since the transpose of the
// multiplication by a factor is the same multiplication.
void scale_queries(const Tensor& q, const QueryTemperature& temperature,
                   const Positions& positions);

// Adds the gradients of slopes and offsets of a head_log, [H] each: the sums over rows and
// tokens of (q . grad) ln(n) and of q . grad, in double and in a fixed order. q: the queries
// before scale_queries; grad: the gradient of the scaled queries, of the same type. Throws as
// scale_queries, and if the spec is no head_log or the spans have other sizes.
void query_scale_backward(const ConstTensor& q, const ConstTensor& grad,
                          const QueryTemperature& temperature, const Positions& positions,
                          std::span<double> slopes, std::span<double> offsets);

}  // namespace gnomon
