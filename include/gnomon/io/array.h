// io::Array: a tensor of a file. It has an element type, a shape, and bytes in row-major order
// that are mapped, borrowed or owned. Copies share the bytes and keep them alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gnomon/dtype.h"
#include "gnomon/view.h"

namespace gnomon::io {

// Element types of files. Gnomon computes with some of them only.
enum class Element {
  f64 = 1,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,  // one byte, 0 or 1; viewed as std::uint8_t
  opaque,   // any other safetensors type; its bytes are copied, never interpreted
};

// Returns the bytes per element; 0 for opaque.
std::size_t size_of(Element element) noexcept;
// "f64", "bf16", "i32", "bool", ...
std::string_view name(Element element) noexcept;

template <typename T>
constexpr Element element_of() {
  if constexpr (std::is_same_v<T, double>) return Element::f64;
  if constexpr (std::is_same_v<T, float>) return Element::f32;
  if constexpr (std::is_same_v<T, Half>) return Element::f16;
  if constexpr (std::is_same_v<T, BFloat16>) return Element::bf16;
  if constexpr (std::is_same_v<T, std::int64_t>) return Element::i64;
  if constexpr (std::is_same_v<T, std::int32_t>) return Element::i32;
  if constexpr (std::is_same_v<T, std::int16_t>) return Element::i16;
  if constexpr (std::is_same_v<T, std::int8_t>) return Element::i8;
  if constexpr (std::is_same_v<T, std::uint64_t>) return Element::u64;
  if constexpr (std::is_same_v<T, std::uint32_t>) return Element::u32;
  if constexpr (std::is_same_v<T, std::uint16_t>) return Element::u16;
  if constexpr (std::is_same_v<T, std::uint8_t>) return Element::u8;
  return Element::opaque;
}

namespace internal {
template <typename T, std::size_t Rank>
void gather(View<const T, Rank> from, std::byte*& to) {
  for (std::ptrdiff_t i = 0; i < from.extent(0); ++i) {
    if constexpr (Rank > 1) {
      gather(from[i], to);
    } else {
      const auto* value = reinterpret_cast<const std::byte*>(&from(i));
      for (std::size_t k = 0; k < sizeof(T); ++k) *to++ = value[k];
    }
  }
}
}  // namespace internal

class Array {
 public:
  using Shape = std::vector<std::int64_t>;  // outermost axis first; empty: a scalar

  // Rank 1, no elements.
  Array() : element_(Element::u8), shape_{0}, name_("array") {}
  // `owner` keeps `bytes` alive (null: the caller keeps them alive). `name` is the name in
  // error messages. Throws std::invalid_argument if the number of bytes does not match the
  // shape.
  Array(Element element, Shape shape, std::span<const std::byte> bytes,
        std::shared_ptr<const void> owner = nullptr, std::string name = "array");
  // An opaque array of a safetensors type such as "F8_E4M3". The number of bytes is not
  // checked.
  static Array opaque(std::string dtype, Shape shape, std::span<const std::byte> bytes,
                      std::shared_ptr<const void> owner = nullptr, std::string name = "array");

  // Returns an array of a view: a contiguous view is borrowed, others are copied. Borrowed
  // bytes must outlive the array.
  template <typename T, std::size_t Rank>
  static Array of(View<T, Rank> view);

  Element element() const noexcept { return element_; }
  // The safetensors name of the element type: "F32", "BF16", "F8_E4M3".
  std::string dtype() const;
  const Shape& shape() const noexcept { return shape_; }
  std::size_t rank() const noexcept { return shape_.size(); }
  std::int64_t size() const noexcept;  // elements
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  const std::string& name() const noexcept { return name_; }

  // Returns the elements as a view, [shape], without a copy. T: float, double, Half, BFloat16
  // or a fixed-width integer. BFloat16 may also view u16 (`.npy` has no bfloat16), and
  // std::uint8_t may view boolean. Throws std::invalid_argument, naming the array, if it has
  // another element type or rank.
  template <typename T, std::size_t Rank>
  View<const T, Rank> view() const;

  // Return the elements in row-major order. to_integers accepts integer types and boolean, and
  // refuses u64 values beyond int64. to_doubles accepts any type except opaque, and rounds
  // integers beyond 2^53.
  std::vector<std::int64_t> to_integers() const;
  std::vector<double> to_doubles() const;

 private:
  void require(Element element, std::size_t rank) const;

  Element element_;
  Shape shape_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::string name_, dtype_;
};

// "[2, 3]".
std::string to_string(const Array::Shape& shape);

template <typename T, std::size_t Rank>
Array Array::of(View<T, Rank> view) {
  using Plain = std::remove_const_t<T>;
  static_assert(element_of<Plain>() != Element::opaque, "not an element type of files");
  const View<const Plain, Rank> from = view;
  Shape shape(from.extents().begin(), from.extents().end());
  const auto count = static_cast<std::size_t>(from.size());
  if (from.contiguous())
    return Array(element_of<Plain>(), std::move(shape),
                 {reinterpret_cast<const std::byte*>(from.data()), count * sizeof(T)});
  auto owned = std::make_shared<std::vector<Plain>>(count);
  auto* to = reinterpret_cast<std::byte*>(owned->data());
  const std::span<const std::byte> bytes(to, count * sizeof(T));
  internal::gather(from, to);
  return Array(element_of<Plain>(), std::move(shape), bytes, owned);
}

template <typename T, std::size_t Rank>
View<const T, Rank> Array::view() const {
  static_assert(element_of<T>() != Element::opaque, "not an element type of files");
  require(element_of<T>(), Rank);
  typename View<const T, Rank>::Extents extents{};
  for (std::size_t axis = 0; axis < Rank; ++axis) extents[axis] = shape_[axis];
  return {reinterpret_cast<const T*>(bytes_.data()), extents};
}

}  // namespace gnomon::io
