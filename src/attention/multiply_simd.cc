// Matrix products of packed tiles.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/multiply_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/multiply-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

template <Left left, Into into, Factors factors, int rows, int vectors, typename A>
HWY_INLINE void MultiplyBlock(const Product<A>& p) {
  const hn::ScalableTag<A> tag;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  hn::Vec<decltype(tag)> sum[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      sum[r][v] = into == Into::onto_given ? hn::LoadU(tag, p.given[r] + p.given_at + v * lanes)
                                           : hn::Zero(tag);
  const A* HWY_RESTRICT b = p.b;
  const A* HWY_RESTRICT a = p.a;
  for (std::int64_t l = 0; l < p.depth; ++l) {
    hn::Vec<decltype(tag)> right[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) right[v] = hn::Load(tag, b + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const A one = left == Left::by_row ? a[r * p.a_stride] : a[r];
      if (factors == Factors::nonzero && one == A(0)) continue;
      const auto factor = hn::Set(tag, one);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = hn::MulAdd(factor, right[v], sum[r][v]);
    }
    b += p.b_row;
    a += left == Left::by_row ? 1 : p.a_stride;
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      A* to = p.c + r * p.c_row + v * lanes;
      if (into == Into::add) sum[r][v] = hn::Add(sum[r][v], hn::Load(tag, to));
      hn::Store(sum[r][v], tag, to);
    }
}

// One block of at most block_vectors vectors.
template <Left left, Into into, Factors factors, int rows, typename A>
HWY_INLINE void MultiplyVectors(const Product<A>& p, std::int64_t vectors) {
  if (vectors == block_vectors)
    return MultiplyBlock<left, into, factors, rows, block_vectors>(p);
  if constexpr (block_vectors == 4) {
    if (vectors == 3) return MultiplyBlock<left, into, factors, rows, 3>(p);
    if (vectors == 2) return MultiplyBlock<left, into, factors, rows, 2>(p);
  }
  if (vectors) MultiplyBlock<left, into, factors, rows, 1>(p);
}

template <Left left, Into into, typename A>
HWY_NOINLINE void MultiplyRows(Product<A> p, std::int64_t rows, std::int64_t vectors) {
  const auto advance = [&](std::int64_t count) {
    p.a += left == Left::by_row ? count * p.a_stride : count;
    p.c += count * p.c_row;
    if (into == Into::onto_given) p.given += count;
    rows -= count;
  };
  constexpr Factors all = Factors::all;
  if constexpr (into == Into::add)
    if (p.factors == Factors::nonzero)
      for (; rows; advance(1)) MultiplyVectors<left, into, Factors::nonzero, 1>(p, vectors);
  for (; rows >= 6; advance(6)) MultiplyVectors<left, into, all, 6>(p, vectors);
  if (rows >= 4) MultiplyVectors<left, into, all, 4>(p, vectors), advance(4);
  if (rows >= 2) MultiplyVectors<left, into, all, 2>(p, vectors), advance(2);
  if (rows) MultiplyVectors<left, into, all, 1>(p, vectors);
}

#define GNOMON_MULTIPLY(left, into)                                                   \
  template void MultiplyRows<left, into>(Product<float>, std::int64_t, std::int64_t); \
  template void MultiplyRows<left, into>(Product<double>, std::int64_t, std::int64_t);
GNOMON_MULTIPLY(Left::by_row, Into::store)
GNOMON_MULTIPLY(Left::by_row, Into::add)
GNOMON_MULTIPLY(Left::by_row, Into::onto_given)
GNOMON_MULTIPLY(Left::by_column, Into::add)
#undef GNOMON_MULTIPLY

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
