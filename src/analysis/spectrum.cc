#include "gnomon/analysis/spectrum.h"

#include <cmath>
#include <complex>
#include <limits>
#include <string>

#include "gnomon/error.h"
#include "src/core/exported.h"

namespace gnomon::analysis {
namespace {

using std::int64_t;
using Complex = std::complex<double>;

void check_length(int64_t length) {
  if (length < 0) refuse("spectrum", "length must not be negative", length);
}

std::size_t smallest_factor(std::size_t n) {
  for (std::size_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return p;
  return n;
}

// e^(-2 pi i k / n), 0 <= k < n, within 3 2^-53. Quarter turns are subtracted in integers.
Complex root(std::size_t k, std::size_t n) {
  const std::size_t quarters = (4 * k + n / 2) / n;
  const auto rest =
      static_cast<double>(static_cast<int64_t>(4 * k) - static_cast<int64_t>(quarters * n));
  const double angle = M_PI_2 * (rest / static_cast<double>(n));
  const double c = std::cos(angle), s = std::sin(angle);
  switch (quarters % 4) {
    case 0:
      return {c, -s};
    case 1:
      return {-s, -c};
    case 2:
      return {-c, s};
    default:
      return {s, c};
  }
}

// Compensated sum (Neumaier 1974): its error does not grow with the number of terms.
class Sum {
 public:
  void add(double term) {
    const double next = sum_ + term;
    rest_ += std::fabs(sum_) >= std::fabs(term) ? sum_ - next + term : term - next + sum_;
    sum_ = next;
  }
  double value() const { return sum_ + rest_; }

 private:
  double sum_ = 0, rest_ = 0;
};

// Decimation in time: out[0..n) is the transform of in[0], in[stride], ... `roots` are those of
// the whole length: roots[k] = e^(-2 pi i k / whole), whole = n stride.
void transform(const Complex* in, std::size_t stride, std::size_t n, Complex* out,
               const std::vector<Complex>& roots, std::vector<Complex>& scratch) {
  if (n == 1) {
    out[0] = in[0];
    return;
  }
  const std::size_t p = smallest_factor(n), m = n / p;
  for (std::size_t q = 0; q < p; ++q)
    transform(in + q * stride, stride * p, m, out + q * m, roots, scratch);
  for (std::size_t k = 0; k < m; ++k) {
    for (std::size_t q = 0; q < p; ++q) scratch[q] = out[q * m + k];
    for (std::size_t j = 0; j < p; ++j) {
      Sum real, imaginary;
      for (std::size_t q = 0; q < p; ++q) {
        const Complex turn = roots[(k + j * m) * q % n * stride], x = scratch[q];
        real.add(x.real() * turn.real() - x.imag() * turn.imag());
        imaginary.add(x.real() * turn.imag() + x.imag() * turn.real());
      }
      out[j * m + k] = {real.value(), imaginary.value()};
    }
  }
}

}  // namespace

std::vector<double> wavelengths(std::span<const double> frequencies) {
  std::vector<double> lengths;
  for (double f : frequencies)
    lengths.push_back(f == 0 ? std::numeric_limits<double>::infinity() : 2 * M_PI / f);
  return lengths;
}

std::vector<double> turns(std::span<const double> frequencies, int64_t length) {
  check_length(length);
  std::vector<double> all;
  for (double f : frequencies) all.push_back(static_cast<double>(length) * f / (2 * M_PI));
  return all;
}

std::vector<int64_t> unfinished(std::span<const double> frequencies, int64_t length) {
  const std::vector<double> all = turns(frequencies, length);
  std::vector<int64_t> indices;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] < 1) indices.push_back(static_cast<int64_t>(i));
  return indices;
}

std::vector<double> power_spectrum(std::span<const double> signal) {
  const std::size_t n = signal.size();
  if (n == 0) refuse("spectrum", "the signal must have at least one sample", 0);
  std::vector<Complex> in(signal.begin(), signal.end()), out(n), roots(n), scratch(n);
  for (std::size_t k = 0; k < n; ++k) roots[k] = root(k, n);
  transform(in.data(), 1, n, out.data(), roots, scratch);
  std::vector<double> power(n / 2 + 1);
  for (std::size_t k = 0; k < power.size(); ++k) {
    const double both = k == 0 || 2 * k == n ? 1 : 2;  // k and n - k
    power[k] = both * std::norm(out[k]) / (static_cast<double>(n) * static_cast<double>(n));
  }
  return power;
}

template <typename T>
void power_spectrum(View<const T, 2> table, View<double, 2> out) {
  const int64_t bins = table.extent(0) / 2 + 1;
  if (out.extent(0) != bins || out.extent(1) != table.extent(1))
    refuse(
        "spectrum",
        "out must be [" + std::to_string(bins) + ", " + std::to_string(table.extent(1)) + "]",
        shape_text(out.extents()));
  std::vector<double> channel(static_cast<std::size_t>(table.extent(0)));
  for (int64_t c = 0; c < table.extent(1); ++c) {
    for (int64_t t = 0; t < table.extent(0); ++t)
      channel[static_cast<std::size_t>(t)] = static_cast<double>(table(t, c));
    const std::vector<double> power = power_spectrum(channel);
    for (int64_t k = 0; k < bins; ++k) out(k, c) = power[static_cast<std::size_t>(k)];
  }
}

template GNOMON_EXPORTED void power_spectrum(View<const float, 2>, View<double, 2>);
template GNOMON_EXPORTED void power_spectrum(View<const double, 2>, View<double, 2>);

}  // namespace gnomon::analysis
