// Helpers of the tests of all modules: owned tensors with reproducible contents.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gnomon/dtype.h"
#include "gnomon/isa.h"
#include "gnomon/view.h"

namespace gnomon::testing {

// An owned, contiguous tensor.
template <typename T, std::size_t Rank>
struct Tensor {
  std::array<std::ptrdiff_t, Rank> extents{};
  std::vector<T> values;

  explicit Tensor(std::array<std::ptrdiff_t, Rank> shape, T value = T())
      : extents(shape),
        values(static_cast<std::size_t>(View<T, Rank>(nullptr, shape).size()), value) {}
  View<T, Rank> view() { return {values.data(), extents}; }
  View<const T, Rank> view() const { return {values.data(), extents}; }
  std::size_t bytes() const { return values.size() * sizeof(T); }
};

// Normal random numbers with deviation 1, the same on every machine for the same seed.
inline std::vector<double> random_numbers(std::size_t count, unsigned seed = 1) {
  struct Sequence {
    explicit Sequence(unsigned of) : engine(of) {}
    double next() {  // Box-Muller: std::normal_distribution differs by library
      const double u = (static_cast<double>(engine() >> 11) + 0.5) * 0x1p-53;
      const double v = static_cast<double>(engine() >> 11) * 0x1p-53;
      return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
    }
    std::mt19937_64 engine;
    std::vector<double> first;
  };
  // Tests draw the same numbers many times: the first of 16 seeds are kept.
  static thread_local std::map<unsigned, Sequence> sequences;
  if (sequences.size() == 16 && !sequences.contains(seed)) sequences.clear();
  Sequence& kept = sequences.try_emplace(seed, seed).first->second;
  const std::size_t known = std::min(count, std::size_t{1} << 20);
  kept.first.reserve(known);
  while (kept.first.size() < known) kept.first.push_back(kept.next());
  std::vector<double> numbers(kept.first.begin(),
                              kept.first.begin() + static_cast<std::ptrdiff_t>(known));
  if (count == known) return numbers;
  numbers.reserve(count);
  Sequence rest(kept);
  while (numbers.size() < count) numbers.push_back(rest.next());
  return numbers;
}

template <typename T, std::size_t Rank>
Tensor<T, Rank> random_tensor(std::array<std::ptrdiff_t, Rank> shape, unsigned seed = 1) {
  Tensor<T, Rank> tensor(shape);
  const auto numbers = random_numbers(tensor.values.size(), seed);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    tensor.values[i] = static_cast<T>(numbers[i]);
  return tensor;
}

// Returns first, first + 1, ... (`count` numbers).
inline std::vector<std::int64_t> iota(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// Converts an element of any type to double.
template <typename T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<double>(static_cast<float>(value));
}

// The relative error of one rounding to T: half an ulp of 1.
template <typename T>
constexpr double half_ulp = std::is_same_v<T, double>  ? 0x1p-53
                            : std::is_same_v<T, float> ? 0x1p-24
                            : std::is_same_v<T, Half>  ? 0x1p-11
                                                       : 0x1p-8;

// Returns the message of the exception that `call` throws; empty if it throws none.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace gnomon::testing
