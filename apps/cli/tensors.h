// Arrays that own their elements, for commands whose element type is an option.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/cli/arguments.h"
#include "bench/kernels/blocks.h"
#include "gnomon/dtype.h"
#include "gnomon/io/array.h"
#include "gnomon/view.h"

namespace gnomon::cli {

using bench::elements_that_fit;

template <typename T, std::size_t Rank>
struct Tensor {
  std::vector<T> values;
  View<T, Rank> view;

  // Throws std::invalid_argument if the bytes exceed the memory of the machine.
  explicit Tensor(std::array<std::ptrdiff_t, Rank> shape)
      : values(elements_that_fit(std::vector<std::int64_t>(shape.begin(), shape.end()),
                                 sizeof(T))),
        view(values.data(), shape) {}
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  // Borrows the values.
  io::Array array() const { return io::Array::of(View<const T, Rank>(view)); }
};

// Reads a matrix of any element type from a `.npy` file, as float. Throws if it is not a matrix
// or is empty.
std::unique_ptr<Tensor<float, 2>> read_matrix(const std::string& path);

// Calls use(T()) with T the element type of that name: f32, f16, bf16 or f64.
template <typename Use>
void with_dtype(const std::string& dtype, Use use) {
  switch (parse_name<DType>(
      "dtype",
      {{"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}, {"f64", DType::f64}},
      dtype)) {
    case DType::f32:
      return use(float());
    case DType::f16:
      return use(Half());
    case DType::bf16:
      return use(BFloat16());
    case DType::f64:
      return use(double());
  }
}

}  // namespace gnomon::cli
