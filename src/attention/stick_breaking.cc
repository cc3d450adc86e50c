#include "gnomon/attention/stick_breaking.h"

#include <cmath>

namespace gnomon {

void stick_weights(const StickBreaking& sticks, std::span<double> scores) {
  double rest = 1;
  if (sticks.own_key == OwnKey::excluded && !scores.empty()) {
    scores.back() = 0;
    scores = scores.first(scores.size() - 1);
  }
  for (auto score = scores.rbegin(); score != scores.rend(); ++score) {
    const double power = std::exp(-std::fabs(*score));  // never overflows
    const double greater = 1 / (1 + power), less = power * greater;
    const bool negative = *score < 0;
    *score = rest * (negative ? less : greater);
    rest *= negative ? greater : less;
  }
}

}  // namespace gnomon
