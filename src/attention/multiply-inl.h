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
#include <limits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

// Functions with products of pairs of bfloat16 (below) are declared and defined after
// GNOMON_BEFORE_PAIRS() in place of HWY_BEFORE_NAMESPACE(), because their instructions are not
// part of HWY_AVX3. They execute these only if HasPairs().
#undef GNOMON_BEFORE_PAIRS
#undef GNOMON_PAIRS
#undef GNOMON_PAIRS_ATTR
#if HWY_TARGET == HWY_AVX3 && (HWY_COMPILER_GCC || HWY_COMPILER_CLANG)
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

// Rows of `bytes` bytes that are read after a product, and prefetched during it, one line at a
// time and at even distances.
class RowsAhead {
 public:
  static constexpr int most = 32;

  explicit RowsAhead(std::int64_t bytes) : bytes_(bytes) {}
  void Add(const char* begin) { begin_[rows_++] = begin; }
  // `steps`: of the products that follow.
  void Spread(std::int64_t steps) {
    const std::int64_t lines = (bytes_ + 63) / 64 * rows_;
    every_ = left_ = std::max<std::int64_t>(1, steps / std::max<std::int64_t>(lines, 1));
  }
  std::int64_t left() const { return left_; }  // steps until the next line
  void SetLeft(std::int64_t left) { left_ = left; }
  // Prefetches the next line. Returns the steps until the line after it.
  HWY_INLINE std::int64_t Next() {
    if (row_ == rows_) return std::numeric_limits<std::int64_t>::max();
    hwy::Prefetch(begin_[row_] + at_);
    if ((at_ += 64) >= bytes_) at_ = 0, ++row_;
    return every_;
  }
  void Finish() {
    while (row_ < rows_) Next();
  }

 private:
  const char* begin_[most];
  std::int64_t rows_ = 0, bytes_, row_ = 0, at_ = 0, every_ = 1, left_ = 1;
};

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
  RowsAhead* ahead = nullptr;      // of floats or pairs by row, stored or added
};

// Multiply-adds of numbers of type A.
struct FusedMultiply {
  static constexpr bool scales = false, prefetches = false;
  template <Factors factors, class D, class V>
  static HWY_INLINE V Add(D /* tag */, V a, V b, V sum) {
    return hn::MulAdd(a, b, sum);
  }
  template <typename A>
  static bool IsZero(A a) {
    return a == A(0);
  }
};

// onto_zero: as `add` to zeros, without reading them.
enum class Into { store = 1, add, onto_given, onto_zero };

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

// Products of `rows` rows and any whole number of vectors of columns. pairs: of bfloat16.
template <Left left, Into into, typename A>
void Multiply(const Product<A>& p, std::int64_t rows, std::int64_t columns,
              bool pairs = false) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<A>()));
  for (std::int64_t j = 0; j < columns; j += Panel<A>()) {
    Product<A> part = p;
    part.b += j, part.c += j;
    const std::int64_t vectors = std::min(columns - j, Panel<A>()) / lanes;
    if constexpr (sizeof(A) == 4 && left == Left::by_row && into != Into::onto_given)
      if (pairs) {
        MultiplyPairs<left, into>(part, rows, vectors);
        continue;
      }
    MultiplyRows<left, into>(part, rows, vectors);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
