// Matrix products on AMX, the matrix unit of newer Intel processors. It multiplies bfloat16;
// here each float becomes the sum of two of them, x = high + low within 2^-16 |x|, and
//
//   a b = a.high b.high + a.high b.low + a.low b.high     within 3.01 2^-16 |a b|
//
// (in a sum of many, some 2^-18) which is what PyTorch, too, may do for float32 products of
// the precision "high". Sums are of floats. Numbers below 2^-126 count as 0.
#pragma once

#include <cstdint>

namespace gnomon::lab::amx {

// How a factor lies in memory: which of its two axes is contiguous.
enum class Order {
  summed_last = 1,  // [others, summed]
  summed_first,     // [summed, others]
};
struct Factor {
  const float* data;
  std::int64_t row;  // elements from one row to the next
  Order order;
};

// Whether this processor has the unit and the system lets us use it.
bool available();

// c [m, n] = the sum over k of a times b; overwritten, rows n apart. The same bits for any
// number of threads. Only where available().
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Factor& a, const Factor& b,
              float* c);

}  // namespace gnomon::lab::amx
