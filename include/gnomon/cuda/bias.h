// Position biases as functions for device code: an attention kernel of an engine adds the bias
// of a pair of positions to a score with one line.
//
//   score += gnomon::cuda::bias(view, head, query_position, key_position);
//
// The header requires no other header of the library, and compiles as C++17 or later, with nvcc
// and with a C++ compiler. A view is a plain struct of pointers, which a kernel takes by value.
// In a kernel they are device pointers: those of a DeviceBias (gnomon/cuda/device_bias.h), or a
// trained tensor of the engine. gnomon/bias/form.h defines the forms. `head` must be in [0, H).
//
// Letters: H heads, N distances or offsets, P pieces.
//
// Naive version: tests/naive/bias.h, `naive_bias`.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define GNOMON_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define GNOMON_HOST_DEVICE inline
#endif

namespace gnomon {
namespace cuda {

// bias = -slopes[h] |key - query|, as SlopeBias.
struct SlopeView {
  const float* slopes = nullptr;  // [H]
  std::int32_t heads = 0;         // read by host functions only, like `heads` below
};

// bias = values[h, key - query - min_distance], as StripBias. NaN for a distance outside of
// [min_distance, min_distance + N).
struct StripView {
  const float* values = nullptr;  // [H, N]
  std::int64_t min_distance = 0;
  std::int32_t distances = 0;  // N
  std::int32_t heads = 0;
};

// bias = values[h, index], by the offset between two cells of a window, as GridBias. NaN for a
// position outside of [0, leading + height width).
struct GridView {
  const float* values = nullptr;  // [H, N], N = (2 height - 1)(2 width - 1) + 3 leading
  std::int32_t height = 0, width = 0;
  std::int32_t leading = 0;  // class tokens: 0 or 1
  std::int32_t heads = 0;
};

// bias = offsets[h, p] + slopes[h, p] x with x = psi(|query - key|) / (psi(max(threshold,
// query)) + epsilon), as PiecewiseLogBias.
struct PiecewiseLogView {
  const float* knots = nullptr;    // [P]
  const float* offsets = nullptr;  // [H, P]
  const float* slopes = nullptr;   // [H, P]
  std::int32_t pieces = 0;         // P
  float c = 0, threshold = 0, epsilon = 0;
  std::int32_t heads = 0;
};

// Error bound: 2^-22 |bias|, for distances up to 2^31.
GNOMON_HOST_DEVICE float bias(const SlopeView& view, int head, std::int64_t query,
                              std::int64_t key) {
  return -view.slopes[head] * std::fabs(static_cast<float>(key - query));
}

// Exact.
GNOMON_HOST_DEVICE float bias(const StripView& view, int head, std::int64_t query,
                              std::int64_t key) {
  const std::int64_t index = key - query - view.min_distance;
  if (index < 0 || index >= view.distances) return NAN;
  return view.values[static_cast<std::int64_t>(head) * view.distances + index];
}

// The place of a position in a grid. A kernel that computes it once for each query and each key
// saves two divisions by the width for each score.
constexpr std::int32_t class_token_place = -1, outside_place = -2;
GNOMON_HOST_DEVICE std::int32_t place(const GridView& view, std::int64_t position) {
  const std::int64_t cell = position - view.leading;
  if (position < 0 || cell >= static_cast<std::int64_t>(view.height) * view.width)
    return outside_place;
  if (cell < 0) return class_token_place;
  const auto at = static_cast<std::int32_t>(cell);
  const std::int32_t row = at / view.width;
  return row * (2 * view.width - 1) + (at - row * view.width);
}

// Returns N.
GNOMON_HOST_DEVICE std::int32_t offsets(const GridView& view) {
  return (2 * view.height - 1) * (2 * view.width - 1) + 3 * view.leading;
}

// The index of the value of two places that are not outside.
GNOMON_HOST_DEVICE std::int32_t index_of_places(const GridView& view, std::int32_t query,
                                                std::int32_t key) {
  if (query >= 0 && key >= 0)
    return (view.height - 1) * (2 * view.width - 1) + view.width - 1 + (query - key);
  return offsets(view) - (query >= 0 ? 2 : key >= 0 ? 3 : 1);
}

// The bias of two places. Exact; NaN if one of them is outside.
GNOMON_HOST_DEVICE float bias_of_places(const GridView& view, int head, std::int32_t query,
                                        std::int32_t key) {
  if (query == outside_place || key == outside_place) return NAN;
  return view.values[static_cast<std::int64_t>(head) * offsets(view) +
                     index_of_places(view, query, key)];
}

GNOMON_HOST_DEVICE float bias(const GridView& view, int head, std::int64_t query,
                              std::int64_t key) {
  return bias_of_places(view, head, place(view, query), place(view, key));
}

// psi(n) = log(c n + 1), for a distance n.
GNOMON_HOST_DEVICE float psi(const PiecewiseLogView& view, float distance) {
  return std::log1p(view.c * distance);
}

// The factor of a query: x = psi(|query - key|) row_scale(query). A kernel that keeps it
// for each query saves a logarithm and a division for each score.
GNOMON_HOST_DEVICE float row_scale(const PiecewiseLogView& view, std::int64_t query) {
  const auto position = static_cast<float>(query);
  const float own = position > view.threshold ? position : view.threshold;
  return 1.0f / (psi(view, own) + view.epsilon);
}

// The piece of x: the last p with knots[p] <= x, at least 0. O(log P).
GNOMON_HOST_DEVICE std::int32_t piece_of(const PiecewiseLogView& view, float x) {
  std::int32_t piece = 0, end = view.pieces;
  while (end - piece > 1) {
    const std::int32_t middle = (piece + end) / 2;
    if (view.knots[middle] <= x)
      piece = middle;
    else
      end = middle;
  }
  return piece;
}

// Error bound: 2^-20 (|offset| + |slope x|). An x within rounding error of a knot may be
// assigned to either of the two pieces.
GNOMON_HOST_DEVICE float bias(const PiecewiseLogView& view, int head, std::int64_t query,
                              std::int64_t key) {
  const float x =
      psi(view, std::fabs(static_cast<float>(key - query))) * row_scale(view, query);
  const std::int64_t at = static_cast<std::int64_t>(head) * view.pieces + piece_of(view, x);
  return std::fma(view.slopes[at], x, view.offsets[at]);
}

}  // namespace cuda
}  // namespace gnomon
