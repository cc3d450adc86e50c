// Arrays that own their elements.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gnomon/io/array.h"
#include "gnomon/view.h"
#include "src/core/elements_that_fit.h"

namespace gnomon::internal {

template <typename T, std::size_t Rank>
struct OwnedTensor {
  std::vector<T> values;
  View<T, Rank> view;

  // Throws std::invalid_argument if the bytes exceed the memory of the machine.
  explicit OwnedTensor(std::array<std::int64_t, Rank> shape)
      : values(elements_that_fit(std::vector<std::int64_t>(shape.begin(), shape.end()),
                                 sizeof(T))),
        view(values.data(), shape) {}
  OwnedTensor(const OwnedTensor&) = delete;
  OwnedTensor& operator=(const OwnedTensor&) = delete;

  // Borrows the values.
  io::Array array() const { return io::Array::of(View<const T, Rank>(view)); }
};

}  // namespace gnomon::internal
