// Arrays of kernels.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "gnomon/dtype.h"
#include "gnomon/view.h"
#include "src/core/elements_that_fit.h"

namespace gnomon::bench {

inline std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

using internal::elements_that_fit;

// An array that starts at a cache line, as in most engines.
template <typename T, std::size_t Rank>
struct Block {
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T[], Free> data;
  View<T, Rank> view;

  explicit Block(std::array<std::ptrdiff_t, Rank> shape) {
    const std::size_t count =
        elements_that_fit(std::vector<std::int64_t>(shape.begin(), shape.end()), sizeof(T));
    data.reset(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) / 64 + 1) * 64)));
    if (!data) throw std::bad_alloc();
    std::uninitialized_fill_n(data.get(), count, T());
    view = {data.get(), shape};
  }
};
template <typename T, std::size_t Rank>
using Shared = std::shared_ptr<Block<T, Rank>>;

template <typename T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<double>(static_cast<float>(value));
}

template <typename T, std::size_t Rank>
Shared<T, Rank> zeros(std::array<std::ptrdiff_t, Rank> shape) {
  return std::make_shared<Block<T, Rank>>(shape);
}

// Random numbers between -1 and 1.
template <typename T, std::size_t Rank>
Shared<T, Rank> random_block(std::array<std::ptrdiff_t, Rank> shape, std::uint64_t seed = 1) {
  auto block = zeros<T, Rank>(shape);
  std::uint64_t state = seed;
  for (std::ptrdiff_t i = 0; i < block->view.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    block->data[static_cast<std::size_t>(i)] =
        static_cast<T>(static_cast<float>(static_cast<double>(state >> 40) * 0x1p-23 - 1));
  }
  return block;
}

}  // namespace gnomon::bench
