// Rotation by given angles, and gradients of the angles.
#include "src/rotary/token_angles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/rotate_tokens_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"
#include "src/rotary/token_angles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using rotary_internal::CrossedRows;
using rotary_internal::TurnedRows;

// The vectors of a row begin at its first angle, so that the bits of a token do not depend on
// the other tokens of the call.
template <typename Angle, typename F>
HWY_INLINE void CosSinRows(const Angle* angles, std::int64_t row_step, std::int64_t rows,
                           std::int64_t pairs, F* HWY_RESTRICT cos, F* HWY_RESTRICT sin) {
  using Vectors = AngleVectors<Angle, F>;
  const std::int64_t step = Vectors::Step();
  constexpr std::size_t most = 2 * HWY_MAX_BYTES / sizeof(double);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Angle* const from = angles + row * row_step;
    F *const to_cos = cos + row * pairs, *const to_sin = sin + row * pairs;
    std::int64_t i = 0;
    for (; i + step <= pairs; i += step) Vectors::Write(from + i, to_cos + i, to_sin + i);
    if (i == pairs) continue;
    HWY_ALIGN Angle rest[most] = {};
    HWY_ALIGN F c[most], s[most];
    for (std::int64_t j = i; j < pairs; ++j) rest[j - i] = from[j];
    Vectors::Write(rest, c, s);
    for (std::int64_t j = i; j < pairs; ++j) {
      to_cos[j] = c[j - i];
      to_sin[j] = s[j - i];
    }
  }
}

// Loads pairs as two vectors.
template <Pairing pairing, class Tag, typename T>
HWY_INLINE void LoadPairs([[maybe_unused]] Tag d, const T* x, std::int64_t half,
                          hn::Vec<Tag>& a, hn::Vec<Tag>& b) {
  if constexpr (pairing == Pairing::halves) {
    a = LoadElements(d, x);
    b = LoadElements(d, x + half);
  } else {
#if HWY_TARGET != HWY_SCALAR
    const auto low = LoadElements(d, x), high = LoadElements(d, x + hn::Lanes(d));
    a = hn::ConcatEven(d, high, low);
    b = hn::ConcatOdd(d, high, low);
#else
    a = LoadElements(d, x);
    b = LoadElements(d, x + 1);
#endif
  }
}

// a db - b da; 0 where the gradient is 0, whatever a row that nothing sees holds.
template <class Tag, class Vec>
HWY_INLINE Vec Crossed(Tag d, Vec a, Vec b, Vec da, Vec db) {
  const auto none = hn::And(hn::Eq(da, hn::Zero(d)), hn::Eq(db, hn::Zero(d)));
  return hn::IfThenZeroElse(none, hn::NegMulAdd(b, da, hn::Mul(a, db)));
}
template <typename A>
HWY_INLINE A CrossedPair(A a, A b, A da, A db) {
  return da == 0 && db == 0 ? A(0) : a * db - b * da;
}

template <Pairing pairing, typename T>
HWY_INLINE void Cross(const CrossedRows<T>& rows, Accumulator<T>* HWY_RESTRICT sums) {
  using A = Accumulator<T>;
  const hn::ScalableTag<A> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t stride = pairing == Pairing::halves ? 1 : 2;
  for (std::int64_t row = 0; row < rows.rows; ++row)
    for (std::int64_t h = 0; h < rows.heads; ++h) {
      const T* const y = rows.rotated + row * rows.rotated_row + h * rows.rotated_head;
      const T* const g = rows.grad + row * rows.grad_row + h * rows.grad_head;
      A* const sum = sums + row * rows.pairs;
      std::int64_t i = 0;
      for (; i + lanes <= rows.pairs; i += lanes) {
        hn::Vec<decltype(d)> a, b, da, db;
        LoadPairs<pairing>(d, y + stride * i, rows.half, a, b);
        LoadPairs<pairing>(d, g + stride * i, rows.half, da, db);
        const auto crossed = Crossed(d, a, b, da, db);
        hn::StoreU(h == 0 ? crossed : hn::Add(hn::LoadU(d, sum + i), crossed), d, sum + i);
      }
      for (; i < rows.pairs; ++i) {
        const std::int64_t at = stride * i;
        const A crossed = CrossedPair(static_cast<A>(y[at]), static_cast<A>(y[at + rows.half]),
                                      static_cast<A>(g[at]), static_cast<A>(g[at + rows.half]));
        sum[i] = h == 0 ? crossed : sum[i] + crossed;
      }
    }
}

// Rotates the pairs [begin, end) of one row one by one.
template <Pairing pairing, bool backward, typename T, typename Angle>
HWY_INLINE void TurnPairs(const TurnedRows<T, Angle>& rows, std::int64_t row,
                          std::int64_t begin, std::int64_t end, const float* cos,
                          const float* sin) {
  constexpr std::int64_t stride = pairing == Pairing::halves ? 1 : 2;
  const std::int64_t half = pairing == Pairing::halves ? rows.pairs : 1;
  const T* const x = rows.from + row * rows.from_row;
  T* const to = rows.to + row * rows.to_row;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t at = stride * i;
    const float a = static_cast<float>(x[at]), b = static_cast<float>(x[at + half]);
    if constexpr (backward) {
      const T* const y = rows.rotated + row * rows.rotated_row;
      rows.grad_angles[row * rows.grad_angle_row + i] += static_cast<Angle>(
          CrossedPair(static_cast<float>(y[at]), static_cast<float>(y[at + half]), a, b));
    }
    const float c = cos[i - begin], s = rows.sign * sin[i - begin];
    to[at] = static_cast<T>(a * c - b * s);
    to[at + half] = static_cast<T>(a * s + b * c);
  }
}

#if HWY_TARGET != HWY_SCALAR
// Loads pairs in the order of the angles, so that adjacent elements are separated. Two adjacent
// bfloat16 are the halves of 32 bits.
template <Pairing pairing, typename T>
HWY_INLINE void LoadTurned(const T* x, std::int64_t half, VF& a, VF& b) {
  const DF d;
  if constexpr (pairing == Pairing::adjacent && std::is_same_v<T, float>) {
    hn::LoadInterleaved2(d, x, a, b);
  } else if constexpr (pairing == Pairing::adjacent && std::is_same_v<T, BFloat16>) {
    const hn::Repartition<std::uint16_t, DF> bits;
    const auto both =
        hn::BitCast(DU(), hn::LoadU(bits, reinterpret_cast<const std::uint16_t*>(x)));
    a = hn::BitCast(d, hn::ShiftLeft<16>(both));
    b = hn::BitCast(d, hn::And(both, hn::Set(DU(), 0xffff0000u)));
  } else {
    LoadPairs<pairing>(d, x, half, a, b);
  }
}

// Sums of products of bfloat16 and float, whose NaNs have zeros in their lower half.
HWY_INLINE void StoreRotated(VF v, BFloat16* to) {
  const hn::Rebind<std::uint16_t, DF> narrow;
  hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(RoundProductToBFloat16(DF(), v))),
             narrow, reinterpret_cast<std::uint16_t*>(to));
}
template <typename T>
HWY_INLINE void StoreRotated(VF v, T* to) {
  StoreElements(v, DF(), to);
}

template <Pairing pairing, typename T>
HWY_INLINE void StoreTurned(VF a, VF b, T* to, std::int64_t half) {
  const DF d;
  if constexpr (pairing == Pairing::halves) {
    StoreRotated(a, to);
    StoreRotated(b, to + half);
  } else if constexpr (std::is_same_v<T, float>) {
    hn::StoreInterleaved2(a, b, d, to);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const hn::Repartition<std::uint16_t, DF> bits;
    const VU both = hn::OrAnd(hn::ShiftRight<16>(RoundProductToBFloat16(d, a)),
                              RoundProductToBFloat16(d, b), hn::Set(DU(), 0xffff0000u));
    hn::StoreU(hn::BitCast(bits, both), bits, reinterpret_cast<std::uint16_t*>(to));
  } else {
    HWY_ALIGN T first[HWY_MAX_BYTES / sizeof(float)], second[HWY_MAX_BYTES / sizeof(float)];
    StoreElements(a, d, first);
    StoreElements(b, d, second);
    const hn::Rebind<std::uint16_t, DF> bits;
    hn::StoreInterleaved2(hn::LoadU(bits, reinterpret_cast<const std::uint16_t*>(first)),
                          hn::LoadU(bits, reinterpret_cast<const std::uint16_t*>(second)), bits,
                          reinterpret_cast<std::uint16_t*>(to));
  }
}
#endif

// The pairs of a row that do not fill a vector, from `begin` on.
template <Pairing pairing, bool backward, typename T, typename Angle>
HWY_NOINLINE void TurnRest(const TurnedRows<T, Angle>& rows, std::int64_t row,
                           std::int64_t begin) {
  constexpr std::size_t most = 2 * HWY_MAX_BYTES / sizeof(double);
  HWY_ALIGN Angle rest[most] = {};
  HWY_ALIGN float c[most], s[most];
  const Angle* const angles = rows.angles + row * rows.angle_row;
  for (std::int64_t i = begin; i < rows.pairs; ++i) rest[i - begin] = angles[i];
  AngleVectors<Angle, float>::Write(rest, c, s);
  TurnPairs<pairing, backward>(rows, row, begin, rows.pairs, c, s);
}

template <Pairing pairing, bool backward, typename T, typename Angle>
HWY_INLINE void Turn(const TurnedRows<T, Angle>& rows) {
  using Vectors = AngleVectors<Angle, float>;
  const std::int64_t step = Vectors::Step(), whole = rows.pairs / step * step;
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t row = 0; row < rows.rows; ++row)
    for (std::int64_t i = 0; i < whole; i += step) {
      float c[1], s[1];
      Vectors::Write(rows.angles + row * rows.angle_row + i, c, s);
      TurnPairs<pairing, backward>(rows, row, i, i + 1, c, s);
    }
#else
  constexpr std::int64_t stride = pairing == Pairing::halves ? 1 : 2;
  const DF d;
  const TurnedRows<T, Angle> r = rows;
  const std::int64_t half = pairing == Pairing::halves ? r.pairs : 1;
  const VF sign = hn::BitCast(
      d, hn::And(hn::BitCast(DU(), hn::Set(d, r.sign)), hn::Set(DU(), 0x80000000u)));
  const T *x = r.from, *rotated = r.rotated;
  T* to = r.to;
  const Angle* angles = r.angles;
  Angle* grad_angles = r.grad_angles;
  // One loop over the vectors of all rows, so that constants stay in registers.
  std::int64_t i = 0, row = 0;
  while (row < r.rows) {
    if (i == whole) {
      if (whole != r.pairs) TurnRest<pairing, backward>(rows, row, whole);
      x += r.from_row;
      to += r.to_row;
      angles += r.angle_row;
      if constexpr (backward) {
        rotated += r.rotated_row;
        grad_angles += r.grad_angle_row;
      }
      i = 0;
      ++row;
      continue;
    }
    VF c, s, a, b;
    FloatsOfAngles(angles + i, c, s);
    s = hn::Xor(s, sign);
    LoadTurned<pairing>(x + stride * i, half, a, b);
    if constexpr (backward) {
      VF y, z;
      LoadTurned<pairing>(rotated + stride * i, half, y, z);
      const VF crossed = Crossed(d, y, z, a, b);
      Angle* const sum = grad_angles + i;
      if constexpr (std::is_same_v<Angle, float>) {
        hn::StoreU(hn::Add(hn::LoadU(d, sum), crossed), d, sum);
      } else {
        HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
        hn::Store(crossed, d, lanes);
        for (std::int64_t j = 0; j < step; ++j) sum[j] += static_cast<double>(lanes[j]);
      }
    }
    StoreTurned<pairing>(hn::NegMulAdd(b, s, hn::Mul(a, c)), hn::MulAdd(a, s, hn::Mul(b, c)),
                         to + stride * i, half);
    i += step;
  }
#endif
}

template <typename T, typename Angle>
HWY_INLINE void TurnAll(const TurnedRows<T, Angle>& rows) {
  if (rows.grad_angles) {
    if (rows.pairing == Pairing::halves) return Turn<Pairing::halves, true>(rows);
    return Turn<Pairing::adjacent, true>(rows);
  }
  if (rows.pairing == Pairing::halves) return Turn<Pairing::halves, false>(rows);
  return Turn<Pairing::adjacent, false>(rows);
}

#define GNOMON_ANGLES(Angle, F, Name)                                            \
  void CosSinOf##Name(const Angle* angles, std::int64_t step, std::int64_t rows, \
                      std::int64_t pairs, F* cos, F* sin) {                      \
    CosSinRows(angles, step, rows, pairs, cos, sin);                             \
  }
GNOMON_ANGLES(float, float, F32F32)
GNOMON_ANGLES(double, float, F64F32)
GNOMON_ANGLES(float, double, F32F64)
GNOMON_ANGLES(double, double, F64F64)
#undef GNOMON_ANGLES

#define GNOMON_TURN(T, Angle, Name) \
  void Turn##Name(const TurnedRows<T, Angle>& rows) { TurnAll(rows); }
GNOMON_TURN(float, float, F32F32)
GNOMON_TURN(float, double, F32F64)
GNOMON_TURN(Half, float, F16F32)
GNOMON_TURN(Half, double, F16F64)
GNOMON_TURN(BFloat16, float, BF16F32)
GNOMON_TURN(BFloat16, double, BF16F64)
#undef GNOMON_TURN

#define GNOMON_CROSS(T, Name)                                          \
  void Cross##Name(const CrossedRows<T>& rows, Accumulator<T>* sums) { \
    if (rows.pairing == Pairing::halves)                               \
      Cross<Pairing::halves>(rows, sums);                              \
    else                                                               \
      Cross<Pairing::adjacent>(rows, sums);                            \
  }
GNOMON_CROSS(float, F32)
GNOMON_CROSS(double, F64)
GNOMON_CROSS(Half, F16)
GNOMON_CROSS(BFloat16, BF16)
#undef GNOMON_CROSS

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon::rotary_internal {

#define GNOMON_ANGLES(Angle, F, Name)            \
  HWY_EXPORT(CosSinOf##Name);                    \
  template <>                                    \
  CosSinOfAngles<Angle, F> cos_sin_of_angles() { \
    return GNOMON_DISPATCH(CosSinOf##Name);      \
  }
GNOMON_ANGLES(float, float, F32F32)
GNOMON_ANGLES(double, float, F64F32)
GNOMON_ANGLES(float, double, F32F64)
GNOMON_ANGLES(double, double, F64F64)
#undef GNOMON_ANGLES

#define GNOMON_TURN(T, Angle, Name)     \
  HWY_EXPORT(Turn##Name);               \
  template <>                           \
  TurnRows<T, Angle> turn_rows() {      \
    return GNOMON_DISPATCH(Turn##Name); \
  }
GNOMON_TURN(float, float, F32F32)
GNOMON_TURN(float, double, F32F64)
GNOMON_TURN(Half, float, F16F32)
GNOMON_TURN(Half, double, F16F64)
GNOMON_TURN(BFloat16, float, BF16F32)
GNOMON_TURN(BFloat16, double, BF16F64)
#undef GNOMON_TURN

#define GNOMON_CROSS(T, Name)            \
  HWY_EXPORT(Cross##Name);               \
  template <>                            \
  CrossRows<T> cross_rows() {            \
    return GNOMON_DISPATCH(Cross##Name); \
  }
GNOMON_CROSS(float, F32)
GNOMON_CROSS(double, F64)
GNOMON_CROSS(Half, F16)
GNOMON_CROSS(BFloat16, BF16)
#undef GNOMON_CROSS

}  // namespace gnomon::rotary_internal
#endif  // HWY_ONCE
