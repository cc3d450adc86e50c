// powl for long double of 128 bits. musl's converts its arguments to double, so that a
// frequency would be wrong by up to 14 units in the last place. Frequencies are computed in
// long double and rounded once.
#include <cmath>

extern "C" long double powl(long double x, long double y) {
  constexpr long double most = 11000, ln_2 = 0.693147180559945309417232121458176568L;
  const long double power = y * logl(x);
  if (!(x > 0) || !(power > -most && power < most))
    return std::pow(static_cast<double>(x), static_cast<double>(y));
  // exp(power) = 2^n exp(rest / 256)^256, with a Taylor series of exp(rest / 256) - 1.
  const long double n = std::floor(power / ln_2 + 0.5L);
  const long double rest = (power - n * ln_2) / 256;
  long double less_one = 0;
  for (int term = 14; term > 0; --term) less_one = rest / term * (1 + less_one);
  for (int square = 0; square < 8; ++square) less_one = less_one * (2 + less_one);
  return std::ldexp(1 + less_one, static_cast<int>(n));
}
