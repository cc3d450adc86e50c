// Writes new keys and values to a KV cache.
#include <algorithm>
#include <cstring>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/cached_keys.h"
#include "src/rotary/rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/cached_keys_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"
#include "src/rotary/pair-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

#define GNOMON_COPY(T, U, Name) \
  void Copy##Name(const T* from, std::int64_t size, U* to) { CopyElements(from, size, to); }
GNOMON_COPY(float, float, F32)
GNOMON_COPY(double, double, F64)
GNOMON_COPY(Half, Half, F16)
GNOMON_COPY(BFloat16, BFloat16, BF16)
GNOMON_COPY(float, Half, F32ToF16)
GNOMON_COPY(float, BFloat16, F32ToBF16)
#undef GNOMON_COPY

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {
namespace {

#undef GNOMON_EXPORT
#define GNOMON_EXPORT(T, U, Name) \
  HWY_EXPORT(Copy##Name);         \
  auto copy_kernel(const T*, const U*) { return &GNOMON_DISPATCH(Copy##Name); }
GNOMON_EXPORT(float, float, F32)
GNOMON_EXPORT(double, double, F64)
GNOMON_EXPORT(Half, Half, F16)
GNOMON_EXPORT(BFloat16, BFloat16, BF16)
GNOMON_EXPORT(float, Half, F32ToF16)
GNOMON_EXPORT(float, BFloat16, F32ToBF16)
#undef GNOMON_EXPORT

constexpr std::int64_t grain_elements = 1 << 15;  // least elements per thread

// Calls body(b, t, h) for every head; tokens are divided among threads.
template <typename T, typename Body>
void for_heads(const View<const T, 4>& x, const Body& body) {
  const std::int64_t tokens = x.extent(1), heads = x.extent(2);
  const std::int64_t grain = std::max<std::int64_t>(
      1, grain_elements / std::max<std::int64_t>(1, heads * x.extent(3)));
  parallel_for(x.extent(0) * tokens, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token)
      for (std::int64_t h = 0; h < heads; ++h) body(token / tokens, token % tokens, h);
  });
}

}  // namespace

void rotate_append(const ConstTensor& k, const RotaryTable& table, const Tensor& slot) {
  using namespace rotary_internal;
  by_types(k, slot, [&]<typename T, typename U>(T, U) {
    const auto keys = heads_of<T>("k", k);
    const auto to = heads_of<U>("slot", slot);
    check_fits(keys, table);
    check_target("slot", keys, to);
    rotate_together(table.frequencies(), cos_sin_of(table, keys.extent(0)),
                    InputOutput<T, U>(keys, to));
  });
}

void copy_append(const ConstTensor& x, const Tensor& slot) {
  using namespace rotary_internal;
  by_types(x, slot, [&]<typename T, typename U>(T, U) {
    const auto from = heads_of<T>("x", x);
    const auto to = heads_of<U>("slot", slot);
    check_target("slot", from, to);
    const auto copy = copy_kernel(from.data(), to.data());
    for_heads(from, [&](std::int64_t b, std::int64_t t, std::int64_t h) {
      copy(&from(b, t, h, 0), from.extent(3), &to(b, t, h, 0));
    });
  });
}

}  // namespace gnomon
#endif  // HWY_ONCE
