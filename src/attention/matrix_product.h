// Products of small matrices of floats and a layer of a network, for code without SIMD of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gnomon::internal {

// c [i, j] (+)= sum over l of a [i, l] b [l, j]. b, c and their strides are whole vectors: 16
// floats. Sums are in the order of l.
struct MatrixProduct {
  std::int64_t rows = 0, depth = 0, columns = 0;
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  const float* b = nullptr;
  std::int64_t b_row = 0;
  float* c = nullptr;
  std::int64_t c_row = 0;
  bool finite = true;  // false: factors of 0 in a are skipped, because b may contain NaN
};

// c = a b, with a [i, l] at i a_stride + l.
void store_product(const MatrixProduct& product);
// c += a b, likewise. `finite` may be false.
void add_product(const MatrixProduct& product);
// c += a b, with a [i, l] at i + l a_stride. `finite` may be false.
void add_transposed_product(const MatrixProduct& product);

// u [i, j] += constants [i], and v = u, or slope u if u < 0. columns: whole vectors.
void add_leaky(std::int64_t rows, std::int64_t columns, const float* constants, float slope,
               float* u, float* v);
// grad [i] *= slope if u [i] < 0. count: whole vectors.
void leaky_backward(std::int64_t count, const float* u, float slope, float* grad);

}  // namespace gnomon::internal
