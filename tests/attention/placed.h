// Placement of tensors in memory, and the number of threads, for tests.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon::testing {

// A tensor [B, tokens, heads, size] in a larger buffer: contiguous, or heads before tokens with
// gaps. The gaps contain a mark that must not be overwritten.
enum class Layout { plain = 1, gaps };

template <typename T>
class Placed {
 public:
  Placed(const Tensor<double, 4>& from, Layout layout) : extents_(from.extents) {
    const auto [b, t, h, d] = extents_;
    const std::ptrdiff_t gap = layout == Layout::gaps ? 3 : 0;
    buffer_.assign(static_cast<std::size_t>(b * t * h * (d + gap) + gap), static_cast<T>(mark));
    if (layout == Layout::plain)
      view_ = {buffer_.data(), extents_};
    else
      view_ = {buffer_.data() + gap, extents_, {h * t * (d + gap), d + gap, t * (d + gap), 1}};
    each_row([&](auto... row) {
      const double* const source = &from.view()(row..., 0);
      T* const to = &view_(row..., 0);
      for (std::ptrdiff_t i = 0; i < d; ++i) to[i] = static_cast<T>(source[i]);
    });
  }
  View<T, 4> view() { return view_; }
  View<const T, 4> read() const { return view_; }
  // Returns the values after rounding.
  Tensor<double, 4> numbers() const {
    Tensor<double, 4> copy(extents_);
    each_row([&](auto... row) {
      const T* const source = &view_(row..., 0);
      double* const to = &copy.view()(row..., 0);
      for (std::ptrdiff_t i = 0; i < extents_[3]; ++i) to[i] = as_double(source[i]);
    });
    return copy;
  }
  bool gaps_intact() const {
    std::ptrdiff_t marks = 0;
    for (const T& value : buffer_) marks += as_double(value) == mark;
    return marks >= static_cast<std::ptrdiff_t>(buffer_.size()) - view_.size();
  }

 private:
  static constexpr double mark = 1536;  // exact in all types

  template <typename Visit>
  void each_row(Visit visit) const {
    for (std::ptrdiff_t b = 0; b < extents_[0]; ++b)
      for (std::ptrdiff_t t = 0; t < extents_[1]; ++t)
        for (std::ptrdiff_t h = 0; h < extents_[2]; ++h) visit(b, t, h);
  }
  std::array<std::ptrdiff_t, 4> extents_;
  std::vector<T> buffer_;
  View<T, 4> view_;
};

// Sets the number of threads during its lifetime. One thread is fastest for many small calls.
class ScopedThreads {
 public:
  explicit ScopedThreads(int count) : before_(threads()) { set_threads(count); }
  ~ScopedThreads() { set_threads(before_); }
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  int before_;
};

}  // namespace gnomon::testing
