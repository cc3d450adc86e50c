#include "src/core/wide.h"

#include <cmath>
#include <initializer_list>

// Compiled without contraction to fused operations, which differ between compilers.
namespace gnomon::internal {
namespace {

constexpr Wide ln_2{std::numbers::ln2, 0x1.abc9e3b39803fp-56};

// a + b, for |a| >= |b| or a = 0.
Wide ordered_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

Wide sum(double a, double b) {
  const double sum = a + b, other = sum - a;
  return {sum, (a - (sum - other)) + (b - other)};
}

struct Halves {
  double high, low;  // of 26 bits
  explicit Halves(double x) {
    const double unit = std::abs(x) < 0x1p990 ? 1 : 0x1p-28;  // the product must be finite
    const double scaled = 0x1.0000002p27 * (unit * x);
    high = (scaled - (scaled - unit * x)) / unit;
    low = x - high;
  }
};

Wide product(double a, double b) {
  const double result = a * b;
  if (!std::isfinite(result)) return result;
  const Halves x(a), y(b);
  return {result,
          ((x.high * y.high - result) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

}  // namespace

Wide operator+(Wide a, Wide b) {
  const Wide high = sum(a.high_, b.high_), low = sum(a.low_, b.low_);
  if (!std::isfinite(high.high_)) return high.high_;
  const Wide first = ordered_sum(high.high_, high.low_ + low.high_);
  return ordered_sum(first.high_, first.low_ + low.low_);
}

Wide operator*(Wide a, Wide b) {
  const Wide high = product(a.high_, b.high_);
  if (!std::isfinite(high.high_)) return high;
  return ordered_sum(high.high_, high.low_ + (a.high_ * b.low_ + a.low_ * b.high_));
}

Wide operator/(Wide a, Wide b) {
  const double first = a.high_ / b.high_;
  if (!std::isfinite(first) || !std::isfinite(b.high_)) return first;
  const Wide rest = a - b * first;
  const double second = rest.high_ / b.high_;
  const double third = (rest - b * second).high_ / b.high_;
  return ordered_sum(first, second) + third;
}

// x = n log 2 + r, and e^r = e^(r / 256)^256. The terms of the Taylor series of e^(r / 256) - 1
// from the sixth on are below 2^-55 of the sum, so that doubles serve.
Wide exp(Wide x) {
  if (!(std::abs(x.high()) < 700)) return std::exp(x.high());
  const double n = std::floor(x.high() / std::numbers::ln2 + 0.5);
  const Wide r = x - ln_2 * n;
  const Wide part{r.high() / 256, r.low() / 256};
  double tail = 0;
  for (int term = 11; term > 5; --term) tail = (tail + 1) * part.high() / term;
  Wide less_one = tail;  // e^part - 1 = part (1 + part/2 (1 + part/3 (...)))
  for (const Wide inverse : {Wide(0.2, -0x1.999999999999ap-57), Wide(0.25),
                             Wide(1.0 / 3, 0x1.5555555555555p-56), Wide(0.5), Wide(1)})
    less_one = (less_one + 1) * (part * inverse);
  for (int square = 0; square < 8; ++square) less_one = less_one * (less_one + 2);
  const Wide result = less_one + 1;
  const int exponent = static_cast<int>(n);
  return {std::ldexp(result.high(), exponent), std::ldexp(result.low(), exponent)};
}

// x = 2^n m. With y = log m in double and e = m exp(-y) - 1: log m = y + e - e^2 / 2 + ..., and
// e^2 / 2 is below the last bit.
Wide log(Wide x) {
  int n = 0;
  const double high = std::frexp(x.high(), &n);
  if (!(x.high() > 0) || !std::isfinite(x.high())) return std::log(x.high());
  const Wide m{high, std::ldexp(x.low(), -n)};
  const double y = std::log(high);
  const Wide e = m * exp(-y) - 1;
  return ln_2 * n + y + e;
}

Wide sin(Wide x) {
  const Wide square = x * x;
  Wide sum = 1;
  for (int term = 34; term > 0; term -= 2) sum = 1 - square * sum / (term * (term + 1));
  return x * sum;
}

Wide floor(Wide x) {
  const double high = std::floor(x.high());
  return high == x.high() ? ordered_sum(high, std::floor(x.low())) : Wide(high);
}

Wide ceil(Wide x) { return -floor(-x); }

std::vector<double> powers(double base, Wide step, std::int64_t count) {
  std::vector<double> all(static_cast<std::size_t>(count), 1);
  const Wide exponent = log(base) * step;
  for (std::size_t i = 1; i < all.size(); ++i)
    all[i] = static_cast<double>(exp(exponent * static_cast<double>(i)));
  return all;
}

}  // namespace gnomon::internal
