// Keys or values as in a cache: part of a larger capacity, of any element type. The rest of the
// capacity is NaN.
#pragma once

#include "attention/sample.h"

namespace gnomon::testing {

// Tokens before heads, or heads before tokens.
enum class CacheOrder { tokens = 1, heads };

template <typename K>
class Cached {
 public:
  static constexpr std::ptrdiff_t capacity_beyond = 70;

  Cached(const Tensor<double, 4>& from, CacheOrder order) : extents_(from.extents) {
    const auto [b, t, h, d] = extents_;
    const std::ptrdiff_t capacity = t + capacity_beyond;
    elements_.assign(static_cast<std::size_t>(b * capacity * h * d), mark());
    scales_.assign(static_cast<std::size_t>(b * capacity * h), nan);
    if (order == CacheOrder::tokens) {
      view_ = {elements_.data(), extents_, {capacity * h * d, h * d, d, 1}};
      scale_ = {scales_.data(), {b, t, h}, {capacity * h, h, 1}};
    } else {
      view_ = {elements_.data(), extents_, {h * capacity * d, d, capacity * d, 1}};
      scale_ = {scales_.data(), {b, t, h}, {h * capacity, 1, capacity}};
    }
    each_head([&](auto... head) {
      double most = 0;
      for (std::ptrdiff_t i = 0; i < d; ++i)
        most = std::max(most, std::abs(from.view()(head..., i)));
      const float scale = static_cast<float>(most / 127);
      scale_(head...) = scale;
      for (std::ptrdiff_t i = 0; i < d; ++i) {
        const double value = from.view()(head..., i);
        if constexpr (int8)
          view_(head..., i) =
              static_cast<K>(std::clamp(std::round(value / double{scale}), -127.0, 127.0));
        else
          view_(head..., i) = static_cast<K>(value);
      }
    });
  }

  View<const K, 4> read() const { return view_; }
  // The scales of int8 elements; otherwise empty.
  View<const float, 3> scales() const {
    return int8 ? View<const float, 3>(scale_) : View<const float, 3>();
  }
  // Returns the exact values of the stored elements.
  Tensor<double, 4> numbers() const {
    Tensor<double, 4> copy(extents_);
    each_head([&](auto... head) {
      for (std::ptrdiff_t i = 0; i < extents_[3]; ++i)
        if constexpr (int8)
          copy.view()(head..., i) = static_cast<double>(scale_(head...)) * view_(head..., i);
        else
          copy.view()(head..., i) = as_double(view_(head..., i));
    });
    return copy;
  }
  // Sets tokens to NaN.
  void spoil(std::ptrdiff_t first, std::ptrdiff_t count) {
    each_head([&](auto b, auto t, auto h) {
      if (t < first || t >= first + count) return;
      scale_(b, t, h) = nan;
      for (std::ptrdiff_t i = 0; i < extents_[3]; ++i) view_(b, t, h, i) = mark();
    });
  }

 private:
  static constexpr bool int8 = std::is_same_v<K, std::int8_t>;
  static constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  static K mark() {
    if constexpr (int8)
      return 127;
    else
      return static_cast<K>(nan);
  }
  template <typename Visit>
  void each_head(Visit visit) const {
    for (std::ptrdiff_t b = 0; b < extents_[0]; ++b)
      for (std::ptrdiff_t t = 0; t < extents_[1]; ++t)
        for (std::ptrdiff_t h = 0; h < extents_[2]; ++h) visit(b, t, h);
  }

  std::array<std::ptrdiff_t, 4> extents_;
  std::vector<K> elements_;
  std::vector<float> scales_;
  View<K, 4> view_;
  View<float, 3> scale_;
};

}  // namespace gnomon::testing
