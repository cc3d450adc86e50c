// Tiles of the scores and their bands, for the gradient of a bias.
//
// A tile is 128 queries by 128 keys. Tile (I, J) is in band J - I, so the tiles of a band have
// the same diagonals: element (row, column) has diagonal column - row + 127 of 255. A block
// walks along a part of a band, a segment, and sums its diagonals in registers.
//
// A lane has 8 x 8 elements of a tile, those of the fragments of mma.m16n8k16: eight warps are
// 2 by 4, each with 64 queries by 32 keys.
#pragma once

#include <cstdint>
#include <type_traits>

#include "src/cuda/context.h"
#include "src/cuda/elements.h"
#include "src/cuda/matrix.h"

namespace gnomon::cuda {

constexpr int tile_size = 128;
constexpr int diagonals = 2 * tile_size - 1;
constexpr int tile_threads = 256;
// A stage of the pipeline in shared memory: 128 bytes of each of the rows of two operands.
constexpr int row_bytes = 128;
constexpr int operand_bytes = tile_size * row_bytes;
constexpr int stage_bytes = 2 * operand_bytes;
template <typename T>
constexpr int chunk = row_bytes / static_cast<int>(sizeof(T));  // elements of a row in a stage

// The bands that have a visible pair, and their division. Values are the same for any device.
struct Bands {
  std::int32_t batch = 0;        // B
  std::int32_t query_tiles = 0;  // tiles along T
  std::int32_t key_tiles = 0;    // tiles along S
  std::int32_t first = 0;        // the lowest J - I
  std::int32_t count = 0;
  std::int32_t center = 0;  // a longest band
  std::int32_t segments = 0;

  // Bands in the order of their length, the longest first.
  GNOMON_DEVICE int at(int rank) const {
    const int below = center - first, above = first + count - 1 - center;
    const int both = least(below, above);
    if (rank <= 2 * both) return center + (rank % 2 ? -(rank + 1) / 2 : rank / 2);
    return below > above ? center - (rank - both) : center + (rank - both);
  }
  GNOMON_DEVICE int first_tile(int band) const { return band < 0 ? -band : 0; }  // its I
  GNOMON_DEVICE int tiles(int band) const {
    return least(query_tiles, key_tiles - band) - first_tile(band);
  }
};

// Rows of head vectors [B, rows, H, size]. Strides are in elements.
template <typename T>
struct HeadRows {
  const T* data = nullptr;
  std::int64_t batch = 0, row = 0, head = 0;
};

// The place of a tile in the scores of a head.
struct Tile {
  int query, key;       // the rows of its first element
  int queries, keys;    // T and S
  int offset;           // position of query row i: i + offset
  int lowest, highest;  // visible key - query, in rows
};

struct Lane {
  int lane, warp_row, warp_column;  // less than 32, 2 and 4

  static GNOMON_DEVICE Lane of(int thread) {
    const int warp = thread / warp_size;
    return {thread % warp_size, warp / 4, warp % 4};
  }
  // The elements of a lane: u in [0, 8), n in [0, 4), e in [0, 2).
  GNOMON_DEVICE int row(int u) const { return 64 * warp_row + 8 * u + lane / 4; }
  GNOMON_DEVICE int column(int n, int e) const {
    return 32 * warp_column + 8 * n + 2 * (lane % 4) + e;
  }
  GNOMON_DEVICE int diagonal(int u, int n, int e) const {
    return column(n, e) - row(u) + tile_size - 1;
  }
};

// The elements of a lane.
struct LaneElements {
  float at[4][4][4];

  GNOMON_DEVICE float& operator()(int u, int n, int e) { return at[u / 2][n][u % 2 * 2 + e]; }
  GNOMON_DEVICE void clear() {
    GNOMON_UNROLL
    for (int i = 0; i < 64; ++i) at[i / 16][i / 4 % 4][i % 4] = 0;
  }
  // body(u, n, e, element)
  template <typename Body>
  GNOMON_DEVICE void visit(const Body& body) {
    GNOMON_UNROLL
    for (int u = 0; u < 8; ++u) {
      GNOMON_UNROLL
      for (int n = 0; n < 4; ++n) {
        GNOMON_UNROLL
        for (int e = 0; e < 2; ++e) body(u, n, e, at[u / 2][n][u % 2 * 2 + e]);
      }
    }
  }
};

// The address of 16 bytes of a row in shared memory. Units are exchanged within a row, so that
// eight rows at one unit are in different banks.
GNOMON_DEVICE unsigned char* unit_of_row(unsigned char* operand, int row, int unit) {
  return operand + row * row_bytes + ((unit ^ (row & 7)) << 4);
}

// Starts the copy of 128 rows from `from` on. Rows from `rows` on, and units from `units` on,
// become zeros.
template <class Context, typename T>
GNOMON_DEVICE void copy_operand(const Context& context, AsyncCopies<Context>& copies,
                                const T* from, std::int64_t stride, int rows, int units,
                                unsigned char* to) {
  constexpr int elements = 16 / sizeof(T);
  const int unit = context.thread() % 8;
  GNOMON_UNROLL
  for (int i = 0; i < tile_size * 8 / tile_threads; ++i) {
    const int row = context.thread() / 8 + i * (tile_threads / 8);
    const bool valid = row < rows && unit < units;
    copies.template copy<16>(unit_of_row(to, row, unit),
                             valid ? from + row * stride + unit * elements : from, valid);
  }
}

// sums += a b' over the first `elements` of the rows in shared memory; a multiple of 8.
template <typename T, class Context>
GNOMON_DEVICE void multiply(Context& context, const Lane& lane, unsigned char* a,
                            unsigned char* b, int elements, LaneElements& sums) {
  if constexpr (sizeof(T) == 2) {
    // Lane l names row l % 16 of a, of elements 8 (l / 16) on; of b, row l % 8 + 8 (l / 16), of
    // elements 8 (l / 8 % 2) on.
    const int a_row = 64 * lane.warp_row + lane.lane % 16, a_unit = lane.lane / 16;
    const int b_row = 32 * lane.warp_column + lane.lane % 8 + lane.lane / 16 * 8,
              b_unit = lane.lane / 8 % 2;
    GNOMON_UNROLL
    for (int step = 0; step < chunk<T> / 16; ++step) {
      if (16 * step >= elements) break;
      std::uint32_t some_a[4][4], some_b[4][2];
      GNOMON_UNROLL
      for (int m = 0; m < 4; ++m)
        load_matrices(context, unit_of_row(a, a_row + 16 * m, 2 * step + a_unit), some_a[m]);
      GNOMON_UNROLL
      for (int n = 0; n < 4; n += 2) {
        std::uint32_t two[4];
        load_matrices(context, unit_of_row(b, b_row + 8 * n, 2 * step + b_unit), two);
        some_b[n][0] = two[0];
        some_b[n][1] = two[1];
        some_b[n + 1][0] = two[2];
        some_b[n + 1][1] = two[3];
      }
      multiply_add<T>(context, some_a, some_b, sums.at);
    }
  } else {
    GNOMON_NO_UNROLL
    for (int d = 0; d < elements; d += 2) {
      const int unit = d / 4, within = d % 4 * 4;  // in bytes
      Vector<float, 2> x[8], y[4][2];
      GNOMON_UNROLL
      for (int u = 0; u < 8; ++u)
        x[u] = load<float, 2>(
            reinterpret_cast<const float*>(unit_of_row(a, lane.row(u), unit) + within));
      GNOMON_UNROLL
      for (int i = 0; i < 8; ++i)
        y[i / 2][i % 2] = load<float, 2>(reinterpret_cast<const float*>(
            unit_of_row(b, lane.column(i / 2, i % 2), unit) + within));
      sums.visit([&](int u, int n, int e, float& sum) {
        sum = std::fma(x[u][0], y[n][e][0], sum);
        sum = std::fma(x[u][1], y[n][e][1], sum);
      });
    }
  }
}

}  // namespace gnomon::cuda
