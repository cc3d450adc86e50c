// Checks of tensor arguments, and dispatch from a run-time element type to a compile-time type.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "gnomon/error.h"
#include "gnomon/tensor.h"
#include "src/core/overflow.h"
#include "src/core/size.h"

namespace gnomon::internal {

// An argument as messages name it: the operation and the name of the argument.
struct Argument {
  std::string_view operation, name;
};

// Returns the shape of a tensor of any rank: "[2, 3]". A rank that is negative or more than 64
// gives its number: no array has it, and the shape may be shorter.
std::string shape_text(const ConstTensor& tensor);

// Returns whether no extent is negative, and the elements, with gaps between them, are fewer
// than 2^59, so that no index and no size of the tensor overflows. Extents of 0 count as 1, and
// then the elements are at most 2^31.
inline bool fits(const ConstTensor& tensor) noexcept {
  std::int64_t count = 1, reach = 1;  // reach: from the least to the greatest element
  bool empty = false;
  for (std::int32_t axis = 0; axis < tensor.rank; ++axis) {
    const std::int64_t extent = tensor.shape[axis];
    if (!multiply(count, extent)) return false;
    empty |= extent == 0;
    if (!tensor.strides || extent < 2) continue;
    std::int64_t step = tensor.strides[axis];
    if (step < -most_elements || step > most_elements) return false;
    if (multiply_overflow(extent - 1, step < 0 ? -step : step, &step) ||
        step > most_elements - reach)
      return false;
    reach += step;
  }
  return !empty || count <= most_rows_of_empty;
}
// Returns whether the first element has an address, in an object of fewer than 2^63 bytes.
inline bool addressable(const ConstTensor& tensor) noexcept {
  return tensor.byte_offset <= PTRDIFF_MAX &&
         tensor.byte_offset <= UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(tensor.data);
}
// Returns whether the first element is at a multiple of its size, as its type requires.
inline bool aligned(const ConstTensor& tensor) noexcept {
  const std::uint64_t bytes = tensor.dtype.bits / 8;
  return bytes < 2 || reinterpret_cast<std::uintptr_t>(tensor.start()) % bytes == 0;
}

// Does the checks of `check_tensor` and throws. Returns if the tensor has no elements.
void check_tensor_slowly(Argument argument, const ConstTensor& tensor, std::int32_t rank);

// Throws std::invalid_argument unless the tensor has data (or no elements), is on the CPU, has
// `rank` axes, fits, and begins at an address that is aligned. Inline, because a decoding step
// of a microsecond calls it.
inline void check_tensor(Argument argument, const ConstTensor& tensor, std::int32_t rank) {
  const bool good = tensor.rank == rank && tensor.device.type == DeviceType::cpu &&
                    tensor.data && tensor.shape && fits(tensor) && addressable(tensor) &&
                    aligned(tensor);
  if (!good) [[unlikely]]
    check_tensor_slowly(argument, tensor, rank);
}
[[noreturn]] void refuse_type(Argument argument, std::string_view types, DataType got);
[[noreturn]] void refuse_type(Argument argument, DataType type, DataType got);
// Checks also that the elements are of `type`.
inline void check_tensor(Argument argument, const ConstTensor& tensor, std::int32_t rank,
                         DataType type) {
  if (tensor.dtype != type) [[unlikely]]
    refuse_type(argument, type, tensor.dtype);
  check_tensor(argument, tensor, rank);
}
// Throws with a rule such as "x must have 3 or 4 axes".
[[noreturn]] void refuse_rank(Argument argument, const ConstTensor& tensor,
                              std::string_view ranks);

// Throws std::invalid_argument if two elements of a written tensor may be in one place.
void check_own_places(Argument argument, const ConstTensor& tensor);
// Returns true if each axis is longer than all axes after it, as in a row-major array. Inline,
// to leave out check_own_places.
inline bool in_row_major_order(const ConstTensor& tensor) noexcept {
  if (!tensor.strides) return true;
  std::int64_t reach = 1;
  for (std::int32_t axis = tensor.rank; axis-- > 0;) {
    if (tensor.shape[axis] < 2) continue;
    if (tensor.strides[axis] < reach) return false;
    reach += tensor.strides[axis] * (tensor.shape[axis] - 1);
  }
  return true;
}

// Checks a tensor and returns its view.
template <typename T, std::size_t Rank>
View<const T, Rank> read(Argument argument, const ConstTensor& tensor) {
  check_tensor(argument, tensor, static_cast<std::int32_t>(Rank), data_type_of<T>);
  return view<const T, Rank>(tensor);
}
template <typename T, std::size_t Rank>
View<T, Rank> write(Argument argument, const Tensor& tensor) {
  check_tensor(argument, tensor, static_cast<std::int32_t>(Rank), data_type_of<T>);
  if (!in_row_major_order(tensor)) [[unlikely]]
    check_own_places(argument, tensor);
  return view<T, Rank>(tensor);
}
// Checks a tensor that may be left out; an empty view if it is.
template <typename T, std::size_t Rank>
View<const T, Rank> read_if(Argument argument, const ConstTensor& tensor) {
  return tensor.has_data() ? read<T, Rank>(argument, tensor) : View<const T, Rank>();
}
template <typename T, std::size_t Rank>
View<T, Rank> write_if(Argument argument, const Tensor& tensor) {
  return tensor.has_data() ? write<T, Rank>(argument, tensor) : View<T, Rank>();
}

// Adds a batch axis of extent 1 in front of [T, H, D]. Ranks Rank and Rank - 1 are accepted.
template <typename T, std::size_t Rank>
View<T, Rank> with_batch(const View<T, Rank - 1>& one) noexcept {
  typename View<T, Rank>::Extents extents{1}, strides{0};
  for (std::size_t axis = 1; axis < Rank; ++axis) {
    extents[axis] = one.extent(axis - 1);
    strides[axis] = one.stride(axis - 1);
  }
  return {one.data(), extents, strides};
}
template <std::int32_t rank>
void check_batch_rank(Argument argument, const ConstTensor& tensor) {
  if (tensor.rank == rank || tensor.rank == rank - 1) return;
  refuse_rank(argument, tensor, std::to_string(rank - 1) + " or " + std::to_string(rank));
}
template <typename T, std::size_t Rank>
View<const T, Rank> read_batch(Argument argument, const ConstTensor& tensor) {
  if (tensor.rank == static_cast<std::int32_t>(Rank)) [[likely]]
    return read<T, Rank>(argument, tensor);
  check_batch_rank<Rank>(argument, tensor);
  return with_batch<const T, Rank>(read<T, Rank - 1>(argument, tensor));
}
template <typename T, std::size_t Rank>
View<T, Rank> write_batch(Argument argument, const Tensor& tensor) {
  if (tensor.rank == static_cast<std::int32_t>(Rank)) [[likely]]
    return write<T, Rank>(argument, tensor);
  check_batch_rank<Rank>(argument, tensor);
  return with_batch<T, Rank>(write<T, Rank - 1>(argument, tensor));
}

// JavaScript has arrays of float and double only, and a module without the others is smaller.
#ifdef __wasm__
inline constexpr bool has_16_bit_types = false;
#else
inline constexpr bool has_16_bit_types = true;
#endif

// Calls body(T{}) with the tensor's element type T: float, Half, BFloat16 or double. Throws
// std::invalid_argument, with the name of the type, for others.
template <typename Body>
void by_type(Argument argument, const ConstTensor& tensor, Body&& body) {
  if (tensor.holds<float>()) return body(float{});
  if constexpr (has_16_bit_types) {
    if (tensor.holds<BFloat16>()) return body(BFloat16{});
    if (tensor.holds<Half>()) return body(Half{});
  }
  if (tensor.holds<double>()) return body(double{});
  refuse_type(argument, has_16_bit_types ? "f32, f16, bf16 or f64" : "f32 or f64",
              tensor.dtype);
}

}  // namespace gnomon::internal
