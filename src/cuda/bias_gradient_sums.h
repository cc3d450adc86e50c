// The last kernels of the gradient of a bias: sums of the records of all segments, in a fixed
// order, as the values of a form. Sums are in double.
#pragma once

#include <cstdint>

#include "src/cuda/bias_gradient_forms.h"
#include "src/cuda/bias_gradient_tile.h"
#include "src/cuda/context.h"

namespace gnomon::cuda {

// A matrix [rows, columns] of float or double.
struct Matrix {
  float* floats = nullptr;  // one of both
  double* doubles = nullptr;
  std::int64_t row = 0, column = 0;  // strides

  GNOMON_DEVICE void set(std::int64_t r, std::int64_t c, double value) const {
    const std::int64_t at = r * row + c * column;
    if (doubles)
      doubles[at] = value;
    else
      floats[at] = static_cast<float>(value);
  }
  GNOMON_DEVICE double get(std::int64_t r, std::int64_t c) const {
    const std::int64_t at = r * row + c * column;
    return doubles ? doubles[at] : static_cast<double>(floats[at]);
  }
};

// The records [H, bands, segments, size].
struct Records {
  const float* data = nullptr;
  Bands bands = {};
  std::int32_t size = 0;
  // Visible differences key row - query row.
  std::int32_t lowest = 0, highest = 0, offset = 0;

  // The sum of an entry over the segments of a band.
  GNOMON_DEVICE double of_band(int head, int band, int entry) const {
    const float* const from =
        data +
        ((std::int64_t{head} * bands.count + (band - bands.first)) * bands.segments) * size +
        entry;
    double sum = 0;
    GNOMON_NO_UNROLL
    for (int i = 0; i < bands.segments; ++i)
      sum += static_cast<double>(from[std::int64_t{i} * size]);
    return sum;
  }
  GNOMON_DEVICE double of_all(int head, int entry) const {
    double sum = 0;
    GNOMON_NO_UNROLL
    for (int i = 0; i < bands.count; ++i) sum += of_band(head, bands.first + i, entry);
    return sum;
  }
  // The sum of a diagonal: in two bands, or in one. `begin`: its first entry of a record.
  GNOMON_DEVICE double of_distance(int head, std::int64_t distance, int begin) const {
    const std::int64_t difference = distance + offset;
    if (difference < lowest || difference > highest) return 0;
    const int band = static_cast<int>(difference >> 7);
    const int diagonal = static_cast<int>(difference & 127) + tile_size - 1;
    double sum = 0;
    if (band >= bands.first && band < bands.first + bands.count)
      sum += of_band(head, band, begin + diagonal);
    const int above = band + 1;
    if (diagonal >= tile_size && above >= bands.first && above < bands.first + bands.count)
      sum += of_band(head, above, begin + diagonal - tile_size);
    return sum;
  }
};

enum class Lowering { strip = 1, grid, piecewise_log };

// One thread for each value of the gradient.
struct LowerKernel {
  static constexpr bool synchronizes = false;
  static constexpr int max_threads = 256;
  Records records = {};
  Lowering lowering = {};
  std::int64_t min_distance = 0;  // first distance of a strip
  GridView grid = {};
  std::int32_t columns = 0;  // values of a head
  std::int64_t values = 0;   // H columns
  Matrix out = {};

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const std::int64_t at = context.block() * max_threads + context.thread();
    if (at >= values) return;
    const int head = static_cast<int>(at / columns);
    const int entry = static_cast<int>(at - std::int64_t{head} * columns);
    out.set(head, entry, value(head, entry));
  }

 private:
  GNOMON_DEVICE double value(int head, int entry) const {
    if (lowering == Lowering::piecewise_log) return records.of_all(head, entry);
    if (lowering == Lowering::strip) return records.of_distance(head, min_distance + entry, 0);
    const int pitch = 2 * grid.width - 1, of_cells = (2 * grid.height - 1) * pitch;
    if (entry >= of_cells) return records.of_all(head, 512 + entry - of_cells);
    // Offsets are query - key, distances key - query.
    const int dy = grid.height - 1 - entry / pitch, dx = grid.width - 1 - entry % pitch;
    return records.of_distance(head, std::int64_t{dy} * grid.width + dx, dx < 0 ? 256 : 0);
  }
};

// Writes the sum of a value of each thread; the order is that of a tree.
template <class Context>
GNOMON_DEVICE void write_tree_sum(Context& context, double value, const Matrix& out,
                                  std::int64_t row, std::int64_t column) {
  auto* const sums = context.template shared<double>();
  const int thread = context.thread();
  sums[thread] = value;
  GNOMON_NO_UNROLL
  for (int half = context.threads() / 2; half > 0; half /= 2) {
    context.barrier();
    if (thread < half) sums[thread] += sums[thread + half];
  }
  if (thread == 0) out.set(row, column, sums[0]);
}

// The gradient of a slope: the sum of -|distance| times that of the strip. A block has a head.
struct LowerSlopeKernel {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 256;
  Records records = {};
  Matrix out = {};

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const int head = static_cast<int>(context.block());
    double sum = 0;
    GNOMON_NO_UNROLL
    for (std::int64_t difference = std::int64_t{records.lowest} + context.thread();
         difference <= records.highest; difference += max_threads) {
      const std::int64_t distance = difference - records.offset;
      const double length = static_cast<double>(distance < 0 ? distance : -distance);
      sum += length * records.of_distance(head, distance, 0);
    }
    write_tree_sum(context, sum, out, head, 0);
  }
};

// table[bucket, h] = the sum of strip[h, n] over n with buckets[n] = bucket. A block has an
// entry of the table.
struct StripToTableKernel {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 256;
  Matrix strip = {}, table = {};
  const std::int32_t* buckets = nullptr;
  std::int64_t stride = 0;  // stride of `buckets`, in elements
  std::int64_t distances = 0;
  std::int32_t heads = 0;

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const std::int64_t bucket = context.block() / heads, head = context.block() % heads;
    double sum = 0;
    GNOMON_NO_UNROLL
    for (std::int64_t n = context.thread(); n < distances; n += max_threads)
      if (buckets[n * stride] == bucket) sum += strip.get(head, n);
    write_tree_sum(context, sum, table, bucket, head);
  }
};

}  // namespace gnomon::cuda
