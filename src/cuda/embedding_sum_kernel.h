// Sums of the gradients of tokens for each row of a table, and the lists of the tokens of rows.
// A block has the items of some consecutive groups of rows.
#pragma once

#include <bit>
#include <cstdint>

#include "src/cuda/embedding_kernel.h"

namespace gnomon::cuda {

GNOMON_DEVICE int count_ones(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __popc(bits);
#else
  return std::popcount(bits);
#endif
}

// table_grad[r] += scale * the sum of the gradients of its tokens, in double and in their
// order. The tokens of row r: [begins[r], begins[r + 1]) of a list, or (b, r) for all b.
//
// A work item is `width` channels of some rows. The rows of a vocabulary have few tokens: those
// with one or two are summed at once.
template <typename G, int width>
struct SumKernel {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 256, blocks_at_once = 2;
  static constexpr std::uint32_t depth = width == 8 ? 3 : 4;  // loads in flight
  static constexpr int group = 2;
  TypedElements<G> grad;
  std::int64_t grad_row, grad_token;  // strides
  const std::int64_t* offsets;        // [B T] of tokens, in elements; or null
  const std::int32_t* begins;         // [N + 1]; or null
  std::int32_t batch;                 // B
  TypedElements<float> table_grad;
  std::int64_t table_row;  // stride
  double scale;
  std::uint32_t table_rows, groups;
  std::int32_t rows_per_group;
  Division division;  // of groups
  Divisor vectors;    // C / width

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const std::uint32_t first = division.first_token(context);
    const int count = least(division.tokens_per_block, static_cast<int>(groups - first));
    const auto per_group = static_cast<std::uint32_t>(rows_per_group);
    const std::uint32_t first_row = first * per_group;
    const Rows rows =
        rows_of(context, first_row,
                static_cast<int>(least(static_cast<std::uint32_t>(count) * per_group,
                                       table_rows - first_row)));
    const int items = vectors.times(count), step = division.step(context);
    GNOMON_NO_UNROLL
    for (int item = division.first_item(context); item < items; item += step) {
      const int g = vectors.quotient(item), channel = (item - vectors.times(g)) * width;
      const int row = g * rows_per_group;
      const int some = least(rows_per_group, static_cast<int>(table_rows - first_row) - row);
      const std::uint32_t most =
          begins && some == group ? sum_short(rows, first_row, row, channel) : 0;
      GNOMON_NO_UNROLL
      for (int r = row; r < row + some; ++r) sum(rows, first_row, r, channel, most);
    }
  }

  // The tokens of the rows of a block, in shared memory: a block waits for them once, and not
  // once for each row.
  struct Rows {
    const std::int64_t* offsets;  // [rows, 2] of the first and the last token
    const std::int32_t* begins;   // [rows + 1]
  };
  template <class Context>
  GNOMON_DEVICE Rows rows_of(Context& context, std::uint32_t first, int count) const {
    auto* const ends = context.template shared<std::int64_t>();
    auto* const limits =
        reinterpret_cast<std::int32_t*>(ends + 2 * division.tokens_per_block * rows_per_group);
    if (begins)
      for (int i = context.thread(); i <= count; i += context.threads())
        limits[i] = begins[first + static_cast<std::uint32_t>(i)];
    context.barrier();
    if (begins)
      for (int i = context.thread(); i < 2 * count; i += context.threads()) {
        const int begin = limits[i / 2], end = limits[i / 2 + 1];
        if (begin < end) ends[i] = offsets[i % 2 ? end - 1 : begin];
      }
    context.barrier();
    return {ends, limits};
  }

  // Sums those of `group` rows that have one or two tokens. Returns 2.
  GNOMON_DEVICE std::uint32_t sum_short(const Rows& rows, std::uint32_t first_row, int row,
                                        int channel) const {
    int tokens[group];
    std::int64_t to[group];
    GNOMON_UNROLL
    for (int r = 0; r < group; ++r) {
      tokens[r] = rows.begins[row + r + 1] - rows.begins[row + r];
      to[r] = (first_row + static_cast<std::uint32_t>(row + r)) * table_row + channel;
    }
    const auto is_short = [&](int r) { return tokens[r] == 1 || tokens[r] == 2; };
    typename TypedElements<G>::Stored some[group][2][width];
    float grads[group][width];
    GNOMON_UNROLL
    for (int r = 0; r < group; ++r) {
      if (!is_short(r)) continue;
      GNOMON_UNROLL
      for (int j = 0; j < 2; ++j)
        grad.load(channel + rows.offsets[2 * (row + r) + j], some[r][j]);
      table_grad.load(to[r], grads[r]);
    }
    GNOMON_UNROLL
    for (int r = 0; r < group; ++r) {
      if (!is_short(r)) continue;
      const bool two = tokens[r] == 2;
      GNOMON_UNROLL
      for (int c = 0; c < width; ++c) {
        double one = 0;
        one += static_cast<double>(grad.value(some[r][0][c]));
        // A sum keeps its bits if -0 is added.
        one += static_cast<double>(two ? grad.value(some[r][1][c]) : -0.0f);
        grads[r][c] = static_cast<float>(static_cast<double>(grads[r][c]) + scale * one);
      }
      table_grad.store(to[r], grads[r]);
    }
    return 2;
  }

  // Sums a row of more than `least_tokens` tokens.
  GNOMON_DEVICE void sum(const Rows& rows, std::uint32_t first_row, int of, int channel,
                         std::uint32_t least_tokens) const {
    const std::uint32_t row = first_row + static_cast<std::uint32_t>(of);
    const auto begin = static_cast<std::uint32_t>(begins ? rows.begins[of] : 0),
               end = static_cast<std::uint32_t>(begins ? rows.begins[of + 1] : batch);
    if (end - begin <= least_tokens) return;
    const std::int64_t first = channel + (begins ? 0 : row * grad_token);
    double sums[width];
    GNOMON_UNROLL
    for (int c = 0; c < width; ++c) sums[c] = 0;
    // A pipeline: an element of `some` is loaded again after it has been added, and its offset
    // has been loaded one round before.
    typename TypedElements<G>::Stored some[depth][width];
    std::int64_t at[depth];
    GNOMON_UNROLL
    for (std::uint32_t j = 0; j < depth; ++j) at[j] = offset(begin + j, end);
    GNOMON_UNROLL
    for (std::uint32_t j = 0; j < depth; ++j) {
      if (begin + j < end) grad.load(first + at[j], some[j]);
      at[j] = offset(begin + depth + j, end);
    }
    std::uint32_t i = begin;
    GNOMON_NO_UNROLL
    for (; i + depth < end; i += depth) {
      GNOMON_UNROLL
      for (std::uint32_t j = 0; j < depth; ++j) {
        GNOMON_UNROLL
        for (int c = 0; c < width; ++c) sums[c] += static_cast<double>(grad.value(some[j][c]));
        if (i + depth + j < end) grad.load(first + at[j], some[j]);
        at[j] = offset(i + 2 * depth + j, end);
      }
    }
    const std::int64_t to = row * table_row + channel;
    float grads[width];
    table_grad.load(to, grads);
    GNOMON_UNROLL
    for (std::uint32_t j = 0; j < depth; ++j) {
      GNOMON_UNROLL
      for (int c = 0; c < width; ++c)  // a sum keeps its bits if -0 is added
        sums[c] += static_cast<double>(i + j < end ? grad.value(some[j][c]) : -0.0f);
    }
    GNOMON_UNROLL
    for (int c = 0; c < width; ++c)
      grads[c] = static_cast<float>(static_cast<double>(grads[c]) + scale * sums[c]);
    table_grad.store(to, grads);
  }

  // The offset of token i, or of the last one.
  GNOMON_DEVICE std::int64_t offset(std::uint32_t i, std::uint32_t end) const {
    i = least(i, end - 1);
    return offsets ? offsets[i] : i * grad_row;
  }
};

// Lists the tokens of each row of a table, in the order of (b, t): a stable counting sort. A
// block has a tile of 32 `words` rows, and each of its warps has a range of tokens. The warp
// counts the tokens of each row, sums the counts of the warps before it, and then writes the
// tokens. Lane l keeps the counts of the rows l, l + 32, ... of the tile in registers.
template <int words>
struct ListKernel {
  static constexpr bool synchronizes = true;
  static constexpr int max_threads = 1024;
  static constexpr int tile = warp_size * words;
  static constexpr int bits = words == 1 ? 5 : 7;  // bits of a row index in the tile
  static constexpr int depth = 4;                  // loads in flight
  static_assert(words == 1 || words == 4);
  RowIds rows;
  std::int64_t grad_row, grad_token;  // strides
  std::uint32_t tokens;               // B T
  Divisor tokens_per_row;             // T
  std::uint32_t tokens_per_warp;      // a multiple of 32
  std::int32_t contiguous;            // 1: ids are a sequence of one stride
  std::int64_t* offsets;              // [B T] of the tokens, in elements of the gradient
  std::int32_t* begins;               // [N + 1]

  // Tokens of one warp, by row of the tile.
  struct Tokens {
    std::uint32_t inside;       // those with a row of the tile
    std::uint32_t equal;        // those with the row of this lane's token
    std::uint32_t lane[words];  // those with the row l + 32 w
  };

  template <class Context>
  GNOMON_DEVICE void operator()(Context& context) const {
    const int lane = context.thread() % warp_size, warp = context.thread() / warp_size;
    const int warps = context.threads() / warp_size;
    const std::int64_t first = context.block() * tile;
    int counts[words], below = 0;
    GNOMON_UNROLL
    for (int w = 0; w < words; ++w) counts[w] = 0;
    for_tokens(context, [&](std::uint32_t, std::int64_t row) {
      below += row >= 0 && row < first;
      const Tokens some = match(context, row - first);
      GNOMON_UNROLL
      for (int w = 0; w < words; ++w) counts[w] += count_ones(some.lane[w]);
    });
    GNOMON_UNROLL
    for (int mask = warp_size / 2; mask; mask /= 2) below += context.shuffle_xor(below, mask);

    // [warps, tile] counts, and [warps] tokens of rows below the tile.
    auto* const shared = context.template shared<std::int32_t>();
    GNOMON_UNROLL
    for (int w = 0; w < words; ++w) shared[warp * tile + w * warp_size + lane] = counts[w];
    if (lane == 0) shared[warps * tile + warp] = below;
    context.barrier();

    int next[words];  // place of the next token of each row, for this warp
    int begin = 0;    // place of the first token of the tile, then of rows 32 w
    for (int v = 0; v < warps; ++v) begin += shared[warps * tile + v];
    GNOMON_UNROLL
    for (int w = 0; w < words; ++w) {
      int total = 0, before = 0;
      for (int v = 0; v < warps; ++v) {
        const int one = shared[v * tile + w * warp_size + lane];
        total += one;
        before += v < warp ? one : 0;
      }
      int sum = total;  // sum over the rows up to this lane's
      GNOMON_UNROLL
      for (int step = 1; step < warp_size; step *= 2) {
        const int one = context.shuffle(sum, lane >= step ? lane - step : lane);
        sum += lane >= step ? one : 0;
      }
      const int start = begin + sum - total;
      next[w] = start + before;
      const std::int64_t row = first + w * warp_size + lane;
      if (warp == 0 && row < rows.table_rows) {
        begins[row] = start;
        if (row == rows.table_rows - 1) begins[row + 1] = start + total;
      }
      begin += context.shuffle(sum, warp_size - 1);
    }

    for_tokens(context, [&](std::uint32_t token, std::int64_t row) {
      const Tokens some = match(context, row - first);
      if (!some.inside) return;
      const auto local = static_cast<std::uint32_t>(row - first) % tile;
      int place = 0;
      GNOMON_UNROLL
      for (int w = 0; w < words; ++w) {
        const int one = context.shuffle(next[w], static_cast<int>(local % warp_size));
        if (static_cast<int>(local / warp_size) == w) place = one;
        next[w] += count_ones(some.lane[w]);
      }
      if (!(some.inside >> lane & 1)) return;
      const Token of = token_of(token, tokens_per_row);
      offsets[place + count_ones(some.equal & ((1u << lane) - 1))] =
          of.row * grad_row + of.index * grad_token;
    });
  }

  // Calls body(token, row) for the tokens of a warp, 32 at a time; the row is -1 if it is not a
  // row of the table.
  template <class Context, typename Body>
  GNOMON_DEVICE void for_tokens(Context& context, Body&& body) const {
    const auto lane = static_cast<std::uint32_t>(context.thread() % warp_size);
    const auto warp = static_cast<std::uint32_t>(context.thread() / warp_size);
    const std::uint32_t begin = least(tokens, warp * tokens_per_warp),
                        end = begin + least(tokens - begin, tokens_per_warp);
    GNOMON_NO_UNROLL
    for (std::uint32_t some = begin; some < end; some += depth * warp_size) {
      std::int64_t ids[depth];
      GNOMON_UNROLL
      for (int i = 0; i < depth; ++i) {
        const std::uint32_t token = some + static_cast<std::uint32_t>(i * warp_size) + lane;
        ids[i] = token < end ? id_of(token) : -1;
      }
      GNOMON_UNROLL
      for (int i = 0; i < depth; ++i)
        body(some + static_cast<std::uint32_t>(i * warp_size) + lane,
             rows.contain(ids[i]) ? ids[i] : -1);
    }
  }

  GNOMON_DEVICE std::int64_t id_of(std::uint32_t token) const {
    if (contiguous) return rows.ids[token * rows.token];
    const Token of = token_of(token, tokens_per_row);
    return rows.ids[of.row * rows.row + of.index * rows.token];
  }

  // local: the row of this lane's token, counted from the first row of the tile.
  template <class Context>
  GNOMON_DEVICE Tokens match(Context& context, std::int64_t local) const {
    Tokens some;
    some.inside = context.ballot(local >= 0 && local < tile);
    some.equal = some.inside;
    GNOMON_UNROLL
    for (int w = 0; w < words; ++w) some.lane[w] = some.inside;
    if (!some.inside) return some;
    const auto row = static_cast<std::uint32_t>(local);
    const auto lane = static_cast<std::uint32_t>(context.thread() % warp_size);
    GNOMON_UNROLL
    for (int bit = 0; bit < bits; ++bit) {
      const std::uint32_t set = context.ballot(row >> bit & 1);
      some.equal &= row >> bit & 1 ? set : ~set;
      GNOMON_UNROLL
      for (int w = 0; w < words; ++w) {
        const std::uint32_t of = lane + static_cast<std::uint32_t>(w * warp_size);
        some.lane[w] &= of >> bit & 1 ? set : ~set;
      }
    }
    return some;
  }
};

}  // namespace gnomon::cuda
