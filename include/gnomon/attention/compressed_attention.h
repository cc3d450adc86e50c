// Attention over the keys of a sliding window and over compressed keys, in one softmax. Keys
// and values are one tensor (DeepSeek-V4):
//
//   prepare(plan, q, kv);
//   compressed_attention({.q = q, .kv = kv, .entries = kept.entries()}, plan, entry_mask, out);
//   finish(plan, out);
//
// The two sets of keys are attended to separately. `merge_attention` then gives the softmax
// over both, so that no score matrix and no mask [T, W] is stored.
//
// Source: the code of DeepSeek-V4 (transformers 5.23, models/deepseek_v4). Merging by the
// log-sum-exp: Milakov, Gimelshein. "Online normalizer calculation for softmax", 2018,
// https://arxiv.org/abs/1805.02867.
//
// Letters: B batch, T query tokens, S rows of the window's keys, W entries, Hq query heads, Hk
// key heads, D head dimension, K selected entries.
//
// Naive version: tests/attention/compressed_attention_test.cc, `naive_compressed`.
#pragma once

#include <span>

#include "gnomon/attention/attention.h"
#include "gnomon/tensor.h"

namespace gnomon {

// The input tensors. All of the type of q (`selected` aside), the last axis contiguous.
struct CompressedInput {
  ConstTensor q;        // [B, T, Hq, D]
  ConstTensor kv;       // [B, S, Hk, D], keys and values of the window
  ConstTensor entries;  // [B, W, Hk, D], keys and values (CompressedKeys); W may be 0
  // int32 [B, T, K]: the entries that each query attends to, then -1 (select_keys). Without
  // data: all entries that the query sees.
  ConstTensor selected = {};
};

// Computes attention. out: [B, T, Hq, D]; lse as in `attention`, over both sets of keys and the
// sinks.
//
// plan: mask and positions of the window, softmax options and sinks, and no other term:
// `prepare` rotates q and kv before. entry_mask: the mask of the
// entries, with the rate of the compression, and the position of query 0 as its offset.
// `selected` takes the place of entry_mask: only entries that the query sees may be selected
// (select_keys with the same mask does so). Positions of the plan do not apply to entries.
//
// An entry that a query does not see or select never reaches the query, as in `attention`.
// Selected entries are gathered for 16 queries at a time.
//
// Error bound: that of `attention` for both sets, plus 2^-21 max |v| for float and 2^-50 for
// double; half and bfloat16 are rounded two times more. Deterministic: the same bits for any
// number of threads. Cost: D + D multiply-adds for each visible or selected key, and one pass
// over out to merge. Memory beyond the arguments: a second out and lse; for selected entries 16
// K Hk D elements.
//
// Throws std::invalid_argument if a tensor does not match, the plan has one of the above, or a
// selected entry is not below W.
void compressed_attention(const CompressedInput& input, const AttentionPlan& plan,
                          const AttentionMask& entry_mask, const Tensor& out,
                          const Tensor& lse = {});

// The gradients. Required, overwritten, of the type of q. kv and entries: the gradients of keys
// and values, added.
struct CompressedGradient {
  Tensor q, kv, entries;
  std::span<double> sinks = {};  // [Hq] or empty
};
// out and lse are the results of compressed_attention. Error bound: that of
// attention_backward, for each of the two sets of keys, and one rounding for each sum.
// Deterministic. Memory beyond the arguments: a second gradient of q, kv and entries; for
// selected entries also 48 K Hk D elements and B W Hk D sums.
void compressed_attention_backward(const CompressedInput& input, const AttentionPlan& plan,
                                   const AttentionMask& entry_mask, const ConstTensor& out,
                                   const ConstTensor& lse, const ConstTensor& out_grad,
                                   const CompressedGradient& gradient);

}  // namespace gnomon
