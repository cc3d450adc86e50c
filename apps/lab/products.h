// The products of the linear layers: what nearly all of a training step's arithmetic is.
#pragma once

#include <torch/types.h>

namespace gnomon::lab {

enum class Products {
  fastest = 1,  // on AMX where the processor has it (products_amx.h), else as below
  blas,         // LibTorch's own, in float
};
// For all threads. The fastest unless something else is said.
void set_products(Products products);

// a b: matrices of which one axis is contiguous, such as transposed ones.
at::Tensor product(const at::Tensor& a, const at::Tensor& b);

}  // namespace gnomon::lab
