// Waves of exact frequencies in 256 bits: the oracle of the sinusoidal tests.
#pragma once

#include <mpfr.h>

#include <cmath>

#include "testing.h"

namespace gnomon::testing {

class Wide {  // an MPFR number
 public:
  explicit Wide(double value = 0) {
    mpfr_init2(number, 256);
    mpfr_set_d(number, value, MPFR_RNDN);
  }
  ~Wide() { mpfr_clear(number); }
  Wide(const Wide&) = delete;
  Wide& operator=(const Wide&) = delete;
  long double rounded() const { return mpfr_get_ld(number, MPFR_RNDN); }

  mpfr_t number;
};

struct Wave {
  long double sine, cosine;
};

// frequency = base^(-i / (n - shift))
inline void set_frequency(Wide& frequency, double base, double i, double n, double shift = 0) {
  Wide exponent(n);
  mpfr_sub_d(exponent.number, exponent.number, shift, MPFR_RNDN);
  mpfr_d_div(exponent.number, -i, exponent.number, MPFR_RNDN);
  mpfr_set_d(frequency.number, base, MPFR_RNDN);
  mpfr_pow(frequency.number, frequency.number, exponent.number, MPFR_RNDN);
}

inline Wave wave(double position, const Wide& frequency) {
  Wide angle(position), sine, cosine;
  mpfr_mul(angle.number, angle.number, frequency.number, MPFR_RNDN);
  mpfr_sin_cos(sine.number, cosine.number, angle.number, MPFR_RNDN);
  return {sine.rounded(), cosine.rounded()};
}

inline Wave wave(double position, double frequency) { return wave(position, Wide(frequency)); }

// base^(-i / n), not rounded to double.
inline Wave true_wave(double position, double base, double i, double n, double shift = 0) {
  Wide frequency;
  set_frequency(frequency, base, i, n, shift);
  return wave(position, frequency);
}

// Half an ulp of T at `value`, + 2^-46.
template <typename T>
long double entry_bound(long double value) {
  const long double subnormal = std::is_same_v<T, Half> ? 0x1p-25L : 0;
  return std::fmax(static_cast<long double>(half_ulp<T>) * std::fabs(value), subnormal) +
         0x1p-46L;
}

}  // namespace gnomon::testing
