#include "gnomon/embedding/sinusoidal.h"

#include <cmath>
#include <string>

#include "gnomon/angles.h"
#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "src/core/memory.h"
#include "src/core/overflow.h"
#include "src/core/size.h"
#include "src/core/tensor.h"
#include "src/core/wide.h"

namespace gnomon {
namespace {

using internal::Wide;
using std::int64_t;
using Recipe = SinusoidalRecipe;

// Channels of the sines, the cosines, and the zero at the end.
struct Layout {
  int64_t sines, cosines;
  int64_t first_sine, first_cosine, step;
  int64_t zeros;
};

Layout layout_of(const Sinusoidal& s) {
  const int64_t half = s.width / 2, more = s.width - half;
  switch (s.recipe) {
    case Recipe::interleaved:
      return {more, half, 0, 1, 2, 0};
    case Recipe::half_split:
      return {more, half, 0, more, 1, 0};
    default:
      if (s.recipe == Recipe::timestep && s.order == SinusoidalOrder::cosine_first)
        return {half, half, half, 0, 1, s.width % 2};
      return {half, half, 0, half, 1, s.width % 2};
  }
}

void check(const Sinusoidal& s) {
  if (s.recipe < Recipe::interleaved || s.recipe > Recipe::timestep)
    refuse("sinusoidal", "recipe must be interleaved, half_split, tensor2tensor or timestep",
           static_cast<int>(s.recipe));
  const int64_t least = s.recipe == Recipe::tensor2tensor ? 4
                        : s.recipe == Recipe::timestep    ? 2
                                                          : 1;
  if (s.width < least)
    refuse("sinusoidal", "width must be at least " + std::to_string(least), s.width);
  if (!(s.base > 1 && std::isfinite(s.base)))
    refuse("sinusoidal", "base must be greater than 1 and finite", s.base);
  if (!std::isfinite(s.scale)) refuse("sinusoidal", "scale must be finite", s.scale);
  if (s.recipe != Recipe::timestep) return;
  if (s.order != SinusoidalOrder::sine_first && s.order != SinusoidalOrder::cosine_first)
    refuse("sinusoidal", "order must be sine_first or cosine_first", static_cast<int>(s.order));
  if (!(s.shift < static_cast<double>(s.width / 2) && std::isfinite(s.shift)))
    refuse("sinusoidal",
           "shift must be less than " + std::to_string(s.width / 2) + " and finite", s.shift);
}

// View of `count` columns of out: first, first + step, ...
template <typename T>
View<T, 2> columns(View<T, 2> out, int64_t first, int64_t step, int64_t count) {
  return {out.data() + first * out.stride(1),
          {out.extent(0), count},
          {out.stride(0), step * out.stride(1)}};
}

template <typename P, typename T>
void fill_columns(const Sinusoidal& s, std::span<const P> positions, View<T, 2> out) {
  check(s);
  if (out.extent(0) != static_cast<int64_t>(positions.size()) || out.extent(1) != s.width)
    refuse("sinusoidal",
           "out must be [T, C] = [" + std::to_string(positions.size()) + ", " +
               std::to_string(s.width) + "]",
           shape_text(out.extents()));
  if (positions.empty()) return;
  const std::vector<double> f = frequencies(s);
  const Layout layout = layout_of(s);
  const std::span all(f);
  fill_cos_sin(positions, all.first(static_cast<std::size_t>(layout.cosines)),
               columns(out, layout.first_cosine, layout.step, layout.cosines),
               columns(out, layout.first_sine, layout.step, layout.cosines));
  if (layout.sines > layout.cosines) {  // the last sine has no cosine
    std::vector<T> unused(positions.size());
    fill_cos_sin(positions, all.last(1), View<T, 2>(unused.data(), {out.extent(0), 1}),
                 columns(out, layout.first_sine + layout.cosines * layout.step, 1, 1));
  }
  if (layout.zeros)
    for (int64_t t = 0; t < out.extent(0); ++t) out(t, s.width - 1) = T(0.0f);
}

}  // namespace

std::vector<double> frequencies(const Sinusoidal& s) {
  check(s);
  const int64_t sines = layout_of(s).sines;
  // f_i = base^(-i / whole)
  const Wide whole = s.recipe == Recipe::tensor2tensor ? Wide(static_cast<double>(sines - 1))
                     : s.recipe == Recipe::timestep ? static_cast<double>(sines) - Wide(s.shift)
                                                    : static_cast<double>(s.width) / 2;
  return internal::powers(s.base, -1 / whole, sines);
}

namespace {

template <typename T>
void fill_typed(const Sinusoidal& s, std::span<const int64_t> positions, View<T, 2> out) {
  std::vector<int64_t> moved;
  if (s.offset != 0) {
    for (const int64_t position : positions)
      if (internal::add_overflow(position, s.offset, &moved.emplace_back()))
        refuse("sinusoidal", "position + offset must be below 2^63, with offset", s.offset);
    positions = moved;
  }
  if (s.scale == 1.0) return fill_columns(s, positions, out);
  std::vector<double> scaled(positions.begin(), positions.end());
  for (double& position : scaled) position *= s.scale;
  fill_columns(s, std::span<const double>(scaled), out);
}

template <typename T>
void fill_typed(const Sinusoidal& s, std::span<const double> positions, View<T, 2> out) {
  if (s.scale == 1.0) return fill_columns(s, positions, out);
  std::vector<double> scaled(positions.begin(), positions.end());
  for (double& position : scaled) position *= s.scale;
  fill_columns(s, std::span<const double>(scaled), out);
}

template <typename P>
void fill_any(const Sinusoidal& s, std::span<const P> positions, const Tensor& out) {
  constexpr internal::Argument named{"sinusoidal", "out"};
  internal::by_type(named, out, [&]<typename T>(T) {
    fill_typed(s, positions, internal::write<T, 2>(named, out));
  });
}

}  // namespace

void fill(const Sinusoidal& s, std::span<const int64_t> positions, const Tensor& out) {
  fill_any(s, positions, out);
}
void fill(const Sinusoidal& s, std::span<const double> positions, const Tensor& out) {
  fill_any(s, positions, out);
}

EmbeddingTable lower(const Sinusoidal& s, std::span<const int64_t> positions) {
  check(s);
  EmbeddingTable table{static_cast<int64_t>(positions.size()), s.width, {}};
  const std::size_t count =
      internal::checked_size("embedding", "tokens x width", {table.tokens, table.width});
  table.values.reserve(count);
  internal::advise_huge_pages(table.values.data(), count * sizeof(float));
  table.values.resize(count);
  fill(s, positions, View<float, 2>(table.values.data(), {table.tokens, table.width}));
  return table;
}

}  // namespace gnomon
