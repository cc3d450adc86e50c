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
  auto copy_kernel(const T*, const U*) { return GNOMON_DISPATCH(Copy##Name); }
GNOMON_EXPORT(float, float, F32)
GNOMON_EXPORT(double, double, F64)
GNOMON_EXPORT(Half, Half, F16)
GNOMON_EXPORT(BFloat16, BFloat16, BF16)
GNOMON_EXPORT(float, Half, F32ToF16)
GNOMON_EXPORT(float, BFloat16, F32ToBF16)
#undef GNOMON_EXPORT

constexpr std::int64_t grain_elements = 1 << 15;  // least elements per thread

// Calls copy(from, elements, to) for runs of elements that are contiguous in x and in `to`:
// heads, tokens, or the tokens of a piece. Tokens are divided among threads.
template <typename T, typename U, typename Copy>
void copy_runs(const View<const T, 4>& x, const View<U, 4>& to, const Copy& copy) {
  const std::int64_t tokens = x.extent(1), heads = x.extent(2), size = x.extent(3);
  const auto whole = [&](std::size_t axis, std::int64_t elements) {
    return x.stride(axis) == elements && to.stride(axis) == elements;
  };
  const bool token = heads == 1 || whole(2, size), piece = token && whole(1, heads * size);
  const std::int64_t run = token ? heads * size : size;
  const std::int64_t grain =
      std::max<std::int64_t>(1, grain_elements / std::max<std::int64_t>(1, heads * size));
  const auto copy_tokens = [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t b = begin / tokens, t = begin % tokens;
      const std::int64_t count = piece ? std::min(end - begin, tokens - t) : 1;
      if (piece) {
        copy(&x(b, t, 0, 0), count * run, &to(b, t, 0, 0));
      } else {
        for (std::int64_t h = 0; h < heads; h += run / size)
          copy(&x(b, t, h, 0), run, &to(b, t, h, 0));
      }
      begin += count;
    }
  };
  if (run == 0) return;
  parallel_for(x.extent(0) * tokens, grain, copy_tokens, Share::contiguous);
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
    copy_runs(from, to, copy_kernel(from.data(), to.data()));
  });
}

}  // namespace gnomon
#endif  // HWY_ONCE
