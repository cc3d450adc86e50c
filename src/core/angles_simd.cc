// cos and sin of position x frequency. For an integer position p = 64 a + b the angle is split
// into two exact ones, (64 a) f and b f, whose cosines and sines are multiplied as complex
// numbers. So an entry depends on its position and frequency alone, never
// on which positions stand beside it: a key in a cache meets a new query's table to the bit.
#include <cmath>
#include <string>
#include <vector>

#include "gnomon/angles.h"
#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/angles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/core/angles_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/angles-inl.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

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
    V cosine, sine;
    Compose(ac, as, bc, bs, cosine, sine);
    hn::StoreU(cosine, d, to_cos + i);
    hn::StoreU(sine, d, to_sin + i);
  }
}

// scale from[i] as floats, rounded once.
void ScaleToFloats(const double* HWY_RESTRICT from, double scale, std::size_t count,
                   float* HWY_RESTRICT to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(scale * from[i]);
}

// Of each position its own frequency, or one for all: see PairAngles.
void PairAnglesF32(const std::int64_t* positions, std::ptrdiff_t position_step,
                   const double* frequencies, std::int64_t count, double scale, float* cosines,
                   float* sines) {
  const D d;
  const hn::Rebind<float, D> narrow;
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  HWY_ALIGN double far[lanes] = {}, near[lanes] = {}, part[lanes] = {};
  HWY_ALIGN float cosine_part[lanes], sine_part[lanes];
  const auto split = [&](std::int64_t lane, std::int64_t position) {
    const std::int64_t anchor = position & ~(internal::anchor_step - 1);
    far[lane] = static_cast<double>(anchor);
    near[lane] = static_cast<double>(position - anchor);
  };
  if (!position_step && count > 0)
    for (std::int64_t lane = 0; lane < lanes; ++lane) split(lane, *positions);
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
    CosSin(hn::Load(d, far), frequency, far_cos, far_sin);
    CosSin(hn::Load(d, near), frequency, near_cos, near_sin);
    Compose(far_cos, far_sin, near_cos, near_sin, cosine, sine);
    const auto cosines_here = hn::DemoteTo(narrow, hn::Mul(hn::Set(d, scale), cosine));
    const auto sines_here = hn::DemoteTo(narrow, hn::Mul(hn::Set(d, scale), sine));
    if (here == lanes) {
      hn::StoreU(cosines_here, narrow, cosines + i);
      hn::StoreU(sines_here, narrow, sines + i);
    } else {
      hn::Store(cosines_here, narrow, cosine_part);
      hn::Store(sines_here, narrow, sine_part);
      for (std::int64_t lane = 0; lane < here; ++lane) {
        cosines[i + lane] = cosine_part[lane];
        sines[i + lane] = sine_part[lane];
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(CosSinRow);
HWY_EXPORT(MultiplyRows);
HWY_EXPORT(ScaleToFloats);
HWY_EXPORT(PairAnglesF32);

namespace internal {
PairAngles pair_angles() { return &GNOMON_DISPATCH(PairAnglesF32); }
}  // namespace internal

namespace {

using std::int64_t;

constexpr double farthest = 0x1p31;  // positions, in magnitude
constexpr double steepest = 0x1p20;  // frequencies, in magnitude
using internal::anchor_step;
constexpr int64_t steps_from = 64;  // tokens that are worth a table of all 64 steps
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
    steps_.assign(static_cast<std::size_t>(anchor_step), Row(padded_));
    for (int64_t b = 0; b < anchor_step; ++b)
      fill(static_cast<double>(b), steps_[static_cast<std::size_t>(b)]);
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
    Row far, row;
    explicit Walk(std::size_t count) : far(count), row(count) {}
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
    fill(static_cast<double>(step), walk.row);
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
