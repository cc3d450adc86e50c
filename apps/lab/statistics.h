// Mean and standard deviation.
#pragma once

#include <cmath>
#include <numeric>
#include <vector>

namespace gnomon::lab {

// Returns 0 for no numbers.
inline double mean(const std::vector<double>& numbers) {
  if (numbers.empty()) return 0;
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) /
         static_cast<double>(numbers.size());
}

// The standard deviation of a sample. Returns 0 for fewer than two numbers.
inline double deviation(const std::vector<double>& numbers) {
  if (numbers.size() < 2) return 0;
  const double middle = mean(numbers);
  double sum = 0;
  for (double number : numbers) sum += (number - middle) * (number - middle);
  return std::sqrt(sum / static_cast<double>(numbers.size() - 1));
}

}  // namespace gnomon::lab
