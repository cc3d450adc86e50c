// Norms of queries and keys. A model applies them to q and k after their projection, before or
// after the rotation.
//
//   rms     y = w x / sqrt(mean(x^2) + epsilon)
//   layer   y = w (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) + b
//   l2      y = w x / max(sqrt(sum(x^2)), epsilon)
//   clip    y = w x min(1, limit / (sqrt(sum((w x)^2)) + epsilon))     Inkling 2
//
// Sources: Henry et al. "Query-Key Normalization for Transformers", 2020,
// https://arxiv.org/abs/2010.04245; Zhang, Sennrich. "Root Mean Square Layer Normalization",
// 2019, https://arxiv.org/abs/1910.07467. The sources of each model define which norm it uses.
//
// Letters: B batch, T tokens, H heads, D head dimension.
//
// Naive version: tests/attention/qk_norm_test.cc, `normalised`.
#pragma once

#include "gnomon/tensor.h"

namespace gnomon {

enum class NormKind { rms = 1, layer, l2, clip };
enum class NormScope {
  head = 1,   // over the D elements of each head: Qwen3, Gemma 3
  all_heads,  // over the H D elements of all heads together: OLMo 2, MiniMax-M2
};

// The kind and constants of a norm, without its weights. A plain value.
struct HeadNorm {
  NormKind kind = {};
  NormScope scope = NormScope::head;
  double epsilon = 0;        // finite, not negative
  double weight_offset = 0;  // added to each weight: 1 in Gemma, whose weights start at 0
  double limit = 0;          // greatest length of a vector, clip only; finite, positive

  bool operator==(const HeadNorm&) const = default;
};

// Normalises x [B, T, H, D] in place; any strides, D contiguous. weight, bias: [1, D] for all
// heads, or [H, D]. Without data, weights are 1 and biases are 0. Element types: float, Half,
// BFloat16, double.
//
// Error bound: computed in double and rounded once, |y - exact| <= half an ulp + 2^-50 |y|.
// Cost: reads and writes x once. Deterministic: the same bits for any number of threads.
//
// Throws std::invalid_argument if a field of `norm` is invalid or shapes do not match.
void normalise_heads(const Tensor& x, const HeadNorm& norm, const ConstTensor& weight,
                     const ConstTensor& bias);

}  // namespace gnomon
