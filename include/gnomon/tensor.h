// A borrowed array whose element type, rank and device are known at run time. All public
// operations take it, so that C, Python and LibTorch call the same functions. It begins with
// the members of DLPack's DLTensor (https://dmlc.github.io/dlpack), in its memory layout.
//
// C++ callers pass a View, which converts implicitly:
//
//   rotate(View<float, 3>(q, {T, H, D}), table);
//
// A Tensor copies the shape and the strides of a View, so it can be stored as long as the
// elements live. A Tensor of a DlTensor borrows its shape and strides, too. A function takes
// `const ConstTensor&` for inputs and `const Tensor&` for outputs. A tensor without data means
// that the argument is not given.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "gnomon/dtype.h"
#include "gnomon/view.h"

namespace gnomon {

// The values are those of DLPack.
enum class DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int32_t id = 0;

  bool operator==(const Device&) const = default;
};

enum class TypeCode : std::uint8_t {  // values of DLPack
  integer = 0,
  unsigned_integer = 1,
  floating = 2,
  bfloat = 4,
  complex = 5,
  boolean = 6,
  float8_e4m3fn = 10,
};

// The element type of a tensor.
struct DataType {
  TypeCode code = TypeCode::floating;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;

  bool operator==(const DataType&) const = default;
};

// Returns "f32", "f16", "bf16", "f64", "i8", "i64", "u8", ...
std::string name(DataType type);

// The DataType of a C++ element type: float, double, Half, BFloat16 and the integers.
template <typename T>
inline constexpr DataType data_type_of = [] {
  using Element = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Element, BFloat16>)
    return DataType{TypeCode::bfloat, 16};
  else if constexpr (std::is_same_v<Element, Half>)
    return DataType{TypeCode::floating, 16};
  else if constexpr (std::is_floating_point_v<Element>)
    return DataType{TypeCode::floating, 8 * sizeof(Element)};
  else if constexpr (std::is_signed_v<Element>)
    return DataType{TypeCode::integer, 8 * sizeof(Element)};
  else
    return DataType{TypeCode::unsigned_integer, 8 * sizeof(Element)};
}();

// The members and the memory layout of DLPack's DLTensor. Borrows all that it points to.
struct DlTensor {
  void* data = nullptr;  // of inputs: read only
  Device device = {};
  std::int32_t rank = 0;  // DLPack's `ndim`
  DataType dtype = {};
  std::int64_t* shape = nullptr;    // [rank]
  std::int64_t* strides = nullptr;  // [rank], in elements; null: row-major and contiguous
  std::uint64_t byte_offset = 0;    // from `data` to the first element
};
// The pointers have 64 or 32 bits, and the members before `shape` have no padding.
static_assert(std::is_standard_layout_v<DlTensor> &&
              offsetof(DlTensor, shape) == sizeof(void*) + 16);

// An input: an array that is only read. Borrows the elements.
struct ConstTensor : DlTensor {
  static constexpr std::size_t most_axes = 4;  // of a View; no operation takes more

  ConstTensor() noexcept = default;
  // Copies the extents and strides of the view. An empty view gives a tensor without data.
  template <typename T, std::size_t Rank>
    requires(Rank <= most_axes)
  ConstTensor(const View<T, Rank>& view) noexcept  // NOLINT: a conversion
      : DlTensor{.data = const_cast<std::remove_const_t<T>*>(view.data()),
                 .rank = static_cast<std::int32_t>(Rank),
                 .dtype = data_type_of<T>,
                 .shape = own_shape_,
                 .strides = own_strides_} {
    for (std::size_t axis = 0; axis < most_axes; ++axis) {
      own_shape_[axis] = axis < Rank ? view.extents()[axis % Rank] : 0;
      own_strides_[axis] = axis < Rank ? view.strides()[axis % Rank] : 0;
    }
  }
  // Borrows the shape and the strides, which must live as long as this tensor and its copies.
  explicit ConstTensor(const DlTensor& borrowed) noexcept : DlTensor(borrowed) {}
  ConstTensor(const ConstTensor& other) noexcept : DlTensor(other) { take_shape_of(other); }
  ConstTensor& operator=(const ConstTensor& other) noexcept {
    DlTensor::operator=(other);
    take_shape_of(other);
    return *this;
  }

  // Returns true if the argument was given.
  bool has_data() const noexcept { return data != nullptr; }
  // Returns the address of the element at index 0 of all axes; null without data.
  void* start() const noexcept {
    return data ? static_cast<std::byte*>(data) + byte_offset : nullptr;
  }
  std::int64_t extent(std::int32_t axis) const noexcept { return shape[axis]; }
  // Returns the stride of an axis, in elements. DLPack lets an axis with fewer than two indices
  // have any; one that no array has becomes 1, so that products with it cannot overflow.
  std::int64_t stride(std::int32_t axis) const noexcept {
    constexpr std::int64_t most = std::int64_t{1} << 47;  // elements of the address space
    if (strides) {
      const std::int64_t step = strides[axis];
      return shape[axis] < 2 && (step > most || step < -most) ? 1 : step;
    }
    std::int64_t step = 1;
    for (std::int32_t after = axis + 1; after < rank; ++after) step *= shape[after];
    return step;
  }
  std::int64_t size() const noexcept {  // number of elements
    std::int64_t product = 1;
    for (std::int32_t axis = 0; axis < rank; ++axis) product *= shape[axis];
    return product;
  }
  template <typename T>
  bool holds() const noexcept {
    return dtype == data_type_of<T>;
  }

 private:
  void take_shape_of(const ConstTensor& other) noexcept {
    if (other.shape == other.own_shape_) {
      shape = own_shape_;
      for (std::size_t axis = 0; axis < most_axes; ++axis)
        own_shape_[axis] = other.own_shape_[axis];
    }
    if (other.strides == other.own_strides_) {
      strides = own_strides_;
      for (std::size_t axis = 0; axis < most_axes; ++axis)
        own_strides_[axis] = other.own_strides_[axis];
    }
  }

  std::int64_t own_shape_[most_axes], own_strides_[most_axes];  // of a View, else unused
};

// An output: an array that is written.
struct Tensor : ConstTensor {
  Tensor() noexcept = default;
  template <typename T, std::size_t Rank>
    requires(!std::is_const_v<T>)
  Tensor(const View<T, Rank>& view) noexcept : ConstTensor(view) {}  // NOLINT: a conversion
  explicit Tensor(const DlTensor& borrowed) noexcept : ConstTensor(borrowed) {}
};

// Returns the tensor as a View of its type and rank. The caller must have checked `holds<T>()`
// and the rank.
template <typename T, std::size_t Rank>
View<T, Rank> view(const ConstTensor& tensor) noexcept
  requires(std::is_const_v<T>)
{
  auto* const data = static_cast<T*>(tensor.start());
  typename View<T, Rank>::Extents extents, strides;
  for (std::size_t axis = 0; axis < Rank; ++axis) extents[axis] = tensor.shape[axis];
  if (!tensor.strides) return {data, extents};
  for (std::size_t axis = 0; axis < Rank; ++axis)
    strides[axis] = tensor.stride(static_cast<std::int32_t>(axis));
  return {data, extents, strides};
}
template <typename T, std::size_t Rank>
View<T, Rank> view(const Tensor& tensor) noexcept
  requires(!std::is_const_v<T>)
{
  const auto read = view<const T, Rank>(static_cast<const ConstTensor&>(tensor));
  return {const_cast<T*>(read.data()), read.extents(), read.strides()};
}

}  // namespace gnomon
