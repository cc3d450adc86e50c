// A linear layer for small models in a page. It is not in gnomon.h, because an engine has a
// matrix product of its own.
#include <wasm_simd128.h>

#include <cstdint>

namespace {

// The sum of the products of a row of x and a row of w is formed in four lanes, whose sums are
// added in pairs, then the last elements one by one: the same order for any number of rows.
float finish(v128_t lanes, const float* x, const float* w, std::int32_t begin,
             std::int32_t inputs) {
  float sum = (wasm_f32x4_extract_lane(lanes, 0) + wasm_f32x4_extract_lane(lanes, 2)) +
              (wasm_f32x4_extract_lane(lanes, 1) + wasm_f32x4_extract_lane(lanes, 3));
  for (std::int32_t c = begin; c < inputs; ++c) sum += x[c] * w[c];
  return sum;
}

// out[t, n] of `rows` rows of x and `columns` rows of w.
template <int rows, int columns>
void block(const float* x, const float* w, const float* bias, float* out, std::int32_t inputs,
           std::int32_t outputs) {
  v128_t sums[rows][columns];
  for (auto& row : sums)
    for (v128_t& sum : row) sum = wasm_f32x4_const_splat(0);
  const std::int32_t whole = inputs / 4 * 4;
  for (std::int32_t c = 0; c < whole; c += 4) {
    v128_t of_w[columns];
    for (int n = 0; n < columns; ++n) of_w[n] = wasm_v128_load(w + n * inputs + c);
    for (int t = 0; t < rows; ++t) {
      const v128_t of_x = wasm_v128_load(x + t * inputs + c);
      for (int n = 0; n < columns; ++n)
        sums[t][n] = wasm_f32x4_add(sums[t][n], wasm_f32x4_mul(of_x, of_w[n]));
    }
  }
  for (int t = 0; t < rows; ++t)
    for (int n = 0; n < columns; ++n)
      out[t * outputs + n] = finish(sums[t][n], x + t * inputs, w + n * inputs, whole, inputs) +
                             (bias ? bias[n] : 0);
}

template <int rows>
void row_block(const float* x, const float* w, const float* bias, float* out,
               std::int32_t inputs, std::int32_t outputs) {
  std::int32_t n = 0;
  for (; n + 4 <= outputs; n += 4)
    block<rows, 4>(x, w + n * inputs, bias ? bias + n : nullptr, out + n, inputs, outputs);
  for (; n < outputs; ++n)
    block<rows, 1>(x, w + n * inputs, bias ? bias + n : nullptr, out + n, inputs, outputs);
}

}  // namespace

// out [T, N] = x [T, C] w [N, C]^T + bias [N]; bias may be null.
extern "C" void gnomon_wasm_linear(const float* x, const float* w, const float* bias,
                                   float* out, std::int32_t tokens, std::int32_t inputs,
                                   std::int32_t outputs) {
  std::int32_t t = 0;
  for (; t + 2 <= tokens; t += 2)
    row_block<2>(x + t * inputs, w, bias, out + t * outputs, inputs, outputs);
  for (; t < tokens; ++t)
    row_block<1>(x + t * inputs, w, bias, out + t * outputs, inputs, outputs);
}
