// The forms of a bias in the kernel of its gradient. A form adds the bias to a tile of scores,
// and sums the gradients of a tile:
//
//   static constexpr int stages           of the pipeline, as many as fit into shared memory
//   static constexpr bool by_diagonal     true: its sums do not mix diagonals, so a hidden
//                                         diagonal needs no mask
//   int shared_floats()                   beyond the stages
//   int record()                          floats that a segment writes
//   begin(context, shared, head, tile)    a segment; `tile` has the diagonals of the band
//   begin_tile(context, shared, tile)
//   add_bias(shared, lane, head, tile, scale, scores)
//                                         scores = scale scores + log2 e times the bias
//   add(context, shared, lane, head, tile, gradients, sums)
//   finish(context, scratch, shared, lane, sums, record)
//
// A barrier separates begin and begin_tile from add_bias. In `finish`, scratch is the memory of
// the stages. Sums have a fixed order.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "gnomon/cuda/bias.h"
#include "src/cuda/bias_gradient_tile.h"

namespace gnomon::cuda {

constexpr float log2_e = 1.44269504088896340736f;

GNOMON_DEVICE std::uint32_t bits_of(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  return std::bit_cast<std::uint32_t>(x);
#endif
}

// Sums of diagonals. The diagonals of the elements of a lane are 11 steps of 8, by two.
struct DiagonalSums {
  float at[11][2] = {};

  GNOMON_DEVICE void add(int u, int n, int e, float gradient) { at[n - u + 7][e] += gradient; }
};

// Writes the sums of the diagonals of all lanes to record [255]. scratch: 22 floats of each
// thread. All threads must call it.
template <class Context>
GNOMON_DEVICE void write_diagonals(Context& context, float* scratch, const DiagonalSums& sums,
                                   float* record) {
  GNOMON_UNROLL
  for (int i = 0; i < 22; ++i)
    scratch[i * tile_threads + context.thread()] = sums.at[i / 2][i % 2];
  context.barrier();
  const int diagonal = context.thread() - (tile_size - 1);
  if (diagonal < tile_size) {
    double sum = 0;
    GNOMON_NO_UNROLL
    for (int warp = 0; warp < 8; ++warp) GNOMON_NO_UNROLL
    for (int row = 0; row < 8; ++row) {
      // = 8 (n - u) + 2 (lane % 4) + e, of the lanes of row lane / 4.
      const int rest = diagonal - 32 * (warp % 4) + 64 * (warp / 4) + row;
      const int step = (rest >> 3) + 7;
      if (step < 0 || step > 10) continue;
      const int low = rest & 7, thread = 32 * warp + 4 * row + low / 2;
      sum += static_cast<double>(scratch[(2 * step + low % 2) * tile_threads + thread]);
    }
    record[context.thread()] = static_cast<float>(sum);
  }
  context.barrier();
}

// Writes the sum of a value of each thread to *to.
template <class Context>
GNOMON_DEVICE void write_sum(Context& context, float* scratch, float value, float* to) {
  scratch[context.thread()] = value;
  context.barrier();
  if (context.thread() == 0) {
    double sum = 0;
    GNOMON_NO_UNROLL
    for (int i = 0; i < tile_threads; ++i) sum += static_cast<double>(scratch[i]);
    *to = static_cast<float>(sum);
  }
  context.barrier();
}

// A slope or a strip: the bias of a band is 255 numbers.
struct DiagonalForm {
  static constexpr int stages = 3;
  static constexpr bool by_diagonal = true;
  using Sums = DiagonalSums;
  const float* slopes = nullptr;  // [H]; null: a strip
  StripView strip = {};

  GNOMON_DEVICE static float* table(float* shared) { return shared; }  // [255]
  static constexpr int shared_floats() { return 256; }
  static constexpr int record() { return 256; }

  template <class Context>
  GNOMON_DEVICE void begin(Context& context, float* shared, int head, const Tile& tile) const {
    const int g = context.thread();
    if (g >= diagonals) return;
    const std::int64_t distance = std::int64_t{tile.key} - tile.query - tile.offset + g - 127;
    const std::int64_t index = distance - strip.min_distance;
    float value = 0;  // hidden, if outside of the strip
    if (slopes)
      value = bias(SlopeView{slopes, 0}, head, 0, distance);
    else if (index >= 0 && index < strip.distances)
      value = strip.values[std::int64_t{head} * strip.distances + index];
    table(shared)[g] = value * log2_e;
  }
  template <class Context>
  GNOMON_DEVICE void begin_tile(Context&, float*, const Tile&) const {}

  GNOMON_DEVICE void add_bias(float* shared, const Lane& lane, int, const Tile&, float scale,
                              LaneElements& scores) const {
    const float* const values = table(shared) + lane.diagonal(0, 0, 0);
    scores.visit([&](int u, int n, int e, float& score) {
      score = std::fma(score, scale, values[8 * (n - u) + e]);
    });
  }
  template <class Context>
  GNOMON_DEVICE void add(Context&, float*, const Lane&, int, const Tile&,
                         LaneElements& gradients, Sums& sums) const {
    gradients.visit([&](int u, int n, int e, float& gradient) { sums.add(u, n, e, gradient); });
  }
  template <class Context>
  GNOMON_DEVICE void finish(Context& context, float* scratch, float*, const Lane&,
                            const Sums& sums, float* record) const {
    write_diagonals(context, scratch, sums, record);
  }
};

// A grid. A diagonal, key - query = dy width + dx, has two offsets: one with dx >= 0, one with
// dx < 0. The record has 256 floats of each, and the three entries of the class token.
struct GridForm {
  static constexpr int stages = 2;
  static constexpr bool by_diagonal = false;
  using Sums = DiagonalSums;  // sums for dx >= 0; the others are in shared memory
  GridView grid = {};

  // The place and the column of each row of the tile: queries, then keys.
  GNOMON_DEVICE static std::int32_t* places(float* shared) {
    return reinterpret_cast<std::int32_t*>(shared);
  }
  GNOMON_DEVICE static std::int32_t* columns(float* shared) { return places(shared) + 256; }
  // The sums of the three entries of the class token of each thread, [3, 256].
  GNOMON_DEVICE static float* of_class(float* shared) { return shared + 512; }
  // The sums of dx < 0 of each thread, [22, 256].
  GNOMON_DEVICE static float* of_left(float* shared) {
    return of_class(shared) + 3 * tile_threads;
  }
  static constexpr int shared_floats() { return 512 + 25 * tile_threads; }
  static constexpr int record() { return 516; }

  template <class Context>
  GNOMON_DEVICE void begin(Context& context, float* shared, int, const Tile&) const {
    GNOMON_UNROLL
    for (int i = 0; i < 25; ++i) of_class(shared)[i * tile_threads + context.thread()] = 0;
  }
  template <class Context>
  GNOMON_DEVICE void begin_tile(Context& context, float* shared, const Tile& tile) const {
    const int thread = context.thread(), row = thread % tile_size;
    const std::int32_t at =
        place(grid, thread < tile_size ? std::int64_t{tile.query} + row + tile.offset
                                       : std::int64_t{tile.key} + row);
    places(shared)[thread] = at;
    columns(shared)[thread] = at < 0 ? at : at % (2 * grid.width - 1);
  }

  GNOMON_DEVICE void add_bias(float* shared, const Lane& lane, int head, const Tile&,
                              float scale, LaneElements& scores) const {
    const std::int32_t* const at = places(shared);
    const float* const values = grid.values + std::int64_t{head} * offsets(grid);
    scores.visit([&](int u, int n, int e, float& score) {
      const int query = at[lane.row(u)], key = at[tile_size + lane.column(n, e)];
      const bool outside = query == outside_place || key == outside_place;
      const float value = outside ? 0 : values[index_of_places(grid, query, key)];
      score = std::fma(score, scale, value * log2_e);
    });
  }
  template <class Context>
  GNOMON_DEVICE void add(Context& context, float* shared, const Lane& lane, int,
                         const Tile& tile, LaneElements& gradients, Sums& sums) const {
    const std::int32_t* const at = columns(shared);
    if (grid.leading && (tile.query + tile.offset == 0 || tile.key == 0)) {
      float query_only = 0, key_only = 0, both = 0;
      gradients.visit([&](int u, int n, int e, float& gradient) {
        const bool query = at[lane.row(u)] == class_token_place;
        const bool key = at[tile_size + lane.column(n, e)] == class_token_place;
        query_only += query && !key ? gradient : 0;
        key_only += key && !query ? gradient : 0;
        both += query && key ? gradient : 0;
        gradient = query || key ? 0 : gradient;
      });
      float* const sums_of_class = of_class(shared) + context.thread();
      sums_of_class[0] += query_only;
      sums_of_class[tile_threads] += key_only;
      sums_of_class[2 * tile_threads] += both;
    }
    DiagonalSums left;
    gradients.visit([&](int u, int n, int e, float& gradient) {
      const bool right = at[tile_size + lane.column(n, e)] >= at[lane.row(u)];
      sums.add(u, n, e, right ? gradient : 0);
      left.add(u, n, e, right ? 0 : gradient);
    });
    GNOMON_UNROLL
    for (int i = 0; i < 22; ++i)
      of_left(shared)[i * tile_threads + context.thread()] += left.at[i / 2][i % 2];
  }
  template <class Context>
  GNOMON_DEVICE void finish(Context& context, float* scratch, float* shared, const Lane&,
                            const Sums& sums, float* record) const {
    write_diagonals(context, scratch, sums, record);
    DiagonalSums left;
    GNOMON_UNROLL
    for (int i = 0; i < 22; ++i)
      left.at[i / 2][i % 2] = of_left(shared)[i * tile_threads + context.thread()];
    write_diagonals(context, scratch, left, record + 256);
    GNOMON_UNROLL
    for (int i = 0; i < 3; ++i)
      write_sum(context, scratch, of_class(shared)[i * tile_threads + context.thread()],
                record + 512 + i);
  }
};

// A piecewise logarithmic bias. A warp visits the pieces of its part of a tile one after
// another: few, except close to the diagonal. The record is that of BiasGradient: offsets,
// slopes, c, threshold.
struct PiecewiseLogForm {
  static constexpr int stages = 2;
  static constexpr bool by_diagonal = false;
  struct Sums {};  // kept in shared memory, which leaves registers for the products
  PiecewiseLogView view = {};

  // psi and dpsi/dc of the diagonals; of the queries of the tile 1 / (psi + epsilon), the
  // factor of x in -dx/dc, and that in -dx/dthreshold; sums of each warp [8, 2 P].
  GNOMON_DEVICE static float* psis(float* shared) { return shared; }
  GNOMON_DEVICE static float* by_c(float* shared) { return shared + 256; }
  GNOMON_DEVICE static float* scales(float* shared) { return shared + 512; }
  GNOMON_DEVICE static float* pulls(float* shared) { return shared + 640; }
  GNOMON_DEVICE static float* by_threshold(float* shared) { return shared + 768; }
  // The sums of c and of the threshold of each thread, [2, 256].
  GNOMON_DEVICE static float* totals(float* shared) { return shared + 896; }
  GNOMON_DEVICE static float* pieces(float* shared) { return shared + 1408; }
  constexpr int shared_floats() const { return 1408 + 16 * view.pieces; }
  constexpr int record() const { return 2 * view.pieces + 2; }

  template <class Context>
  GNOMON_DEVICE void begin(Context& context, float* shared, int, const Tile& tile) const {
    const int g = context.thread();
    if (g < diagonals) {
      const float distance = std::fabs(static_cast<float>(std::int64_t{tile.key} - tile.query -
                                                          tile.offset + g - (tile_size - 1)));
      psis(shared)[g] = psi(view, distance);
      by_c(shared)[g] = distance / (view.c * distance + 1.0f);
    }
    totals(shared)[g] = totals(shared)[tile_threads + g] = 0;
    GNOMON_NO_UNROLL
    for (int i = g; i < 16 * view.pieces; i += tile_threads) pieces(shared)[i] = 0;
  }
  template <class Context>
  GNOMON_DEVICE void begin_tile(Context& context, float* shared, const Tile& tile) const {
    const int row = context.thread();
    if (row >= tile_size) return;
    const std::int64_t query = std::int64_t{tile.query} + row + tile.offset;
    const auto position = static_cast<float>(query);
    const bool near = position < view.threshold;
    const float own = near ? view.threshold : position;
    const float scale = row_scale(view, query);
    scales(shared)[row] = scale;
    pulls(shared)[row] = own / (view.c * own + 1.0f) * scale;
    by_threshold(shared)[row] = near ? view.c / (view.c * own + 1.0f) * scale : 0.0f;
  }

  // The pieces of the part of a warp, [first, last].
  struct Range {
    int first, last;
  };
  GNOMON_DEVICE Range range(float* shared, const Lane& lane, const Tile& tile) const {
    const int corner = 32 * lane.warp_column - 64 * lane.warp_row;  // column - row
    const int low = corner - 63, high = corner + 31;
    const int shift = tile.key - tile.query - tile.offset;  // the distance of diagonal 0
    const float a = psis(shared)[low + tile_size - 1], b = psis(shared)[high + tile_size - 1];
    const float nearest = low + shift <= 0 && high + shift >= 0 ? 0 : a < b ? a : b;
    const float farthest = a < b ? b : a;
    const float* const scale = scales(shared) + 64 * lane.warp_row;  // decreasing
    return {piece_of(view, nearest * scale[63] * (1 - 0x1p-20f)),
            piece_of(view, farthest * scale[0] * (1 + 0x1p-20f))};
  }
  // [knots[p], knots[p + 1]), where the last piece has no limit. x is not negative, and such
  // floats have the order of their bits: one comparison, and fewer registers.
  struct Piece {
    std::uint32_t begin, count;
    GNOMON_DEVICE bool has(float x) const { return bits_of(x) - begin < count; }
  };
  GNOMON_DEVICE Piece piece(int p) const {
    const std::uint32_t begin = bits_of(p > 0 ? view.knots[p] : 0.0f);
    return {begin, bits_of(p + 1 < view.pieces ? view.knots[p + 1] : INFINITY) - begin};
  }

  GNOMON_DEVICE void add_bias(float* shared, const Lane& lane, int head, const Tile& tile,
                              float scale, LaneElements& scores) const {
    const float* const psi = psis(shared) + lane.diagonal(0, 0, 0);
    const float* const factor = scales(shared) + lane.row(0);
    scores.visit([&](int, int, int, float& score) { score *= scale; });
    const Range some = range(shared, lane, tile);
    GNOMON_NO_UNROLL
    for (int p = some.first; p <= some.last; ++p) {
      reload_memory();  // 64 values of x, kept for all pieces, would not fit into registers
      const Piece piece = this->piece(p);
      const float offset = view.offsets[std::int64_t{head} * view.pieces + p] * log2_e;
      const float slope = view.slopes[std::int64_t{head} * view.pieces + p] * log2_e;
      scores.visit([&](int u, int n, int e, float& score) {
        const float x = psi[8 * (n - u) + e] * factor[8 * u];
        score += piece.has(x) ? std::fma(slope, x, offset) : 0.0f;
      });
    }
  }
  template <class Context>
  GNOMON_DEVICE void add(Context& context, float* shared, const Lane& lane, int head,
                         const Tile& tile, LaneElements& gradients, Sums&) const {
    const float* const psi = psis(shared) + lane.diagonal(0, 0, 0);
    const float* const psi_by_c = by_c(shared) + lane.diagonal(0, 0, 0);
    const float* const factor = scales(shared) + lane.row(0);
    const float* const pull = pulls(shared) + lane.row(0);
    const float* const limit = by_threshold(shared) + lane.row(0);
    float* const of_warp =
        pieces(shared) + (4 * lane.warp_row + lane.warp_column) * 2 * view.pieces;
    const Range some = range(shared, lane, tile);
    GNOMON_NO_UNROLL
    for (int p = some.first; p <= some.last; ++p) {
      reload_memory();  // 64 values of x, kept for all pieces, would not fit into registers
      const Piece piece = this->piece(p);
      float constant = 0, linear = 0, c = 0, threshold = 0;
      float sum = 0, with_psi = 0, with_by_c = 0;  // sums of a row
      gradients.visit([&](int u, int n, int e, float& all) {
        const float distance = psi[8 * (n - u) + e];
        const float gradient = piece.has(distance * factor[8 * u]) ? all : 0.0f;
        sum += gradient;
        with_psi = std::fma(gradient, distance, with_psi);
        with_by_c = std::fma(gradient, psi_by_c[8 * (n - u) + e], with_by_c);
        if (n < 3 || e == 0) return;
        const float x = factor[8 * u] * with_psi;
        constant += sum;
        linear += x;
        c += std::fma(factor[8 * u], with_by_c, -x * pull[8 * u]);
        threshold = std::fma(-x, limit[8 * u], threshold);
        sum = with_psi = with_by_c = 0;
        reload_memory();
      });
      const float slope = view.slopes[std::int64_t{head} * view.pieces + p];
      float& by_c_total = totals(shared)[context.thread()];
      float& by_threshold_total = totals(shared)[tile_threads + context.thread()];
      by_c_total = std::fma(slope, c, by_c_total);
      by_threshold_total = std::fma(slope, threshold, by_threshold_total);
      GNOMON_UNROLL
      for (int mask = 16; mask > 0; mask /= 2) {
        constant += context.shuffle_xor(constant, mask);
        linear += context.shuffle_xor(linear, mask);
      }
      if (lane.lane == 0) {
        of_warp[p] += constant;
        of_warp[view.pieces + p] += linear;
      }
    }
  }
  template <class Context>
  GNOMON_DEVICE void finish(Context& context, float* scratch, float* shared, const Lane&,
                            const Sums&, float* record) const {
    const int values = 2 * view.pieces;
    GNOMON_NO_UNROLL
    for (int i = context.thread(); i < values; i += tile_threads) {
      double sum = 0;
      GNOMON_NO_UNROLL
      for (int warp = 0; warp < 8; ++warp)
        sum += static_cast<double>(pieces(shared)[warp * values + i]);
      record[i] = static_cast<float>(sum);
    }
    write_sum(context, scratch, totals(shared)[context.thread()], record + values);
    write_sum(context, scratch, totals(shared)[tile_threads + context.thread()],
              record + values + 1);
  }
};

}  // namespace gnomon::cuda
