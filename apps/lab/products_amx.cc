// A tile of a is 16 rows of 32 numbers. A tile of b is 16 pairs of rows, with 16 columns of two
// numbers each. The high tile and the low tile of the same numbers are adjacent in memory.
#include "apps/lab/products_amx.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
// GCC's headers use uninitialized vectors (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "gnomon/parallel.h"
#include "src/attention/scratch.h"

#define GNOMON_AMX __attribute__((target("avx512f,avx512bw,amx-tile,amx-bf16")))

namespace gnomon::lab::amx {
namespace {

constexpr std::int64_t tile = 16, depth = 32;      // rows or columns; numbers summed over
constexpr std::int64_t tile_words = tile * depth;  // bfloat16 in a tile: 1 KB
constexpr std::int64_t block_rows = 128;           // of a, packed and multiplied at a time
constexpr std::int64_t block_columns = 128;        // of b, packed at a time
constexpr std::int64_t longest_sum = 512;          // then the sum is added to c

template <typename T>
using Scratch = gnomon::internal::ScratchPool<T>;

std::int64_t up(std::int64_t count, std::int64_t to) { return (count + to - 1) / to * to; }

// The high and low halves of 16 pairs of floats, as bfloat16. The first number of a pair is in
// the lower 16 bits. Both are rounded to nearest: half a unit of the last kept place is added,
// then the other places are cut off.
struct Halves {
  __m512i high, low;
};
GNOMON_AMX inline Halves halves(__m512 first, __m512 second) {
  const __m512i half = _mm512_set1_epi32(0x8000), kept = _mm512_set1_epi32(-0x10000);
  const __m512i high_first =
      _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(first), half), kept);
  const __m512i high_second =
      _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(second), half), kept);
  first = _mm512_sub_ps(first, _mm512_castsi512_ps(high_first));
  second = _mm512_sub_ps(second, _mm512_castsi512_ps(high_second));
  const __m512i low_first = _mm512_add_epi32(_mm512_castps_si512(first), half);
  const __m512i low_second =
      _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(second), half), kept);
  return {_mm512_or_si512(_mm512_srli_epi32(high_first, 16), high_second),
          _mm512_or_si512(_mm512_srli_epi32(low_first, 16), low_second)};
}

GNOMON_AMX inline __mmask16 first_of(std::int64_t count) {
  return static_cast<__mmask16>((1u << std::clamp<std::int64_t>(count, 0, 16)) - 1);
}

// Transposes 16 x 16 words of 32 bits.
GNOMON_AMX inline void transpose(__m512i* x) {
  __m512i y[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    y[i] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
    y[i + 4] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xdd);
    y[i + 8] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
    y[i + 12] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    x[i] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0x88);
    x[i + 8] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0xdd);
  }
}
GNOMON_AMX void transpose_tile(std::uint16_t* words) {
  __m512i x[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) x[i] = _mm512_loadu_si512(words + i * depth);
  transpose(x);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(words + i * depth, x[i]);
}

// The direction of the pairs in a tile: along a row of a, or along a column of b.
enum class Pairs { along_row = 1, along_column };

// Packs the tile at `from`, with `summed` x `others` valid numbers, into a high tile and a low
// tile. Of 32 summed numbers, number p forms a pair with number p + 16, so that no number moves
// within its row of memory.
GNOMON_AMX void pack_tile(Pairs pairs, Order order, const float* from, std::int64_t row,
                          std::int64_t summed, std::int64_t others, std::uint16_t* to) {
  const bool in_rows = order == Order::summed_last;
  const __mmask16 none = 0, first_mask = first_of(in_rows ? summed : others);
  const __mmask16 second_mask = in_rows ? first_of(summed - 16) : first_mask;
  const std::int64_t second = in_rows ? 16 : 16 * row;
  const std::int64_t first_rows = in_rows ? others : summed;
  const std::int64_t second_rows = in_rows ? others : summed - 16;
  for (std::int64_t i = 0; i < 16; ++i, from += row, to += depth) {
    const Halves one =
        halves(_mm512_maskz_loadu_ps(i < first_rows ? first_mask : none, from),
               _mm512_maskz_loadu_ps(i < second_rows ? second_mask : none, from + second));
    _mm512_storeu_si512(to, one.high);
    _mm512_storeu_si512(to + tile_words, one.low);
  }
  if (in_rows != (pairs == Pairs::along_row)) {
    transpose_tile(to - 16 * depth);
    transpose_tile(to - 16 * depth + tile_words);
  }
}

// Packs `others` x `summed` numbers into tiles, row of tiles after row of tiles, in the order
// of the source memory.
GNOMON_AMX void pack(Pairs pairs, const Factor& x, std::int64_t other, std::int64_t others,
                     std::int64_t first, std::int64_t summed, std::uint16_t* to) {
  const std::int64_t steps = up(summed, depth) / depth;
  const auto one = [&](std::int64_t i, std::int64_t l) GNOMON_AMX {
    const float* from = x.order == Order::summed_last
                            ? x.data + (other + i) * x.row + first + l
                            : x.data + (first + l) * x.row + other + i;
    pack_tile(pairs, x.order, from, x.row, std::min(depth, summed - l),
              std::max<std::int64_t>(0, others - i),
              to + (i / tile * steps + l / depth) * 2 * tile_words);
  };
  const std::int64_t end = up(others, 2 * tile);
  if (x.order == Order::summed_last) {
    for (std::int64_t i = 0; i < end; i += tile)
      for (std::int64_t l = 0; l < summed; l += depth) one(i, l);
  } else {
    for (std::int64_t l = 0; l < summed; l += depth)
      for (std::int64_t i = 0; i < end; i += tile) one(i, l);
  }
}

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Computes 2 x 2 tiles of c from two rows of tiles of a and two rows of tiles of b, with
// `steps` tiles each. `row`: the distance of rows of c, in floats.
GNOMON_AMX void multiply_tiles(std::int64_t steps, const std::uint16_t* a,
                               const std::uint16_t* b, float* c, std::int64_t row, bool add) {
  const std::int64_t next = steps * 2 * tile_words;
  const auto bytes = static_cast<std::size_t>(row) * sizeof(float);
  if (add) {
    _tile_loadd(0, c, bytes);
    _tile_loadd(1, c + tile, bytes);
    _tile_loadd(2, c + tile * row, bytes);
    _tile_loadd(3, c + tile * row + tile, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t l = 0; l < steps; ++l, a += 2 * tile_words, b += 2 * tile_words) {
    _tile_loadd(4, a + tile_words, 64);
    _tile_loadd(5, a + next + tile_words, 64);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + next, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    _tile_loadd(4, a, 64);
    _tile_loadd(5, a + next, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    _tile_loadd(6, b + tile_words, 64);
    _tile_loadd(7, b + next + tile_words, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, bytes);
  _tile_stored(1, c + tile, bytes);
  _tile_stored(2, c + tile * row, bytes);
  _tile_stored(3, c + tile * row + tile, bytes);
}

// to [m, n] = from [n, m] transposed.
GNOMON_AMX void transpose_matrix(std::int64_t m, std::int64_t n, const float* from, float* to) {
  for (std::int64_t i = 0; i < m; i += 16)
    for (std::int64_t j = 0; j < n; j += 16) {
      __m512i x[16];
      for (std::int64_t l = 0; l < 16; ++l)
        x[l] = j + l < n ? _mm512_maskz_loadu_epi32(first_of(m - i), from + (j + l) * m + i)
                         : _mm512_setzero_si512();
      transpose(x);
      for (std::int64_t l = 0; l < 16 && i + l < m; ++l)
        _mm512_mask_storeu_epi32(to + (i + l) * n + j, first_of(n - j), x[l]);
    }
}

// multiply_tiles if c has fewer than 32 rows or columns left.
GNOMON_AMX void multiply_edge(std::int64_t steps, const std::uint16_t* a,
                              const std::uint16_t* b, float* c, std::int64_t row,
                              std::int64_t rows, std::int64_t columns, bool add) {
  alignas(64) float square[4 * tile * tile];
  const auto bytes = static_cast<std::size_t>(columns) * sizeof(float);
  if (add)
    for (std::int64_t i = 0; i < rows; ++i)
      std::memcpy(square + i * 2 * tile, c + i * row, bytes);
  multiply_tiles(steps, a, b, square, 2 * tile, add);
  for (std::int64_t i = 0; i < rows; ++i)
    std::memcpy(c + i * row, square + i * 2 * tile, bytes);
}

GNOMON_AMX void multiply_block(std::int64_t rows, std::int64_t columns, std::int64_t steps,
                               const std::uint16_t* a, const std::uint16_t* b, float* c,
                               std::int64_t row, bool add) {
  const TileShapes shapes;
  _tile_loadconfig(&shapes);
  const std::int64_t panel = 2 * steps * 2 * tile_words;
  for (std::int64_t j = 0; j < columns; j += 2 * tile)
    for (std::int64_t i = 0; i < rows; i += 2 * tile) {
      const std::uint16_t* left = a + i / (2 * tile) * panel;
      const std::uint16_t* right = b + j / (2 * tile) * panel;
      float* to = c + i * row + j;
      if (i + 2 * tile <= rows && j + 2 * tile <= columns)
        multiply_tiles(steps, left, right, to, row, add);
      else
        multiply_edge(steps, left, right, to, row, std::min(2 * tile, rows - i),
                      std::min(2 * tile, columns - j), add);
    }
  _tile_release();
}

}  // namespace

bool available() {
  static const bool here = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512bw")) return false;
    std::uint32_t a = 7, b, c = 0, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    const std::uint32_t wanted = (1u << 22) | (1u << 24);  // AMX-BF16, AMX-TILE
    if ((d & wanted) != wanted) return false;
    constexpr long request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  }();
  return here;
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Factor& a, const Factor& b,
              float* c) {
  if (!k) return void(std::fill_n(c, m * n, 0.0f));
  if (a.order == Order::summed_first && b.order == Order::summed_first && m > n) {
    // One of the factors is transposed when it is packed. The swap makes it the narrower one.
    const Scratch<float> transposed(1, m * n);
    multiply(n, m, k, b, a, transposed.at(0));
    return transpose_matrix(m, n, transposed.at(0), c);
  }
  const std::int64_t longest = std::min(up(k, depth), longest_sum);
  const auto words = [&](std::int64_t others) { return 2 * up(others, 2 * tile) * longest; };
  const Scratch<std::uint16_t> packed_b(1, words(n));
  std::uint16_t* const right = packed_b.at(0);
  const std::int64_t blocks = (m + block_rows - 1) / block_rows;
  // The scratch memory of a thread stays in its cache.
  Scratch<std::uint16_t> pool(std::min<std::int64_t>(blocks, threads()),
                              words(std::min(m, block_rows)));
  for (std::int64_t l = 0; l < k; l += longest) {
    const std::int64_t summed = std::min(longest, k - l), steps = up(summed, depth) / depth;
    parallel_for(n, block_columns, [&](std::int64_t begin, std::int64_t end) {
      pack(Pairs::along_column, b, begin, end - begin, l, summed,
           right + begin * 2 * steps * depth);
    });
    parallel_for(m, block_rows, [&](std::int64_t begin, std::int64_t end) {
      std::uint16_t* packed = pool.take();
      pack(Pairs::along_row, a, begin, end - begin, l, summed, packed);
      multiply_block(end - begin, n, steps, packed, right, c + begin * n, n, l > 0);
      pool.give(packed);
    });
  }
}

}  // namespace gnomon::lab::amx

#else

namespace gnomon::lab::amx {
bool available() { return false; }
void multiply(std::int64_t, std::int64_t, std::int64_t, const Factor&, const Factor&, float*) {}
}  // namespace gnomon::lab::amx
#endif
