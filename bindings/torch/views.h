// Tensors as views, and the choice of an element type. Not installed.
#pragma once

#include <torch/types.h>

#include <array>
#include <string>
#include <vector>

#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "gnomon/view.h"

namespace gnomon::libtorch {

// The tensor's own memory and strides; the caller has checked its element type.
template <typename T, std::size_t Rank>
View<T, Rank> view(const at::Tensor& tensor) {
  if (tensor.dim() != static_cast<std::int64_t>(Rank))
    refuse("torch", "tensor must have " + std::to_string(Rank) + " dimensions", tensor.dim());
  std::array<std::ptrdiff_t, Rank> extents, strides;
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    extents[axis] = tensor.size(static_cast<std::int64_t>(axis));
    strides[axis] = tensor.stride(static_cast<std::int64_t>(axis));
  }
  if (extents[Rank - 1] <= 1) strides[Rank - 1] = 1;  // LibTorch's is then arbitrary
  return {static_cast<T*>(tensor.data_ptr()), extents, strides};
}

// Calls body(T()) with the Gnomon element type of `tensor`.
template <typename Body>
void with_element_type(const at::Tensor& tensor, Body&& body) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return body(float());
    case at::kDouble:
      return body(double());
    case at::kHalf:
      return body(Half());
    case at::kBFloat16:
      return body(BFloat16());
    default:
      refuse("torch", "tensor must be float32, float64, float16 or bfloat16",
             std::string_view(at::toString(tensor.scalar_type())));
  }
}

// The same tensor with its last axis contiguous.
inline at::Tensor with_contiguous_rows(const at::Tensor& tensor) {
  const bool contiguous = tensor.dim() && (tensor.size(-1) <= 1 || tensor.stride(-1) == 1);
  return contiguous ? tensor : tensor.contiguous();
}

// q, k and v of [B, T, H + 2 Hk, D]: views.
inline std::array<at::Tensor, 3> split_heads(const at::Tensor& qkv, std::int64_t key_heads) {
  const std::int64_t heads = qkv.size(2) - 2 * key_heads;
  return {qkv.narrow(2, 0, heads), qkv.narrow(2, heads, key_heads),
          qkv.narrow(2, heads + key_heads, key_heads)};
}

// Calls body(T(), K()) with the element types of q, and of k and v: the same, or K of 16 bits
// for T float.
template <typename Body>
void with_element_types(const at::Tensor& q, const at::Tensor& k, Body&& body) {
  if (q.scalar_type() == k.scalar_type())
    with_element_type(q, [&]<typename T>(T) { body(T(), T()); });
  else if (k.scalar_type() == at::kHalf)
    body(float(), Half());
  else
    body(float(), BFloat16());
}

// Parameter matrices as float views, and fresh gradients of their shapes. The caller has
// converted them (for_kernels).
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
