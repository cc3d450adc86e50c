// Checks of tensors on a CUDA device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gnomon/error.h"
#include "gnomon/tensor.h"

namespace gnomon::cuda {

// The tensors of one call: all must be on one device.
class Arguments {
 public:
  explicit Arguments(std::string_view operation) : operation_(operation) {}

  // Throws std::invalid_argument unless the tensor is on the device of the tensors before it,
  // has `least` to `most` axes, no negative extent, and data if it has elements.
  void check(std::string_view name, const ConstTensor& tensor, std::int32_t least,
             std::int32_t most);
  void check(std::string_view name, const ConstTensor& tensor, std::int32_t rank,
             DataType type);
  // Throws also unless the last axis is contiguous.
  void check_rows(std::string_view name, const ConstTensor& tensor, std::int32_t least,
                  std::int32_t most);
  void check_type(std::string_view name, const ConstTensor& tensor, DataType type) const;
  // Throws with "NAME must be RULE, got SHAPE".
  [[noreturn]] void refuse_shape(std::string_view name, std::string_view rule,
                                 const ConstTensor& tensor) const;
  std::string_view operation() const noexcept { return operation_; }
  int device() const noexcept { return device_; }

 private:
  std::string_view operation_;
  int device_ = -1;  // not known yet
};

// The data of a tensor, at its first element.
template <typename T>
T* data(const ConstTensor& tensor) {
  return static_cast<T*>(tensor.start());
}

// Axis `axis`, counted from the last (0). Extent 1 and stride 0 if the tensor has fewer axes.
struct Axis {
  std::int64_t extent = 1, stride = 0;
};
inline Axis axis_from_last(const ConstTensor& tensor, std::int32_t axis) {
  const std::int32_t index = tensor.rank - 1 - axis;
  if (index < 0) return {};
  return {tensor.extent(index), tensor.stride(index)};
}

// Calls body(T{}) with the element type T of a tensor: float, Half or BFloat16.
template <typename Body>
void by_type(std::string_view operation, std::string_view name, const ConstTensor& tensor,
             Body&& body) {
  if (tensor.holds<BFloat16>()) return body(BFloat16{});
  if (tensor.holds<Half>()) return body(Half{});
  if (tensor.holds<float>()) return body(float{});
  refuse(operation, std::string(name) + " must have elements of f32, f16 or bf16",
         gnomon::name(tensor.dtype));
}

// Returns whether the address and all strides but the last are multiples of `bytes`.
bool aligned(const ConstTensor& tensor, std::int64_t bytes);

}  // namespace gnomon::cuda
