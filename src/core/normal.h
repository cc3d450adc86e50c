// Random numbers that are the same on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace gnomon::internal {

// Normal random numbers with deviation 1 (Box and Muller 1958). std::normal_distribution
// differs between standard libraries.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : engine_(seed) {}
  double operator()() {
    const double u = (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53;
    const double v = static_cast<double>(engine_() >> 11) * 0x1p-53;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace gnomon::internal
