// DAPE: attention whose scores are adapted by a network over all heads, pair by pair.
//
//   Zheng et al. "DAPE: Data-Adaptive Positional Encoding for Length Extrapolation",
//   NeurIPS 2024. https://arxiv.org/abs/2405.14722; formula as in the code of the authors,
//   https://github.com/chuanyang-Zheng/DAPE.
//
//   x = [s; b]                                  s[h] = scale q[i, h] . k[j, g(h)], b[h] = bias
//   score[h, i, j] = s[h] + b[h] + y[h]         y = W2 leaky(W1 x + c1) + c2
//
// DAPE V2 (Zheng et al. "DAPE V2: Process Attention Score as Feature Map for Length
// Extrapolation", 2024, https://arxiv.org/abs/2410.04798) convolves over the keys, with K
// columns, K odd; K = 1 is DAPE. Causal only. x_j = 0 for keys that the query does not see, and
// leaky is 0 before the first key of the sequence:
//
//   u_j = c1 + sum over t of W1[t] x_(j + t - K/2)
//   y_j = c2 + sum over t of W2[t] leaky(u_(j + t - K/2))
//
// Hidden units to the right of the diagonal are those of a text that goes on. The code of the
// authors has 0 beyond the last key of the call, which changes the last K/2 queries.
//
// x has 2 Hq elements for each pair of a query and a key: the scores of all heads, then their
// biases. The bias is any form by position (ALiBi, KERPLE, FIRE, T5, ...) or none, which is 0.
// The network sees all heads of a pair at once, so the call processes the queries in blocks of
// 64: the memory grows with T + S, not with T S.
//
// Letters: B batch, T query tokens, S key tokens, Hq query heads, Hk key heads, D head
// dimension, M hidden units.
//
// Naive version: tests/attention/dape_oracle.h, `naive_dape`.
#pragma once

#include <cstdint>
#include <span>

#include "gnomon/attention/attention.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

// leaky(u) is u, or negative_slope u if u < 0.
struct Dape {
  std::int64_t hidden = 32;      // M; at least 1
  double negative_slope = 0.01;  // finite
  std::int64_t kernel = 1;       // K; odd; above 1 only causal (DAPE V2)

  bool operator==(const Dape&) const = default;
};

// The trained parameters or, if T is float, their gradient.
template <typename T>
struct DapeNetwork {
  View<T, 2> first;        // W1 [M, 2 Hq K]: rows [2 Hq, K], as weights of Conv1d
  View<T, 1> first_bias;   // c1 [M]
  View<T, 2> second;       // W2 [Hq, M K]: rows [M, K]
  View<T, 1> second_bias;  // c2 [Hq]
};

// Computes attention. input: q, k and v as in `attention`, of type float, Half or BFloat16,
// without scales and terms. Rotate queries and keys before. out: [B, T, Hq, Dv]; lse float
// [B, Hq, T], as in `attention`.
//
// plan: mask, positions, bias (not dense) and softmax options without a cap. Nothing else.
//
// A pair that the mask hides never reaches the query. Error bound: that of `attention`, plus
// 2^-20 (|s| + |b| + |W2| |W1 x|) in each score. Deterministic: the same bits for any number of
// threads. Cost: that of `attention`, plus D + 3 K M multiply-adds for each score; the
// backward pass 2 D + 9 K M. Memory: 64 Hq S floats for each batch row; packed q and k.
//
// Throws std::invalid_argument if a tensor does not match or the plan has another term.
void dape_attention(const AttentionInput& input, const AttentionPlan& plan, const Dape& dape,
                    const DapeNetwork<const float>& network, const Tensor& out,
                    const Tensor& lse = {});

// The gradients. q, k, v: overwritten, of the type of q. bias: as in `attention_backward`, or
// null. network: overwritten; may have no data.
struct DapeGradient {
  Tensor q, k, v;
  BiasGradient* bias = nullptr;
  std::span<double> sinks = {};  // [Hq] or empty
  DapeNetwork<float> network = {};
};

// out and lse are the results of dape_attention. Error bound: that of `attention_backward` with
// the gradients of scores multiplied by 1 + |W2| |W1|; sums of the network are within 2^-18 of
// the sum of the magnitudes. Deterministic. Memory: twice that of dape_attention, and float
// copies of the gradients.
void dape_attention_backward(const AttentionInput& input, const AttentionPlan& plan,
                             const Dape& dape, const DapeNetwork<const float>& network,
                             const ConstTensor& out, const ConstTensor& lse,
                             const ConstTensor& out_grad, const DapeGradient& gradient);

}  // namespace gnomon
