// Conversion of tensors to packed tiles and back.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/pack_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

HWY_INLINE void WidenE4m3(const std::uint8_t* HWY_RESTRICT from, float factor,
                          std::int64_t size, float* HWY_RESTRICT to) {
  ForVectors<float>(size, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::Set(d, factor), LoadE4m3(d, from + i)), d, to + i);
  });
}

// Converts `size` elements to A.
template <typename A>
HWY_INLINE void Widen(const Operand& of, const void* from, std::int64_t at, A factor,
                      std::int64_t size, A* HWY_RESTRICT to) {
  if constexpr (std::is_same_v<A, double>) {
    FromElements(static_cast<const double*>(from) + at, size, to);
  } else {
    switch (of.dtype) {
      case DType::f32:
        return FromElements(static_cast<const float*>(from) + at, size, to);
      case DType::f16:
        return FromElements(static_cast<const Half*>(from) + at, size, to);
      case DType::bf16:
        return FromElements(static_cast<const BFloat16*>(from) + at, size, to);
      default:  // with a scale
        if (of.e4m3)
          return WidenE4m3(static_cast<const std::uint8_t*>(from) + at, factor, size, to);
        const auto* bytes = static_cast<const std::int8_t*>(from) + at;
        return ForVectors<float>(size, [&](auto d, std::int64_t i) HWY_ATTR {
          const hn::Rebind<std::int8_t, decltype(d)> narrow;
          const hn::Rebind<std::int32_t, decltype(d)> wide;
          const auto integers = hn::PromoteTo(wide, hn::LoadU(narrow, bytes + i));
          hn::StoreU(hn::Mul(hn::Set(d, factor), hn::ConvertTo(d, integers)), d, to + i);
        });
    }
  }
}

template <typename A>
HWY_NOINLINE void LoadOtherRow(const Operand& from, const Positions* positions, std::int64_t b,
                               std::int64_t row, std::int64_t head, std::int64_t size,
                               A* HWY_RESTRICT to) {
  if (IsPadding(positions, b, row)) {
    std::fill_n(to, padded(size), A(0));
    return;
  }
  A factor = 1;
  if (from.scales.data()) factor = static_cast<A>(ScaleOf(from, b, row, head));
  Widen(from, from.data, OffsetOf(from, b, row, head), factor, size, to);
  std::fill(to + size, to + padded(size), A(0));
}

template <typename A>
HWY_NOINLINE void StoreOtherRow(const Result& to, std::int64_t at, std::int64_t size, A factor,
                                const A* HWY_RESTRICT from) {
  if constexpr (std::is_same_v<A, double>) {
    ToElements(from, factor, size, static_cast<double*>(to.data) + at);
  } else {
    if (to.dtype == DType::f32)
      ToElements(from, factor, size, static_cast<float*>(to.data) + at);
    if (to.dtype == DType::f16)
      ToElements(from, factor, size, static_cast<Half*>(to.data) + at);
    if (to.dtype == DType::bf16)
      ToElements(from, factor, size, static_cast<BFloat16*>(to.data) + at);
  }
}

template <typename A>
HWY_NOINLINE void RotateByTable(const RotaryTable& table, std::int64_t b, std::int64_t row,
                                Direction direction, A* HWY_RESTRICT x) {
  const std::int64_t pairs = table.frequencies().rotary_dim() / 2;
  const std::int64_t batch = table.batch() == 1 ? 0 : b;
  const float* HWY_RESTRICT cos = &table.cos()(batch, row, 0);
  const float* HWY_RESTRICT sin = &table.sin()(batch, row, 0);
  const A sign = direction == Direction::forward ? A(1) : A(-1);
  x += table.frequencies().head_offset;
  // The halves of a head have the layout of cos and sin, so the table is used without
  // preparation.
  if (table.frequencies().pairing == Pairing::halves)
    ForVectors<A>(pairs, [&](auto d, std::int64_t i) HWY_ATTR {
      auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + pairs + i);
      RotateVectors(a, b, LoadElements(d, cos + i),
                    hn::Mul(hn::Set(d, sign), LoadElements(d, sin + i)), a, b);
      hn::StoreU(a, d, x + i);
      hn::StoreU(b, d, x + pairs + i);
    });
  else
    RotatePairs(x, cos, sin, sign, table.frequencies().pairing, pairs);
}

template <typename A>
HWY_INLINE void TransposeLanes(const A* HWY_RESTRICT from, std::int64_t stride,
                               std::int64_t columns, A* HWY_RESTRICT to, std::int64_t step) {
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<A>()));
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<A> tag;
  if constexpr (sizeof(A) == 4 && lanes >= 4) {
    // The 128-bit block b of vector r contains columns c to c + 3 of row 4 b + r. Four such
    // vectors are transposed within their blocks.
    constexpr std::int64_t blocks = lanes / 4;
    const auto gather = [&](std::int64_t r, std::int64_t c) HWY_ATTR {
      auto all = hn::LoadDup128(tag, from + r * stride + c);
      for (std::int64_t b = 1; b < blocks; ++b)
        all = hn::IfThenElse(hn::FirstN(tag, static_cast<std::size_t>(4 * b)), all,
                             hn::LoadDup128(tag, from + (4 * b + r) * stride + c));
      return all;
    };
    for (std::int64_t c = 0; c < columns; c += 4) {
      const auto a0 = gather(0, c), a1 = gather(1, c), a2 = gather(2, c), a3 = gather(3, c);
      const auto low02 = hn::InterleaveLower(tag, a0, a2);
      const auto low13 = hn::InterleaveLower(tag, a1, a3);
      const auto high02 = hn::InterleaveUpper(tag, a0, a2);
      const auto high13 = hn::InterleaveUpper(tag, a1, a3);
      A* HWY_RESTRICT at = to + c * step;
      hn::Store(hn::InterleaveLower(tag, low02, low13), tag, at);
      if (c + 1 < columns) hn::Store(hn::InterleaveUpper(tag, low02, low13), tag, at + step);
      if (c + 2 < columns)
        hn::Store(hn::InterleaveLower(tag, high02, high13), tag, at + 2 * step);
      if (c + 3 < columns)
        hn::Store(hn::InterleaveUpper(tag, high02, high13), tag, at + 3 * step);
    }
    return;
  }
#endif
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < lanes; ++r) to[c * step + r] = from[r * stride + c];
}

template <typename A>
void Transpose(const A* HWY_RESTRICT from, std::int64_t stride, std::int64_t columns,
               A* HWY_RESTRICT to, std::int64_t step) {
  TransposeLanes(from, stride, columns, to, step);
}

// Transposes `lanes` rows, `stride` apart, to columns j to j + lanes of panels.
template <typename A>
HWY_INLINE void ToPanels(const A* HWY_RESTRICT rows, std::int64_t stride, std::int64_t j,
                         std::int64_t size, A* HWY_RESTRICT panels) {
  TransposeLanes(rows, stride, size,
                 panels + j / Panel<A>() * Panel<A>() * size + j % Panel<A>(), Panel<A>());
}

// Clears the last panel from column padded(count).
template <typename A>
HWY_INLINE void ClearPanel(std::int64_t count, std::int64_t size, A* HWY_RESTRICT panels) {
  const hn::ScalableTag<A> tag;
  for (std::int64_t j = padded(count); j % Panel<A>();
       j += static_cast<std::int64_t>(hn::Lanes(tag)))
    for (std::int64_t d = 0; d < size; ++d)
      hn::Store(hn::Zero(tag), tag,
                panels + j / Panel<A>() * Panel<A>() * size + d * Panel<A>() + j % Panel<A>());
}

template <typename A>
void MakePanels(const A* HWY_RESTRICT rows, std::int64_t count, std::int64_t size,
                A* HWY_RESTRICT panels) {
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<A>()));
  for (std::int64_t j = 0; j < padded(count); j += lanes)
    ToPanels(rows + j * row_stride(size), row_stride(size), j, size, panels);
  ClearPanel(count, size, panels);
}

// PackKeyRows of floats at equal distances that are neither rotated nor hidden.
HWY_INLINE void PackPlainRows(const float* HWY_RESTRICT from, std::int64_t step,
                              std::int64_t count, std::int64_t size,
                              float* HWY_RESTRICT scratch, const PackedRows<float>& to) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  const std::int64_t stride = row_stride(size);
  // Rows are transposed where they are if their vectors of four floats are aligned.
  const bool in_place = !to.rows && to.panels && step % 4 == 0 &&
                        reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  for (std::int64_t j = 0; j < padded(count); j += lanes) {
    float* HWY_RESTRICT rows = to.rows ? to.rows + j * stride : scratch;
    for (std::int64_t i = 0; i < lanes && j + i + rows_ahead < count; ++i)
      for (std::int64_t c = 0; c < size; c += 16)
        hwy::Prefetch(from + (j + i + rows_ahead) * step + c);
    if (in_place && j + lanes <= count) {
      ToPanels(from + j * step, step, j, size, to.panels);
      continue;
    }
    for (std::int64_t i = 0; i < lanes; ++i) {
      if (j + i >= count) {
        std::fill_n(rows + i * stride, size, 0.f);
        continue;
      }
      const float* HWY_RESTRICT row = from + (j + i) * step;
      for (std::int64_t c = 0; c < size; c += lanes)
        hn::Store(hn::LoadU(d, row + c), d, rows + i * stride + c);
    }
    if (to.panels) ToPanels(rows, stride, j, size, to.panels);
  }
  if (to.panels) ClearPanel(count, size, to.panels);
}

template <typename A>
void PackKeyRows(const Operand& from, const Positions* positions, const RotaryTable* rotary,
                 std::int64_t b, std::int64_t first, std::int64_t count, std::int64_t head,
                 std::int64_t size, A* HWY_RESTRICT scratch, const PackedRows<A>& to) {
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<A>()));
  const std::int64_t stride = row_stride(size);
  if constexpr (sizeof(A) == 4)
    if (from.dtype == DType::f32 && size % 16 == 0 && !positions && !rotary && !to.polar &&
        !from.places.page())
      return PackPlainRows(
          static_cast<const float*>(from.data) + OffsetOf(from, b, first, head),
          from.strides[1], count, size, scratch, to);
  const std::int64_t loaded = to.polar ? to.polar : size;
  RowOffsets offsets(from, b, head), ahead(from, b, head);
  for (std::int64_t j = 0; j < padded(count); j += lanes) {
    A* HWY_RESTRICT rows = to.rows ? to.rows + j * stride : scratch;
    for (std::int64_t i = 0; i < lanes; ++i) {
      const std::int64_t row = first + j + i;
      if (j + i + rows_ahead < count) PrefetchRowAt(from, ahead.of(row + rows_ahead), loaded);
      if (j + i >= count) {
        std::fill_n(rows + i * stride, padded(size), A(0));
        continue;
      }
      LoadRowAt(from, positions, b, row, head, offsets.of(row), loaded, rows + i * stride);
      if (to.polar) ToPolar(to.polar, {}, rows + i * stride);
      RotateRow(rotary, b, row, Direction::forward, rows + i * stride);
    }
    if (to.panels) ToPanels(rows, stride, j, size, to.panels);
  }
  if (to.panels) ClearPanel(count, size, to.panels);
}

void PackPairKeys(const Operand& from, const Positions* positions, std::int64_t b,
                  std::int64_t first, std::int64_t count, std::int64_t head, std::int64_t size,
                  float* HWY_RESTRICT scratch, const PackedRows<float>& to) {
  constexpr std::int64_t lanes =
      static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
  const std::int64_t floats = pairs_of(size), stride = row_stride(floats);
  // As in PackPlainRows.
  const auto* pairs = reinterpret_cast<const float*>(
      static_cast<const std::uint16_t*>(from.data) + OffsetOf(from, b, first, head));
  const std::int64_t step = from.strides[1] / 2;
  const bool in_place = !to.rows && to.panels && size % 32 == 0 && !positions &&
                        !from.places.page() && from.strides[1] % 8 == 0 &&
                        reinterpret_cast<std::uintptr_t>(pairs) % 16 == 0;
  for (std::int64_t j = 0; j < padded(count); j += lanes) {
    float* HWY_RESTRICT rows = to.rows ? to.rows + j * stride : scratch;
    for (std::int64_t i = 0; i < lanes && j + i + rows_ahead < count; ++i)
      PrefetchRow(from, b, first + j + i + rows_ahead, head, size);
    if (in_place && j + lanes <= count) {
      ToPanels(pairs + j * step, step, j, floats, to.panels);
      continue;
    }
    for (std::int64_t i = 0; i < lanes; ++i) {
      if (j + i < count)
        LoadPairs(from, positions, b, first + j + i, head, size, rows + i * stride);
      else
        std::fill_n(rows + i * stride, padded(floats), 0.f);
    }
    if (to.panels) ToPanels(rows, stride, j, floats, to.panels);
  }
  if (to.panels) ClearPanel(count, floats, to.panels);
}

void PackPairValues(const Operand& from, const Positions* positions, std::int64_t b,
                    std::int64_t first, std::int64_t count, std::int64_t head,
                    std::int64_t size, float* HWY_RESTRICT scratch, float* HWY_RESTRICT rows) {
  const std::int64_t stride = row_stride(size), half = row_stride(pairs_of(size));
  const bool in_place = !positions && size % 32 == 0;
  const auto pairs_at = [&](std::int64_t row) {
    return reinterpret_cast<const float*>(static_cast<const std::uint16_t*>(from.data) +
                                          OffsetOf(from, b, row, head));
  };
  for (std::int64_t j = 0; j < padded(count); j += 2, rows += stride) {
    if (j >= count) {
      std::fill_n(rows, padded(size), 0.f);
      continue;
    }
    for (std::int64_t i = 0; i < 2; ++i)
      if (j + i + rows_ahead < count)
        PrefetchRow(from, b, first + j + i + rows_ahead, head, size);
    if (in_place && j + 1 < count) {
      InterleaveRows(pairs_at(first + j), pairs_at(first + j + 1), size, rows);
      continue;
    }
    for (std::int64_t i = 0; i < 2; ++i) {
      if (j + i < count)
        LoadPairs(from, positions, b, first + j + i, head, size, scratch + i * half);
      else
        std::fill_n(scratch + i * half, padded(pairs_of(size)), 0.f);
    }
    InterleaveRows(scratch, scratch + half, padded(size), rows);
  }
}

void RoundToPairs(const float* HWY_RESTRICT weights, std::int64_t count,
                  float* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_AVX3
  for (std::int64_t i = 0; i < count; i += 32) {
    const __m512 one = _mm512_loadu_ps(weights + i);
    const __m512 two = i + 16 < count ? _mm512_loadu_ps(weights + i + 16) : _mm512_setzero_ps();
    __m512i both;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(two), "v"(one));
    if (i + 16 < count)
      _mm512_storeu_si512(to + i / 2, both);
    else
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i / 2), _mm512_castsi512_si256(both));
  }
#else
  (void)weights, (void)count, (void)to;
#endif
}

Factors FactorsOfPairs(const float* HWY_RESTRICT rows, std::int64_t count, std::int64_t size) {
  const hn::ScalableTag<std::uint16_t> tag;
  const auto exponent = hn::Set(tag, 0x7f80);
  auto found = hn::Ne(exponent, exponent);
  for (std::int64_t i = 0; i < pairs_of(count); ++i) {
    const auto* row = reinterpret_cast<const std::uint16_t*>(rows + i * row_stride(size));
    for (std::int64_t d = 0; d < 2 * padded(size);
         d += static_cast<std::int64_t>(hn::Lanes(tag)))
      found = hn::Or(found, hn::Eq(hn::And(hn::LoadU(tag, row + d), exponent), exponent));
  }
  return hn::AllFalse(tag, found) ? Factors::all : Factors::nonzero;
}

#define GNOMON_PACK(A)                                                                        \
  template void LoadOtherRow(const Operand&, const Positions*, std::int64_t, std::int64_t,    \
                             std::int64_t, std::int64_t, A*);                                 \
  template void StoreOtherRow(const Result&, std::int64_t, std::int64_t, A, const A*);        \
  template void RotateByTable(const RotaryTable&, std::int64_t, std::int64_t, Direction, A*); \
  template void PackKeyRows(const Operand&, const Positions*, const RotaryTable*,             \
                            std::int64_t, std::int64_t, std::int64_t, std::int64_t,           \
                            std::int64_t, A*, const PackedRows<A>&);                          \
  template void Transpose(const A*, std::int64_t, std::int64_t, A*, std::int64_t);            \
  template void MakePanels(const A*, std::int64_t, std::int64_t, A*);
GNOMON_PACK(float)
GNOMON_PACK(double)
#undef GNOMON_PACK

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
