// Arguments of the functions of gnomon._cuda.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "bindings/python/arrays.h"
#include "gnomon/cuda/device.h"

namespace gnomon::python {

using Access = Array::Access;

// An array on a device. In the module of the emulator, which has no device, an array of the
// CPU.
class OnDevice : public Array {
 public:
  OnDevice(const char* operation, const char* name, nb::handle object, Access access)
      : Array(operation, name, object, access), there_(Array::tensor()) {
#if defined(GNOMON_CUDA_EMULATED)
    if (there_.shape) there_.device = {DeviceType::cuda, 0};
#endif
  }
  const Tensor& tensor() const noexcept { return there_; }
  operator const Tensor&() const noexcept { return there_; }  // NOLINT: a conversion

 private:
  Tensor there_;
};

inline cuda::Stream stream_of(std::uintptr_t stream) {
  return reinterpret_cast<cuda::Stream>(stream);
}

void bind_bias_gradient(nb::module_& module);

}  // namespace gnomon::python
