// The kernels of angles: cos and sin of position x frequency, and their products in rows.
#include "gnomon/dtype.h"
#include "src/core/angles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/core/angles_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "src/core/angles-inl.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::AngleLayout;

constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(D()));

void FillCosSinRow(double position, const double* HWY_RESTRICT frequencies, std::int64_t count,
                   double scale, double* HWY_RESTRICT cosines, double* HWY_RESTRICT sines) {
  const D d;
  const V p = hn::Set(d, position), s = hn::Set(d, scale);
  for (std::int64_t i = 0; i < count; i += lanes) {
    V cosine, sine;
    RowProducts(p, hn::LoadU(d, frequencies + i), cosine, sine);
    hn::StoreU(hn::Mul(s, cosine), d, cosines + i);
    hn::StoreU(hn::Mul(s, sine), d, sines + i);
  }
}

void PairAnglesF32(const std::int64_t* positions, std::int64_t position_step,
                   const double* frequencies, std::int64_t count, double scale, float* cosines,
                   float* sines) {
  const D d;
  const hn::Rebind<float, D> narrow;
  HWY_ALIGN double far[lanes] = {}, near[lanes] = {}, part[lanes] = {};
  HWY_ALIGN float cosine_part[lanes], sine_part[lanes];
  const auto split = [&](std::int64_t lane, std::int64_t position) {
    const std::int64_t anchor = position & ~(internal::anchor_step - 1);
    far[lane] = static_cast<double>(anchor);
    near[lane] = static_cast<double>(position - anchor);
  };
  if (!position_step && count > 0)
    for (std::int64_t lane = 0; lane < lanes; ++lane) split(lane, *positions);
  const V factor = hn::Set(d, scale);
  for (std::int64_t i = 0; i < count; i += lanes) {
    const std::int64_t here = HWY_MIN(lanes, count - i);
    if (position_step)
      for (std::int64_t lane = 0; lane < here; ++lane)
        split(lane, positions[(i + lane) * position_step]);
    V frequency;
    if (here == lanes) {
      frequency = hn::LoadU(d, frequencies + i);
    } else {
      for (std::int64_t lane = 0; lane < here; ++lane) part[lane] = frequencies[i + lane];
      frequency = hn::Load(d, part);
    }
    V far_cos, far_sin, near_cos, near_sin, cosine, sine;
    RowProducts(hn::Load(d, far), frequency, far_cos, far_sin);
    RowProducts(hn::Load(d, near), frequency, near_cos, near_sin);
    Compose(hn::Mul(factor, far_cos), hn::Mul(factor, far_sin), near_cos, near_sin, cosine,
            sine);
    if (here == lanes) {
      hn::StoreU(ToEntries<float>(cosine), narrow, cosines + i);
      hn::StoreU(ToEntries<float>(sine), narrow, sines + i);
    } else {
      hn::Store(ToEntries<float>(cosine), narrow, cosine_part);
      hn::Store(ToEntries<float>(sine), narrow, sine_part);
      for (std::int64_t lane = 0; lane < here; ++lane) {
        cosines[i + lane] = cosine_part[lane];
        sines[i + lane] = sine_part[lane];
      }
    }
  }
}

template <AngleLayout layout, class E, class W>
HWY_INLINE void StoreRows(E d, W cosines, W sines, hn::TFromD<E>* first,
                          hn::TFromD<E>* second) {
  if constexpr (layout == AngleLayout::apart) {
    hn::StoreU(cosines, d, first);
    hn::StoreU(sines, d, second);
  } else if constexpr (layout == AngleLayout::cosine_first) {
    hn::StoreInterleaved2(cosines, sines, d, first);
  } else {
    hn::StoreInterleaved2(sines, cosines, d, first);
  }
}

// Stores `lanes` pairs in the layout.
template <typename T, AngleLayout layout>
HWY_INLINE void StorePairs(V cosine, V sine, Entry<T>* first, Entry<T>* second) {
  const hn::Rebind<Entry<T>, D> d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 2) {  // cosines and sines in one vector
    const hn::ScalableTag<float> full;
    const auto both = ToBits16<T>(full, hn::Combine(full, OddFloats(sine), OddFloats(cosine)));
    StoreRows<layout>(d, hn::LowerHalf(d, both), hn::UpperHalf(d, both), first, second);
    return;
  }
#endif
  StoreRows<layout>(d, ToEntries<T>(cosine), ToEntries<T>(sine), first, second);
}

constexpr std::int64_t ahead = 2;  // prefetch distance, in rows

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
using F = hn::ScalableTag<float>;
using FV = hn::Vec<F>;

// Whether a float of either vector may be halfway between two numbers of T. If not, the double
// that was rounded to it is on the same side of the middle, and rounding the float gives the
// same as rounding the double once.
template <typename T>
HWY_INLINE bool MayBeHalfway(FV one, FV other) {
  const F d;
  const hn::RebindToUnsigned<F> whole;
  const auto zero = [&](FV v, std::uint32_t added, std::uint32_t mask) HWY_ATTR {
    const auto bits = hn::Add(hn::BitCast(whole, v), hn::Set(whole, added));
    return hn::Eq(hn::And(bits, hn::Set(whole, mask)), hn::Zero(whole));
  };
  if constexpr (std::is_same_v<T, BFloat16>)
    return !hn::AllFalse(whole, hn::Or(zero(one, 0x8000, 0xffff), zero(other, 0x8000, 0xffff)));
  if (HWY_LIKELY(hn::AllFalse(whole, hn::Or(zero(one, 0, 0xfff), zero(other, 0, 0xfff)))))
    return false;
  // Half has ten bits after the point, and fewer below 2^-14.
  const auto halfway = [&](FV v) HWY_ATTR {
    const auto fewer = hn::RebindMask(whole, hn::Lt(hn::Abs(v), hn::Set(d, 0x1p-14f)));
    return hn::Or(zero(v, 0x1000, 0x1fff), hn::And(zero(v, 0, 0xfff), fewer));
  };
  return !hn::AllFalse(whole, hn::Or(halfway(one), halfway(other)));
}

// Rounds to T floats that are not halfway between two numbers of T, and stores them in the
// layout.
template <typename T, AngleLayout layout>
HWY_INLINE void StoreRounded(FV cosines, FV sines, Entry<T>* first, Entry<T>* second) {
  const F d;
  const hn::RebindToUnsigned<F> whole;
  const hn::Rebind<std::uint16_t, F> narrow;
  const hn::Repartition<std::uint16_t, F> both;
  if constexpr (std::is_same_v<T, BFloat16>) {
    const auto half = hn::Set(whole, 0x8000u);
    const auto c = hn::Add(hn::BitCast(whole, cosines), half);
    const auto s = hn::Add(hn::BitCast(whole, sines), half);
    if constexpr (layout == AngleLayout::apart) {
      hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(c)), narrow, first);
      hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(s)), narrow, second);
    } else {
      const auto low = layout == AngleLayout::cosine_first ? c : s;
      const auto high = layout == AngleLayout::cosine_first ? s : c;
      const auto pairs = hn::OrAnd(hn::ShiftRight<16>(low), high, hn::Set(whole, 0xffff0000u));
      hn::StoreU(hn::BitCast(both, pairs), both, first);
    }
  } else {
    const auto c = ToBits16<T>(d, cosines), s = ToBits16<T>(d, sines);
    if constexpr (layout == AngleLayout::apart) {
      hn::StoreU(c, narrow, first);
      hn::StoreU(s, narrow, second);
    } else {
      const auto low = hn::PromoteTo(whole, layout == AngleLayout::cosine_first ? c : s);
      const auto high = hn::PromoteTo(whole, layout == AngleLayout::cosine_first ? s : c);
      hn::StoreU(hn::BitCast(both, hn::Or(low, hn::ShiftLeft<16>(high))), both, first);
    }
  }
}
#endif

template <typename T, AngleLayout layout>
void MultiplyRows(const internal::RowProducts& products, T* first, std::int64_t first_row,
                  T* second, std::int64_t second_row) {
  using E = Entry<T>;
  constexpr bool apart = layout == AngleLayout::apart;
  const D d;
  const std::int64_t padded = products.padded, rest = products.count % lanes;
  const std::int64_t whole = products.count - rest;
  const double* HWY_RESTRICT far = products.far;
  for (std::int64_t t = 0; t < products.rows; ++t) {
    const double* HWY_RESTRICT step =
        products.steps + (products.positions[t] & products.mask) * 2 * padded;
    E* a = reinterpret_cast<E*>(first + t * first_row);
    E* b = apart ? reinterpret_cast<E*>(second + t * second_row) : a;  // not used, but advanced
    const auto compose = [&](std::int64_t i, V& cosine, V& sine) HWY_ATTR {
      const auto load = [&](const double* from) HWY_ATTR {
        return InRegister(hn::Load(d, from + i));  // used twice, and loads limit these loops
      };
      Compose(load(far), load(far + padded), load(step), load(step + padded), cosine, sine);
    };
    V cosine, sine;
    std::int64_t i = 0;
    if constexpr (std::is_same_v<T, float> && apart) {  // adjacent stores to one cache line
      const hn::Rebind<float, D> single;
      for (; i + 2 * lanes <= whole; i += 2 * lanes) {
        V next_cosine, next_sine;
        compose(i, cosine, sine);
        compose(i + lanes, next_cosine, next_sine);
        hwy::Prefetch(a + ahead * first_row + i);
        hwy::Prefetch(b + ahead * second_row + i);
        hn::StoreU(ToEntries<T>(cosine), single, a + i);
        hn::StoreU(ToEntries<T>(next_cosine), single, a + i + lanes);
        hn::StoreU(ToEntries<T>(sine), single, b + i);
        hn::StoreU(ToEntries<T>(next_sine), single, b + i + lanes);
      }
    }
#if HWY_TARGET == HWY_AVX3
    if constexpr (std::is_same_v<T, float> && !apart) {  // stores of whole cache lines
      const hn::ScalableTag<float> full;
      HWY_ALIGN static constexpr std::int32_t order[] = {0, 8,  1, 9,  2, 10, 3, 11,
                                                         4, 12, 5, 13, 6, 14, 7, 15};
      const auto places = hn::SetTableIndices(full, order);
      for (; i < whole; i += lanes) {
        compose(i, cosine, sine);
        const auto c = ToEntries<T>(cosine), s = ToEntries<T>(sine);
        const auto both = layout == AngleLayout::sine_first ? hn::Combine(full, c, s)
                                                            : hn::Combine(full, s, c);
        hwy::Prefetch(a + ahead * first_row + 2 * i);
        hn::StoreU(hn::TableLookupLanes(both, places), full, a + 2 * i);
      }
    }
#endif
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    if constexpr (sizeof(T) == 2) {
      const hn::Rebind<float, D> single;
      const F full;
      for (; i + 2 * lanes <= whole; i += 2 * lanes) {
        V next_cosine, next_sine;
        compose(i, cosine, sine);
        compose(i + lanes, next_cosine, next_sine);
        const FV c =
            hn::Combine(full, hn::DemoteTo(single, next_cosine), hn::DemoteTo(single, cosine));
        const FV s =
            hn::Combine(full, hn::DemoteTo(single, next_sine), hn::DemoteTo(single, sine));
        E *const to = apart ? a + i : a + 2 * i, *const next = to + (apart ? lanes : 2 * lanes);
        if (HWY_LIKELY(!MayBeHalfway<T>(c, s))) {
          StoreRounded<T, layout>(c, s, to, b + i);
        } else {
          StorePairs<T, layout>(cosine, sine, to, b + i);
          StorePairs<T, layout>(next_cosine, next_sine, next, b + i + lanes);
        }
      }
    }
#endif
    for (; i < whole; i += lanes) {
      compose(i, cosine, sine);
      StorePairs<T, layout>(cosine, sine, apart ? a + i : a + 2 * i, b + i);
    }
    if (rest) {
      E part[2 * lanes];
      compose(whole, cosine, sine);
      StorePairs<T, layout>(cosine, sine, part, part + lanes);
      if (apart) {
        for (std::int64_t i = 0; i < rest; ++i) {
          a[whole + i] = part[i];
          b[whole + i] = part[lanes + i];
        }
      } else {
        for (std::int64_t i = 0; i < 2 * rest; ++i) a[2 * whole + i] = part[i];
      }
    }
  }
}

#define GNOMON_ROW_PRODUCTS_OF(T, Name, Layout, layout)                                   \
  void MultiplyRows##Name##Layout(const internal::RowProducts& products, T* first,        \
                                  std::int64_t first_row, T* second,                      \
                                  std::int64_t second_row) {                              \
    MultiplyRows<T, AngleLayout::layout>(products, first, first_row, second, second_row); \
  }
#define GNOMON_ROW_PRODUCTS(T, Name)                         \
  GNOMON_ROW_PRODUCTS_OF(T, Name, Apart, apart)              \
  GNOMON_ROW_PRODUCTS_OF(T, Name, CosineFirst, cosine_first) \
  GNOMON_ROW_PRODUCTS_OF(T, Name, SineFirst, sine_first)
GNOMON_ROW_PRODUCTS(float, F32)
GNOMON_ROW_PRODUCTS(double, F64)
GNOMON_ROW_PRODUCTS(Half, F16)
GNOMON_ROW_PRODUCTS(BFloat16, BF16)
#undef GNOMON_ROW_PRODUCTS
#undef GNOMON_ROW_PRODUCTS_OF

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(FillCosSinRow);
HWY_EXPORT(PairAnglesF32);

namespace internal {

PairAngles pair_angles() { return GNOMON_DISPATCH(PairAnglesF32); }
CosSinRow cos_sin_row() { return GNOMON_DISPATCH(FillCosSinRow); }

}  // namespace internal

#define GNOMON_ROW_PRODUCTS(T, Name)                                      \
  HWY_EXPORT(MultiplyRows##Name##Apart);                                  \
  HWY_EXPORT(MultiplyRows##Name##CosineFirst);                            \
  HWY_EXPORT(MultiplyRows##Name##SineFirst);                              \
  template <>                                                             \
  internal::MultiplyRows<T> internal::multiply_rows(AngleLayout layout) { \
    switch (layout) {                                                     \
      case AngleLayout::cosine_first:                                     \
        return GNOMON_DISPATCH(MultiplyRows##Name##CosineFirst);          \
      case AngleLayout::sine_first:                                       \
        return GNOMON_DISPATCH(MultiplyRows##Name##SineFirst);            \
      default:                                                            \
        return GNOMON_DISPATCH(MultiplyRows##Name##Apart);                \
    }                                                                     \
  }
GNOMON_ROW_PRODUCTS(float, F32)
GNOMON_ROW_PRODUCTS(double, F64)
GNOMON_ROW_PRODUCTS(Half, F16)
GNOMON_ROW_PRODUCTS(BFloat16, BF16)
#undef GNOMON_ROW_PRODUCTS

}  // namespace gnomon
#endif  // HWY_ONCE
