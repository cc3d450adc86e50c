// Norms of queries and keys: what a model applies to q and k between their projection and the
// scores, before or after they are rotated.
//
//   rms     y = w x / sqrt(mean(x^2) + epsilon)
//   layer   y = w (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) + b
//   l2      y = w x / max(sqrt(sum(x^2)), epsilon)
//
//   Henry et al. "Query-Key Normalization for Transformers", 2020.
//   https://arxiv.org/abs/2010.04245; Zhang, Sennrich. "Root Mean Square Layer Normalization",
//   2019. https://arxiv.org/abs/1910.07467. Which model has which: the models' own sources.
//
// Letters: B batch, T tokens, H heads, D head_dim.
#pragma once

#include "gnomon/tensor.h"

namespace gnomon {

enum class NormKind { rms = 1, layer, l2 };
enum class NormScope {
  head = 1,   // over the D elements of each head: Qwen3, Gemma 3
  all_heads,  // over the H D elements of all heads together: OLMo 2, MiniMax-M2
};

// A plain value.
struct HeadNorm {
  NormKind kind = {};
  NormScope scope = NormScope::head;
  double epsilon = 0;        // finite, not negative
  double weight_offset = 0;  // added to each weight: 1 in Gemma, whose weights start at 0

  bool operator==(const HeadNorm&) const = default;
};

// Normalises x [B, T, H, D] in place; any strides, D contiguous. weight, bias: [1, D] for all
// heads, or [H, D]; without data: 1 and 0. Element types: float, Half, BFloat16, double.
//
// Error: computed in double and rounded once, |y - exact| <= half an ulp + 2^-50 |y|. Cost:
// reads and writes x once. Deterministic: the same bits for any number of threads.
//
// Throws std::invalid_argument when the spec breaks the bounds beside its fields or shapes do
// not fit.
void normalise_heads(const Tensor& x, const HeadNorm& norm, const ConstTensor& weight,
                     const ConstTensor& bias);

}  // namespace gnomon
