// Tensors of gnomon.h in buffers of their own, for tests that compare results. The elements may
// have any strides, and the bytes between them are guards: no function may change them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "c/drawn.h"
#include "gnomon.h"
#include "gnomon/dtype.h"

namespace gnomon {
namespace drawn {

enum class Type { f32 = 1, f64, f16, bf16, i8, i32, i64 };

inline gnomon_data_type data_type(Type type) {
  switch (type) {
    case Type::f32:
      return {2, 32, 1};
    case Type::f64:
      return {2, 64, 1};
    case Type::f16:
      return {2, 16, 1};
    case Type::bf16:
      return {4, 16, 1};
    case Type::i8:
      return {0, 8, 1};
    case Type::i32:
      return {0, 32, 1};
    default:
      return {0, 64, 1};
  }
}

// Half an ulp of 1, the relative error of one rounding to a type.
inline double rounding(Type type) {
  return type == Type::f64   ? 0x1p-53
         : type == Type::f32 ? 0x1p-24
         : type == Type::f16 ? 0x1p-11
                             : 0x1p-8;
}
// The least positive number of a type: the error of a rounding among the denormals.
inline double least_number(Type type) {
  return type == Type::f64   ? 0x1p-1074
         : type == Type::f16 ? 0x1p-24
         : type == Type::f32 ? 0x1p-149
                             : 0x1p-133;
}

struct Layout {
  bool written = false;          // no two elements in one place
  bool last_contiguous = false;  // as the elements of a head
};

class Placed {
 public:
  // Draws an element: an integer for the types of integers.
  using Element = std::function<double()>;

  // Row-major and contiguous, all elements 0.
  Placed(Type type, std::vector<std::int64_t> shape)
      : Placed(type, std::move(shape), [] { return 0.0; }) {}
  Placed(Type type, std::vector<std::int64_t> shape, const Element& element)
      : type_(type), shape_(std::move(shape)) {
    strides_.resize(shape_.size());
    std::int64_t step = 1;
    for (std::size_t axis = shape_.size(); axis-- > 0;) {
      strides_[axis] = step;
      step *= std::max<std::int64_t>(shape_[axis], 1);
    }
    place(0, step, 0, nullptr, element);
  }
  // With drawn strides.
  Placed(Draws& draw, Type type, std::vector<std::int64_t> shape, Layout layout,
         const Element& element)
      : type_(type), shape_(std::move(shape)) {
    const std::size_t axes = shape_.size();
    strides_.resize(axes);
    std::vector<std::size_t> order(axes);  // innermost first
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    const bool is_row_major = draw.one_in(3);
    if (!is_row_major)
      for (std::size_t i = layout.last_contiguous ? 1 : 0; i + 1 < axes; ++i)
        std::swap(order[i], order[i + static_cast<std::size_t>(draw.below(
                                          std::ssize(order) - static_cast<std::int64_t>(i)))]);
    std::int64_t reach = 1, low = 0, high = 0;
    for (const std::size_t axis : order) {
      const bool contiguous = is_row_major || (layout.last_contiguous && axis == axes - 1);
      std::int64_t step = reach + (contiguous || draw.one_in(2) ? 0 : draw.below(4));
      if (!contiguous && !layout.written && draw.one_in(8)) step = 0;
      if (!contiguous && draw.one_in(4)) step = -step;
      // The stride of an axis of one element is not used.
      const std::int64_t extent = shape_[axis];
      strides_[axis] = extent < 2 && draw.one_in(4) ? draw.number() : step;
      if (extent < 2) continue;
      const std::int64_t all = step * (extent - 1);
      (all < 0 ? low : high) += all;
      reach = std::max(reach, std::abs(all) + reach);
    }
    const std::int64_t split = draw.one_in(3) ? draw.below(33) : 0;
    place(low, high + 1, split, &draw, element);
    if (is_row_major && draw.one_in(2)) tensor_.strides = nullptr;
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  const gnomon_tensor* get() const { return &tensor_; }
  gnomon_tensor& tensor() { return tensor_; }
  Type type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t size() const {
    return std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies<>());
  }
  // The elements in row-major order.
  std::vector<double> values() const { return values_in(buffer_); }
  std::vector<double> values_before() const { return values_in(before_); }
  std::vector<std::int64_t> integers() const {
    std::vector<std::int64_t> all;
    each([&](std::size_t at) {
      std::int64_t one = 0;
      if (type_ == Type::i64) {
        std::memcpy(&one, &buffer_[at], 8);
      } else {
        std::int32_t narrow = 0;
        std::memcpy(&narrow, &buffer_[at], 4);
        one = narrow;
      }
      all.push_back(one);
    });
    return all;
  }
  bool is_unchanged() const { return buffer_ == before_; }
  // Whether all bytes that belong to no element are as before.
  bool has_guards() const {
    std::vector<std::byte> now = buffer_;
    each([&](std::size_t at) { std::copy_n(&before_[at], bytes(), &now[at]); });
    return now == before_;
  }
  // The address of an element, counted in row-major order.
  std::byte* address(std::int64_t index) {
    std::int64_t n = 0;
    std::byte* found = nullptr;
    each([&](std::size_t at) {
      if (n++ == index) found = &buffer_[at];
    });
    return found;
  }
  std::size_t bytes() const { return data_type(type_).bits / 8; }
  // Makes the present contents those that `is_unchanged` and `has_guards` compare with.
  void settle() { before_ = buffer_; }
  void restore() { std::copy(before_.begin(), before_.end(), buffer_.begin()); }

  // Element `index` of contiguous elements.
  static double element(const gnomon_tensor& of, Type type, std::int64_t index) {
    return load(type, static_cast<const std::byte*>(of.data) + of.byte_offset +
                          index * (of.dtype.bits / 8));
  }

 private:
  // low, end: the range of elements from the first one. split: the byte offset of the tensor.
  void place(std::int64_t low, std::int64_t end, std::int64_t split, Draws* draw,
             const Element& element) {
    constexpr std::int64_t margin = 64;
    const auto width = static_cast<std::int64_t>(bytes());
    first_ = static_cast<std::size_t>((margin - low * width + 7) / 8 * 8);
    buffer_.resize(first_ + static_cast<std::size_t>(end * width + margin));
    if (draw)
      for (std::byte& one : buffer_) one = static_cast<std::byte>(draw->below(256));
    each([&](std::size_t at) { store(&buffer_[at], element()); });
    before_ = buffer_;
    tensor_.data = buffer_.data() + first_ - split;
    tensor_.byte_offset = static_cast<std::uint64_t>(split);
    tensor_.device = {1, 0};
    tensor_.ndim = static_cast<std::int32_t>(shape_.size());
    tensor_.dtype = data_type(type_);
    tensor_.shape = shape_.data();
    tensor_.strides = strides_.data();
  }
  template <typename Visit>
  void each(const Visit& visit) const {
    if (size() == 0) return;
    std::vector<std::int64_t> index(shape_.size());
    for (;;) {
      std::int64_t at = 0;
      for (std::size_t axis = 0; axis < shape_.size(); ++axis)
        if (shape_[axis] > 1) at += index[axis] * strides_[axis];
      visit(static_cast<std::size_t>(static_cast<std::int64_t>(first_) +
                                     at * static_cast<std::int64_t>(bytes())));
      std::size_t axis = shape_.size();
      while (axis > 0 && ++index[axis - 1] == shape_[axis - 1]) index[--axis] = 0;
      if (axis == 0) return;
    }
  }
  template <typename T>
  static void put(std::byte* to, T value) {
    std::memcpy(to, &value, sizeof value);
  }
  void store(std::byte* to, double value) const {
    switch (type_) {
      case Type::f32:
        return put(to, static_cast<float>(value));
      case Type::f64:
        return put(to, value);
      case Type::f16:
        return put(to, Half(static_cast<float>(value)));
      case Type::bf16:
        return put(to, BFloat16(static_cast<float>(value)));
      case Type::i8:
        return put(to, static_cast<std::int8_t>(value));
      case Type::i32:
        return put(to, static_cast<std::int32_t>(value));
      default:
        return put(to, static_cast<std::int64_t>(value));
    }
  }
  static double load(Type type, const std::byte* from) {
    if (type == Type::f32) return number<float>(from);
    if (type == Type::f64) return number<double>(from);
    if (type == Type::i8) return number<std::int8_t>(from);
    if (type == Type::i32) return number<std::int32_t>(from);
    if (type == Type::i64) return static_cast<double>(number<std::int64_t>(from));
    const auto bits = number<std::uint16_t>(from);
    const int digits = type == Type::f16 ? 10 : 7, bias = type == Type::f16 ? 15 : 127;
    const int mantissa = bits & ((1 << digits) - 1);
    const int exponent = bits >> digits & (2 * bias + 1);
    double value = exponent ? std::ldexp(mantissa + (1 << digits), exponent - bias - digits)
                            : std::ldexp(mantissa, 1 - bias - digits);
    if (exponent == 2 * bias + 1)
      value = mantissa ? std::numeric_limits<double>::quiet_NaN()
                       : std::numeric_limits<double>::infinity();
    return bits >> 15 ? -value : value;
  }
  template <typename T>
  static T number(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  std::vector<double> values_in(const std::vector<std::byte>& buffer) const {
    std::vector<double> all;
    each([&](std::size_t at) { all.push_back(load(type_, &buffer[at])); });
    return all;
  }

  Type type_;
  std::vector<std::int64_t> shape_, strides_;
  std::vector<std::byte> buffer_, before_;
  std::size_t first_ = 0;
  gnomon_tensor tensor_{};
};

}  // namespace drawn
}  // namespace gnomon
