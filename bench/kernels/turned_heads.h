// Queries and keys of rotary kernels, and the oracle of a rotation.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/kernels/blocks.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon::bench {

inline constexpr std::int64_t query_heads = 32, key_heads = 8;

enum class Layout {
  by_token = 1,  // [B, T, H, D]
  by_head,       // [B, H, T, D]
  packed,        // q, k and v of a token are adjacent
};

struct Rotation {
  std::int64_t tokens = 0;
  Pairing pairing = Pairing::halves;
  std::int64_t size = 128;  // D
  Layout layout = Layout::by_token;
  bool backward = false;
  std::int64_t batch = 1;

  Rotary rotary() const { return {.rotary_dim = size, .pairing = pairing}; }
  std::string text(DType dtype) const {
    const char* const of_layout = layout == Layout::by_token  ? ""
                                  : layout == Layout::by_head ? " by head"
                                                              : " packed";
    return fmt::format("{} {}{}{} [{}, {}, {}]", name(dtype),
                       pairing == Pairing::halves ? "halves" : "adjacent", of_layout,
                       backward ? " inverse" : "", batch * tokens, query_heads + key_heads,
                       size);
  }
};

// Queries and keys in one allocation.
template <typename T>
struct QueriesAndKeys {
  Shared<T, 1> memory;
  View<T, 4> q, k;

  explicit QueriesAndKeys(const Rotation& c) {
    const std::int64_t all =
        c.layout == Layout::packed ? query_heads + 2 * key_heads : query_heads + key_heads;
    memory = random_block<T, 1>({c.batch * c.tokens * all * c.size});
    const auto view = [&](std::int64_t first, std::int64_t heads) -> View<T, 4> {
      T* const data = memory->data.get();
      const std::array<std::ptrdiff_t, 4> shape{c.batch, c.tokens, heads, c.size};
      if (c.layout == Layout::packed)
        return {
            data + first * c.size, shape, {c.tokens * all * c.size, all * c.size, c.size, 1}};
      T* const begin = data + first * c.batch * c.tokens * c.size;
      if (c.layout == Layout::by_head)
        return {begin, shape, {heads * c.tokens * c.size, c.size, c.tokens * c.size, 1}};
      return {begin, shape};
    };
    q = view(0, query_heads);
    k = view(query_heads, key_heads);
  }
  std::int64_t bytes() const {
    return (q.size() + k.size()) * static_cast<std::int64_t>(sizeof(T));
  }
};

// The largest error of a sample of rotated heads. position(b, t): the position of a token.
template <typename T, typename Rotated, typename Position>
double worst_turn(const Rotation& c, View<const T, 4> before, Rotated turned,
                  Position position) {
  const auto f = inverse_frequencies(c.rotary());
  const std::int64_t heads = before.extent(2), half = c.size / 2;
  double worst = 0;
  for (std::int64_t t = 0; t < c.tokens; t += std::max<std::int64_t>(1, c.tokens / 61))
    for (std::int64_t h = 0; h < heads; h += heads - 1)
      for (std::int64_t i = 0; i < half; ++i) {
        const bool halves = c.pairing == Pairing::halves;
        const std::int64_t x = halves ? i : 2 * i, y = halves ? i + half : 2 * i + 1;
        const auto p = static_cast<long double>(position(c.batch - 1, t));
        const long double angle =
            (c.backward ? -p : p) * static_cast<long double>(f[static_cast<std::size_t>(i)]);
        const long double a = as_double(before(c.batch - 1, t, h, x)),
                          b = as_double(before(c.batch - 1, t, h, y));
        worst =
            std::max({worst,
                      std::fabs(turned(t, h, x) -
                                static_cast<double>(a * std::cos(angle) - b * std::sin(angle))),
                      std::fabs(turned(t, h, y) - static_cast<double>(a * std::sin(angle) +
                                                                      b * std::cos(angle)))});
      }
  return worst;
}

}  // namespace gnomon::bench
