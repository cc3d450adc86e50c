// A borrowed, strided array: a pointer, extents and strides. It owns nothing and is cheap to
// copy. The interface resembles std::mdspan (C++23), which g++ 12 does not provide.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gnomon {

template <typename T, std::size_t Rank>
class View {
 public:
  using Element = T;
  using Index = std::int64_t;
  using Extents = std::array<Index, Rank>;

  // Empty: no data, every extent zero.
  constexpr View() noexcept = default;
  // Contiguous, row-major: the last axis is contiguous.
  constexpr View(T* data, Extents extents) noexcept : data_(data), extents_(extents) {
    Index step = 1;
    for (std::size_t axis = Rank; axis-- > 0; step *= extents[axis]) strides_[axis] = step;
  }
  // Strides are in elements, not bytes, and may be negative or zero.
  constexpr View(T* data, Extents extents, Extents strides) noexcept
      : data_(data), extents_(extents), strides_(strides) {}
  // A view of T converts to a view of const T.
  template <typename U>
    requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>)
  constexpr View(const View<U, Rank>& other) noexcept
      : data_(other.data()), extents_(other.extents()), strides_(other.strides()) {}

  template <typename... I>
    requires(sizeof...(I) == Rank)
  constexpr T& operator()(I... index) const noexcept {
    std::size_t axis = 0;
    Index offset = 0;
    ((offset += static_cast<Index>(index) * strides_[axis++]), ...);
    return data_[offset];
  }

  constexpr T* data() const noexcept { return data_; }
  constexpr Index extent(std::size_t axis) const noexcept { return extents_[axis]; }
  constexpr Index stride(std::size_t axis) const noexcept { return strides_[axis]; }
  constexpr const Extents& extents() const noexcept { return extents_; }
  constexpr const Extents& strides() const noexcept { return strides_; }
  // Returns the number of elements.
  constexpr Index size() const noexcept {
    Index product = 1;
    for (Index extent : extents_) product *= extent;
    return product;
  }
  // Returns true if the elements are contiguous in row-major order.
  constexpr bool contiguous() const noexcept {
    Index step = 1;
    for (std::size_t axis = Rank; axis-- > 0; step *= extents_[axis])
      if (extents_[axis] > 1 && strides_[axis] != step) return false;
    return true;
  }
  // Returns the view of `count` elements along `axis`, starting at `begin`. Bounds are not
  // checked.
  constexpr View slice(std::size_t axis, Index begin, Index count) const noexcept {
    View part = *this;
    part.data_ = from(begin * strides_[axis]);
    part.extents_[axis] = count;
    return part;
  }
  // Returns the view at `index` of the first axis; its rank is lower by one.
  constexpr View<T, Rank - 1> operator[](Index index) const noexcept
    requires(Rank > 1)
  {
    std::array<Index, Rank - 1> extents{}, strides{};
    for (std::size_t axis = 1; axis < Rank; ++axis) {
      extents[axis - 1] = extents_[axis];
      strides[axis - 1] = strides_[axis];
    }
    return View<T, Rank - 1>(from(index * strides_[0]), extents, strides);
  }

 private:
  // Null if there is no memory, which a view without elements need not have.
  constexpr T* from(Index offset) const noexcept { return data_ ? data_ + offset : nullptr; }

  T* data_ = nullptr;
  Extents extents_{}, strides_{};
};

}  // namespace gnomon
