// cos and sin of position x frequency. For an integer position p = 64 a + 8 b + c the angle is
// split into three exact ones, (64 a) f, (8 b) f and c f, whose cosines and sines are
// multiplied as complex numbers. So an entry depends on its position and frequency alone, never
// on which positions stand beside it: a key in a cache meets a new query's table to the bit.
#include <cmath>
#include <string>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "gnomon/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/core/angles_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// a b = high + low, exactly.
HWY_INLINE void Product(V a, V b, V& high, V& low) {
  high = hn::Mul(a, b);
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM
  low = hn::MulSub(a, b, high);
#else  // no fused multiply-add: Dekker 1971, halves of 26 bits
  const V splitter = hn::Set(D(), 134217729.0);
  const V a_part = hn::Mul(splitter, a), b_part = hn::Mul(splitter, b);
  const V a_high = hn::Sub(a_part, hn::Sub(a_part, a)), a_low = hn::Sub(a, a_high);
  const V b_high = hn::Sub(b_part, hn::Sub(b_part, b)), b_low = hn::Sub(b, b_high);
  const V rest = hn::Sub(high, hn::Mul(a_high, b_high));
  low = hn::Sub(hn::Mul(a_low, b_low),
                hn::Sub(hn::Sub(rest, hn::Mul(a_low, b_high)), hn::Mul(a_high, b_low)));
#endif
}

// a + b = sum + error, exactly (Knuth).
HWY_INLINE void Sum(V a, V b, V& sum, V& error) {
  sum = hn::Add(a, b);
  const V b_there = hn::Sub(sum, a);
  error = hn::Add(hn::Sub(a, hn::Sub(sum, b_there)), hn::Sub(b, b_there));
}

// cos and sin of position x frequency, within 2^-51, for products up to 2^51.
HWY_INLINE void CosSin(V position, V frequency, V& cosine, V& sine) {
  const D d;
  V angle, rest;
  Product(position, frequency, angle, rest);
  // Less k pi/2, pi/2 in three doubles: what is left is right to 2^-70.
  const V k = hn::Round(hn::Mul(angle, hn::Set(d, 0x1.45f306dc9c883p-1)));
  V high, low, part, error, x, more;
  Product(k, hn::Set(d, 0x1.921fb54442d18p+0), high, low);
  Sum(hn::Sub(angle, high), hn::Neg(low), part, error);
  Product(k, hn::Set(d, 0x1.1a62633145c07p-54), high, low);
  Sum(part, hn::Neg(high), x, more);
  V y = hn::Add(hn::Sub(hn::Add(error, more), low), rest);
  y = hn::NegMulAdd(k, hn::Set(d, -0x1.f1976b7ed8fbcp-110), y);
  Sum(x, y, x, y);

  // Taylor: the next terms are below 2^-56 for |x| up to 0.92.
  const V z = hn::Mul(x, x);
  const auto term = [&](double coefficient) { return hn::Set(d, coefficient); };
  V s = term(1.0 / 355687428096000);  // 17!
  s = hn::MulAdd(s, z, term(-1.0 / 1307674368000));
  s = hn::MulAdd(s, z, term(1.0 / 6227020800));
  s = hn::MulAdd(s, z, term(-1.0 / 39916800));
  s = hn::MulAdd(s, z, term(1.0 / 362880));
  s = hn::MulAdd(s, z, term(-1.0 / 5040));
  s = hn::MulAdd(s, z, term(1.0 / 120));
  s = hn::MulAdd(s, z, term(-1.0 / 6));
  V c = term(1.0 / 20922789888000);  // 16!
  c = hn::MulAdd(c, z, term(-1.0 / 87178291200));
  c = hn::MulAdd(c, z, term(1.0 / 479001600));
  c = hn::MulAdd(c, z, term(-1.0 / 3628800));
  c = hn::MulAdd(c, z, term(1.0 / 40320));
  c = hn::MulAdd(c, z, term(-1.0 / 720));
  c = hn::MulAdd(c, z, term(1.0 / 24));
  const V one = term(1.0), half = hn::Mul(z, term(0.5));
  // sin(x + y) = sin x + y cos x, cos(x + y) = cos x - y sin x, for the tiny y.
  const V sin_x = hn::Add(x, hn::MulAdd(hn::Mul(s, z), x, hn::Mul(y, hn::Sub(one, half))));
  const V cos_x =
      hn::Sub(one, hn::Sub(half, hn::Sub(hn::Mul(hn::Mul(c, z), z), hn::Mul(x, y))));

  // The quarter of the turn, 0 to 3.
  const V quarter = hn::NegMulAdd(term(4.0), hn::Floor(hn::Mul(k, term(0.25))), k);
  const auto odd = hn::Or(hn::Eq(quarter, one), hn::Eq(quarter, term(3.0)));
  const V sin_part = hn::IfThenElse(odd, cos_x, sin_x);
  const V cos_part = hn::IfThenElse(odd, sin_x, cos_x);
  const auto upper = hn::Ge(quarter, term(2.0));
  const auto middle = hn::Or(hn::Eq(quarter, one), hn::Eq(quarter, term(2.0)));
  sine = hn::IfThenElse(upper, hn::Neg(sin_part), sin_part);
  cosine = hn::IfThenElse(middle, hn::Neg(cos_part), cos_part);
}

// cosines[i], sines[i] of position x frequencies[i]. Arrays are padded to whole vectors.
void CosSinRow(double position, const double* HWY_RESTRICT frequencies, std::size_t count,
               double* HWY_RESTRICT cosines, double* HWY_RESTRICT sines) {
  const D d;
  const V p = hn::Set(d, position);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    V cosine, sine;
    CosSin(p, hn::LoadU(d, frequencies + i), cosine, sine);
    hn::StoreU(cosine, d, cosines + i);
    hn::StoreU(sine, d, sines + i);
  }
}

// The complex product of two rows; `to` may be one of them.
void MultiplyRows(const double* a_cos, const double* a_sin, const double* b_cos,
                  const double* b_sin, std::size_t count, double* to_cos, double* to_sin) {
  const D d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const V ac = hn::LoadU(d, a_cos + i), as = hn::LoadU(d, a_sin + i);
    const V bc = hn::LoadU(d, b_cos + i), bs = hn::LoadU(d, b_sin + i);
    hn::StoreU(hn::NegMulAdd(as, bs, hn::Mul(ac, bc)), d, to_cos + i);
    hn::StoreU(hn::MulAdd(as, bc, hn::Mul(ac, bs)), d, to_sin + i);
  }
}

// scale from[i] as floats, rounded once.
void ScaleToFloats(const double* HWY_RESTRICT from, double scale, std::size_t count,
                   float* HWY_RESTRICT to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(scale * from[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(CosSinRow);
HWY_EXPORT(MultiplyRows);
HWY_EXPORT(ScaleToFloats);

namespace {

using std::int64_t;

constexpr double farthest = 0x1p31;  // positions, in magnitude
constexpr double steepest = 0x1p20;  // frequencies, in magnitude
constexpr int64_t anchor_step = 64, middle_step = 8;
constexpr int64_t steps_from = 16;  // tokens that are worth a table of all 64 steps
constexpr std::size_t padding = 8;  // doubles in the widest vector

struct Kernels {
  void (*cos_sin)(double, const double*, std::size_t, double*,
                  double*) = &GNOMON_DISPATCH(CosSinRow);
  void (*multiply)(const double*, const double*, const double*, const double*, std::size_t,
                   double*, double*) = &GNOMON_DISPATCH(MultiplyRows);
  void (*to_floats)(const double*, double, std::size_t,
                    float*) = &GNOMON_DISPATCH(ScaleToFloats);
};

// A row of cosines and a row of sines.
struct Row {
  std::vector<double> cosines, sines;
  explicit Row(std::size_t count) : cosines(count), sines(count) {}
};

// Frequencies, padded, and the rows of steps 0 to 63 of them.
class Angler {
 public:
  Angler(std::span<const double> frequencies, int64_t tokens)
      : count_(frequencies.size()),
        padded_((count_ + padding - 1) / padding * padding),
        frequencies_(padded_) {
    std::copy(frequencies.begin(), frequencies.end(), frequencies_.begin());
    if (tokens < steps_from) return;
    Row near(padded_);
    steps_.assign(static_cast<std::size_t>(anchor_step), Row(padded_));
    for (int64_t c = 0; c < middle_step; ++c) {
      fill(static_cast<double>(c), near);
      for (int64_t b = 0; b < anchor_step; b += middle_step) {
        Row& step = steps_[static_cast<std::size_t>(b + c)];
        fill(static_cast<double>(b), step);
        multiply(step, near, step);
      }
    }
  }

  std::size_t padded() const { return padded_; }
  void fill(double position, Row& row) const {
    kernels_.cos_sin(position, frequencies_.data(), padded_, row.cosines.data(),
                     row.sines.data());
  }
  void multiply(const Row& a, const Row& b, Row& to) const {
    kernels_.multiply(a.cosines.data(), a.sines.data(), b.cosines.data(), b.sines.data(),
                      padded_, to.cosines.data(), to.sines.data());
  }

  // What one thread keeps between positions.
  struct Walk {
    int64_t anchor = 1;  // no multiple of 64: none yet
    Row far, near, row;
    explicit Walk(std::size_t count) : far(count), near(count), row(count) {}
  };
  const Row& at(int64_t position, Walk& walk) const {
    const int64_t anchor = position & ~(anchor_step - 1), step = position - anchor;
    if (walk.anchor != anchor) {
      fill(static_cast<double>(anchor), walk.far);
      walk.anchor = anchor;
    }
    if (!steps_.empty()) {
      multiply(walk.far, steps_[static_cast<std::size_t>(step)], walk.row);
      return walk.row;
    }
    const int64_t near = step % middle_step;
    fill(static_cast<double>(near), walk.near);
    fill(static_cast<double>(step - near), walk.row);
    multiply(walk.row, walk.near, walk.row);
    multiply(walk.far, walk.row, walk.row);
    return walk.row;
  }
  const Row& at(double position, Walk& walk) const {
    fill(position, walk.row);
    return walk.row;
  }

  template <typename T>
  void store(const std::vector<double>& from, double scale, View<T, 2> to,
             std::ptrdiff_t t) const {
    if constexpr (std::is_same_v<T, float>)
      if (to.stride(1) == 1 && count_ > 0)
        return kernels_.to_floats(from.data(), scale, count_, &to(t, 0));
    for (std::size_t i = 0; i < count_; ++i)
      to(t, static_cast<std::ptrdiff_t>(i)) = static_cast<T>(scale * from[i]);
  }

 private:
  Kernels kernels_;
  std::size_t count_, padded_;
  std::vector<double> frequencies_;
  std::vector<Row> steps_;
};

template <typename T>
void check_view(const char* what, View<T, 2> view, std::size_t tokens, std::size_t count) {
  if (view.extent(0) != static_cast<std::ptrdiff_t>(tokens) ||
      view.extent(1) != static_cast<std::ptrdiff_t>(count))
    refuse("angles",
           std::string(what) + " must be [T, N] = [" + std::to_string(tokens) + ", " +
               std::to_string(count) + "]",
           shape_text(view.extents()));
}

template <typename P, typename T>
void fill_any(std::span<const P> positions, std::span<const double> frequencies,
              View<T, 2> cosines, View<T, 2> sines, Angles angles, double scale) {
  check_view("cosines", cosines, positions.size(), frequencies.size());
  check_view("sines", sines, positions.size(), frequencies.size());
  if (angles != Angles::exact && angles != Angles::float32)
    refuse("angles", "angles must be exact or float32", static_cast<int>(angles));
  if (!std::isfinite(scale)) refuse("angles", "scale must be finite", scale);
  for (double f : frequencies)
    if (!(std::fabs(f) <= steepest))
      refuse("angles", "frequencies must be finite, at most 2^20 in magnitude", f);
  for (P p : positions)
    if (!(std::fabs(static_cast<double>(p)) <= farthest))
      refuse("angles", "positions must be finite, at most 2^31 in magnitude", p);

  const auto tokens = static_cast<int64_t>(positions.size());
  if (angles == Angles::float32) {
    parallel_for(tokens, 256, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        for (std::size_t i = 0; i < frequencies.size(); ++i) {
          const float angle = static_cast<float>(positions[static_cast<std::size_t>(t)]) *
                              static_cast<float>(frequencies[i]);
          const auto column = static_cast<std::ptrdiff_t>(i);
          cosines(t, column) = static_cast<T>(scale * double{std::cos(angle)});
          sines(t, column) = static_cast<T>(scale * double{std::sin(angle)});
        }
    });
    return;
  }
  const Angler angler(frequencies, std::is_same_v<P, double> ? 0 : tokens);
  parallel_for(tokens, 128, [&](int64_t begin, int64_t end) {
    Angler::Walk walk(angler.padded());
    for (int64_t t = begin; t < end; ++t) {
      const Row& row = angler.at(positions[static_cast<std::size_t>(t)], walk);
      angler.store(row.cosines, scale, cosines, t);
      angler.store(row.sines, scale, sines, t);
    }
  });
}

}  // namespace

template <typename T>
void fill_cos_sin(std::span<const int64_t> positions, std::span<const double> frequencies,
                  View<T, 2> cosines, View<T, 2> sines, Angles angles, double scale) {
  fill_any(positions, frequencies, cosines, sines, angles, scale);
}
template <typename T>
void fill_cos_sin(std::span<const double> positions, std::span<const double> frequencies,
                  View<T, 2> cosines, View<T, 2> sines, Angles angles, double scale) {
  fill_any(positions, frequencies, cosines, sines, angles, scale);
}

#define GNOMON_INSTANTIATE(T)                                                               \
  template void fill_cos_sin(std::span<const int64_t>, std::span<const double>, View<T, 2>, \
                             View<T, 2>, Angles, double);                                   \
  template void fill_cos_sin(std::span<const double>, std::span<const double>, View<T, 2>,  \
                             View<T, 2>, Angles, double);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
#endif  // HWY_ONCE
