// Matrix products of packed tiles, which take most of the time of attention.
#if defined(GNOMON_ATTENTION_MULTIPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_MULTIPLY_INL_H_
#undef GNOMON_ATTENTION_MULTIPLY_INL_H_
#else
#define GNOMON_ATTENTION_MULTIPLY_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

// Functions with products of pairs of bfloat16 (below) are declared and defined after
// GNOMON_BEFORE_PAIRS() in place of HWY_BEFORE_NAMESPACE(), because their instructions are not
// part of HWY_AVX3. They execute these only if HasPairs().
#undef GNOMON_BEFORE_PAIRS
#undef GNOMON_PAIRS
#undef GNOMON_PAIRS_ATTR
#if HWY_TARGET == HWY_AVX3
#define GNOMON_PAIRS 1
#define GNOMON_BEFORE_PAIRS() HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16")
#define GNOMON_PAIRS_ATTR __attribute__((target(HWY_TARGET_STR ",avx512bf16")))
#else
#define GNOMON_PAIRS 0
#define GNOMON_BEFORE_PAIRS() HWY_BEFORE_NAMESPACE()
#define GNOMON_PAIRS_ATTR HWY_ATTR
#endif

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Rows and vectors of a block of sums: 24 of 32 registers, or 12 of 16. The rest holds
// operands.
constexpr std::int64_t block_rows = 6;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int block_vectors = 4;
#else
constexpr int block_vectors = 2;
#endif

// Columns of a block. Packed matrices consist of panels with this number of columns.
template <typename A>
constexpr std::int64_t Panel() {
  return block_vectors * static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<A>()));
}
template <typename A>
constexpr std::int64_t Panels(std::int64_t columns) {
  return (columns + Panel<A>() - 1) / Panel<A>();
}

// Layout of the left factor: element (i, l) is at i stride + l, or at i + l stride.
enum class Left { by_row = 1, by_column };

// The factors in a that are multiplied. A weight of 0 belongs to a hidden pair, whose row of b
// may contain NaN or infinity: `nonzero` skips it. For a finite b both give the same bits.
enum class Factors { all = 1, nonzero };

// Computes c [i, j] = sum over l of a [i, l] b [l, j], or adds it to c, or to given [i] [j].
// The sum is over l in order for every block size, so the results do not depend on how a matrix
// is divided into blocks.
template <typename A>
struct Product {
  std::int64_t depth = 0;  // number of l
  const A* a = nullptr;
  std::int64_t a_stride = 0;
  const A* b = nullptr;  // element (l, j) is at l b_row + j
  std::int64_t b_row = 0;
  A* c = nullptr;
  std::int64_t c_row = 0;
  const A* const* given = nullptr;  // row i is at given[i] + given_at
  std::int64_t given_at = 0;
  Factors factors = Factors::all;  // nonzero is slower, and only for Into::add
  A factor = 1;                    // of the sums, only for pairs
};

// Multiply-adds of numbers of type A.
struct FusedMultiply {
  static constexpr bool scales = false;
  template <Factors factors, class D, class V>
  static HWY_INLINE V Add(D /* tag */, V a, V b, V sum) {
    return hn::MulAdd(a, b, sum);
  }
  template <typename A>
  static bool IsZero(A a) {
    return a == A(0);
  }
};

enum class Into { store = 1, add, onto_given };

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

GNOMON_BEFORE_PAIRS();
namespace gnomon {
namespace HWY_NAMESPACE {

template <Left left, Into into, typename A>
void MultiplyRows(Product<A> p, std::int64_t rows, std::int64_t vectors);

// Pairs: two bfloat16 numbers that follow each other along l, in the place of one float. The
// processor multiplies and adds both at once; the products are exact, and the sums are floats.
// A pair with a denormal number counts as one with 0.
template <Left left, Into into>
void MultiplyPairs(Product<float> p, std::int64_t rows, std::int64_t vectors);
// Whether this is the instruction set, and the processor, that has them.
bool HasPairs();

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Products of `rows` rows and any whole number of vectors of columns.
template <Left left, Into into, typename A>
void Multiply(const Product<A>& p, std::int64_t rows, std::int64_t columns) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  for (std::int64_t j = 0; j < columns; j += Panel<A>()) {
    Product<A> part = p;
    part.b += j, part.c += j;
    MultiplyRows<left, into>(part, rows, std::min(columns - j, Panel<A>()) / lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
