#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon {
namespace {

template <typename T>
void check(const View<T, 4>& x, const RotaryTable& table) {
  const Rotary& rotary = table.rotary();
  if (x.extent(1) != table.tokens())
    refuse("rotary", "x must have the table's " + std::to_string(table.tokens()) + " tokens",
           std::int64_t{x.extent(1)});
  if (table.batch() != 1 && x.extent(0) != table.batch())
    refuse("rotary", "x must have the table's " + std::to_string(table.batch()) + " rows",
           std::int64_t{x.extent(0)});
  if (x.extent(3) < rotary.first + rotary.dim)
    refuse("rotary",
           "x must have at least " + std::to_string(rotary.first + rotary.dim) +
               " elements per head",
           std::int64_t{x.extent(3)});
  if (x.stride(3) != 1)
    refuse("rotary", "the elements of a head must be contiguous: stride 1",
           std::int64_t{x.stride(3)});
}

template <typename T>
void turn(View<T, 4> x, const RotaryTable& table, float sign) {
  check(x, table);
  const Rotary rotary = table.rotary();
  const std::ptrdiff_t pairs = rotary.dim / 2;
  const std::ptrdiff_t step = rotary.pairing == Pairing::halves ? 1 : 2;
  const std::ptrdiff_t apart = rotary.pairing == Pairing::halves ? pairs : 1;
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < x.extent(2); ++h)
        for (std::ptrdiff_t i = 0; i < pairs; ++i) {
          using A = Accumulator<T>;
          const std::ptrdiff_t row = table.batch() == 1 ? 0 : b;
          const A c = static_cast<A>(table.cos()(row, t, i));
          const A s = static_cast<A>(sign * table.sin()(row, t, i));
          T& first = x(b, t, h, rotary.first + step * i);
          T& second = x(b, t, h, rotary.first + step * i + apart);
          const A u = static_cast<A>(first), v = static_cast<A>(second);
          first = static_cast<T>(u * c - v * s);
          second = static_cast<T>(u * s + v * c);
        }
}

template <typename T>
View<T, 4> batch_of_one(const View<T, 3>& x) {
  return {x.data(),
          {1, x.extent(0), x.extent(1), x.extent(2)},
          {0, x.stride(0), x.stride(1), x.stride(2)}};
}

}  // namespace

template <typename T>
void rotate(View<T, 4> x, const RotaryTable& table) {
  turn(x, table, 1.0f);
}
template <typename T>
void rotate(View<T, 3> x, const RotaryTable& table) {
  turn(batch_of_one(x), table, 1.0f);
}
template <typename T>
void rotate_backward(View<T, 4> grad, const RotaryTable& table) {
  turn(grad, table, -1.0f);
}
template <typename T>
void rotate_backward(View<T, 3> grad, const RotaryTable& table) {
  turn(batch_of_one(grad), table, -1.0f);
}

#define GNOMON_INSTANTIATE(T)                                    \
  template void rotate(View<T, 4>, const RotaryTable&);          \
  template void rotate(View<T, 3>, const RotaryTable&);          \
  template void rotate_backward(View<T, 4>, const RotaryTable&); \
  template void rotate_backward(View<T, 3>, const RotaryTable&);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
