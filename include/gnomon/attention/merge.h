// Merges attention over parts of the keys: a shared prefix and the tokens of a sequence, parts
// of a long cache, or a window and compressed keys (compressed_attention.h). Each part is one
// call of `attention` with lse. Page: docs/attention/merge.md.
//
// Naive version: tests/attention/merge_test.cc, `naive_merge`.
#pragma once

#include "gnomon/tensor.h"

namespace gnomon {

// Merges two results of `attention` over different keys into that over all of them, in place:
// out [B, T, Hq, D] of f32, f64, f16 or bf16 with lse [B, Hq, T] of f32 (f64 for f64), by other
// and other_lse of the same types and shapes. A row with an lse of -infinity has seen no key
// and counts nothing. At most one of the two may have had sinks.
// attention_backward with the merged out and lse gives the gradients of each part.
//
// Error bound of a merge: 8 u max(|out|, |other|) and one rounding to the type of out; of lse
// 2 u (|lse| + 2). u is 2^-24, and 2^-53 for f64.
// Throws std::invalid_argument if a type or shape differs. Memory beyond the arguments: none.
void merge_attention(const Tensor& out, const Tensor& lse, const ConstTensor& other,
                     const ConstTensor& other_lse);

}  // namespace gnomon
