// Tables of cos and sin. An entry is the complex product of cos and sin at its anchor, a
// multiple of 64 positions, and of cos and sin of the step from the anchor.
#pragma once

#include <cstdint>

#include "src/cuda/angles.h"
#include "src/cuda/context.h"
#include "src/cuda/elements.h"

namespace gnomon::cuda {

// Consecutive positions. A thread keeps the cos and sin of one step of `width` pairs in
// registers, and multiplies them by those of some anchors, which the block has computed in
// shared memory. So nothing but the table goes through memory.
template <typename T, int width>
struct FillRunKernel {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 512;
  T *cos, *sin;
  std::int64_t cos_row, sin_row;  // strides
  const double *inv_freq, *steps;
  double scale;
  std::int64_t begin, tokens;    // positions
  std::int32_t pairs;            // R/2
  std::int32_t pairs_per_block;  // a multiple of width
  std::int32_t anchors_per_block, steps_per_block;
  std::int32_t columns, parts;  // blocks for the pairs, and for the 64 steps

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const std::int64_t block = context.block();
    const auto column = static_cast<int>(block % columns);
    const auto part = static_cast<int>(block / columns % parts);
    const std::int64_t group = block / columns / parts;
    const int first_pair = column * pairs_per_block;
    const int here = least(pairs_per_block, pairs - first_pair);
    // Position of the first anchor of the block.
    const std::int64_t first = (begin & ~static_cast<std::int64_t>(anchor_step - 1)) +
                               group * anchors_per_block * anchor_step;

    // [anchors, width, vectors]: the threads of a warp read consecutive entries.
    const int vectors = here / width;
    auto* const anchors = context.template shared<CosSin>();
    for (int i = context.thread(); i < anchors_per_block * here; i += context.threads()) {
      const int a = i / here, rest = i - a * here, element = rest / vectors;
      const int pair = (rest - element * vectors) * width + element;
      const double position = static_cast<double>(first + a * anchor_step);
      const CosSin one = cos_sin(position, inv_freq[first_pair + pair]);
      anchors[i] = {scale * one.cos, scale * one.sin};
    }

    const int step = part * steps_per_block + context.thread() / vectors;
    const int vector = context.thread() % vectors, pair = vector * width;
    const bool active = context.thread() < vectors * steps_per_block && step < anchor_step;
    double step_cos[width] = {}, step_sin[width] = {};
    if (active) {
      const double* const from = steps + static_cast<std::int64_t>(step) * pairs + first_pair;
      GNOMON_UNROLL
      for (int i = 0; i < width; ++i) {
        step_cos[i] = from[pair + i];
        step_sin[i] = from[static_cast<std::int64_t>(anchor_step) * pairs + pair + i];
      }
    }
    context.barrier();
    if (!active) return;
    for (int a = 0; a < anchors_per_block; ++a) {
      const std::int64_t t = first + a * anchor_step + step - begin;
      if (t < 0) continue;
      if (t >= tokens) break;
      Vector<T, width> c, s;
      GNOMON_UNROLL
      for (int i = 0; i < width; ++i) {
        const CosSin one =
            compose(anchors[a * here + i * vectors + vector], {step_cos[i], step_sin[i]});
        c[i] = round_once<T>(one.cos);
        s[i] = round_once<T>(one.sin);
      }
      store(cos + t * cos_row + first_pair + pair, c);
      store(sin + t * sin_row + first_pair + pair, s);
    }
  }
};

// Given positions: both factors are computed for each entry.
template <typename T, int width>
struct FillAtKernel {
  static constexpr bool synchronizes = false;
  static constexpr int max_threads = 256;
  T *cos, *sin;
  std::int64_t cos_row, sin_row;
  const double *inv_freq, *steps;
  const std::int32_t* axes;       // or null
  const std::int64_t* positions;  // [A, T]
  std::int64_t axis, token;       // strides
  double scale;
  std::int64_t tokens;
  std::int32_t pairs;

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const int vectors = pairs / width;
    const std::int64_t item = context.block() * context.threads() + context.thread();
    if (item >= tokens * vectors) return;
    const std::int64_t t = item / vectors;
    const auto pair = static_cast<int>(item - t * vectors) * width;
    Vector<T, width> c, s;
    GNOMON_UNROLL
    for (int i = 0; i < width; ++i) {
      const std::int64_t p = positions[(axes ? axes[pair + i] : 0) * axis + t * token];
      const std::int64_t step = p & (anchor_step - 1);
      CosSin far = cos_sin(static_cast<double>(p - step), inv_freq[pair + i]);
      if (!(std::fabs(static_cast<double>(p)) <= farthest)) far = {NAN, NAN};
      const double* const near = steps + step * pairs + pair + i;
      const CosSin one =
          compose({scale * far.cos, scale * far.sin},
                  {near[0], near[static_cast<std::int64_t>(anchor_step) * pairs]});
      c[i] = round_once<T>(one.cos);
      s[i] = round_once<T>(one.sin);
    }
    store(cos + t * cos_row + pair, c);
    store(sin + t * sin_row + pair, s);
  }
};

}  // namespace gnomon::cuda
