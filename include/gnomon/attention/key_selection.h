// Selection of keys: each query attends to the keys with the greatest index scores only. Small
// index heads compute the scores (the "lightning indexer" of DeepSeek-V3.2 and V4):
//
//   score[t, w] = sum_h weights[t, h] max(q[t, h] . k[w], 0)
//
// A positive factor on the scores, as D^-1/2 H^-1/2 in these models, does not change the
// selection and is left out.
//
// Source: the code of DeepSeek-V4 (transformers 5.23, models/deepseek_v4), which cites section
// 2.3.1 of its report, equations 13 to 17.
//
// Letters: B batch, T query tokens, W keys, H index heads, D index head dimension, K selected
// keys.
//
// Naive version: tests/attention/key_selection_test.cc, `naive_select`.
#pragma once

#include "gnomon/attention/attention.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Selects, for each query, the K visible keys with the greatest scores, or all visible keys if
// there are at most K. q: [B, T, H, D], weights: [B, T, H], keys: [B, W, 1, D], any strides,
// the last axis contiguous, of one type: float, Half, BFloat16, double. q and keys are rotated
// already. selected: int32 [B, T, K], the rows of the keys in ascending order, then -1.
//
// mask: the keys that a query sees; its `rate` is that of compressed keys. Keys that the query
// does not see do not reach the result, whatever they hold.
//
// Ties: of equal scores the lower row is selected, so that the selection does not depend on
// later keys. torch.topk leaves this choice to its implementation. A score that is NaN ranks
// first, as in torch.topk.
//
// Scores are sums of floats (doubles for double), in the order of the heads. Deterministic: the
// same selection for any number of threads, and for the queries in parts. Cost: H D
// multiply-adds for each visible key of a query, and O(W) for the selection. Memory beyond the
// arguments: B W D floats of packed keys, and O(W + H D) for each thread.
//
// Throws std::invalid_argument if element types or shapes do not match, or the mask is invalid.
void select_keys(const ConstTensor& q, const ConstTensor& weights, const ConstTensor& keys,
                 const AttentionMask& mask, const Tensor& selected);

}  // namespace gnomon
