// Tables of angles. An entry is the complex product of cos and sin at the anchor of the
// position and of cos and sin of the step from the anchor, both computed directly. So an entry
// depends only on its position and frequency, not on the other positions of the call, and the
// table of a new query has the same bits as the table of the cached keys.
// query's table to the bit.
#include "gnomon/angles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <new>
#include <string>

#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/angles.h"
#include "src/core/exported.h"

namespace gnomon {
namespace {

using internal::anchor_step;
using internal::AngleLayout;
using internal::RowProducts;
using std::int64_t;

constexpr double farthest = 0x1p31;  // greatest position, in magnitude
constexpr double steepest = 0x1p20;  // greatest frequency, in magnitude
constexpr int64_t steps_from = 4;    // least number of tokens for a table of steps
constexpr int64_t alignment = 64;    // bytes
constexpr int64_t lanes = 8;         // doubles in the widest vector
constexpr int64_t chunk = 64;        // pairs computed at a time; their steps: 64 KB
constexpr int64_t piece = 1 << 15;   // least number of pairs for a thread

// The buffers of one thread for a row of at most `chunk` pairs.
struct Scratch {
  alignas(alignment) double far[2 * chunk];
  alignas(alignment) double near[2 * chunk];
  alignas(alignment) double frequencies[chunk];
};

// The pairs [begin, begin + count) of a row.
struct Chunk {
  int64_t begin, count, padded;
};
Chunk chunk_of(int64_t index, int64_t pairs) {
  const int64_t begin = index * chunk, count = std::min(chunk, pairs - begin);
  return {begin, count, (count + lanes - 1) / lanes * lanes};
}
int64_t chunks(int64_t pairs) { return (pairs + chunk - 1) / chunk; }

void copy_padded(std::span<const double> frequencies, const Chunk& part, double* to) {
  for (int64_t i = 0; i < part.padded; ++i)
    to[i] = i < part.count ? frequencies[static_cast<std::size_t>(part.begin + i)] : 0.0;
}

// The output of a table. Views of other layouts than AngleLayout are filled through rows on the
// stack.
template <typename T>
class Output {
 public:
  Output(View<T, 2> cosines, View<T, 2> sines) : cosines_(cosines), sines_(sines) {
    const auto step = [](const View<T, 2>& view) {
      return view.extent(1) > 1 ? view.stride(1) : 1;
    };
    const std::int64_t apart = sines.data() - cosines.data();
    const bool beside = step(cosines) == 2 && step(sines) == 2 &&
                        cosines.stride(0) == sines.stride(0) && (apart == 1 || apart == -1);
    if (beside) layout_ = apart == 1 ? AngleLayout::cosine_first : AngleLayout::sine_first;
    strided_ = !beside && (step(cosines) != 1 || step(sines) != 1);
    multiply_ = internal::multiply_rows<T>(layout_);
  }

  bool apart() const { return layout_ == AngleLayout::apart && !strided_; }
  // Fills the rows from t.
  void fill(const RowProducts& products, const Chunk& part, int64_t t) const {
    if (strided_) return fill_strided(products, part, t);
    T *const cosines = &cosines_(t, part.begin), *const sines = &sines_(t, part.begin);
    multiply_(products, layout_ == AngleLayout::sine_first ? sines : cosines,
              cosines_.stride(0), sines, sines_.stride(0));
  }

 private:
  void fill_strided(RowProducts products, const Chunk& part, int64_t t) const {
    T cosines[chunk], sines[chunk];
    const int64_t end = t + products.rows;
    products.rows = 1;
    for (; t < end; ++t, ++products.positions) {
      multiply_(products, cosines, 0, sines, 0);
      T *to_cosines = &cosines_(t, part.begin), *to_sines = &sines_(t, part.begin);
      const std::int64_t cosine_step = cosines_.stride(1), sine_step = sines_.stride(1);
      for (int64_t i = 0; i < part.count; ++i) to_cosines[i * cosine_step] = cosines[i];
      for (int64_t i = 0; i < part.count; ++i) to_sines[i * sine_step] = sines[i];
    }
  }

  View<T, 2> cosines_, sines_;
  AngleLayout layout_ = AngleLayout::apart;
  bool strided_ = false;
  internal::MultiplyRows<T> multiply_;
};

// cos and sin of the steps from anchors that occur in some positions, chunk by chunk: row b of
// a chunk has `padded` cosines, then `padded` sines.
class Steps {
 public:
  Steps(std::span<const int64_t> positions, std::span<const double> frequencies)
      : pairs_(std::ssize(frequencies)),
        values_(allocate(chunks(pairs_) * chunk * (1 + 2 * anchor_step))) {
    if (!values_) return;
    constexpr std::uint64_t all = ~std::uint64_t{0};
    std::uint64_t taken = 0;
    for (std::size_t t = 0; t < positions.size() && taken != all; ++t)
      taken |= std::uint64_t{1} << (positions[t] & (anchor_step - 1));
    for (int64_t c = 0; c < chunks(pairs_); ++c)
      copy_padded(frequencies, chunk_of(c, pairs_), values_.get() + c * chunk);
    const auto make = internal::cos_sin_row();
    // A piece has about the same number of rows that occur for any number of tokens.
    const int64_t rows = std::popcount(taken), all_rows = anchor_step;
    parallel_for(anchor_step, std::max<int64_t>(1, piece / 8 / pairs_ * all_rows / rows),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t b = begin; b < end; ++b) {
                     if (!(taken >> b & 1)) continue;
                     for (int64_t c = 0; c < chunks(pairs_); ++c) {
                       const int64_t padded = chunk_of(c, pairs_).padded;
                       double* const row = values_.get() + offset(c) + b * 2 * padded;
                       make(static_cast<double>(b), this->frequencies(c), padded, 1.0, row,
                            row + padded);
                     }
                   }
                 });
  }

  // Whether there was memory for them.
  explicit operator bool() const { return values_ != nullptr; }
  const double* frequencies(int64_t c) const { return values_.get() + c * chunk; }
  const double* of(int64_t c) const { return values_.get() + offset(c); }

 private:
  struct Free {
    void operator()(double* values) const {
      ::operator delete[](values, std::align_val_t{alignment});
    }
  };
  using Values = std::unique_ptr<double[], Free>;
  static Values allocate(int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(double);
    return Values(static_cast<double*>(
        ::operator new[](bytes, std::align_val_t{alignment}, std::nothrow)));
  }
  int64_t offset(int64_t c) const { return (chunks(pairs_) + c * 2 * anchor_step) * chunk; }

  int64_t pairs_;
  Values values_;
};

// Returns the end of the run of positions, starting at t, that have this anchor.
int64_t run_end(const int64_t* p, int64_t t, int64_t end, int64_t anchor) {
  constexpr int64_t block = 16;
  for (; t + block <= end; t += block) {
    int64_t differences = 0;  // no early exit, so that compilers vectorise the loop
    for (int64_t i = t; i < t + block; ++i) differences |= p[i] ^ anchor;
    if (differences & -anchor_step) break;
  }
  while (t < end && (p[t] & -anchor_step) == anchor) ++t;
  return t;
}

// Returns false if there is no memory.
template <typename T>
bool fill_run(std::span<const int64_t> positions, std::span<const double> frequencies,
              const Output<T>& out, double scale) {
  const Steps steps(positions, frequencies);
  if (!steps) return false;
  const int64_t pairs = std::ssize(frequencies);
  const int64_t grain = std::max(int64_t{1}, piece / pairs / anchor_step) * anchor_step;
  const auto make = internal::cos_sin_row();
  const int64_t* const p = positions.data();
  const auto run = [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t c = 0; c < chunks(pairs); ++c) {
      const Chunk part = chunk_of(c, pairs);
      for (int64_t t = begin, next; t < end; t = next) {
        const int64_t anchor = p[t] & ~(anchor_step - 1);
        next = run_end(p, t + 1, end, anchor);
        make(static_cast<double>(anchor), steps.frequencies(c), part.padded, scale, scratch.far,
             scratch.far + part.padded);
        out.fill({.far = scratch.far,
                  .steps = steps.of(c),
                  .padded = part.padded,
                  .count = part.count,
                  .positions = p + t,
                  .mask = anchor_step - 1,
                  .rows = next - t},
                 part, t);
      }
    }
  };
  parallel_for(std::ssize(positions), grain, run, Share::contiguous);
  return true;
}

// Computes each entry directly: for a few integer positions, or continuous ones.
template <typename P, typename T>
void fill_each(std::span<const P> positions, std::span<const double> frequencies,
               const Output<T>& out, double scale) {
  const int64_t pairs = std::ssize(frequencies);
  const auto make = internal::cos_sin_row();
  parallel_for(std::ssize(positions), std::max(int64_t{4}, piece / 4 / pairs),
               [&](int64_t begin, int64_t end) {
                 Scratch scratch;
                 for (int64_t c = 0; c < chunks(pairs); ++c) {
                   const Chunk part = chunk_of(c, pairs);
                   const int64_t padded = part.padded, zero = 0;
                   copy_padded(frequencies, part, scratch.frequencies);
                   const auto row = [&](double position, double factor, double* to) {
                     make(position, scratch.frequencies, padded, factor, to, to + padded);
                   };
                   if constexpr (std::is_same_v<P, double>) row(0.0, 1.0, scratch.near);
                   for (int64_t t = begin; t < end; ++t) {
                     const P position = positions[static_cast<std::size_t>(t)];
                     if constexpr (std::is_same_v<P, double>) {
                       row(position, scale, scratch.far);
                     } else {
                       const int64_t step = position & (anchor_step - 1);
                       row(static_cast<double>(position - step), scale, scratch.far);
                       row(static_cast<double>(step), 1.0, scratch.near);
                     }
                     out.fill({.far = scratch.far,
                               .steps = scratch.near,
                               .padded = padded,
                               .count = part.count,
                               .positions = &zero,
                               .mask = 0,
                               .rows = 1},
                              part, t);
                   }
                 }
               });
}

template <typename P, typename T>
void fill_float32(std::span<const P> positions, std::span<const double> frequencies,
                  View<T, 2> cosines, View<T, 2> sines, double scale) {
  const int64_t grain = std::max<int64_t>(256, piece / 4 / std::ssize(frequencies));
  parallel_for(std::ssize(positions), grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        const float angle = static_cast<float>(positions[static_cast<std::size_t>(t)]) *
                            static_cast<float>(frequencies[i]);
        const auto column = static_cast<std::int64_t>(i);
        cosines(t, column) = static_cast<T>(scale * double{std::cos(angle)});
        sines(t, column) = static_cast<T>(scale * double{std::sin(angle)});
      }
  });
}

template <typename T>
void check_view(const char* what, View<T, 2> view, std::size_t tokens, std::size_t count) {
  if (view.extent(0) != static_cast<std::int64_t>(tokens) ||
      view.extent(1) != static_cast<std::int64_t>(count))
    refuse("angles",
           std::string(what) + " must be [T, N] = [" + std::to_string(tokens) + ", " +
               std::to_string(count) + "]",
           shape_text(view.extents()));
}

// Returns true if all positions are from -2^31 to 2^31 - 1. Compilers vectorise the loop.
bool all_near(std::span<const int64_t> positions) {
  std::uint64_t from_first = 0;
  for (const int64_t p : positions)
    from_first |= static_cast<std::uint64_t>(p) + (std::uint64_t{1} << 31);
  return from_first >> 32 == 0;
}
bool all_near(std::span<const double>) { return false; }  // checked one by one

template <typename P, typename T>
void fill_any(std::span<const P> positions, std::span<const double> frequencies,
              View<T, 2> cosines, View<T, 2> sines, Angles angles, double scale) {
  check_view("cosines", cosines, positions.size(), frequencies.size());
  check_view("sines", sines, positions.size(), frequencies.size());
  if (angles != Angles::exact && angles != Angles::float32)
    refuse("angles", "angles must be exact or float32", static_cast<int>(angles));
  if (!std::isfinite(scale)) refuse("angles", "scale must be finite", scale);
  internal::check_frequencies(frequencies);
  if (!all_near(positions))
    for (P p : positions)
      if (!(std::fabs(static_cast<double>(p)) <= farthest))
        refuse("angles", "positions must be finite, at most 2^31 in magnitude", p);

  if (positions.empty() || frequencies.empty()) return;
  if (angles == Angles::float32)
    return fill_float32(positions, frequencies, cosines, sines, scale);
  const Output<T> out(cosines, sines);
  if constexpr (std::is_same_v<P, int64_t>) {
    // Without memory, each entry is computed directly, with the same bits, so that a loop which
    // rotates keys in place cannot fail in its middle.
    if (std::ssize(positions) >= steps_from && fill_run(positions, frequencies, out, scale))
      return;
    if constexpr (std::is_same_v<T, float>)
      if (out.apart()) {
        const auto fill = internal::pair_angles();
        for (int64_t t = 0; t < std::ssize(positions); ++t)
          fill(&positions[static_cast<std::size_t>(t)], 0, frequencies.data(),
               std::ssize(frequencies), scale, &cosines(t, 0), &sines(t, 0));
        return;
      }
  }
  fill_each(positions, frequencies, out, scale);
}

}  // namespace

void internal::check_frequencies(std::span<const double> frequencies) {
  for (const double f : frequencies)
    if (!(std::fabs(f) <= steepest))
      refuse("angles", "frequencies must be finite, at most 2^20 in magnitude", f);
}

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

#define GNOMON_INSTANTIATE(T)                                                                  \
  template GNOMON_EXPORTED void fill_cos_sin(std::span<const int64_t>,                         \
                                             std::span<const double>, View<T, 2>, View<T, 2>,  \
                                             Angles, double);                                  \
  template GNOMON_EXPORTED void fill_cos_sin(std::span<const double>, std::span<const double>, \
                                             View<T, 2>, View<T, 2>, Angles, double);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
