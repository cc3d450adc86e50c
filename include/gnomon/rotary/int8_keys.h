// 8-bit keys and values in a KV cache: symmetric quantization with one scale per head vector.
//
//   scale = max |x'| / 127        q = round(x' / scale), -127 to 127        x' ~ scale q
//
// Keys are rotated in float before they are quantized, so large angles lose no precision.
// Memory: D + 4 bytes per head vector; bfloat16 takes 2 D bytes.
//
// Letters: B batch, T tokens, H key heads, D head dimension.
//
// Naive version: tests/naive/rotary.h, `naive_quantize`.
#pragma once

#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"

namespace gnomon {

// Rotates new keys, quantizes them and writes them to a cache in one pass. k is not changed.
// k, slot: [B, T, H, D] or [T, H, D], any strides, D contiguous and at most 4096; scales:
// [B, T, H] or [T, H], any strides. Element types: k: float, Half, BFloat16; slot: int8;
// scales: float.
//
// Error bound: |x' - scale q| <= max |x'| (1/254 + 2^-22), plus the error of `rotate` in float.
// A head vector whose elements are all below 2^-100 in magnitude gets scale 0 and zeros. A head
// vector that contains an infinity or a NaN gets scale NaN and zeros, so that the error is
// visible in the output. Tokens are divided among threads; the result does not depend on the
// number of threads. Allocates nothing.
//
// Throws std::invalid_argument as `rotate`, and if the shapes of slot and k differ, scales do
// not have the shape of k without the last axis, or D > 4096.
void rotate_append(const ConstTensor& k, const RotaryTable& table, const Tensor& slot,
                   const Tensor& scales);

// Quantizes x and writes it to a cache without rotation: values, and keys of layers without
// rotary. Shapes, element types, error bound and errors as rotate_append.
void copy_append(const ConstTensor& x, const Tensor& slot, const Tensor& scales);

}  // namespace gnomon
