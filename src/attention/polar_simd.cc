// Polar form of queries and keys: softplus of the elements as magnitudes, with phases.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/polar_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "src/attention/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// ln(1 + e^x) without overflow. NaN stays NaN.
template <class D, class V>
HWY_INLINE V Softplus(D d, V x) {
  const V small = hn::Log1p(d, hn::Exp(d, hn::Neg(hn::Abs(x))));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Add(hn::Max(x, hn::Zero(d)), small));
}

// Its derivative, 1 / (1 + e^-x).
template <class D, class V>
HWY_INLINE V SoftplusSlope(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>(1)), small = hn::Exp(d, hn::Neg(hn::Abs(x)));
  const V of_positive = hn::Div(one, hn::Add(one, small));
  const V slope =
      hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(small, of_positive), of_positive);
  return hn::IfThenElse(hn::IsNaN(x), x, slope);
}

template <typename A>
void ToPolar(std::int64_t head_dim, const PolarPhases<A>& phases, A* HWY_RESTRICT x) {
  ForVectors<A>(head_dim, [&](auto d, std::int64_t n) HWY_ATTR {
    const auto magnitude = Softplus(d, hn::LoadU(d, x + n));
    auto along = magnitude, across = hn::Zero(d);
    if (phases.cos) {
      along = hn::Mul(magnitude, hn::LoadU(d, phases.cos + n));
      across = hn::Neg(hn::Mul(magnitude, hn::LoadU(d, phases.sin + n)));
    }
    hn::StoreU(along, d, x + n);
    hn::StoreU(across, d, x + head_dim + n);
  });
  std::fill(x + 2 * head_dim, x + padded(2 * head_dim), A(0));
}

template <typename A>
void FromPolar(std::int64_t head_dim, const PolarPhases<A>& phases, const A* HWY_RESTRICT x,
               A* HWY_RESTRICT grad, A* HWY_RESTRICT phase_grad) {
  ForVectors<A>(head_dim, [&](auto d, std::int64_t n) HWY_ATTR {
    const auto value = hn::LoadU(d, x + n);
    const auto along = hn::LoadU(d, grad + n), across = hn::LoadU(d, grad + head_dim + n);
    auto of_magnitude = along;
    if (phases.cos) {
      const auto cos = hn::LoadU(d, phases.cos + n), sin = hn::LoadU(d, phases.sin + n);
      of_magnitude = hn::NegMulAdd(sin, across, hn::Mul(cos, along));
      const auto turned = hn::Neg(hn::MulAdd(cos, across, hn::Mul(sin, along)));
      // A hidden row may be NaN, with a gradient of 0.
      hn::StoreU(
          hn::IfThenZeroElse(hn::Eq(turned, hn::Zero(d)), hn::Mul(turned, Softplus(d, value))),
          d, phase_grad + n);
    }
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(of_magnitude, hn::Zero(d)),
                                  hn::Mul(of_magnitude, SoftplusSlope(d, value))),
               d, grad + n);
  });
}

#define GNOMON_POLAR(A)                                           \
  template void ToPolar(std::int64_t, const PolarPhases<A>&, A*); \
  template void FromPolar(std::int64_t, const PolarPhases<A>&, const A*, A*, A*);
GNOMON_POLAR(float)
GNOMON_POLAR(double)
#undef GNOMON_POLAR

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
