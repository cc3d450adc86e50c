// Arrays of commands whose element type is an option.
#pragma once

#include <memory>
#include <string>

#include "apps/cli/arguments.h"
#include "gnomon/dtype.h"
#include "src/io/owned_tensor.h"

namespace gnomon::cli {

using internal::elements_that_fit;

template <typename T, std::size_t Rank>
using Tensor = internal::OwnedTensor<T, Rank>;

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
