// V-JEPA 2's rotary encoding of queries and keys, and its transpose.
#include <algorithm>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/vjepa2.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/vjepa2_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"
#include "src/core/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

constexpr std::int64_t vjepa2_chunk =
    256;  // elements converted to the accumulator at a time; even

// Transforms pairs x[e], x[e + 1] by their two angles u and v: cos u, cos v and sin u, sin v.
// kBackward: sin u and sin v are swapped and negated.
template <bool kBackward, typename A>
HWY_INLINE void RotateElements(A* HWY_RESTRICT x, const float* HWY_RESTRICT cos,
                               const float* HWY_RESTRICT sin, std::int64_t elements) {
  namespace hn = hwy::HWY_NAMESPACE;
  std::int64_t e = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (std::is_same_v<A, float>) {
    const hn::ScalableTag<float> d;
    const auto step = 2 * static_cast<std::int64_t>(hn::Lanes(d));
    for (; e + step <= elements; e += step) {
      hn::Vec<decltype(d)> a, b, cos_u, cos_v, sin_u, sin_v;
      hn::LoadInterleaved2(d, x + e, a, b);
      hn::LoadInterleaved2(d, cos + e, cos_u, cos_v);
      hn::LoadInterleaved2(d, sin + e, sin_u, sin_v);
      const auto ac = hn::Mul(a, cos_u), bc = hn::Mul(b, cos_v);
      if constexpr (kBackward)
        hn::StoreInterleaved2(hn::MulAdd(b, sin_v, ac), hn::NegMulAdd(a, sin_u, bc), d, x + e);
      else
        hn::StoreInterleaved2(hn::NegMulAdd(b, sin_u, ac), hn::MulAdd(a, sin_v, bc), d, x + e);
    }
  }
#endif
  for (; e < elements; e += 2) {
    const A a = x[e], b = x[e + 1];
    const A ac = a * static_cast<A>(cos[e]), bc = b * static_cast<A>(cos[e + 1]);
    const A sin_u = static_cast<A>(sin[e]), sin_v = static_cast<A>(sin[e + 1]);
    x[e] = kBackward ? ac + b * sin_v : ac - b * sin_u;
    x[e + 1] = kBackward ? bc - a * sin_u : bc + a * sin_v;
  }
}

template <bool kBackward, typename T>
void RotateHead(T* HWY_RESTRICT x, const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin,
                std::int64_t elements) {
  using A = Accumulator<T>;
  if constexpr (std::is_same_v<T, A>) {
    RotateElements<kBackward>(x, cos, sin, elements);
  } else {
    HWY_ALIGN A wide[vjepa2_chunk];
    for (std::int64_t begin = 0; begin < elements; begin += vjepa2_chunk) {
      const std::int64_t count = HWY_MIN(vjepa2_chunk, elements - begin);
      FromElements(x + begin, count, wide);
      RotateElements<kBackward>(wide, cos + begin, sin + begin, count);
      ToElements(wide, A(1), count, x + begin);
    }
  }
}

#define GNOMON_MULTIPLY(T, Name)                                                               \
  void Multiply##Name(T* x, const float* cos, const float* sin, std::int64_t elements) {       \
    RotateHead<false>(x, cos, sin, elements);                                                  \
  }                                                                                            \
  void RotateBackward##Name(T* x, const float* cos, const float* sin, std::int64_t elements) { \
    RotateHead<true>(x, cos, sin, elements);                                                   \
  }
GNOMON_MULTIPLY(float, F32)
GNOMON_MULTIPLY(double, F64)
GNOMON_MULTIPLY(Half, F16)
GNOMON_MULTIPLY(BFloat16, BF16)
#undef GNOMON_MULTIPLY

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {
namespace {

#define GNOMON_EXPORT(T, Name)                                       \
  HWY_EXPORT(Multiply##Name);                                        \
  HWY_EXPORT(RotateBackward##Name);                                  \
  auto forward(const T*) { return GNOMON_DISPATCH(Multiply##Name); } \
  auto backward(const T*) { return GNOMON_DISPATCH(RotateBackward##Name); }
GNOMON_EXPORT(float, F32)
GNOMON_EXPORT(double, F64)
GNOMON_EXPORT(Half, F16)
GNOMON_EXPORT(BFloat16, BF16)
#undef GNOMON_EXPORT

constexpr std::int64_t vjepa2_grain = 1 << 15;  // least elements per thread

template <typename T>
void check(const View<T, 4>& x, const Vjepa2Table& table) {
  if (x.extent(1) != table.tokens())
    refuse("vjepa2", "x must have the table's " + std::to_string(table.tokens()) + " tokens",
           std::int64_t{x.extent(1)});
  if (table.batch() != 1 && x.extent(0) != table.batch())
    refuse("vjepa2", "x must have the table's " + std::to_string(table.batch()) + " rows",
           std::int64_t{x.extent(0)});
  if (x.extent(3) != table.head_dim())
    refuse("vjepa2",
           "x must have head_dim = " + std::to_string(table.head_dim()) + " elements per head",
           std::int64_t{x.extent(3)});
  if (x.stride(3) != 1)
    refuse("vjepa2", "the elements of a head must be contiguous: stride 1",
           std::int64_t{x.stride(3)});
}

template <typename T, typename Kernel>
void multiply_heads(View<T, 4> x, const Vjepa2Table& table, Kernel multiply) {
  check(x, table);
  const std::int64_t tokens = x.extent(1), heads = x.extent(2);
  const View<const float, 3> cos = table.cos(), sin = table.sin();
  const std::int64_t elements = cos.extent(2);
  const std::int64_t grain =
      std::max<std::int64_t>(1, vjepa2_grain / std::max<std::int64_t>(1, heads * elements));
  parallel_for(x.extent(0) * tokens, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t b = token / tokens, t = token % tokens;
      const std::int64_t row = table.batch() == 1 ? 0 : b;
      for (std::int64_t h = 0; h < heads; ++h)
        multiply(&x(b, t, h, 0), &cos(row, t, 0), &sin(row, t, 0), elements);
    }
  });
}

}  // namespace

void rotate(const Tensor& x, const Vjepa2Table& table) {
  internal::by_type({"vjepa2", "x"}, x, [&]<typename T>(T) {
    const auto heads = internal::write_batch<T, 4>({"vjepa2", "x"}, x);
    multiply_heads(heads, table, forward(heads.data()));
  });
}
void rotate_backward(const Tensor& grad, const Vjepa2Table& table) {
  internal::by_type({"vjepa2", "grad"}, grad, [&]<typename T>(T) {
    const auto heads = internal::write_batch<T, 4>({"vjepa2", "grad"}, grad);
    multiply_heads(heads, table, backward(heads.data()));
  });
}

}  // namespace gnomon
#endif  // HWY_ONCE
