// The kernels of the gradient of a bias: the mean gradient of each row, and the sums of the
// segments of the bands (src/cuda/bias_gradient_tile.h).
//
//   P = exp(scores - lse), dP = out_grad v', delta = sum_d out_grad out, dS = P (dP - delta)
//
// For each tile a block computes q k' and out_grad v', as one stream of stages: 128 bytes of
// each row of both operands. The copy of a stage starts `stages - 1` stages before its product,
// also across the end of a tile.
//
// Steps from the plain loop to this kernel, and the cost that each one removes:
//
//   plain loop  A thread for each pair reads 2 (D + Dv) elements from memory for the two
//               products and 2 Dv for delta, and adds dS to the sum of its distance atomically.
//   delta       DeltaKernel computes it once for each row: no reads of `out` for each pair.
//   tiles       128 x 128 pairs use the same rows in shared memory: 2 (D + Dv) / 128 elements
//               from memory for each pair.
//   fragments   A lane has 8 x 8 pairs: 16 reads of shared memory for 64 multiply-adds, not
//               128. Tensor cores multiply 16-bit elements.
//   bands       All tiles of a block have the same 255 diagonals, whose sums stay in registers:
//               no atomic operations, and one record for each segment instead of one addition
//               in memory for each pair.
//   pipeline    Copies of later stages run during the product of a stage.
#pragma once

#include <cmath>
#include <cstdint>

#include "src/cuda/bias_gradient_forms.h"
#include "src/cuda/bias_gradient_tile.h"
#include "src/cuda/context.h"
#include "src/cuda/elements.h"
#include "src/cuda/matrix.h"

namespace gnomon::cuda {

enum class Format { f16 = 1, bf16 };

// delta[b, h, i] = sum_d out_grad out. Eight lanes share a row.
template <typename T>
struct DeltaKernel {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 256;
  HeadRows<T> out, out_grad;
  std::int32_t size = 0;  // Dv
  std::int32_t heads = 0, queries = 0;
  std::int64_t rows = 0;    // B H T
  float* deltas = nullptr;  // [B, H, T]

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const std::int64_t row = context.block() * (max_threads / 8) + context.thread() / 8;
    float sum = 0;
    if (row < rows) {
      const std::int64_t head_row = row / queries, i = row - head_row * queries;
      const std::int64_t b = head_row / heads, h = head_row - b * heads;
      const T* const x = out.data + b * out.batch + i * out.row + h * out.head;
      const T* const y =
          out_grad.data + b * out_grad.batch + i * out_grad.row + h * out_grad.head;
      constexpr int width = 16 / sizeof(T);
      GNOMON_NO_UNROLL
      for (int d = context.thread() % 8 * width; d < size; d += 8 * width) {
        const Vector<T, width> some = load<T, width>(x + d), others = load<T, width>(y + d);
        GNOMON_UNROLL
        for (int e = 0; e < width; ++e)
          sum = std::fma(to_float(some[e]), to_float(others[e]), sum);
      }
    }
    GNOMON_UNROLL
    for (int mask = 4; mask > 0; mask /= 2) sum += context.shuffle_xor(sum, mask);
    if (row < rows && context.thread() % 8 == 0) deltas[row] = sum;
  }
};

// T: float, or std::uint16_t for both 16-bit formats. Only the products depend on the format,
// so one kernel has both.
template <typename T, class Form>
struct BiasGradientKernel {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = tile_threads;
  HeadRows<T> q, k, v, out_grad;
  Format format = {};                         // used for 16-bit elements
  std::int32_t key_size = 0, value_size = 0;  // D, Dv
  const float* lse = nullptr;
  std::int64_t lse_batch = 0, lse_head = 0, lse_row = 0;
  const float* deltas = nullptr;  // [B, H, T]
  Bands bands = {};
  std::int32_t heads = 0, group = 1;                                        // H, H / Hk
  std::int32_t queries = 0, keys = 0, offset = 0, lowest = 0, highest = 0;  // as in Tile
  float scale = 1;  // softmax_scale log2 e
  float cap = 0;    // cap log2 e; 0: none
  Form form = {};
  float* records = nullptr;  // [H, bands, segments, record]

  static constexpr int pipeline_bytes = Form::stages * stage_bytes;
  // Two sets of lse and delta of 128 rows.
  static constexpr int rows_floats = 4 * tile_size;
  constexpr int shared_bytes() const {
    return pipeline_bytes + 4 * (rows_floats + form.shared_floats());
  }

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const Work work = work_of(context.block());
    const int head = work.head, band = work.band, tiles = bands.tiles(band);
    const std::int64_t steps = std::int64_t{bands.batch} * tiles;
    const std::int64_t begin = steps * work.segment / bands.segments;
    const int count = static_cast<int>(steps * (work.segment + 1) / bands.segments - begin);

    auto* const stages = context.template shared<unsigned char>();
    auto* const rows = reinterpret_cast<float*>(stages + pipeline_bytes);
    float* const own = rows + rows_floats;
    const Lane lane = Lane::of(context.thread());
    FetchStage next{static_cast<int>(begin / tiles), 0, 0, 0};
    next.tile = static_cast<int>(begin - std::int64_t{next.batch} * tiles);
    int tile_in_band = next.tile;
    AsyncCopies<Context> copies;
    form.begin(context, own, head, tile_at(tile_in_band, band));
    GNOMON_UNROLL
    for (int i = 0; i + 1 < Form::stages; ++i)
      fetch(context, copies, next, work, tiles, count, stages + i * stage_bytes, rows);

    typename Form::Sums sums;
    LaneElements scores, products;
    int stage = 0;
    // Waits for the next stage, starts the copy of a later one, and multiplies.
    const auto advance = [&](int elements, LaneElements& to) {
      copies.template wait<Form::stages - 2>();
      context.barrier();
      const int before = stage == 0 ? Form::stages - 1 : stage - 1;
      fetch(context, copies, next, work, tiles, count, stages + before * stage_bytes, rows);
      unsigned char* const operands = stages + stage * stage_bytes;
      unsigned char* const others = operands + operand_bytes;
      if constexpr (sizeof(T) == 4)
        multiply<float>(context, lane, operands, others, elements, to);
      else if (format == Format::bf16)
        multiply<BFloat16>(context, lane, operands, others, elements, to);
      else
        multiply<Half>(context, lane, operands, others, elements, to);
      stage = stage + 1 == Form::stages ? 0 : stage + 1;
    };
    GNOMON_NO_UNROLL
    for (int step = 0; step < count; ++step) {
      const Tile tile = tile_at(tile_in_band, band);
      scores.clear();
      products.clear();
      GNOMON_NO_UNROLL
      for (int d = 0; d < key_size; d += chunk<T>) {
        advance(least(chunk<T>, key_size - d), scores);
        if (d == 0) form.begin_tile(context, own, tile);
      }
      GNOMON_NO_UNROLL
      for (int d = 0; d < value_size; d += chunk<T>)
        advance(least(chunk<T>, value_size - d), products);
      // Addresses that were computed before the loop would take registers from the products.
      float* const at = own + opaque(0);
      const Lane same = Lane::of(opaque(context.thread()));
      add_bias(at, same, head, tile, scores);
      differentiate(rows + step % 2 * (2 * tile_size), same, tile, products, scores);
      form.add(context, at, same, head, tile, scores, sums);
      if (++tile_in_band == tiles) tile_in_band = 0;
    }
    copies.template wait<0>();
    context.barrier();
    // Computed again, for the same reason.
    const Work same = work_of(opaque(static_cast<int>(context.block())));
    const std::int64_t record =
        (std::int64_t{same.head} * bands.count + (same.band - bands.first)) * bands.segments +
        same.segment;
    form.finish(context, reinterpret_cast<float*>(stages), own, lane, sums,
                records + record * form.record());
  }

 private:
  // What a block computes.
  struct Work {
    int head, band, segment;
  };
  GNOMON_DEVICE Work work_of(std::int64_t block) const {
    const auto at = static_cast<std::uint32_t>(block);
    const std::uint32_t of_head = at / static_cast<std::uint32_t>(heads);
    const std::uint32_t rank = of_head / static_cast<std::uint32_t>(bands.segments);
    return {static_cast<int>(at - of_head * static_cast<std::uint32_t>(heads)),
            bands.at(static_cast<int>(rank)),
            static_cast<int>(of_head - rank * static_cast<std::uint32_t>(bands.segments))};
  }

  // A tile of a segment, and the part of it that is fetched next: of q and k, then of out_grad
  // and v.
  struct FetchStage {
    int batch, tile, part, step;
  };

  GNOMON_DEVICE Tile tile_at(int tile, int band) const {
    const int first = bands.first_tile(band) + tile;
    return {
        first * tile_size, (first + band) * tile_size, queries, keys, offset, lowest, highest};
  }

  // Starts the copy of one stage to `to`, if the segment has one more, and moves on.
  template <class Context>
  GNOMON_DEVICE void fetch(Context& context, AsyncCopies<Context>& copies, FetchStage& next,
                           const Work& work, int tiles, int count, unsigned char* to,
                           float* rows) const {
    if (next.step < count) {
      const Tile tile = tile_at(next.tile, work.band);
      const int head = work.head, key_parts = (key_size + chunk<T> - 1) / chunk<T>;
      const bool first = next.part < key_parts;
      constexpr int unit = 16 / sizeof(T);
      const int done = (first ? next.part : next.part - key_parts) * chunk<T>;
      const int size = first ? key_size : value_size;
      const int units = (size - done + unit - 1) / unit;
      const std::int64_t a_row = first ? q.row : out_grad.row, b_row = first ? k.row : v.row;
      const T* const a = (first ? q.data : out_grad.data) +
                         next.batch * (first ? q.batch : out_grad.batch) +
                         head * (first ? q.head : out_grad.head) + tile.query * a_row + done;
      const T* const b = (first ? k.data : v.data) + next.batch * (first ? k.batch : v.batch) +
                         head / group * (first ? k.head : v.head) + tile.key * b_row + done;
      copy_operand(context, copies, a, a_row, queries - tile.query, units, to);
      copy_operand(context, copies, b, b_row, keys - tile.key, units, to + operand_bytes);
      if (next.part == 0) {  // lse, then delta
        const int thread = context.thread(), row = thread % tile_size;
        const bool valid = row < queries - tile.query;
        const std::int64_t i = valid ? tile.query + row : 0;
        const float* const from =
            thread < tile_size
                ? lse + next.batch * lse_batch + head * lse_head + i * lse_row
                : deltas + (std::int64_t{next.batch} * heads + head) * queries + i;
        copies.template copy<4>(rows + next.step % 2 * (2 * tile_size) + thread, from, valid);
      }
      ++next.part;
      if (!first && done + chunk<T> >= size) {
        next.part = 0;
        ++next.step;
        if (++next.tile == tiles) {
          next.tile = 0;
          ++next.batch;
        }
      }
    }
    copies.commit();
  }

  GNOMON_DEVICE void add_bias(float* own, const Lane& lane, int head, const Tile& tile,
                              LaneElements& scores) const {
    float factor = scale;
    if (cap > 0) {  // cap tanh(scale s / cap), with tanh(y) = 1 - 2 / (exp(2 y) + 1)
      const float inside = 2 * log2_e * scale / cap;
      const float limit = cap;
      scores.visit([&](int, int, int, float& score) {
        score = limit - 2 * limit / (exp2_approximately(score * inside) + 1);
      });
      factor = 1;
    }
    form.add_bias(own, lane, head, tile, factor, scores);
  }

  // scores = P (dP - delta), or 0 if the pair is hidden.
  GNOMON_DEVICE static void differentiate(const float* rows, const Lane& lane, const Tile& tile,
                                          LaneElements& products, LaneElements& scores) {
    const int difference = tile.key - tile.query;
    scores.visit([&](int u, int n, int e, float& score) {
      const int row = lane.row(u), column = lane.column(n, e);
      const float p = exp2_approximately(std::fma(rows[row], -log2_e, score));
      const float gradient = p * (products(u, n, e) - rows[tile_size + row]);
      const int distance = difference + column - row;
      const bool visible =
          row < tile.queries - tile.query && column < tile.keys - tile.key &&
          (Form::by_diagonal || static_cast<unsigned>(distance - tile.lowest) <=
                                    static_cast<unsigned>(tile.highest - tile.lowest));
      score = visible ? gradient : 0.0f;
    });
  }
};

}  // namespace gnomon::cuda
