#include "bench/kernels/turned_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gnomon::bench {

using std::int64_t;

std::string Rotation::text(DType dtype) const {
  const char* const of_layout = layout == Layout::by_token  ? ""
                                : layout == Layout::by_head ? " by head"
                                                            : " packed";
  return fmt::format("{} {}{}{} [{}, {}, {}]", name(dtype),
                     pairing == Pairing::halves ? "halves" : "adjacent", of_layout,
                     backward ? " inverse" : "", batch * tokens, query_heads + key_heads, size);
}

double worst_turn(const Rotation& c, int64_t heads, const Element& before,
                  const Element& turned, const std::function<double(int64_t)>& position) {
  const auto f = inverse_frequencies(c.rotary());
  const int64_t half = c.size / 2;
  double worst = 0;
  for (int64_t t = 0; t < c.tokens; t += std::max<int64_t>(1, c.tokens / 61))
    for (int64_t h = 0; h < heads; h += heads - 1)
      for (int64_t i = 0; i < half; ++i) {
        const bool halves = c.pairing == Pairing::halves;
        const int64_t x = halves ? i : 2 * i, y = halves ? i + half : 2 * i + 1;
        const long double p = position ? position(t) : static_cast<double>(t);
        const long double angle =
            (c.backward ? -p : p) * static_cast<long double>(f[static_cast<std::size_t>(i)]);
        const long double a = before(t, h, x), b = before(t, h, y);
        const auto cos = std::cos(angle), sin = std::sin(angle);
        worst = std::max({worst,
                          std::fabs(turned(t, h, x) - static_cast<double>(a * cos - b * sin)),
                          std::fabs(turned(t, h, y) - static_cast<double>(a * sin + b * cos))});
      }
  return worst;
}

}  // namespace gnomon::bench
