// Quantizes head vectors to 8 bits with one scale each.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string>

#include "gnomon/error.h"
#include "gnomon/rotary/int8_keys.h"
#include "src/rotary/rotate.h"
#include "src/rotary/rotated_floats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/int8_keys_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"
#include "src/core/overlap.h"

#ifndef GNOMON_ROTARY_QUANTIZED_HEADS
#define GNOMON_ROTARY_QUANTIZED_HEADS
namespace gnomon {

// Heads of one token, and their bytes and scales. Strides are in elements.
template <typename T>
struct QuantizedHeads {
  const T* from;
  std::int64_t from_head, size, count;
  std::int8_t* to;
  std::int64_t to_head;
  float* scales;
  std::int64_t scale_head;
  // Elements of memory that are needed later, for prefetching: their step from head to head and
  // their number in bytes.
  const void* ahead;
  std::int64_t ahead_head, ahead_bytes;
};

}  // namespace gnomon
#endif

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Calls body(i, 0) and body(i, 1) in turn for the vectors of a head of `size` elements. The
// last vector ends with the last element and may overlap the vector before it. Returns false if
// the head is shorter than a vector, or a vector is one element: g++ 12 with -O3 for 64-bit ARM
// omits elements of the maximum of two turns of one element.
template <class D, typename Body>
HWY_INLINE bool OverVectors(D d, std::int64_t size, const Body& body) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (lanes == 1 || size < lanes) return false;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= size; i += 2 * lanes) {
    body(i, 0);
    body(i + lanes, 1);
  }
  if (i + lanes <= size) {
    body(i, 0);
    i += lanes;
  }
  if (i < size) body(size - lanes, 1);
  return true;
}

// Multiplies by `factor` and rounds to nearest, ties to even. The products are -127 to 127, and
// are rounded before the sum, which has the integer in its low bits.
template <class D, typename T>
HWY_INLINE void StoreBytes(D d, const T* x, float factor, std::int8_t* to) {
  const hn::Rebind<std::uint8_t, D> byte;
  const auto product = InRegister(hn::Mul(LoadElements(d, x), hn::Set(d, factor)));
  const auto sum = hn::Add(product, hn::Set(d, 0x1.8p23f));
  hn::StoreU(hn::TruncateTo(byte, hn::BitCast(hn::RebindToUnsigned<D>(), sum)), byte,
             reinterpret_cast<std::uint8_t*>(to));
}

// Quantizes one head vector. Returns its scale.
template <typename T>
HWY_INLINE float QuantizeHead(const T* HWY_RESTRICT x, std::int64_t size,
                              std::int8_t* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> whole;
  // Magnitudes are compared as integers, so that NaN > infinity > every finite value.
  const auto magnitude = [](auto tag, const T* from) HWY_ATTR {
    return hn::BitCast(hn::RebindToSigned<decltype(tag)>(), hn::Abs(LoadElements(tag, from)));
  };
  auto most = hn::Zero(whole), most_of_others = most;
  const bool vectors = OverVectors(d, size, [&](std::int64_t i, int turn) HWY_ATTR {
    auto& so_far = turn ? most_of_others : most;
    so_far = hn::Max(so_far, magnitude(d, x + i));
  });
  std::int32_t bits = hn::GetLane(hn::MaxOfLanes(whole, hn::Max(most, most_of_others)));
  const hn::CappedTag<float, 1> one;
  for (std::int64_t i = 0; !vectors && i < size; ++i)
    bits = HWY_MAX(bits, hn::GetLane(magnitude(one, x + i)));
  const float greatest = std::bit_cast<float>(bits);
  if (bits >= 0x7f800000 || greatest < 0x1p-100f) {
    for (std::int64_t i = 0; i < size; ++i) to[i] = 0;
    return bits >= 0x7f800000 ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  const float factor = 127 / greatest;
  if (!OverVectors(d, size,
                   [&](std::int64_t i, int) HWY_ATTR { StoreBytes(d, x + i, factor, to + i); }))
    for (std::int64_t i = 0; i < size; ++i) StoreBytes(one, x + i, factor, to + i);
  return greatest / 127;
}

template <typename T>
HWY_INLINE void Quantize(const QuantizedHeads<T>& heads) {
  for (std::int64_t h = 0; h < heads.count; ++h) {
    const T* const x = heads.from + h * heads.from_head;
    const auto* const ahead = static_cast<const char*>(heads.ahead) + h * heads.ahead_head;
    for (std::int64_t i = 0; i < heads.ahead_bytes; i += 64) hwy::Prefetch(ahead + i);
    heads.scales[h * heads.scale_head] =
        QuantizeHead(x, heads.size, heads.to + h * heads.to_head);
  }
}

void QuantizeF32(const QuantizedHeads<float>& heads) { Quantize(heads); }
void QuantizeF16(const QuantizedHeads<Half>& heads) { Quantize(heads); }
void QuantizeBF16(const QuantizedHeads<BFloat16>& heads) { Quantize(heads); }

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {
namespace {

HWY_EXPORT(QuantizeF32);
HWY_EXPORT(QuantizeF16);
HWY_EXPORT(QuantizeBF16);
auto quantize_kernel(const float*) { return GNOMON_DISPATCH(QuantizeF32); }
auto quantize_kernel(const Half*) { return GNOMON_DISPATCH(QuantizeF16); }
auto quantize_kernel(const BFloat16*) { return GNOMON_DISPATCH(QuantizeBF16); }

using std::int64_t;
using Slots = View<std::int8_t, 4>;
using Scales = View<float, 3>;

using rotary_internal::rotated_elements;

template <typename T>
void check(const View<const T, 4>& x, const Slots& slot, const Scales& scales) {
  rotary_internal::check_target("slot", x, slot);
  const std::array<std::int64_t, 3> heads{x.extent(0), x.extent(1), x.extent(2)};
  if (scales.extents() != heads)
    refuse("rotary", "scales must be [B, T, H] = " + shape_text(heads),
           shape_text(scales.extents()));
  if (x.extent(3) > rotated_elements)
    refuse("rotary",
           "head_dim of 8-bit keys must be at most " + std::to_string(rotated_elements) +
               " elements",
           std::int64_t{x.extent(3)});
}

// The places of heads h to h + count - 1 of token t of row b, read from `from`. Prefetches the
// heads of x that are `lead` tokens later.
template <typename T, typename X>
QuantizedHeads<T> heads_of_token(const T* from, int64_t from_head, const View<const X, 4>& x,
                                 int64_t lead, const Slots& slot, const Scales& scales,
                                 int64_t b, int64_t t, int64_t h, int64_t count) {
  const auto at = [&](const auto& view, int64_t token) {
    return view.data() + view.stride(0) * b + view.stride(1) * token + view.stride(2) * h;
  };
  const int64_t bytes = sizeof(X);
  return {.from = from,
          .from_head = from_head,
          .size = x.extent(3),
          .count = count,
          .to = at(slot, t),
          .to_head = slot.stride(2),
          .scales = at(scales, t),
          .scale_head = scales.stride(2),
          .ahead = at(x, t + lead),
          .ahead_head = x.stride(2) * bytes,
          .ahead_bytes = x.extent(3) * bytes};
}

// Calls body(heads [B, T, H, D], slots, scales) with the element type of x.
template <typename Body>
void with_heads(const char* name, const ConstTensor& x, const Tensor& slot,
                const Tensor& scales, const Body& body) {
  using namespace rotary_internal;
  const Slots slots = heads_of<std::int8_t>("slot", slot);
  const Scales of_heads = internal::write_batch<float, 3>(named("scales"), scales);
  const auto run = [&]<typename T>(T) {
    const auto heads = heads_of<T>(name, x);
    check(heads, slots, of_heads);
    internal::check_disjoint(named("scales"), of_heads, name, heads);
    internal::check_disjoint(named("scales"), of_heads, "slot", slots);
    body(heads, slots, of_heads);
  };
  if (x.holds<float>()) return run(float{});
  if (x.holds<Half>()) return run(Half{});
  if (x.holds<BFloat16>()) return run(BFloat16{});
  internal::refuse_type(named(name), "f32, f16 or bf16", x.dtype);
}

}  // namespace

void rotate_append(const ConstTensor& k, const RotaryTable& table, const Tensor& slot,
                   const Tensor& scales) {
  with_heads("k", k, slot, scales,
             [&]<typename T>(const View<const T, 4>& keys, const Slots& to, const Scales& by) {
               rotary_internal::check_fits(keys, table);
               const RotaryFrequencies& frequencies = table.frequencies();
               const auto cos_sin = rotary_internal::cos_sin_of(table, keys.extent(0));
               const auto quantize = quantize_kernel(static_cast<const float*>(nullptr));
               const int64_t size = keys.extent(3), token = keys.extent(2) * size;
               const int64_t lead =
                   std::max<int64_t>(1, rotated_elements / std::max<int64_t>(1, token));
               rotary_internal::for_tokens(
                   [&](int64_t b, int64_t first, int64_t count) {
                     const auto part_of = [&](const auto& view) {
                       return view.slice(0, b, 1).slice(1, first, count);
                     };
                     rotary_internal::in_floats(
                         part_of(keys), frequencies,
                         rotary_internal::CosSin{part_of(cos_sin.cos), part_of(cos_sin.sin),
                                                 cos_sin.sign},
                         [&](int64_t t, int64_t tokens, int64_t head, int64_t heads,
                             const float* rotated) {
                           for (int64_t i = 0; i < tokens; ++i)
                             quantize(heads_of_token<float>(rotated + i * heads * size, size,
                                                            keys, lead, to, by, b,
                                                            first + t + i, head, heads));
                         });
                   },
                   rotary_internal::InputOutput<T, std::int8_t>(keys, to));
             });
}

void copy_append(const ConstTensor& x, const Tensor& slot, const Tensor& scales) {
  with_heads("x", x, slot, scales,
             [&]<typename T>(const View<const T, 4>& from, const Slots& to, const Scales& by) {
               const auto quantize = quantize_kernel(from.data());
               const int64_t token = from.extent(2) * from.extent(3);
               const int64_t lead = 1 + rotated_elements / std::max<int64_t>(1, token);
               rotary_internal::for_tokens(
                   [&](int64_t b, int64_t first, int64_t count) {
                     for (int64_t t = first; t < first + count; ++t)
                       quantize(heads_of_token(
                           from.data() + from.stride(0) * b + from.stride(1) * t,
                           from.stride(2), from, lead, to, by, b, t, 0, from.extent(2)));
                   },
                   rotary_internal::InputOutput<T, std::int8_t>(from, to));
             });
}

}  // namespace gnomon
#endif  // HWY_ONCE
