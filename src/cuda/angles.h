// cos and sin of position x frequency on the device: the operations of src/core/angles-inl.h,
// so entries have the bits of tables that processors with a fused multiply-add compute.
#pragma once

#include <bit>
#include <cstdint>

#include "src/cuda/context.h"

namespace gnomon::cuda {

struct CosSin {
  double cos, sin;
};

// The error is at most 2^-51, for products up to 2^51.
GNOMON_DEVICE CosSin cos_sin(double position, double frequency) {
  const double angle = position * frequency, rest = std::fma(position, frequency, -angle);
  // Subtract k pi/2, with pi/2 in three doubles. Adding 1.5 x 2^52 rounds the quotient to k.
  constexpr double magic = 0x1.8p52;
  const double shifted = std::fma(angle, 0x1.45f306dc9c883p-1, magic);
  const double k = shifted - magic;
  const double part = std::fma(-k, 0x1.921fb54442d18p+0, angle);
  const double high = k * 0x1.1a62633145c07p-54;
  const double low = std::fma(k, 0x1.1a62633145c07p-54, -high);
  double x = part - high;
  const double there = x - part;
  const double error = (part - (x - there)) + (-high - there);
  double y = std::fma(-k, -0x1.f1976b7ed8fbcp-110, (error - low) + rest);
  const double sum = x + y, y_there = sum - x;
  y = (x - (sum - y_there)) + (y - y_there);
  x = sum;

  const double z = x * x;
  double s = 1.0 / 355687428096000;  // 17!
  s = std::fma(s, z, -1.0 / 1307674368000);
  s = std::fma(s, z, 1.0 / 6227020800);
  s = std::fma(s, z, -1.0 / 39916800);
  s = std::fma(s, z, 1.0 / 362880);
  s = std::fma(s, z, -1.0 / 5040);
  s = std::fma(s, z, 1.0 / 120);
  s = std::fma(s, z, -1.0 / 6);
  double c = 1.0 / 20922789888000;  // 16!
  c = std::fma(c, z, -1.0 / 87178291200);
  c = std::fma(c, z, 1.0 / 479001600);
  c = std::fma(c, z, -1.0 / 3628800);
  c = std::fma(c, z, 1.0 / 40320);
  c = std::fma(c, z, -1.0 / 720);
  c = std::fma(c, z, 1.0 / 24);
  const double half = z * 0.5;
  const double sin_x = x + std::fma(s * z, x, y * (1.0 - half));
  const double cos_x = 1.0 - (half - ((c * z) * z - x * y));

  // The quadrant of the angle. Odd quadrants exchange cos and sin.
#if defined(__CUDA_ARCH__)
  const int quarter = __double2loint(shifted);
#else
  const auto quarter = static_cast<int>(std::bit_cast<std::uint64_t>(shifted));
#endif
  const double sine = quarter & 1 ? cos_x : sin_x, cosine = quarter & 1 ? sin_x : cos_x;
  return {(quarter + 1) & 2 ? -cosine : cosine, quarter & 2 ? -sine : sine};
}

// The rotation by angle a followed by b: a product of complex numbers.
GNOMON_DEVICE CosSin compose(const CosSin& a, const CosSin& b) {
  return {std::fma(-a.sin, b.sin, a.cos * b.cos), std::fma(a.sin, b.cos, a.cos * b.sin)};
}

constexpr int anchor_step = 64;  // as src/core/angles.h
constexpr double farthest = 0x1p31;

// The entry of an integer position: the product of its anchor and its step, as in a table.
GNOMON_DEVICE CosSin table_entry(std::int64_t position, double frequency, double scale) {
  const std::int64_t anchor = position & ~static_cast<std::int64_t>(anchor_step - 1);
  CosSin far = cos_sin(static_cast<double>(anchor), frequency);
  far = {scale * far.cos, scale * far.sin};
  return compose(far, cos_sin(static_cast<double>(position - anchor), frequency));
}

}  // namespace gnomon::cuda
