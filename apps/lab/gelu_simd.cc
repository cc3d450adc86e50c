#include "apps/lab/kernels.h"
#include "gnomon/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "apps/lab/gelu_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "apps/lab/row-inl.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon::lab::HWY_NAMESPACE {

constexpr std::int64_t piece = 16384;

void Gelu(std::int64_t count, float* x, float* out) {
  parallel_for(count, piece, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    ForRow(end - begin, [&](auto tag, std::int64_t i) HWY_ATTR {
      const auto of = [&](float number) HWY_ATTR { return hn::Set(tag, number); };
      const auto at = hn::LoadU(tag, x + begin + i);
      // Phi(-|x|), by Abramowitz and Stegun 7.1.26 for erfc(|x| / sqrt 2) / 2: within 0.8e-7.
      const auto t =
          hn::Div(of(1), hn::MulAdd(hn::Abs(at), of(0.3275911f * 0.70710678f), of(1)));
      const auto bell = hn::Exp(tag, hn::Mul(hn::Mul(at, at), of(-0.5f)));
      auto tail = hn::MulAdd(t, of(0.5f * 1.061405429f), of(0.5f * -1.453152027f));
      tail = hn::MulAdd(tail, t, of(0.5f * 1.421413741f));
      tail = hn::MulAdd(tail, t, of(0.5f * -0.284496736f));
      tail = hn::MulAdd(tail, t, of(0.5f * 0.254829592f));
      tail = hn::Mul(hn::Mul(tail, t), bell);
      const auto phi = hn::IfThenElse(hn::Lt(at, hn::Zero(tag)), tail, hn::Sub(of(1), tail));
      const auto density = hn::Mul(bell, of(0.39894228f));
      hn::StoreU(hn::Mul(at, phi), tag, out + begin + i);
      hn::StoreU(hn::MulAdd(at, density, phi), tag, x + begin + i);
    });
  });
}

void Multiply(std::int64_t count, const float* factor, float* x) {
  parallel_for(count, piece, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    ForRow(end - begin, [&](auto tag, std::int64_t i) HWY_ATTR {
      const std::int64_t at = begin + i;
      hn::StoreU(hn::Mul(hn::LoadU(tag, x + at), hn::LoadU(tag, factor + at)), tag, x + at);
    });
  });
}

}  // namespace gnomon::lab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon::lab {

HWY_EXPORT(Gelu);
HWY_EXPORT(Multiply);

void kernels::gelu(std::int64_t count, float* x, float* out) {
  GNOMON_DISPATCH(Gelu)(count, x, out);
}
void kernels::multiply(std::int64_t count, const float* factor, float* x) {
  GNOMON_DISPATCH(Multiply)(count, factor, x);
}

}  // namespace gnomon::lab
#endif  // HWY_ONCE
