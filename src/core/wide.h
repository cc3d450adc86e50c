// Numbers of about 105 bits, as the sum of two doubles. Frequencies are computed in them and
// rounded once, so that they have the same bits on every system: long double has 53, 64 or 113
// bits, and some C libraries compute its powers in double.
//
// Source of sum and product: T. J. Dekker, A floating-point technique for extending the
// available precision, Numerische Mathematik 18 (1971).
#pragma once

#include <cstdint>
#include <numbers>
#include <vector>

namespace gnomon::internal {

class Wide {
 public:
  constexpr Wide(double value = 0) : high_(value) {}  // NOLINT: a conversion
  // |low| is at most half a unit in the last place of `high`.
  constexpr Wide(double high, double low) : high_(high), low_(low) {}

  explicit operator double() const { return high_; }  // the nearest
  constexpr double high() const { return high_; }
  constexpr double low() const { return low_; }

  // The error of each is below 2^-100 of the result.
  friend Wide operator+(Wide a, Wide b);
  friend Wide operator-(Wide a) { return {-a.high_, -a.low_}; }
  friend Wide operator-(Wide a, Wide b) { return a + -b; }
  friend Wide operator*(Wide a, Wide b);
  friend Wide operator/(Wide a, Wide b);
  friend bool operator==(Wide a, Wide b) = default;
  friend bool operator<(Wide a, Wide b) {
    return a.high_ < b.high_ || (a.high_ == b.high_ && a.low_ < b.low_);
  }

 private:
  double high_, low_ = 0;
};

inline constexpr Wide wide_pi{std::numbers::pi, 0x1.1a62633145c07p-53};

Wide log(Wide x);  // x > 0. Error: 2^-95 of the greater of |log x| and 1
Wide exp(Wide x);  // Error: 2^-94 of the result, for |x| < 700; beyond, that of std::exp
Wide sin(Wide x);  // 0 <= x <= pi / 2. Error: 2^-95 of the result
Wide floor(Wide x);
Wide ceil(Wide x);

// Returns base^(i step) for i < count, rounded once. base > 0.
std::vector<double> powers(double base, Wide step, std::int64_t count);

}  // namespace gnomon::internal
