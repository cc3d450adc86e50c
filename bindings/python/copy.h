// Copies of arrays for operations that change their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gnomon/tensor.h"
#include "src/core/tensor.h"

namespace gnomon::python {

// A contiguous copy of a tensor [B, T, H, D].
class Copy {
 public:
  Copy() = default;
  Copy(const char* name, const ConstTensor& from) {
    internal::by_type({"attention", name}, from, [&]<typename T>(T) {
      const auto view = internal::read<T, 4>({"attention", name}, from);
      values_.resize(internal::to_size(view.size()) * sizeof(T));
      for (int axis = 0; axis < 4; ++axis)
        shape_[axis] = view.extent(static_cast<std::size_t>(axis));
      auto* to = reinterpret_cast<T*>(values_.data());
      for (std::int64_t b = 0; b < shape_[0]; ++b)
        for (std::int64_t t = 0; t < shape_[1]; ++t)
          for (std::int64_t h = 0; h < shape_[2]; ++h)
            for (std::int64_t d = 0; d < shape_[3]; ++d) *to++ = view(b, t, h, d);
    });
    tensor_ = static_cast<const Tensor&>(from);
    tensor_.data = values_.data();
    tensor_.byte_offset = 0;
    tensor_.shape = shape_;
    tensor_.strides = nullptr;
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  const Tensor& tensor() const noexcept { return tensor_; }

 private:
  std::vector<std::byte> values_;
  std::int64_t shape_[4] = {};
  Tensor tensor_ = {};
};

}  // namespace gnomon::python
