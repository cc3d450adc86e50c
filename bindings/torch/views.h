// Conversion of tensors to views, and selection of an element type. Not installed.
#pragma once

#include <torch/types.h>

#include <array>
#include <string>
#include <vector>

#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon::libtorch {

// A view of the tensor's memory with its strides. The caller has checked the element type.
template <typename T, std::size_t Rank>
View<T, Rank> view(const at::Tensor& tensor) {
  if (tensor.dim() != static_cast<std::int64_t>(Rank))
    refuse("torch", "tensor must have " + std::to_string(Rank) + " dimensions", tensor.dim());
  std::array<std::int64_t, Rank> extents, strides;
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    extents[axis] = tensor.size(static_cast<std::int64_t>(axis));
    strides[axis] = tensor.stride(static_cast<std::int64_t>(axis));
  }
  if (extents[Rank - 1] <= 1) strides[Rank - 1] = 1;  // LibTorch's stride is arbitrary then
  return {static_cast<T*>(tensor.data_ptr()), extents, strides};
}

// The tensor as a gnomon::Tensor of the same element type. Valid as long as `from` exists and
// keeps its shape.
inline Tensor tensor(const at::Tensor& from) {
  Tensor to;
  if (!from.defined()) return to;
  to.data = from.data_ptr();
  to.rank = static_cast<std::int32_t>(from.dim());
  to.shape = const_cast<std::int64_t*>(from.sizes().data());
  to.strides = const_cast<std::int64_t*>(from.strides().data());
  switch (from.scalar_type()) {
    case at::kFloat:
      to.dtype = data_type_of<float>;
      return to;
    case at::kDouble:
      to.dtype = data_type_of<double>;
      return to;
    case at::kHalf:
      to.dtype = data_type_of<Half>;
      return to;
    case at::kBFloat16:
      to.dtype = data_type_of<BFloat16>;
      return to;
    default:
      refuse("torch", "tensor must be float32, float64, float16 or bfloat16",
             std::string_view(at::toString(from.scalar_type())));
  }
}

// The same tensor with its last axis contiguous.
inline at::Tensor with_contiguous_rows(const at::Tensor& tensor) {
  const bool contiguous = tensor.dim() && (tensor.size(-1) <= 1 || tensor.stride(-1) == 1);
  return contiguous ? tensor : tensor.contiguous();
}

// q, k and v as views of a tensor [B, T, H + 2 Hk, D].
inline std::array<at::Tensor, 3> split_heads(const at::Tensor& qkv, std::int64_t key_heads) {
  const std::int64_t heads = qkv.size(2) - 2 * key_heads;
  return {qkv.narrow(2, 0, heads), qkv.narrow(2, heads, key_heads),
          qkv.narrow(2, heads + key_heads, key_heads)};
}

// Parameter matrices as float views, and gradients as views. The caller has converted the
// parameters (for_kernels).
inline std::vector<View<const float, 2>> matrices(at::TensorList parameters) {
  std::vector<View<const float, 2>> views;
  for (const at::Tensor& one : parameters) {
    views.push_back(view<const float, 2>(one));
  }
  return views;
}
inline std::vector<View<float, 2>> matrices(std::vector<at::Tensor>& gradients) {
  std::vector<View<float, 2>> views;
  for (at::Tensor& one : gradients) views.push_back(view<float, 2>(one));
  return views;
}

}  // namespace gnomon::libtorch
