// Quantizes head vectors to 8 bits with one scale each.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string>

#include "gnomon/error.h"
#include "gnomon/rotary/int8_keys.h"
#include "src/rotary/rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/rotary/int8_keys_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Quantizes one head vector. Returns its scale.
float QuantizeHead(const float* HWY_RESTRICT x, std::int64_t size,
                   std::int8_t* HWY_RESTRICT to) {
  const hn::ScalableTag<std::int32_t> whole;
  const hn::Rebind<float, decltype(whole)> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(whole));
  // Magnitudes are compared as integers, so that NaN > infinity > every finite value.
  auto most = hn::Zero(whole);
  std::int64_t i = 0;
  for (; i + lanes <= size; i += lanes)
    most = hn::Max(most, hn::BitCast(whole, hn::Abs(hn::LoadU(d, x + i))));
  std::int32_t bits = hn::GetLane(hn::MaxOfLanes(whole, most));
  for (; i < size; ++i)
    bits = HWY_MAX(bits, std::bit_cast<std::int32_t>(x[i]) & std::int32_t{0x7fffffff});
  const float greatest = std::bit_cast<float>(bits);
  if (bits >= 0x7f800000 || greatest < 0x1p-100f) {
    for (i = 0; i < size; ++i) to[i] = 0;
    return bits >= 0x7f800000 ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }
  ForVectors<float>(size, [&](auto tag, std::int64_t at) {
    const hn::Rebind<std::int16_t, decltype(tag)> narrow;
    const hn::Rebind<std::int8_t, decltype(tag)> byte;
    const auto q =
        hn::NearestInt(hn::Mul(hn::LoadU(tag, x + at), hn::Set(tag, 127 / greatest)));
    hn::StoreU(hn::DemoteTo(byte, hn::DemoteTo(narrow, q)), byte, to + at);
  });
  return greatest / 127;
}

template <typename T>
void Widen(const T* from, std::int64_t size, float* to) {
  FromElements(from, size, to);
}
void WidenF32(const float* from, std::int64_t size, float* to) { Widen(from, size, to); }
void WidenF16(const Half* from, std::int64_t size, float* to) { Widen(from, size, to); }
void WidenBF16(const BFloat16* from, std::int64_t size, float* to) { Widen(from, size, to); }

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {
namespace {

HWY_EXPORT(QuantizeHead);
HWY_EXPORT(WidenF32);
HWY_EXPORT(WidenF16);
HWY_EXPORT(WidenBF16);
auto widen_kernel(const float*) { return GNOMON_DISPATCH(WidenF32); }
auto widen_kernel(const Half*) { return GNOMON_DISPATCH(WidenF16); }
auto widen_kernel(const BFloat16*) { return GNOMON_DISPATCH(WidenBF16); }

using std::int64_t;
using Slots = View<std::int8_t, 4>;
using Scales = View<float, 3>;

constexpr int64_t buffer_elements = 4096;  // buffer for rotated heads, in floats: 16 KB

template <typename T>
void check(const View<const T, 4>& x, const Slots& slot, const Scales& scales) {
  rotary_internal::check_target("slot", x, slot);
  const std::array<std::int64_t, 3> heads{x.extent(0), x.extent(1), x.extent(2)};
  if (scales.extents() != heads)
    refuse("rotary", "scales must be [B, T, H] = " + shape_text(heads),
           shape_text(scales.extents()));
  if (x.extent(3) > buffer_elements)
    refuse("rotary",
           "head_dim of 8-bit keys must be at most " + std::to_string(buffer_elements) +
               " elements",
           std::int64_t{x.extent(3)});
}

// make(b, t, h, count, to) writes heads h to h + count - 1 of a token to `to` as floats.
template <typename T, typename Make>
void quantize(const View<const T, 4>& x, const Slots& slot, const Scales& scales,
              const Make& make) {
  const auto quantize_head = GNOMON_DISPATCH(QuantizeHead);
  const int64_t heads = x.extent(2), size = x.extent(3);
  const int64_t at_once = size ? buffer_elements / size : heads;
  rotary_internal::for_tokens(
      [&](int64_t b, int64_t t, int64_t count) {
        alignas(64) float rotated[buffer_elements];
        for (const int64_t last = t + count; t < last; ++t)
          for (int64_t first = 0; first < heads; first += at_once) {
            const int64_t some = std::min(at_once, heads - first);
            make(b, t, first, some, rotated);
            for (int64_t h = 0; h < some; ++h)
              scales(b, t, first + h) =
                  quantize_head(rotated + h * size, size,
                                slot.data() + slot.stride(0) * b + slot.stride(1) * t +
                                    slot.stride(2) * (first + h));
          }
      },
      rotary_internal::InputOutput<T, std::int8_t>(x, slot));
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
  with_heads(
      "k", k, slot, scales,
      [&]<typename T>(const View<const T, 4>& keys, const Slots& to, const Scales& by) {
        rotary_internal::check_fits(keys, table);
        const RotaryFrequencies& frequencies = table.frequencies();
        const auto cos_sin = rotary_internal::cos_sin_of(table, keys.extent(0));
        const auto rotate_heads = rotary_internal::rotate_kernel<T, float>();
        const int64_t size = keys.extent(3);
        quantize(keys, to, by,
                 [&](int64_t b, int64_t t, int64_t h, int64_t count, float* rotated) {
                   const Heads<T, float> heads{
                       .from = &keys(b, t, h, frequencies.head_offset),
                       .to = rotated + frequencies.head_offset,
                       .from_head = keys.stride(2),
                       .to_head = size,
                       .count = count,
                       .pairs = frequencies.rotary_dim() / 2,
                       .before = frequencies.head_offset,
                       .after = size - frequencies.head_offset - frequencies.rotary_dim()};
                   rotate_heads(heads,
                                {&cos_sin.cos(b, t, 0), &cos_sin.sin(b, t, 0), 0, cos_sin.sign},
                                frequencies.pairing, 0, heads.pairs, 1);
                 });
      });
}

void copy_append(const ConstTensor& x, const Tensor& slot, const Tensor& scales) {
  with_heads("x", x, slot, scales,
             [&]<typename T>(const View<const T, 4>& from, const Slots& to, const Scales& by) {
               const auto widen = widen_kernel(from.data());
               const int64_t size = from.extent(3);
               quantize(from, to, by,
                        [&](int64_t b, int64_t t, int64_t h, int64_t count, float* wide) {
                          for (int64_t i = 0; i < count; ++i)
                            widen(from.data() + from.stride(0) * b + from.stride(1) * t +
                                      from.stride(2) * (h + i),
                                  size, wide + i * size);
                        });
             });
}

}  // namespace gnomon
#endif  // HWY_ONCE
