#include "gnomon/rotary/vjepa2.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/axial.h"
#include "src/rotary/batch.h"

namespace gnomon {
namespace {

constexpr std::int64_t grain_elements = 1 << 15;  // of a piece worth a thread

// [t D | y D | x D]; its pairs are the angles of a block, [P] each.
RotarySchedule angles_of(const Vjepa2& vjepa2) {
  if (vjepa2.head_size < 6) refuse("vjepa2", "head_size must be at least 6", vjepa2.head_size);
  const std::int64_t block = vjepa2.block();
  return schedule(axial({block, block, block}, Pairing::adjacent, vjepa2.base));
}

RotaryTable angles_on(const Vjepa2& vjepa2, const Grid& grid, Angles angles) {
  RotarySchedule schedule = angles_of(vjepa2);
  if (grid.axes != 3) refuse("vjepa2", "the grid must have 3 axes, t, y, x", grid.axes);
  return {std::move(schedule), grid, angles};
}

RotaryTable angles_on(const Vjepa2& vjepa2, std::span<const Positions> axes, Angles angles) {
  RotarySchedule schedule = angles_of(vjepa2);
  if (axes.size() != 3)
    refuse("vjepa2", "there must be positions on 3 axes, t, y, x", std::ssize(axes));
  return {std::move(schedule), axes, angles};
}

// Each block's angles twice over, a b c a b c: cosines of all tokens, then sines.
std::vector<float> tiled(const RotaryTable& angles) {
  const std::int64_t pairs = angles.schedule().dim() / 6;  // of a block
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(12 * pairs * angles.batch() * angles.tokens()));
  for (const View<const float, 3>& part : {angles.cos(), angles.sin()})
    for (std::int64_t at = 0; at < part.size(); at += pairs)
      for (int time = 0; time < 2; ++time)
        values.insert(values.end(), part.data() + at, part.data() + at + pairs);
  return values;
}

template <typename T>
Accumulator<T> wide(T element) {
  return static_cast<Accumulator<T>>(element);
}

struct Forward {
  template <typename T>
  void operator()(T* x, std::ptrdiff_t stride, const float* cos, const float* sin,
                  std::int64_t elements) const {
    using A = Accumulator<T>;
    for (std::int64_t e = 0; e < elements; e += 2) {
      T &left = x[e * stride], &right = x[(e + 1) * stride];
      const A a = wide(left), b = wide(right);
      left = static_cast<T>(a * static_cast<A>(cos[e]) - b * static_cast<A>(sin[e]));
      right = static_cast<T>(b * static_cast<A>(cos[e + 1]) + a * static_cast<A>(sin[e + 1]));
    }
  }
};

struct Backward {
  template <typename T>
  void operator()(T* x, std::ptrdiff_t stride, const float* cos, const float* sin,
                  std::int64_t elements) const {
    using A = Accumulator<T>;
    for (std::int64_t e = 0; e < elements; e += 2) {
      T &left = x[e * stride], &right = x[(e + 1) * stride];
      const A a = wide(left), b = wide(right);
      left = static_cast<T>(a * static_cast<A>(cos[e]) + b * static_cast<A>(sin[e + 1]));
      right = static_cast<T>(b * static_cast<A>(cos[e + 1]) - a * static_cast<A>(sin[e]));
    }
  }
};

template <typename T>
void check(const View<T, 4>& x, const Vjepa2Table& table) {
  if (x.extent(1) != table.tokens())
    refuse("vjepa2", "x must have the table's " + std::to_string(table.tokens()) + " tokens",
           std::int64_t{x.extent(1)});
  if (table.batch() != 1 && x.extent(0) != table.batch())
    refuse("vjepa2", "x must have the table's " + std::to_string(table.batch()) + " rows",
           std::int64_t{x.extent(0)});
  if (x.extent(3) != table.size())
    refuse("vjepa2",
           "x must have head_size = " + std::to_string(table.size()) + " elements per head",
           std::int64_t{x.extent(3)});
}

template <typename Turn, typename T>
void turn(View<T, 4> x, const Vjepa2Table& table) {
  check(x, table);
  const std::int64_t tokens = x.extent(1), heads = x.extent(2);
  const View<const float, 3> cos = table.cos(), sin = table.sin();
  const std::int64_t elements = cos.extent(2);
  const std::int64_t grain =
      std::max<std::int64_t>(1, grain_elements / std::max<std::int64_t>(1, heads * elements));
  parallel_for(x.extent(0) * tokens, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t b = token / tokens, t = token % tokens;
      const std::int64_t row = table.batch() == 1 ? 0 : b;
      for (std::int64_t h = 0; h < heads; ++h)
        Turn{}(&x(b, t, h, 0), x.stride(3), &cos(row, t, 0), &sin(row, t, 0), elements);
    }
  });
}

}  // namespace

Vjepa2Table::Vjepa2Table(const Vjepa2& vjepa2, const Grid& grid, Angles angles)
    : head_size_(vjepa2.head_size), elements_(3 * vjepa2.block()) {
  const RotaryTable table = angles_on(vjepa2, grid, angles);
  batch_ = table.batch();
  tokens_ = table.tokens();
  values_ = tiled(table);
}

Vjepa2Table::Vjepa2Table(const Vjepa2& vjepa2, std::span<const Positions> axes, Angles angles)
    : head_size_(vjepa2.head_size), elements_(3 * vjepa2.block()) {
  const RotaryTable table = angles_on(vjepa2, axes, angles);
  batch_ = table.batch();
  tokens_ = table.tokens();
  values_ = tiled(table);
}

View<const float, 3> Vjepa2Table::cos() const noexcept {
  return {values_.data(), {batch_, tokens_, elements_}};
}

View<const float, 3> Vjepa2Table::sin() const noexcept {
  return {values_.data() + batch_ * tokens_ * elements_, {batch_, tokens_, elements_}};
}

template <typename T>
void rotate(View<T, 4> x, const Vjepa2Table& table) {
  turn<Forward>(x, table);
}
template <typename T>
void rotate(View<T, 3> x, const Vjepa2Table& table) {
  turn<Forward>(rotary_internal::batch_of_one(x), table);
}
template <typename T>
void rotate_backward(View<T, 4> grad, const Vjepa2Table& table) {
  turn<Backward>(grad, table);
}
template <typename T>
void rotate_backward(View<T, 3> grad, const Vjepa2Table& table) {
  turn<Backward>(rotary_internal::batch_of_one(grad), table);
}

#define GNOMON_INSTANTIATE(T)                                    \
  template void rotate(View<T, 4>, const Vjepa2Table&);          \
  template void rotate(View<T, 3>, const Vjepa2Table&);          \
  template void rotate_backward(View<T, 4>, const Vjepa2Table&); \
  template void rotate_backward(View<T, 3>, const Vjepa2Table&);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
