// A causal convolution of each channel over a few tokens, with the token itself added. Models
// apply it to k and v after their projection and before attention: Inkling, Inkling 2.
//
//   y[t, c] = scale (x[t, c] + sum over n < W of (w[c, n] + dynamic[t, h(c), n]) x[t - n, c])
//
// w[c, n] is the weight of the token n rows before. h(c) = c / (C / H) is the head of a
// channel. In decoding the W - 1 last inputs are kept as the state. The code is
// `InklingShortConvolution` and `Inkling2DynamicShortConvolution` in Hugging Face Transformers
// 5.23.
//
// Letters: B batch, T tokens, C channels (all heads of k or v), H heads, W taps.
//
// Naive version: tests/attention/short_convolution_test.cc, `naive_convolve`.
#pragma once

#include <cstdint>

#include "gnomon/position/positions.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Order of the weights of a channel in memory.
enum class TapOrder {
  oldest_first = 1,  // w[c, W - 1] of the tensor is the token itself: torch.nn.Conv1d
  newest_first,      // w[c, 0] is the token itself
};

// A plain value.
struct ShortConvolution {
  std::int64_t taps = 0;  // W; 1 to 64
  TapOrder order = {};    // required
  double scale = 1;       // finite

  bool operator==(const ShortConvolution&) const = default;
};

// Scales of the released models: Inkling 1; Inkling 2's sliding layers 1 / sqrt(W + 1), and its
// full layers, whose weights have a dynamic part, 1 / sqrt(2 W + 1).
ShortConvolution inkling_convolution(std::int64_t taps = 4);
ShortConvolution inkling2_convolution(std::int64_t taps = 4);
ShortConvolution inkling2_dynamic_convolution(std::int64_t taps = 4);

// Computes out [B, T, C] of x [B, T, C]. Element types of both: float, Half, BFloat16, double.
// weight: float [C, W], any strides (the transpose of [W, C] is allowed). dynamic: float [B, T,
// H, W] with H dividing C, newest tap first, or without data. out must not overlap x.
//
// state: float (double if x is double) [B, W - 1, C], the inputs before x, oldest first, or
// without data: zeros before x. It is replaced by the last W - 1 inputs, so that the next
// tokens continue. Zeros start a text. tokens: sequences of the T tokens [B or 1, T], or null:
// one sequence. Padding and other sequences contribute nothing; the state belongs to the
// sequence of the first token.
//
// Error bound: computed in double and rounded once. The same bits for a prompt in parts. Cost:
// B T C W multiply-adds. Throws std::invalid_argument if shapes or types do not match.
void convolve(const ShortConvolution& convolution, const ConstTensor& x,
              const ConstTensor& weight, const ConstTensor& dynamic, const Tensor& state,
              const Tensor& out, const Positions* tokens = nullptr);

}  // namespace gnomon
