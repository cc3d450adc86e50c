// Matrix products of packed tiles.

#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/multiply_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/multiply-inl.h"
#include "src/attention/pairs-inl.h"
#include "src/core/processor.h"

GNOMON_BEFORE_PAIRS();
namespace gnomon {
namespace HWY_NAMESPACE {

// Operation: how a product is added to a sum.
template <class Operation, Left left, Into into, Factors factors, int rows, int vectors,
          typename A>
HWY_INLINE void MultiplyBlock(const Product<A>& p) {
  const hn::ScalableTag<A> tag;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  hn::Vec<decltype(tag)> sum[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      sum[r][v] = into == Into::onto_given && !Operation::scales
                      ? hn::LoadU(tag, p.given[r] + p.given_at + v * lanes)
                      : hn::Zero(tag);
  const A* HWY_RESTRICT b = p.b;
  const A* HWY_RESTRICT a = p.a;
  std::int64_t until_line = Operation::prefetches ? p.ahead->left() : 0;
  for (std::int64_t l = 0; l < p.depth; ++l) {
#if HWY_TARGET == HWY_SCALAR && HWY_COMPILER_GCC_ACTUAL
    asm("");  // GCC 12 would vectorize this loop, and read a row after the last
#endif
    if (Operation::prefetches && --until_line == 0) until_line = p.ahead->Next();
    hn::Vec<decltype(tag)> right[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) right[v] = hn::LoadU(tag, b + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const A one = left == Left::by_row ? a[r * p.a_stride] : a[r];
      if (factors == Factors::nonzero && Operation::IsZero(one)) continue;
      const auto factor = hn::Set(tag, one);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        sum[r][v] = Operation::template Add<factors>(tag, factor, right[v], sum[r][v]);
    }
    b += p.b_row;
    a += left == Left::by_row ? 1 : p.a_stride;
  }
  if (Operation::prefetches) p.ahead->SetLeft(until_line);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      A* to = p.c + r * p.c_row + v * lanes;
      if (Operation::scales && into == Into::onto_given)
        sum[r][v] = hn::MulAdd(hn::Set(tag, p.factor), sum[r][v],
                               hn::LoadU(tag, p.given[r] + p.given_at + v * lanes));
      else if (Operation::scales)
        sum[r][v] = hn::Mul(hn::Set(tag, p.factor), sum[r][v]);
      if (into == Into::add) sum[r][v] = hn::Add(sum[r][v], hn::Load(tag, to));
      if (into == Into::onto_zero) sum[r][v] = hn::Add(sum[r][v], hn::Zero(tag));
      hn::Store(sum[r][v], tag, to);
    }
}

// One block of at most block_vectors vectors.
template <class Operation, Left left, Into into, Factors factors, int rows, typename A>
HWY_INLINE void MultiplyVectors(const Product<A>& p, std::int64_t vectors) {
  if (vectors == block_vectors)
    return MultiplyBlock<Operation, left, into, factors, rows, block_vectors>(p);
  if constexpr (block_vectors == 4) {
    if (vectors == 3) return MultiplyBlock<Operation, left, into, factors, rows, 3>(p);
    if (vectors == 2) return MultiplyBlock<Operation, left, into, factors, rows, 2>(p);
  }
  if (vectors) MultiplyBlock<Operation, left, into, factors, rows, 1>(p);
}

// The same, and prefetches Product::ahead.
template <class Operation>
struct WithRowsAhead : Operation {
  static constexpr bool prefetches = true;
};
// Whether products are called with Product::ahead.
template <Left left, Into into, typename A>
constexpr bool HaveRowsAhead() {
  return sizeof(A) == 4 && left == Left::by_row && (into == Into::store || into == Into::add);
}

template <class Operation, Left left, Into into, typename A>
HWY_INLINE void MultiplyAll(Product<A> p, std::int64_t rows, std::int64_t vectors) {
  const auto advance = [&](std::int64_t count) {
    p.a += left == Left::by_row ? count * p.a_stride : count;
    p.c += count * p.c_row;
    if (into == Into::onto_given) p.given += count;
    rows -= count;
  };
  constexpr Factors all = Factors::all;
  if constexpr (into == Into::add)
    if (p.factors == Factors::nonzero)
      for (; rows; advance(1))
        MultiplyVectors<Operation, left, into, Factors::nonzero, 1>(p, vectors);
  if constexpr (left == Left::by_row && into != Into::onto_given) {
    // Enough sums to hide the latency of one.
    if (vectors == 1)
      for (; rows >= 8; advance(8)) MultiplyBlock<Operation, left, into, all, 8, 1>(p);
    else if (vectors == 2 && block_vectors == 4)
      for (; rows >= 8; advance(8)) MultiplyBlock<Operation, left, into, all, 8, 2>(p);
  }
  for (; rows >= 6; advance(6)) MultiplyVectors<Operation, left, into, all, 6>(p, vectors);
  if (rows >= 4) MultiplyVectors<Operation, left, into, all, 4>(p, vectors), advance(4);
  if (rows >= 2) MultiplyVectors<Operation, left, into, all, 2>(p, vectors), advance(2);
  if (rows) MultiplyVectors<Operation, left, into, all, 1>(p, vectors);
}

template <Left left, Into into, typename A>
HWY_NOINLINE void MultiplyRows(Product<A> p, std::int64_t rows, std::int64_t vectors) {
  if constexpr (HaveRowsAhead<left, into, A>())
    if (p.ahead) return MultiplyAll<WithRowsAhead<FusedMultiply>, left, into>(p, rows, vectors);
  MultiplyAll<FusedMultiply, left, into>(p, rows, vectors);
}

#if GNOMON_PAIRS
bool HasPairs() { return internal::processor() & internal::has::avx512_bf16; }
template <Left left, Into into>
HWY_NOINLINE void MultiplyPairs(Product<float> p, std::int64_t rows, std::int64_t vectors) {
  if constexpr (HaveRowsAhead<left, into, float>())
    if (p.ahead) return MultiplyAll<WithRowsAhead<PairMultiply>, left, into>(p, rows, vectors);
  MultiplyAll<PairMultiply, left, into>(p, rows, vectors);
}
#else
bool HasPairs() { return false; }
template <Left left, Into into>
void MultiplyPairs(Product<float> /* p */, std::int64_t /* rows */,
                   std::int64_t /* vectors */) {}
#endif
#define GNOMON_MULTIPLY_PAIRS(left, into) \
  template void MultiplyPairs<left, into>(Product<float>, std::int64_t, std::int64_t);
GNOMON_MULTIPLY_PAIRS(Left::by_row, Into::store)
GNOMON_MULTIPLY_PAIRS(Left::by_row, Into::add)
GNOMON_MULTIPLY_PAIRS(Left::by_row, Into::onto_given)
GNOMON_MULTIPLY_PAIRS(Left::by_row, Into::onto_zero)
GNOMON_MULTIPLY_PAIRS(Left::by_column, Into::add)
#undef GNOMON_MULTIPLY_PAIRS

#define GNOMON_MULTIPLY(left, into)                                                   \
  template void MultiplyRows<left, into>(Product<float>, std::int64_t, std::int64_t); \
  template void MultiplyRows<left, into>(Product<double>, std::int64_t, std::int64_t);
GNOMON_MULTIPLY(Left::by_row, Into::store)
GNOMON_MULTIPLY(Left::by_row, Into::add)
GNOMON_MULTIPLY(Left::by_row, Into::onto_given)
GNOMON_MULTIPLY(Left::by_row, Into::onto_zero)
GNOMON_MULTIPLY(Left::by_column, Into::add)
#undef GNOMON_MULTIPLY

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
