// Keys and values of 8 bits in a KV cache: each head vector has a scale of its own.
//
//   scale = max |x'| / 127        q = round(x' / scale), -127 to 127        x' ~ scale q
//
// The rotation happens before, in float, so large angles cost no precision. Memory: D + 4 bytes
// a head, where bfloat16 takes 2 D.
//
// Letters: B batch, T tokens, H key heads, D head size.
#pragma once

#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Rotates new keys and writes them to their place in a cache, in one pass; k stays as it is.
// k, slot: [B, T, H, D] or [T, H, D], any strides, D contiguous and at most 4096; scales:
// [B, T, H] or [T, H], any strides. Element types of k: float, Half, BFloat16; of
// slot: int8; of scales: float.
//
// Error: |x' - scale q| <= max |x'| (1/254 + 2^-22) beside that of `rotate` for float. A head
// whose elements are all below 2^-100 gets scale 0 and zeros; one that holds an infinity or a
// NaN gets scale NaN and zeros, so that it shows. Threads split the tokens; the result does not
// depend on their number. Allocates nothing.
//
// Throws std::invalid_argument as `rotate`, and when slot has another shape than k, scales
// another than its first axes, or D is above 4096.
void rotate_append(const ConstTensor& k, const RotaryTable& table, const Tensor& slot,
                   const Tensor& scales);

// The same for what does not turn: values, and keys of layers without rotary.
void copy_append(const ConstTensor& x, const Tensor& slot, const Tensor& scales);

}  // namespace gnomon
