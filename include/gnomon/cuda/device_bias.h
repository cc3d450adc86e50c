// Bias forms in the memory of a CUDA device, and their views for kernels.
#pragma once

#include <cstdint>
#include <variant>

#include "gnomon/bias/form.h"
#include "gnomon/cuda/bias.h"
#include "gnomon/cuda/device.h"

namespace gnomon::cuda {

// A view of one of the forms. Its pointers are device pointers. An engine whose trained values
// are a device tensor builds the view from its pointer, without a copy:
//
//   BiasView view = StripView{values, -4095, 8191, heads};
using BiasView = std::variant<SlopeView, StripView, GridView, PiecewiseLogView>;

// The values of a form in the memory of a device, rounded to float. Immutable; movable, not
// copyable. Memory: 4 bytes for each value of the form.
class DeviceBias {
 public:
  // Copies the values. Throws std::invalid_argument if the form is inconsistent, is a NoBias, a
  // DenseBias or an AxesBias, or has 2^31 values for a head; Error if CUDA fails.
  explicit DeviceBias(const BiasForm& form, int device = 0);

  // Valid while the DeviceBias exists.
  const BiasView& view() const noexcept { return view_; }
  int device() const noexcept { return values_.device(); }
  std::int64_t heads() const noexcept { return heads_; }                  // H
  std::int64_t gradient_size() const noexcept { return gradient_size_; }  // as of the form

 private:
  Array<float> values_;
  BiasView view_;
  std::int64_t heads_ = 0, gradient_size_ = 0;
};

}  // namespace gnomon::cuda
