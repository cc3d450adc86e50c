#include "gnomon/angles.h"

#include <cmath>

#include "gnomon/dtype.h"
#include "gnomon/error.h"

namespace gnomon {
namespace {

template <typename P, typename T>
void fill_any(std::span<const P> positions, std::span<const double> frequencies,
              View<T, 2> cosines, View<T, 2> sines, Angles angles, double scale) {
  for (std::size_t t = 0; t < positions.size(); ++t)
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      double c, s;
      if (angles == Angles::float32) {
        const float angle =
            static_cast<float>(positions[t]) * static_cast<float>(frequencies[i]);
        c = std::cos(angle), s = std::sin(angle);
      } else {
        const long double angle =
            static_cast<long double>(positions[t]) * static_cast<long double>(frequencies[i]);
        c = static_cast<double>(std::cos(angle)), s = static_cast<double>(std::sin(angle));
      }
      cosines(t, i) = static_cast<T>(scale * c);
      sines(t, i) = static_cast<T>(scale * s);
    }
}

}  // namespace

template <typename T>
void fill_cos_sin(std::span<const std::int64_t> positions, std::span<const double> frequencies,
                  View<T, 2> cosines, View<T, 2> sines, Angles angles, double scale) {
  fill_any(positions, frequencies, cosines, sines, angles, scale);
}
template <typename T>
void fill_cos_sin(std::span<const double> positions, std::span<const double> frequencies,
                  View<T, 2> cosines, View<T, 2> sines, Angles angles, double scale) {
  fill_any(positions, frequencies, cosines, sines, angles, scale);
}

#define GNOMON_INSTANTIATE(T)                                                              \
  template void fill_cos_sin(std::span<const std::int64_t>, std::span<const double>,       \
                             View<T, 2>, View<T, 2>, Angles, double);                      \
  template void fill_cos_sin(std::span<const double>, std::span<const double>, View<T, 2>, \
                             View<T, 2>, Angles, double);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
GNOMON_INSTANTIATE(Half)
GNOMON_INSTANTIATE(BFloat16)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon
