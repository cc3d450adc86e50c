// Matrix products on AMX, the matrix unit of newer Intel processors. AMX multiplies bfloat16.
// Each float is split into the sum of two bfloat16, x = high + low within 2^-16 |x|, and
//
//   a b = a.high b.high + a.high b.low + a.low b.high     within 3.01 2^-16 |a b|
//
// (about 2^-18 in a sum of many products). PyTorch may do the same for float32 products of
// precision "high". Sums are computed in float. Numbers below 2^-126 count as 0.
#pragma once

#include <cstdint>

namespace gnomon::lab::amx {

// The layout of a factor: the axis that is contiguous.
enum class Order {
  summed_last = 1,  // [others, summed]
  summed_first,     // [summed, others]
};
struct Factor {
  const float* data;
  std::int64_t row;  // elements from one row to the next
  Order order;
};

// Whether the processor has AMX and the system permits its use.
bool available();

// c [m, n] = the sum over k of a times b. c is overwritten; its rows are n apart.
// Deterministic: the same bits for any number of threads. Call it only if available().
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Factor& a, const Factor& b,
              float* c);

}  // namespace gnomon::lab::amx
