#include "gnomon/rotary/rotary.h"

#include <cmath>

#include "gnomon/error.h"

namespace gnomon {
namespace {

template <typename T>
void turn(View<T, 4> x, const RotaryTable& table, double direction) {
  const Rotary& r = table.rotary();
  const std::int64_t pairs = r.dim / 2;
  using A = Accumulator<T>;
  for (std::int64_t b = 0; b < x.extent(0); ++b)
    for (std::int64_t t = 0; t < x.extent(1); ++t)
      for (std::int64_t h = 0; h < x.extent(2); ++h)
        for (std::int64_t i = 0; i < pairs; ++i) {
          const std::int64_t row = table.batch() == 1 ? 0 : b;
          const A c = static_cast<A>(table.cos()(row, t, i));
          const A s = static_cast<A>(direction) * static_cast<A>(table.sin()(row, t, i));
          const bool halves = r.pairing == Pairing::halves;
          T& at = x(b, t, h, r.first + (halves ? i : 2 * i));
          T& with = x(b, t, h, r.first + (halves ? i + pairs : 2 * i + 1));
          const A a = static_cast<A>(at), w = static_cast<A>(with);
          at = static_cast<T>(a * c - w * s);
          with = static_cast<T>(a * s + w * c);
        }
}

}  // namespace

std::vector<double> inverse_frequencies(const Rotary& rotary) {
  if (rotary.dim < 2 || rotary.dim % 2) refuse("rotary", "dim must be even", rotary.dim);
  std::vector<double> f;
  for (std::int64_t i = 0; i < rotary.dim / 2; ++i)
    f.push_back(static_cast<double>(std::pow(static_cast<long double>(rotary.base),
                                             -2.0L * static_cast<long double>(i) / rotary.dim)));
  return f;
}

RotaryTable::RotaryTable(const Rotary& rotary, const Positions& positions, Angles angles)
    : RotaryTable(rotary, inverse_frequencies(rotary), positions, 1.0, angles) {}
RotaryTable::RotaryTable(const Rotary& rotary, std::span<const std::int64_t> positions,
                         Angles angles)
    : RotaryTable(rotary, explicit_ids(positions), angles) {}
RotaryTable::RotaryTable(const Rotary& rotary, std::span<const double> inv_freq,
                         const Positions& positions, double table_scale, Angles angles)
    : rotary_(rotary), batch_(positions.batch), tokens_(positions.tokens) {
  const std::int64_t rows = batch_ * tokens_, pairs = rotary.dim / 2;
  values_.resize(static_cast<std::size_t>(2 * rows * pairs));
  fill_cos_sin(std::span<const std::int64_t>(positions.ids), inv_freq,
               View<float, 2>(values_.data(), {rows, pairs}),
               View<float, 2>(values_.data() + rows * pairs, {rows, pairs}), angles,
               table_scale);
}
View<const float, 3> RotaryTable::cos() const noexcept {
  return {values_.data(), {batch_, tokens_, rotary_.dim / 2}};
}
View<const float, 3> RotaryTable::sin() const noexcept {
  return {values_.data() + values_.size() / 2, {batch_, tokens_, rotary_.dim / 2}};
}

template <typename T>
void rotate(View<T, 4> x, const RotaryTable& table) {
  turn(x, table, 1);
}
template <typename T>
void rotate(View<T, 3> x, const RotaryTable& table) {
  rotate(View<T, 4>(x.data(), {1, x.extent(0), x.extent(1), x.extent(2)},
                    {0, x.stride(0), x.stride(1), x.stride(2)}),
         table);
}
template <typename T>
void rotate_backward(View<T, 4> x, const RotaryTable& table) {
  turn(x, table, -1);
}
template <typename T>
void rotate_backward(View<T, 3> x, const RotaryTable& table) {
  rotate_backward(View<T, 4>(x.data(), {1, x.extent(0), x.extent(1), x.extent(2)},
                             {0, x.stride(0), x.stride(1), x.stride(2)}),
                  table);
}
#define I(T)                                             \
  template void rotate(View<T, 4>, const RotaryTable&);  \
  template void rotate(View<T, 3>, const RotaryTable&);  \
  template void rotate_backward(View<T, 4>, const RotaryTable&); \
  template void rotate_backward(View<T, 3>, const RotaryTable&);
I(float) I(Half) I(BFloat16) I(double)
#undef I

}  // namespace gnomon
