#include "apps/lab/data/numbers.h"

namespace gnomon::lab {
namespace {

// The regularized incomplete beta function I_x(a, b), by its continued fraction (Abramowitz and
// Stegun 26.5.8, with the method of Lentz). x below (a + 1) / (a + b + 2).
double incomplete_beta(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  double c = 1, d = 1 / std::max(tiny, 1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m < 1000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                 odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double factor = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d, c = 1 + term / c;
      if (std::abs(d) < tiny) d = tiny;
      if (std::abs(c) < tiny) c = tiny;
      d = 1 / d;
      factor = c * d;
      fraction *= factor;
    }
    if (std::abs(factor - 1) < 1e-15) break;
  }
  return std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) +
                  b * std::log1p(-x)) /
         a * fraction;
}

// The probability of a value above t >= 0.
double student_tail(double t, double degrees) {
  const double a = 0.5 * degrees, x = degrees / (degrees + t * t);
  return 0.5 * (x < (a + 1) / (a + 2.5) ? incomplete_beta(a, 0.5, x)
                                        : 1 - incomplete_beta(0.5, a, 1 - x));
}

// The number at which a falling function is `value`.
template <typename Function>
double solved(Function&& falling, double value) {
  double low = 0, high = 1;
  while (falling(high) > value && high < 1e300) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (falling(middle) > value ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace

double normal_quantile(double probability) {
  return solved([](double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }, 1 - probability);
}

double student_quantile(double probability, double degrees) {
  if (degrees > 1e6) return normal_quantile(probability);
  return solved([&](double t) { return student_tail(t, std::max(1.0, degrees)); },
                1 - probability);
}

}  // namespace gnomon::lab
