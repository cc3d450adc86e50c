// Matrix products in double: blocks of sums in registers.
#include <algorithm>
#include <array>

#include "gnomon/parallel.h"
#include "src/core/memory.h"
#include "src/core/products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/core/products_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"

#ifndef GNOMON_CORE_PRODUCTS_ONCE
#define GNOMON_CORE_PRODUCTS_ONCE
namespace gnomon::internal {
namespace {

constexpr std::int64_t block_rows = 6;
constexpr std::int64_t stretch = 128;    // part of k: 32 KiB of a panel, which fit the L1 cache
constexpr std::int64_t piece_rows = 48;  // times a stretch of `a`: 48 KiB of a thread's stack
constexpr std::int64_t piece_columns = 8 * RightFactor::panel;
constexpr std::int64_t few_pieces = 16;  // if fewer for many threads: narrower pieces
constexpr std::int64_t narrow_columns = 4 * RightFactor::panel;

// Rows [begin, end) and columns [first, last) of a product.
struct ProductPiece {
  View<const double, 2> a;
  const RightFactor* b;
  View<double, 2> c;
  bool add;
  std::int64_t begin, end, first, last;
};

}  // namespace
}  // namespace gnomon::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using internal::block_rows;
using internal::ProductPiece;
using internal::RightFactor;
using internal::stretch;

using D = hn::CappedTag<double, 8>;
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(D()));

// Vectors in a row of a block of sums: a block takes 24 of 32 registers, or 12 of 16, and the
// rest holds operands.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int block_vectors = 4;
#else
constexpr int block_vectors = 2;
#endif

// The layout of a stretch of `a`: element (i, l) is at i stride + l, or packed at l rows + i.
enum class Left { by_row = 1, packed };

struct Block {
  std::int64_t depth;
  const double* a;
  std::int64_t a_stride;
  const double* b;
  std::int64_t b_row;
  double* c;
  std::int64_t c_row;
  std::int64_t columns;  // columns of c; the block has at least as many
  bool add;
};

template <Left left, int rows, int vectors>
HWY_INLINE void MultiplyBlock(const Block& p) {
  const D d;
  hn::Vec<D> sum[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Zero(d);
  const double* HWY_RESTRICT a = p.a;
  const double* HWY_RESTRICT b = p.b;
  for (std::int64_t l = 0; l < p.depth; ++l) {
    hn::Vec<D> right[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) right[v] = hn::Load(d, b + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const auto factor = hn::Set(d, left == Left::by_row ? a[r * p.a_stride] : a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = hn::MulAdd(factor, right[v], sum[r][v]);
    }
    b += p.b_row;
    a += left == Left::by_row ? 1 : rows;
  }
  const bool whole = p.columns >= vectors * lanes;
  HWY_ALIGN double part[vectors * lanes];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    double* const to = p.c + r * p.c_row;
    if (whole) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        if (p.add) sum[r][v] = hn::Add(sum[r][v], hn::LoadU(d, to + v * lanes));
        hn::StoreU(sum[r][v], d, to + v * lanes);
      }
    } else {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) hn::Store(sum[r][v], d, part + v * lanes);
      for (std::int64_t j = 0; j < p.columns; ++j) to[j] = p.add ? part[j] + to[j] : part[j];
    }
  }
}

template <Left left, int rows>
HWY_INLINE void MultiplyVectors(const Block& p, std::int64_t vectors) {
  if (vectors == block_vectors) return MultiplyBlock<left, rows, block_vectors>(p);
  if constexpr (block_vectors == 4) {
    if (vectors == 3) return MultiplyBlock<left, rows, 3>(p);
    if (vectors == 2) return MultiplyBlock<left, rows, 2>(p);
  }
  MultiplyBlock<left, rows, 1>(p);
}

// Returns the number of rows of the next block if `left` rows remain.
constexpr std::int64_t NextRows(std::int64_t left) {
  return left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

template <Left left>
HWY_NOINLINE void MultiplyRows(Block p, std::int64_t rows, std::int64_t vectors) {
  while (rows > 0) {
    const std::int64_t here = NextRows(rows);
    if (here == 6)
      MultiplyVectors<left, 6>(p, vectors);
    else if (here == 4)
      MultiplyVectors<left, 4>(p, vectors);
    else if (here == 2)
      MultiplyVectors<left, 2>(p, vectors);
    else
      MultiplyVectors<left, 1>(p, vectors);
    p.a += here * (left == Left::by_row ? p.a_stride : p.depth);
    p.c += here * p.c_row;
    rows -= here;
  }
}

void MultiplyPiece(const ProductPiece& piece) {
  const std::int64_t depth = piece.b->rows();
  const std::int64_t down = piece.a.stride(0), along = piece.a.stride(1);
  const bool by_row = along == 1 || depth == 1;
  HWY_ALIGN double packed[internal::piece_rows * stretch];
  for (std::int64_t l = 0; l < depth; l += stretch) {
    const std::int64_t here = std::min(stretch, depth - l);
    const double* a = piece.a.data() + piece.begin * down + l * along;
    if (!by_row) {
      double* to = packed;
      for (std::int64_t i = piece.begin; i < piece.end;) {
        const std::int64_t rows = NextRows(piece.end - i);
        const double* const from = a + (i - piece.begin) * down;
        if (rows == block_rows && down == 1)
          for (std::int64_t n = 0; n < here; ++n, to += block_rows)
            std::copy_n(from + n * along, block_rows, to);
        else
          for (std::int64_t n = 0; n < here; ++n)
            for (std::int64_t r = 0; r < rows; ++r) *to++ = from[r * down + n * along];
        i += rows;
      }
      a = packed;
    }
    for (std::int64_t j = piece.first; j < piece.last; j += RightFactor::panel) {
      const std::int64_t width = piece.b->width(j);
      for (std::int64_t inside = 0; inside < width; inside += block_vectors * lanes) {
        const std::int64_t vectors =
            std::min<std::int64_t>(block_vectors, (width - inside) / lanes);
        const std::int64_t columns = piece.b->columns() - j - inside;
        if (columns <= 0) break;
        const Block block{here,
                          a,
                          down,
                          piece.b->data(j) + l * width + inside,
                          width,
                          piece.c.data() + piece.begin * piece.c.stride(0) + j + inside,
                          piece.c.stride(0),
                          columns,
                          piece.add || l > 0};
        if (by_row)
          MultiplyRows<Left::by_row>(block, piece.end - piece.begin, vectors);
        else
          MultiplyRows<Left::packed>(block, piece.end - piece.begin, vectors);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(MultiplyPiece);

namespace internal {
namespace {

constexpr std::int64_t grain_products = 1 << 17;  // least work of a task: about 10 us

void multiply_into(View<const double, 2> a, const RightFactor& b, View<double, 2> c, bool add) {
  const std::int64_t m = c.extent(0), n = c.extent(1), depth = b.rows();
  if (depth == 0 && !add)
    for (std::int64_t i = 0; i < m; ++i) std::fill_n(c.data() + i * c.stride(0), n, 0.0);
  if (m == 0 || n == 0 || depth == 0) return;
  const auto kernel = GNOMON_DISPATCH(MultiplyPiece);
  const auto pieces = [](std::int64_t count, std::int64_t each) {
    return (count - 1) / each + 1;
  };
  const std::int64_t down = pieces(m, piece_rows);
  const std::int64_t columns = down * pieces(n, piece_columns) < few_pieces
                                   ? internal::narrow_columns
                                   : internal::piece_columns;
  const std::int64_t along = pieces(n, columns);
  // Divide the rows into equal parts of whole blocks.
  const std::int64_t rows = pieces(pieces(m, down), block_rows) * block_rows;
  const std::int64_t work = std::min(m, rows) * std::min(n, columns) * depth;
  parallel_for(
      down * along, grain_products / work + 1, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t piece = from; piece < to; ++piece) {
          const std::int64_t i = piece / along * rows, j = piece % along * columns;
          if (i < m)
            kernel({a, &b, c, add, i, std::min(m, i + rows), j, std::min(n, j + columns)});
        }
      });
}

}  // namespace

template <typename T>
void RightFactor::pack(View<const T, 2> b) {
  honour_isa();  // may throw: not called in parallel loops
  const std::int64_t padded = (columns_ + 7) / 8 * 8;
  data_.reset(static_cast<double*>(
      allocate_long(static_cast<std::size_t>(rows_ * padded) * sizeof(double))));
  const std::int64_t work = std::max<std::int64_t>(1, rows_ * panel);
  const std::int64_t panels = (columns_ + panel - 1) / panel;
  parallel_for(panels, grain_products / 8 / work + 1, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t first = from * panel; first < std::min(columns_, to * panel);
         first += panel) {
      const std::int64_t wide = width(first), here = std::min(panel, columns_ - first);
      double* const packed = data_.get() + first * rows_;
      if (b.stride(1) == 1) {
        for (std::int64_t l = 0; l < rows_; ++l) {
          const T* const row = b.data() + l * b.stride(0) + first;
          for (std::int64_t j = 0; j < here; ++j) packed[l * wide + j] = row[j];
        }
      } else {
        constexpr std::int64_t together = 8;  // rows: one cache line of a column of `b`
        for (std::int64_t begin = 0; begin < rows_; begin += together)
          for (std::int64_t j = 0; j < here; ++j)
            for (std::int64_t l = begin; l < std::min(rows_, begin + together); ++l)
              packed[l * wide + j] = b(l, first + j);
      }
      for (std::int64_t l = 0; l < rows_; ++l)
        std::fill(packed + l * wide + here, packed + (l + 1) * wide, 0.0);
    }
  });
}

RightFactor::RightFactor(View<const float, 2> b) : rows_(b.extent(0)), columns_(b.extent(1)) {
  pack(b);
}
RightFactor::RightFactor(View<const double, 2> b) : rows_(b.extent(0)), columns_(b.extent(1)) {
  pack(b);
}

void multiply(View<const double, 2> a, const RightFactor& b, View<double, 2> c) {
  multiply_into(a, b, c, false);
}
void multiply_add(View<const double, 2> a, const RightFactor& b, View<double, 2> c) {
  multiply_into(a, b, c, true);
}

}  // namespace internal
}  // namespace gnomon
#endif  // HWY_ONCE
