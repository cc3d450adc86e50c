// Drawn tables, shapes, strides and element types of rotations, on every instruction set of the
// machine, against angles in 113 bits; and the C API against the same bits.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "fuzz/array.h"
#include "fuzz/target.h"
#include "gnomon.h"
#include "gnomon/isa.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon::fuzz {
namespace rotation_fuzz {

#if __LDBL_MANT_DIG__ == 113
using Wide = long double;
#else
using Wide = __float128;
#endif

// Position x frequency, less whole turns, in radians. The product has 84 bits, all exact.
long double angle(std::int64_t position, double frequency) {
  // 2 pi = 2 (first + second) with 64 bits each (Abramowitz and Stegun, table 1.1).
  const Wide turn = 2 * (static_cast<Wide>(0xc.90fdaa22168c235p-2L) +
                         static_cast<Wide>(-0xe.ce675d1fc8f8cbbp-68L));
  const Wide product = static_cast<Wide>(position) * static_cast<Wide>(frequency);
  const auto turns = static_cast<std::int64_t>(product / turn);
  return static_cast<long double>(product - static_cast<Wide>(turns) * turn);
}

struct Drawn {
  RotaryFrequencies frequencies;
  std::vector<std::int64_t> positions;
  std::int64_t batch, heads, dim;
  Direction direction;
};

Drawn draw(Choices& choose) {
  Drawn drawn;
  RotaryFrequencies& f = drawn.frequencies;
  f.pairing = choose.of({Pairing::halves, Pairing::adjacent});
  f.head_offset = choose.one_in(3) ? choose.from(0, 9) : 0;
  f.table_scale = choose.one_in(4) ? static_cast<double>(choose.from(1, 64)) / 16 : 1;
  const std::int64_t pairs = choose.one_in(8) ? choose.from(1, 130) : choose.from(1, 20);
  const double base = choose.of({10000.0, 500000.0, 100.0, 1.5});
  for (std::int64_t i = 0; i < pairs; ++i)
    f.inv_freq.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs)) *
                         choose.of({1.0, 1.0, 1.0, -1.0, 0.0, 1024.0}));
  drawn.batch = choose.from(1, 2), drawn.heads = choose.from(1, 4);
  drawn.dim = f.head_offset + 2 * pairs + (choose.one_in(3) ? choose.from(-1, 9) : 0);
  const std::int64_t tokens = choose.from(0, 9);
  std::int64_t first = choose.of<std::int64_t>(
      {0, 0, 1, 4095, 131072, std::int64_t{1} << 31, -(std::int64_t{1} << 31), -3});
  const bool consecutive = choose.one_in(2);
  for (std::int64_t t = 0; t < tokens; ++t)
    drawn.positions.push_back(first < 0     ? first + t
                              : consecutive ? std::max<std::int64_t>(first - t, 0)
                                            : choose.below(65536));
  drawn.direction = choose.of({Direction::forward, Direction::inverse});
  return drawn;
}

// Rotates x by the C API.
void rotate_in_c(const Drawn& drawn, const Tensor& x) {
  const gnomon_rotary_spec spec{sizeof spec, drawn.frequencies.rotary_dim(),
                                static_cast<std::int32_t>(drawn.frequencies.pairing), 0,
                                drawn.frequencies.head_offset};
  const auto pairs = std::ssize(drawn.frequencies.inv_freq),
             tokens = std::ssize(drawn.positions);
  const ConstTensor inv_freq =
                        View<const double, 1>(drawn.frequencies.inv_freq.data(), {pairs}),
                    ids = View<const std::int64_t, 1>(drawn.positions.data(), {tokens});
  const gnomon_tensor c_inv_freq = tensor_of(inv_freq), c_ids = tensor_of(ids),
                      c_x = tensor_of(x);
  gnomon_frequencies* frequencies = nullptr;
  gnomon_rotary_table* table = nullptr;
  require(gnomon_frequencies_from(&spec, &c_inv_freq, nullptr, drawn.frequencies.table_scale,
                                  &frequencies) == GNOMON_OK);
  require(gnomon_rotary_table_create(frequencies, &c_ids, &table) == GNOMON_OK);
  require(gnomon_rotate(&c_x, nullptr, table, static_cast<std::int32_t>(drawn.direction)) ==
          GNOMON_OK);
  gnomon_rotary_table_destroy(table);
  gnomon_frequencies_destroy(frequencies);
}

template <typename T>
void compare(Choices& choose) {
  const Drawn drawn = draw(choose);
  const auto& f = drawn.frequencies;
  Array<T> x(choose, drawn.batch, std::ssize(drawn.positions), drawn.heads, drawn.dim);
  x.fill(static_cast<std::uint64_t>(choose.below(1 << 16)), 1);
  const RotaryTable table(f, drawn.positions);
  for (const Isa isa : available_isas()) {
    const ScopedIsa scoped(isa);
    Array<T> rotated = x, in_c = x;
    rotate(rotated.view(), table, drawn.direction);
    rotate_in_c(drawn, in_c.view());
    require(std::memcmp(rotated.memory.data(), in_c.memory.data(),
                        rotated.memory.size() * sizeof(T)) == 0);
    const auto pairs = std::ssize(f.inv_freq);
    for (std::int64_t b = 0; b < drawn.batch; ++b)
      for (std::int64_t t = 0; t < std::ssize(drawn.positions); ++t)
        for (std::int64_t i = 0; i < pairs; ++i) {
          const auto at = static_cast<std::size_t>(i);
          long double turn =
              angle(drawn.positions[static_cast<std::size_t>(t)], f.inv_freq[at]);
          if (drawn.direction == Direction::inverse) turn = -turn;
          const auto cos = static_cast<double>(std::cos(turn)) * f.table_scale,
                     sin = static_cast<double>(std::sin(turn)) * f.table_scale;
          const bool halves = f.pairing == Pairing::halves;
          const std::int64_t first = f.head_offset + (halves ? i : 2 * i),
                             second = f.head_offset + (halves ? i + pairs : 2 * i + 1);
          for (std::int64_t h = 0; h < drawn.heads; ++h) {
            const double p = value(x.view()(b, t, h, first)),
                         q = value(x.view()(b, t, h, second));
            const double size = (std::abs(p) + std::abs(q)) * std::max(1.0, f.table_scale);
            const auto check = [&](T& got, double wanted, T before) {
              const double bound = 3 * 0x1p-24 * size +
                                   half_ulp<T> * (std::abs(wanted) + size * 0x1p-20) +
                                   half_least<T>;
              require(std::abs(value(got) - wanted) <= bound);
              got = before;
            };
            check(rotated.view()(b, t, h, first), p * cos - q * sin, x.view()(b, t, h, first));
            check(rotated.view()(b, t, h, second), p * sin + q * cos,
                  x.view()(b, t, h, second));
          }
        }
    // All other elements, and the gaps, are as before.
    require(std::memcmp(rotated.memory.data(), x.memory.data(),
                        rotated.memory.size() * sizeof(T)) == 0);
  }
}

bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    Choices choose(bytes);
    with_type(choose.below(4), [&]<typename T>(T) { compare<T>(choose); });
  });
}

const Register registered("rotation", read);

}  // namespace rotation_fuzz
}  // namespace gnomon::fuzz
