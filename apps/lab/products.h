// The products of the linear layers, which are nearly all of the arithmetic of a training step.
#pragma once

#include <torch/types.h>

namespace gnomon::lab {

enum class Products {
  fastest = 1,  // AMX if the processor has it (products_amx.h), else blas
  blas,         // the BLAS of LibTorch, in float
};
// Sets the implementation for all threads. Default: fastest.
void set_products(Products products);

// a b. One axis of each matrix is contiguous, so transposed matrices are possible.
at::Tensor product(const at::Tensor& a, const at::Tensor& b);

}  // namespace gnomon::lab
