// Adding tables to embeddings, row by row, and the gradients of the tables.
#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "gnomon/embedding/table.h"
#include "gnomon/error.h"
#include "gnomon/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/embedding/table_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "src/core/dispatch.h"
#include "src/core/elements-inl.h"
#include "src/core/overlap.h"
#include "src/core/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// Rounds and stores numbers that are not NaN.
template <class D>
HWY_INLINE void StoreNumbers(hn::Vec<D> v, D d, BFloat16* to) {
  const hn::Rebind<std::uint16_t, D> narrow;
  hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(RoundProductToBFloat16(d, v))), narrow,
             reinterpret_cast<std::uint16_t*>(to));
}

// x[c] += scale row[c]
template <typename T>
void AddRow(T* HWY_RESTRICT x, const float* HWY_RESTRICT row, float scale, std::int64_t size) {
  using A = Accumulator<T>;
  const hn::ScalableTag<A> full;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(full));
  const auto sum = [&](auto d, std::int64_t c) HWY_ATTR {
    return hn::MulAdd(hn::Set(d, static_cast<A>(scale)), LoadElements(d, row + c),
                      LoadElements(d, x + c));
  };
  std::int64_t c = 0;
  constexpr bool far = sizeof(T) == 2;
  constexpr std::int64_t line = 64 / sizeof(T);
  constexpr std::int64_t early = (far ? far_prefetch_bytes : prefetch_bytes) / sizeof(T);
  for (; c + 4 * lanes <= size; c += 4 * lanes) {
    for (std::int64_t at = 0; at < 4 * lanes; at += line)
      if constexpr (far)
        PrefetchFar(x + c + early + at);
      else
        hwy::Prefetch(x + c + early + at);
    T* const to = x + c;
    const auto v0 = sum(full, c), v1 = sum(full, c + lanes);
    const auto v2 = sum(full, c + 2 * lanes), v3 = sum(full, c + 3 * lanes);
    if constexpr (std::is_same_v<T, BFloat16>) {
      // A NaN makes the sum NaN.
      const auto all = hn::Add(hn::Add(v0, v1), hn::Add(v2, v3));
      if (HWY_LIKELY(hn::AllFalse(full, hn::IsNaN(all)))) {
        StoreNumbers(v0, full, to);
        StoreNumbers(v1, full, to + lanes);
        StoreNumbers(v2, full, to + 2 * lanes);
        StoreNumbers(v3, full, to + 3 * lanes);
        continue;
      }
    }
    StoreElements(v0, full, to);
    StoreElements(v1, full, to + lanes);
    StoreElements(v2, full, to + 2 * lanes);
    StoreElements(v3, full, to + 3 * lanes);
  }
  for (; c + lanes <= size; c += lanes) StoreElements(sum(full, c), full, x + c);
  const hn::CappedTag<A, 1> one;
  for (; c < size; ++c) StoreElements(sum(one, c), one, x + c);
}

// sums[c] += grad[c]
template <typename T>
void SumRow(double* HWY_RESTRICT sums, const T* HWY_RESTRICT grad, std::int64_t size) {
  using A = Accumulator<T>;
  constexpr std::int64_t chunk = 512;  // channels converted to the accumulator type at a time
  const auto sum = [&](std::int64_t begin, std::int64_t count, const A* from) HWY_ATTR {
    ForVectors<double>(count, [&](auto d, std::int64_t c) HWY_ATTR {
      double* const to = sums + begin + c;
      hn::StoreU(hn::Add(hn::LoadU(d, to), LoadElements(d, from + c)), d, to);
    });
  };
  if constexpr (std::is_same_v<T, A>) return sum(0, size, grad);
  A values[chunk];
  for (std::int64_t begin = 0; begin < size; begin += chunk) {
    const std::int64_t count = HWY_MIN(chunk, size - begin);
    FromElements(grad + begin, count, values);
    sum(begin, count, values);
  }
}

#define GNOMON_ROWS(T, Name)                                                  \
  void AddRow##Name(T* x, const float* row, float scale, std::int64_t size) { \
    AddRow(x, row, scale, size);                                              \
  }                                                                           \
  void SumRow##Name(double* sums, const T* grad, std::int64_t size) {         \
    SumRow(sums, grad, size);                                                 \
  }
GNOMON_ROWS(float, F32)
GNOMON_ROWS(double, F64)
GNOMON_ROWS(Half, F16)
GNOMON_ROWS(BFloat16, BF16)
#undef GNOMON_ROWS

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

#undef GNOMON_EXPORT
#define GNOMON_EXPORT(T, Name)                                     \
  HWY_EXPORT(AddRow##Name);                                        \
  HWY_EXPORT(SumRow##Name);                                        \
  auto add_row(const T*) { return GNOMON_DISPATCH(AddRow##Name); } \
  auto sum_row(const T*) { return GNOMON_DISPATCH(SumRow##Name); }
namespace {
GNOMON_EXPORT(float, F32)
GNOMON_EXPORT(double, F64)
GNOMON_EXPORT(Half, F16)
GNOMON_EXPORT(BFloat16, BF16)

using std::int64_t;

constexpr int64_t table_grain = 1 << 14;     // minimum work of a parallel piece
constexpr int64_t piece_elements = 1 << 18;  // maximum work of a parallel piece
constexpr int64_t block_elements = 1 << 16;  // 256 KB of the table, which fit a second-level
                                             // cache

int64_t grain(int64_t channels) {
  return std::max<int64_t>(1, table_grain / std::max<int64_t>(1, channels));
}

std::string shape(int64_t rows, int64_t columns) {
  return shape_text(std::array<std::int64_t, 2>{rows, columns});
}

template <typename T>
void check_contiguous(const char* what, const T& view, std::size_t axis) {
  if (view.stride(axis) != 1 && view.extent(axis) > 1)
    refuse("embedding",
           std::string("the channels of ") + what + " must be contiguous: stride 1",
           int64_t{view.stride(axis)});
}

template <typename X, typename Table>
void check_table(const X& x, const Table& table) {
  if (table.extent(0) != x.extent(1) || table.extent(1) != x.extent(2))
    refuse("embedding", "the table must be [T, C] = " + shape(x.extent(1), x.extent(2)),
           shape(table.extent(0), table.extent(1)));
  check_contiguous("x", x, 2);
  check_contiguous("the table", table, 1);
}

template <typename X, typename Table>
void check_rows(const X& x, const Table& table, View<const int64_t, 2> rows) {
  if (table.extent(1) != x.extent(2))
    refuse("embedding", "the table must have the width of x, " + std::to_string(x.extent(2)),
           int64_t{table.extent(1)});
  if (rows.extent(0) != x.extent(0) || rows.extent(1) != x.extent(1))
    refuse("embedding", "rows must be [B, T] = " + shape(x.extent(0), x.extent(1)),
           shape(rows.extent(0), rows.extent(1)));
  check_contiguous("x", x, 2);
  check_contiguous("the table", table, 1);
  for (int64_t b = 0; b < rows.extent(0); ++b)
    for (int64_t t = 0; t < rows.extent(1); ++t)
      if (rows(b, t) < 0 || rows(b, t) >= table.extent(0))
        refuse("embedding", "row must be one of the table's " + std::to_string(table.extent(0)),
               rows(b, t));
}

}  // namespace

namespace {

// Calls body(b, first, count) for tokens first to first + count of row b of the batch. The
// outer loop is over blocks of tokens, the inner loop over the batch. The table rows of a
// block, which the batch shares, are read from cache for all rows of the batch except the
// first.
template <typename Body>
void for_blocks(int64_t batch, int64_t tokens, int64_t channels, const Body& body) {
  const int64_t block = std::max<int64_t>(1, block_elements / channels);
  const int64_t most = std::max<int64_t>(1, piece_elements / (block * channels));
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / batch * block;
      body(i % batch, first, std::min(block, tokens - first));
    }
  };
  parallel_for((tokens - 1) / block * batch + batch,
               std::min(std::max<int64_t>(batch, 4), most), run, Share::contiguous);
}

template <typename T>
void add_table_typed(View<T, 3> x, View<const float, 2> table, float scale) {
  check_table(x, table);
  if (!x.size()) return;
  const auto add = add_row(x.data());
  const int64_t channels = x.extent(2);
  const bool whole = x.stride(1) == channels && table.stride(0) == channels;
  for_blocks(x.extent(0), x.extent(1), channels, [&](int64_t b, int64_t first, int64_t count) {
    if (whole) return add(&x(b, first, 0), &table(first, 0), scale, count * channels);
    for (int64_t t = first; t < first + count; ++t)
      add(&x(b, t, 0), &table(t, 0), scale, channels);
  });
}

template <typename T>
void add_rows_typed(View<T, 3> x, View<const float, 2> table, View<const int64_t, 2> rows) {
  check_rows(x, table, rows);
  if (!x.size()) return;
  const auto add = add_row(x.data());
  const int64_t channels = x.extent(2);
  for_blocks(x.extent(0), x.extent(1), channels, [&](int64_t b, int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t)
      add(&x(b, t, 0), &table(rows(b, t), 0), 1.0f, channels);
  });
}

// Channels whose sums are on the stack, so that no allocation fails after a row was changed.
constexpr int64_t sums_at_once = 512;

template <typename T>
void add_table_backward_typed(View<const T, 3> grad, View<float, 2> table_grad, float scale) {
  check_table(grad, table_grad);
  if (!grad.size()) return;
  const auto sum = sum_row(grad.data());
  const int64_t batch = grad.extent(0), channels = grad.extent(2);
  const int64_t piece = grain(channels * std::max<int64_t>(1, batch));
  parallel_for(grad.extent(1), piece, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t first = 0; first < channels; first += sums_at_once) {
        const int64_t count = std::min(sums_at_once, channels - first);
        std::array<double, sums_at_once> sums{};
        for (int64_t b = 0; b < batch; ++b) sum(sums.data(), &grad(b, t, first), count);
        for (int64_t c = 0; c < count; ++c) {
          float& to = table_grad(t, first + c);
          to = static_cast<float>(double{to} +
                                  double{scale} * sums[static_cast<std::size_t>(c)]);
        }
      }
  });
}

template <typename T>
void add_rows_backward_typed(View<const T, 3> grad, View<const int64_t, 2> rows,
                             View<float, 2> table_grad) {
  check_rows(grad, table_grad, rows);
  if (!grad.size()) return;
  const auto sum = sum_row(grad.data());
  const int64_t tokens = grad.extent(1), channels = grad.extent(2);
  const auto row_of = [&](int64_t i) { return rows(i / tokens, i % tokens); };
  // Tokens sorted by table row, in token order within a row.
  std::vector<int64_t> order(
      internal::checked_size("embedding", "batch x tokens", {grad.extent(0), tokens}));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return row_of(i) < row_of(j); });
  std::vector<std::size_t> begins;  // begins of the runs of equal rows
  for (std::size_t i = 0; i < order.size(); ++i)
    if (i == 0 || row_of(order[i]) != row_of(order[i - 1])) begins.push_back(i);
  begins.push_back(order.size());
  // Adds the tokens of a run to some channels of their row.
  const auto add_run = [&](std::size_t from, std::size_t to, int64_t first) {
    const int64_t count = std::min(sums_at_once, channels - first);
    std::array<double, sums_at_once> sums{};
    for (std::size_t i = from; i < to; ++i)
      sum(sums.data(), &grad(order[i] / tokens, order[i] % tokens, first), count);
    const int64_t row = row_of(order[from]);
    for (int64_t c = 0; c < count; ++c) {
      float& all = table_grad(row, first + c);
      all = static_cast<float>(double{all} + sums[static_cast<std::size_t>(c)]);
    }
  };
  parallel_for(static_cast<int64_t>(begins.size()) - 1, grain(channels),
               [&](int64_t begin, int64_t end) {
                 for (int64_t run = begin; run < end; ++run)
                   for (int64_t c = 0; c < channels; c += sums_at_once)
                     add_run(begins[static_cast<std::size_t>(run)],
                             begins[static_cast<std::size_t>(run) + 1], c);
               });
}

constexpr internal::Argument named(std::string_view name) { return {"embedding", name}; }

View<const float, 2> table_of(const ConstTensor& table) {
  return internal::read<float, 2>(named("the table"), table);
}
View<const int64_t, 2> rows_of(const ConstTensor& rows) {
  return internal::read<int64_t, 2>(named("rows"), rows);
}
View<float, 2> grad_of(const Tensor& table_grad) {
  return internal::write<float, 2>(named("the gradient of the table"), table_grad);
}

}  // namespace

void add_table(const Tensor& x, const ConstTensor& table, float scale) {
  internal::by_type(named("x"), x, [&]<typename T>(T) {
    const auto to = internal::write<T, 3>(named("x"), x);
    const auto from = table_of(table);
    internal::check_disjoint(named("x"), x, "the table", table);
    add_table_typed(to, from, scale);
  });
}

void add_rows(const Tensor& x, const ConstTensor& table, const ConstTensor& rows) {
  internal::by_type(named("x"), x, [&]<typename T>(T) {
    const auto to = internal::write<T, 3>(named("x"), x);
    const auto from = table_of(table);
    const auto by = rows_of(rows);
    internal::check_disjoint(named("x"), x, "the table", table);
    internal::check_disjoint(named("x"), x, "rows", rows);
    add_rows_typed(to, from, by);
  });
}

void add_table_backward(const ConstTensor& grad, float scale, const Tensor& table_grad) {
  internal::by_type(named("grad"), grad, [&]<typename T>(T) {
    const auto from = internal::read<T, 3>(named("grad"), grad);
    const auto to = grad_of(table_grad);
    internal::check_disjoint(named("the gradient of the table"), table_grad, "grad", grad);
    add_table_backward_typed(from, to, scale);
  });
}

void add_rows_backward(const ConstTensor& grad, const ConstTensor& rows,
                       const Tensor& table_grad) {
  internal::by_type(named("grad"), grad, [&]<typename T>(T) {
    const auto from = internal::read<T, 3>(named("grad"), grad);
    const auto by = rows_of(rows);
    const auto to = grad_of(table_grad);
    internal::check_disjoint(named("the gradient of the table"), table_grad, "grad", grad);
    internal::check_disjoint(named("the gradient of the table"), table_grad, "rows", rows);
    add_rows_backward_typed(from, by, to);
  });
}

}  // namespace gnomon
#endif  // HWY_ONCE
