// Small matrix products of packed tiles, and exp: what attention's time goes into.
#if defined(GNOMON_ATTENTION_MULTIPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_MULTIPLY_INL_H_
#undef GNOMON_ATTENTION_MULTIPLY_INL_H_
#else
#define GNOMON_ATTENTION_MULTIPLY_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

enum class Into { store = 1, add };

// A factor [m, k], at data[i row + l column]: a transposed tile is one with swapped strides.
template <typename A>
struct Factor {
  const A* data;
  std::ptrdiff_t row, column;
};
// A packed tile with rows `row` apart; row and data are multiples of the padding.
template <typename A>
struct Packed {
  A* data;
  std::ptrdiff_t row;
};

// rows x (vectors of columns), in registers. The sum of an element runs over l in order
// whatever the block, so results do not depend on how a matrix is cut into blocks.
template <int rows, int vectors, class Tag, typename A = hn::TFromD<Tag>>
HWY_INLINE void MultiplyBlock(Tag tag, std::ptrdiff_t k, Factor<A> a, Packed<const A> b,
                              Packed<A> c, Into into) {
  const std::ptrdiff_t lanes = static_cast<std::ptrdiff_t>(hn::Lanes(tag));
  hn::Vec<Tag> sum[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(tag);
  for (std::ptrdiff_t l = 0; l < k; ++l) {
    hn::Vec<Tag> right[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) right[v] = hn::Load(tag, b.data + l * b.row + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const auto left = hn::Set(tag, a.data[r * a.row + l * a.column]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      A* to = c.data + r * c.row + v * lanes;
      if (into == Into::add) sum[r][v] = hn::Add(sum[r][v], hn::Load(tag, to));
      hn::Store(sum[r][v], tag, to);
    }
}

template <int rows, int vectors, class Tag, typename A = hn::TFromD<Tag>>
HWY_INLINE void MultiplyRows(Tag tag, std::ptrdiff_t m, std::ptrdiff_t k, Factor<A> a,
                             Packed<const A> b, Packed<A> c, Into into) {
  for (; m >= rows; m -= rows, a.data += rows * a.row, c.data += rows * c.row)
    MultiplyBlock<rows, vectors>(tag, k, a, b, c, into);
  if constexpr (rows > 1) {
    if (m) MultiplyRows<rows / 2, vectors>(tag, m, k, a, b, c, into);
  }
}

// c [m, n] = a [m, k] b [k, n], or += it; n padded. Sums over more than `chunk` products are
// made chunk by chunk: the rounding of long sums then stays below the bound in attention.h.
template <typename A>
HWY_NOINLINE void Multiply(std::ptrdiff_t m, std::ptrdiff_t n, std::ptrdiff_t k, Factor<A> a,
                           Packed<const A> b, Packed<A> c, Into into) {
  constexpr std::ptrdiff_t chunk = 64;
  const hn::ScalableTag<A> tag;
  const std::ptrdiff_t lanes = static_cast<std::ptrdiff_t>(hn::Lanes(tag));
  // Blocks that fit 32 registers of 512 bits, or 16 of the others.
  constexpr int rows = HWY_MAX_BYTES >= 64 ? 8 : 4;
  for (std::ptrdiff_t l = 0; l < k; l += chunk) {
    const std::ptrdiff_t depth = k - l < chunk ? k - l : chunk;
    const Factor<A> left{a.data + l * a.column, a.row, a.column};
    std::ptrdiff_t j = 0;
    for (; j + 2 * lanes <= n; j += 2 * lanes)
      MultiplyRows<rows, 2>(tag, m, depth, left, Packed<const A>{b.data + l * b.row + j, b.row},
                            Packed<A>{c.data + j, c.row}, l ? Into::add : into);
    if (j < n)
      MultiplyRows<rows, 1>(tag, m, depth, left, Packed<const A>{b.data + l * b.row + j, b.row},
                            Packed<A>{c.data + j, c.row}, l ? Into::add : into);
  }
}

// exp(x) for x <= 0 (a little above is fine): within 2 ulp; exactly 1 at 0; below e^-87
// (double: e^-708) 0, since denormals slow the products fourfold. NaN stays NaN.
template <class Tag, class V>
HWY_INLINE V ExpOfScore(Tag tag, V x) {
  using A = hn::TFromD<Tag>;
  constexpr bool single = sizeof(A) == 4;
  // ln 2 in two parts, the first with trailing zeros so that its product is exact.
  const auto high = hn::Set(tag, single ? A(0x1.62e4p-1) : A(0x1.62e42fee00000p-1));
  const auto low = hn::Set(tag, single ? A(0x1.7f7d1cf79abcap-20) : A(0x1.a39ef35793c76p-33));
  const auto lowest = hn::Set(tag, single ? A(-87) : A(-708));
  const auto bounded = hn::Max(x, lowest);  // keeps the exponent below in range
  const auto whole = hn::Round(hn::Mul(bounded, hn::Set(tag, A(1.4426950408889634))));
  auto rest = hn::NegMulAdd(whole, high, bounded);
  rest = hn::NegMulAdd(whole, low, rest);
  // Taylor's series: |rest| <= ln 2 / 2, so the part cut off is below 6e-9 (float) or 5e-18.
  constexpr int degree = single ? 7 : 13;
  constexpr double inverse_factorial[] = {1.,
                                          1.,
                                          1. / 2,
                                          1. / 6,
                                          1. / 24,
                                          1. / 120,
                                          1. / 720,
                                          1. / 5040,
                                          1. / 40320,
                                          1. / 362880,
                                          1. / 3628800,
                                          1. / 39916800,
                                          1. / 479001600,
                                          1. / 6227020800};
  auto sum = hn::Set(tag, static_cast<A>(inverse_factorial[degree]));
#pragma GCC unroll 16
  for (int n = degree - 1; n >= 0; --n)
    sum = hn::MulAdd(sum, rest, hn::Set(tag, static_cast<A>(inverse_factorial[n])));
  const hn::RebindToSigned<Tag> integers;
  const auto exponent = hn::ShiftLeft<single ? 23 : 52>(hn::ConvertTo(integers, whole));
  const auto power = hn::BitCast(tag, hn::Add(hn::BitCast(integers, sum), exponent));
  return hn::IfThenElse(hn::Ge(x, lowest), power,
                        hn::IfThenElse(hn::IsNaN(x), x, hn::Zero(tag)));
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
