// Conversion of tensors to packed tiles and back: element types, rotation, transposition.
#if defined(GNOMON_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_PACK_INL_H_
#undef GNOMON_ATTENTION_PACK_INL_H_
#else
#define GNOMON_ATTENTION_PACK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "src/attention/multiply-inl.h"
#include "src/attention/problem.h"
#include "src/attention/scratch.h"
#include "src/core/elements-inl.h"
#include "src/rotary/pair-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using internal::AttentionProblem;
using internal::Operand;
using internal::padded;
using internal::Result;
using internal::row_stride;

inline std::int64_t OffsetOf(const Operand& from, std::int64_t b, std::int64_t row,
                             std::int64_t head) {
  const internal::Place at = from.places(b, row);
  return at.batch * from.strides[0] + at.row * from.strides[1] + head * from.strides[2];
}

// The offsets of consecutive rows of a head. A page is looked up once.
class RowOffsets {
 public:
  RowOffsets(const Operand& from, std::int64_t b, std::int64_t head)
      : from_(from), b_(b), head_(head) {}
  // `row`: that of the call before, or a later one.
  std::int64_t of(std::int64_t row) {
    if (row >= end_) {
      first_ = row;
      end_ = row + from_.places.run(row, internal::unbounded);
      offset_ = OffsetOf(from_, b_, row, head_);
    }
    return offset_ + (row - first_) * from_.strides[1];
  }

 private:
  const Operand& from_;
  std::int64_t b_, head_, first_ = 0, end_ = 0, offset_ = 0;
};

inline float ScaleOf(const Operand& from, std::int64_t b, std::int64_t row, std::int64_t head) {
  const internal::Place at = from.places(b, row);
  return from.scales(at.batch, at.row, head);
}

// Converts E4M3 elements: 4 bits of exponent of bias 7, 3 of mantissa; 0x7f and 0xff are NaN.
template <class D>
HWY_INLINE hn::Vec<D> LoadE4m3(D d, const std::uint8_t* HWY_RESTRICT from) {
  const hn::RebindToUnsigned<D> bits;
  const hn::RebindToSigned<D> integers;
  const hn::Rebind<std::uint8_t, D> narrow;
  const auto all = hn::PromoteTo(bits, hn::LoadU(narrow, from));
  const auto magnitude = hn::And(all, hn::Set(bits, 0x7fu));
  const auto normal =
      hn::BitCast(d, hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(bits, 120u << 23)));
  // Below 2^-6: multiples of 2^-9.
  const auto small =
      hn::Mul(hn::ConvertTo(d, hn::BitCast(integers, magnitude)), hn::Set(d, 0x1p-9f));
  auto value = hn::IfThenElse(
      hn::RebindMask(d, hn::Lt(hn::BitCast(integers, magnitude), hn::Set(integers, 8))), small,
      normal);
  const auto is_nan = hn::Eq(magnitude, hn::Set(bits, 0x7fu));
  value = hn::IfThenElse(hn::RebindMask(d, is_nan), hn::NaN(d), value);
  const auto sign = hn::ShiftLeft<24>(hn::AndNot(hn::Set(bits, 0x7fu), all));
  return hn::Or(value, hn::BitCast(d, sign));
}

inline bool IsPadding(const Positions* positions, std::int64_t b, std::int64_t row) {
  const std::int32_t* sequences = internal::sequences(positions, b);
  return sequences && sequences[row] == Positions::padding;
}

template <typename A>
void LoadOtherRow(const Operand& from, const Positions* positions, std::int64_t b,
                  std::int64_t row, std::int64_t head, std::int64_t size, A* HWY_RESTRICT to);

// Loads one head vector of `size` elements as A, with zeros up to the padding of the buffer.
// Padding tokens (of `positions`, which may be null) are loaded as zeros, because a NaN in them
// would remain NaN with a weight of 0.
template <typename A>
HWY_INLINE void LoadRowAt(const Operand& from, const Positions* positions, std::int64_t b,
                          std::int64_t row, std::int64_t head, std::int64_t offset,
                          std::int64_t size, A* HWY_RESTRICT to) {
  if constexpr (sizeof(A) == 4) {
    // The most frequent case: whole vectors of floats.
    if (!positions && from.dtype == DType::f32 && size % 16 == 0) {
      const float* HWY_RESTRICT begin = static_cast<const float*>(from.data) + offset;
      const hn::ScalableTag<float> d;
      for (std::int64_t i = 0; i < size; i += static_cast<std::int64_t>(hn::Lanes(d)))
        hn::Store(hn::LoadU(d, begin + i), d, to + i);
      return;
    }
  }
  LoadOtherRow(from, positions, b, row, head, size, to);
}
template <typename A>
HWY_INLINE void LoadRow(const Operand& from, const Positions* positions, std::int64_t b,
                        std::int64_t row, std::int64_t head, std::int64_t size,
                        A* HWY_RESTRICT to) {
  LoadRowAt(from, positions, b, row, head, OffsetOf(from, b, row, head), size, to);
}

template <typename A>
void StoreOtherRow(const Result& to, std::int64_t offset, std::int64_t size, A factor,
                   const A* HWY_RESTRICT from);

// Computes factor * from, rounded once.
template <typename A>
HWY_INLINE void StoreRow(const Result& to, std::int64_t b, std::int64_t row, std::int64_t head,
                         std::int64_t size, A factor, const A* HWY_RESTRICT from) {
  const internal::Place at = to.places(b, row);
  const std::int64_t offset =
      at.batch * to.strides[0] + at.row * to.strides[1] + head * to.strides[2];
  if constexpr (sizeof(A) == 4) {
    // The most frequent cases, as in LoadRowAt.
    if (to.dtype == DType::f32 && size % 16 == 0)
      return ToElements(from, factor, size, static_cast<float*>(to.data) + offset);
    if (to.dtype == DType::bf16 && size % 16 == 0)
      return ToElements(from, factor, size, static_cast<BFloat16*>(to.data) + offset);
  }
  StoreOtherRow(to, offset, size, factor, from);
}

template <typename A>
void RotateByTable(const RotaryTable& table, std::int64_t b, std::int64_t row,
                   Direction direction, A* HWY_RESTRICT x);

// Rotates one packed head vector, by the row of the table for its token, if there is a table.
template <typename A>
HWY_INLINE void RotateRow(const RotaryTable* table, std::int64_t b, std::int64_t row,
                          Direction direction, A* HWY_RESTRICT x) {
  if (table) RotateByTable(*table, b, row, direction, x);
}

template <typename A>
HWY_INLINE void ScaleRow(A factor, std::int64_t count, A* HWY_RESTRICT x) {
  const hn::ScalableTag<A> tag;
  const auto by = hn::Set(tag, factor);
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(tag)))
    hn::Store(hn::Mul(by, hn::Load(tag, x + i)), tag, x + i);
}

// Returns the factors for a product whose factors of 0 are hidden, with `count` rows of `size`
// elements, `stride` apart: all if the rows are finite.
template <typename A>
HWY_INLINE Factors FactorsOf(const A* HWY_RESTRICT rows, std::int64_t count, std::int64_t size,
                             std::int64_t stride) {
  const hn::ScalableTag<A> tag;
  const auto zero = hn::Zero(tag);
  hn::Vec<decltype(tag)> sum[4] = {zero, zero, zero, zero};
  for (std::int64_t i = 0; i < count; i += 4) {
    const A* row[4];
    for (std::int64_t r = 0; r < 4; ++r) row[r] = rows + std::min(i + r, count - 1) * stride;
    for (std::int64_t d = 0; d < padded(size); d += static_cast<std::int64_t>(hn::Lanes(tag)))
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) sum[r] = hn::MulAdd(zero, hn::LoadU(tag, row[r] + d), sum[r]);
  }
  const auto all = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  // 0 times NaN or infinity is NaN.
  return SumLanes(tag, all) == A(0) ? Factors::all : Factors::nonzero;
}
template <typename A>
HWY_INLINE Factors FactorsOf(const A* HWY_RESTRICT rows, std::int64_t count,
                             std::int64_t size) {
  return FactorsOf(rows, count, size, row_stride(size));
}

// Prefetch distance, in rows.
constexpr std::int64_t rows_ahead = 16;

// Prefetches the row of a head at an offset. Always inline, here and below: GCC takes a
// function that only prefetches for one without effects, and removes its calls.
HWY_INLINE void PrefetchRowAt(const Operand& from, std::int64_t offset, std::int64_t size) {
  const auto bytes = static_cast<std::int64_t>(from.bytes());
  const char* begin = static_cast<const char*>(from.data) + offset * bytes;
  const char* last = begin + size * bytes - 1;  // possibly in another cache line
  for (const char* at = begin; at < last; at += 64) hwy::Prefetch(at);
  hwy::Prefetch(last);
}
HWY_INLINE void PrefetchRow(const Operand& from, std::int64_t b, std::int64_t row,
                            std::int64_t head, std::int64_t size) {
  PrefetchRowAt(from, OffsetOf(from, b, row, head), size);
}

// Packed rows of k or v of one head: as rows, `row_stride(size)` apart, and as transposed
// panels [panels][size][Panel]. `rows` or `panels` is null if it is not needed. Zeros up to a
// whole vector (rows) or panel (panels) of keys.
template <typename A>
struct PackedRows {
  A *rows = nullptr, *panels = nullptr;
  std::int64_t polar = 0;  // number of elements that are expanded to polar form; 0: none
};

// The phases of a head, [D]; null for keys, whose phase is 0.
template <typename A>
struct PolarPhases {
  const A *cos = nullptr, *sin = nullptr;
};
template <typename A>
PolarPhases<A> PhasesOf(const internal::TypedProblem<A>& problem, std::int64_t head) {
  const std::int64_t first = head * problem.head_dim;
  return {problem.phase_cos.data() + first, problem.phase_sin.data() + first};
}

// Expands a row x [D] to [2 D]: magnitudes softplus(x) times cos and times -sin of the phases.
template <typename A>
void ToPolar(std::int64_t head_dim, const PolarPhases<A>& phases, A* HWY_RESTRICT x);

// Replaces the gradient of an expanded row, grad [2 D], by that of x [D]. If there are phases,
// computes their gradient, phase_grad [D].
template <typename A>
void FromPolar(std::int64_t head_dim, const PolarPhases<A>& phases, const A* HWY_RESTRICT x,
               A* HWY_RESTRICT grad, A* HWY_RESTRICT phase_grad);

// Loads and rotates the row of a query.
template <typename A>
HWY_INLINE void LoadQuery(const internal::TypedProblem<A>& problem, std::int64_t b,
                          std::int64_t row, std::int64_t head, A* HWY_RESTRICT to) {
  LoadRow(problem.q, problem.position.queries, b, row, head, problem.head_dim, to);
  if (problem.position.polar) ToPolar(problem.head_dim, PhasesOf(problem, head), to);
  const internal::Place at = problem.q.places(b, row);
  RotateRow(problem.position.query_rotary, at.batch, at.row, Direction::forward, to);
}

template <typename A>
void PackKeyRows(const Operand& from, const Positions* positions, const RotaryTable* rotary,
                 std::int64_t b, std::int64_t first, std::int64_t count, std::int64_t head,
                 std::int64_t size, A* HWY_RESTRICT scratch, const PackedRows<A>& to);

// Pairs of bfloat16 (multiply-inl.h) in the place of floats. A row of `size` elements has
// pairs_of(size) pairs; a missing last element is 0, as are the elements of padding tokens.
constexpr std::int64_t pairs_of(std::int64_t size) { return (size + 1) / 2; }
HWY_INLINE void LoadPairsAt(const Operand& from, std::int64_t offset, std::int64_t size,
                            float* HWY_RESTRICT to) {
  const auto* bits = static_cast<const std::uint16_t*>(from.data) + offset;
  if (size % 32 == 0) {
    const hn::ScalableTag<float> d;
    const auto* pairs = reinterpret_cast<const float*>(bits);
    for (std::int64_t i = 0; i < size / 2; i += static_cast<std::int64_t>(hn::Lanes(d)))
      hn::Store(hn::LoadU(d, pairs + i), d, to + i);
    return;
  }
  std::fill(to + size / 2, to + padded(pairs_of(size)), 0.f);
  std::memcpy(to, bits, static_cast<std::size_t>(size) * 2);
}

HWY_INLINE void LoadPairs(const Operand& from, const Positions* positions, std::int64_t b,
                          std::int64_t row, std::int64_t head, std::int64_t size,
                          float* HWY_RESTRICT to) {
  if (IsPadding(positions, b, row)) {
    std::fill_n(to, padded(pairs_of(size)), 0.f);
    return;
  }
  LoadPairsAt(from, OffsetOf(from, b, row, head), size, to);
}

// As PackKeyRows: keys, whose pairs are along the head dimension.
void PackPairKeys(const Operand& from, const Positions* positions, std::int64_t b,
                  std::int64_t first, std::int64_t count, std::int64_t head, std::int64_t size,
                  float* HWY_RESTRICT scratch, const PackedRows<float>& to);

// Values: row n of `rows` has the pairs of tokens 2 n and 2 n + 1. scratch: two rows.
void PackPairValues(const Operand& from, const Positions* positions, std::int64_t b,
                    std::int64_t first, std::int64_t count, std::int64_t head,
                    std::int64_t size, float* HWY_RESTRICT scratch, float* HWY_RESTRICT rows);

#if HWY_TARGET == HWY_AVX3
// Interleaves 32 bfloat16 of two rows.
template <class D>
HWY_INLINE void InterleavePairs(D d, const float* one, const float* two, hn::Vec<D>& low,
                                hn::Vec<D>& high) {
  alignas(64) static constexpr std::uint16_t places[2][32] = {
      {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
      {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};
  const __m512i a = _mm512_castps_si512(hn::LoadU(d, one).raw);
  const __m512i b = _mm512_castps_si512(hn::LoadU(d, two).raw);
  low.raw = _mm512_castsi512_ps(_mm512_permutex2var_epi16(a, _mm512_load_si512(places[0]), b));
  high.raw = _mm512_castsi512_ps(_mm512_permutex2var_epi16(a, _mm512_load_si512(places[1]), b));
}
#endif

// Interleaves two rows of pairs_of(size) pairs: to[i] = (one[i], two[i]), for `size` elements.
HWY_INLINE void InterleaveRows(const float* one, const float* two, std::int64_t size,
                               float* to) {
#if HWY_TARGET == HWY_AVX3
  const hn::ScalableTag<float> d;
  for (std::int64_t i = 0; i < size; i += 32) {
    auto low = hn::Undefined(d), high = low;
    InterleavePairs(d, one + i / 2, two + i / 2, low, high);
    hn::StoreU(low, d, to + i);
    if (i + 16 < size) hn::StoreU(high, d, to + i + 16);
  }
#else
  (void)one, (void)two, (void)size, (void)to;
#endif
}

// Rounds `count` weights to bfloat16, two to a pair. count: even. A NaN remains a NaN.
void RoundToPairs(const float* HWY_RESTRICT weights, std::int64_t count,
                  float* HWY_RESTRICT to);

// As FactorsOf, for packed rows of pairs.
Factors FactorsOfPairs(const float* HWY_RESTRICT rows, std::int64_t count, std::int64_t size);

// Transposes a vector of rows, `stride` apart: column c becomes the vector at to + c step.
// Reads up to four columns past `columns`, because rows are padded.
template <typename A>
void Transpose(const A* HWY_RESTRICT from, std::int64_t stride, std::int64_t columns,
               A* HWY_RESTRICT to, std::int64_t step);

// Transposes packed rows to panels. Rows from `count` to its padding are zeros.
template <typename A>
void MakePanels(const A* HWY_RESTRICT rows, std::int64_t count, std::int64_t size,
                A* HWY_RESTRICT panels);

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
