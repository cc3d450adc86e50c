// Rows of a table added to tokens. A work item is `width` channels of up to `group` tokens. A
// block has the items of some consecutive groups of tokens.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "src/cuda/context.h"
#include "src/cuda/elements.h"
#include "src/cuda/rotate_kernel.h"

namespace gnomon::cuda {

// Elements of a tensor of one type.
template <typename T>
struct TypedElements {
  using Stored = T;
  T* data;

  // Loads and stores are by vectors of up to 16 bytes.
  template <int width>
  static constexpr int step = width * sizeof(T) > 16 ? static_cast<int>(16 / sizeof(T)) : width;

  template <int width>
  GNOMON_DEVICE void load(std::int64_t at, T (&to)[width]) const {
    GNOMON_UNROLL
    for (int i = 0; i < width; i += step<width>) {
      const auto some = gnomon::cuda::load<T, step<width>>(data + at + i);
      GNOMON_UNROLL
      for (int j = 0; j < step<width>; ++j) to[i + j] = some[j];
    }
  }
  GNOMON_DEVICE float value(T stored) const { return to_float(stored); }
  template <int width>
  GNOMON_DEVICE void copy(std::int64_t at, const T (&values)[width]) const {
    GNOMON_UNROLL
    for (int i = 0; i < width; i += step<width>) {
      Vector<T, step<width>> some;
      GNOMON_UNROLL
      for (int j = 0; j < step<width>; ++j) some[j] = values[i + j];
      gnomon::cuda::store(data + at + i, some);
    }
  }
  // Rounds each value once.
  template <int width>
  GNOMON_DEVICE void store(std::int64_t at, const float (&values)[width]) const {
    GNOMON_UNROLL
    for (int i = 0; i < width; i += step<width>) {
      float some[step<width>];
      GNOMON_UNROLL
      for (int j = 0; j < step<width>; ++j) some[j] = values[i + j];
      gnomon::cuda::store(data + at + i, rounded<T>(some));
    }
  }
};

// Elements of a type that is known at run time: one kernel for all types, for tensors that are
// not aligned to vectors.
struct AnyType {};
template <>
struct TypedElements<AnyType> {
  using Stored = std::uint32_t;  // its bits
  void* data;
  DType type;

  template <int width>
  GNOMON_DEVICE void load(std::int64_t at, std::uint32_t (&to)[width]) const {
    static_assert(width == 1);
    to[0] = type == DType::f32 ? std::bit_cast<std::uint32_t>(static_cast<float*>(data)[at])
                               : static_cast<const std::uint16_t*>(data)[at];
  }
  GNOMON_DEVICE float value(std::uint32_t stored) const {
    const auto low = static_cast<std::uint16_t>(stored);
    if (type == DType::f16) return to_float(Half::from_bits(low));
    return std::bit_cast<float>(type == DType::f32 ? stored : stored << 16);
  }
  template <int width>
  GNOMON_DEVICE void store(std::int64_t at, const float (&values)[width]) const {
    if (type == DType::f32) static_cast<float*>(data)[at] = values[0];
    if (type == DType::f16) static_cast<Half*>(data)[at] = from_float<Half>(values[0]);
    if (type == DType::bf16) static_cast<BFloat16*>(data)[at] = from_float<BFloat16>(values[0]);
  }
};

// The row of a table for each token: row t, or row rows[b, t].
struct RowIds {
  const std::int64_t* ids;  // or null
  std::int64_t row, token;  // strides
  std::int64_t table_rows;  // N

  GNOMON_DEVICE bool contain(std::int64_t id) const { return id >= 0 && id < table_rows; }
};

// x[b, t] += scale table[row of (b, t)], or x[b, t] = table[row of (b, t)].
template <typename X, typename T, int width>
struct AddKernel {
  static constexpr bool synchronizes = false;
  // At most 80 registers for floats: 768 threads of a multiprocessor.
  static constexpr int max_threads = 256;
  static constexpr int blocks_at_once = sizeof(X) == 4 && sizeof(T) == 4 && width > 1 ? 3 : 2;
  static constexpr int group = width * sizeof(T) > 16 ? 2 : 4;
  TypedElements<X> x;
  std::int64_t x_row, x_token;  // strides
  TypedElements<T> table;
  std::int64_t table_row;  // stride
  RowIds rows;
  Divisor batch;         // B
  std::uint32_t tokens;  // B T
  std::uint32_t groups;
  std::int32_t tokens_per_group;
  Division division;  // of groups
  Divisor vectors;    // C / width
  std::int32_t adds;  // 0: assigns
  float scale;

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const std::uint32_t first = division.first_token(context);
    const int count = least(division.tokens_per_block, static_cast<int>(groups - first));
    const int items = vectors.times(count), step = division.step(context);
    GNOMON_NO_UNROLL
    for (int item = division.first_item(context); item < items; item += step) {
      const int g = vectors.quotient(item), channel = (item - vectors.times(g)) * width;
      const std::uint32_t begin = (first + static_cast<std::uint32_t>(g)) *
                                  static_cast<std::uint32_t>(tokens_per_group);
      const auto some = least(static_cast<std::uint32_t>(tokens_per_group), tokens - begin);
      if (some == group) {
        add<group>(begin, channel);
        continue;
      }
      GNOMON_NO_UNROLL
      for (std::uint32_t i = 0; i < some; ++i) add<1>(begin + i, channel);
    }
  }

  // Adds to the channels from `channel` of some tokens. Tokens are in the order of (t, b), so
  // that a group has few rows of the table.
  template <int some>
  GNOMON_DEVICE void add(std::uint32_t begin, int channel) const {
    std::uint32_t t = batch.quotient(begin), b = begin - t * batch.value;
    std::int64_t to[some], from[some];
    bool exists[some];  // whether the row is one of the table
    GNOMON_UNROLL
    for (int i = 0; i < some; ++i) {
      const std::int64_t row = rows.ids ? rows.ids[b * rows.row + t * rows.token] : t;
      exists[i] = rows.contain(row);
      from[i] = (exists[i] ? row : 0) * table_row + channel;
      to[i] = b * x_row + t * x_token + channel;
      if (++b < batch.value) continue;
      b = 0;
      ++t;
    }
    typename TypedElements<X>::Stored xs[some][width];
    typename TypedElements<T>::Stored ts[some][width];
    GNOMON_UNROLL
    for (int i = 0; i < some; ++i) {
      if (adds) x.load(to[i], xs[i]);
      if (exists[i]) table.load(from[i], ts[i]);
    }
    GNOMON_UNROLL
    for (int i = 0; i < some; ++i) {
      if constexpr (std::is_same_v<X, T> && !std::is_same_v<T, AnyType>)
        if (!adds && exists[i]) {
          x.copy(to[i], ts[i]);
          continue;
        }
      float sums[width];
      GNOMON_UNROLL
      for (int c = 0; c < width; ++c) {
        const float value = exists[i] ? table.value(ts[i][c]) : NAN;
        sums[c] = adds ? std::fma(scale, value, x.value(xs[i][c])) : value;
      }
      x.store(to[i], sums);
    }
  }
};

}  // namespace gnomon::cuda
