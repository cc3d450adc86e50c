// Rotates a vector with position 1 and frequency 1, and compares it with cos(1) and sin(1).
#include <gnomon/rotary/rotary.h>
#include <gnomon/version.h>

#include <cmath>
#include <cstdio>

int main() {
  const gnomon::Rotary spec{.rotary_dim = 2, .pairing = gnomon::Pairing::halves};
  const gnomon::RotaryTable table(spec, gnomon::consecutive(2));
  std::vector<float> x{1, 0, 1, 0};  // [T, H, D] = [2, 1, 2]
  gnomon::rotate(gnomon::View<float, 3>(x.data(), {2, 1, 2}), table);
  const double error = std::hypot(x[2] - std::cos(1.0), x[3] - std::sin(1.0));
  std::printf("gnomon %s: error of a rotation by 1 radian %.1e\n", GNOMON_VERSION, error);
  return x[0] == 1 && x[1] == 0 && error < 1e-7 ? 0 : 1;
}
