// Tiles of a grid: runs of its table, which is stored from the last offset to the first.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/bias/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/bias/grid_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/bias/runs-inl.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::PreparedGrid;

// A run of keys whose places increase by one.
struct GridRun {
  int64_t begin, count;
  std::int32_t place;
};

// Visits each query with each run of keys: body(row of the query, its place, run). The queries
// are the outer loop, so that a gradient sum is not updated again before its last store
// completes.
template <typename A, typename Body>
HWY_INLINE void ForGridRuns(const PreparedGrid<A>& prepared, Ids query_ids, Ids key_ids,
                            const Body& body) {
  constexpr int64_t most = 64;
  GridRun runs[most];
  const auto queries = static_cast<int64_t>(query_ids.size());
  const auto keys = static_cast<int64_t>(key_ids.size());
  const auto place = [&](int64_t j) {
    return prepared.place(key_ids[static_cast<std::size_t>(j)]);
  };
  for (int64_t begin = 0; begin < keys;) {
    int64_t count = 0;
    for (; begin < keys && count < most; ++count) {
      const std::int32_t first = place(begin);
      const int64_t end =
          first < 0
              ? begin + 1
              : RunEnd(begin, keys, [&](int64_t j) { return place(j) == first + (j - begin); });
      runs[count] = {begin, end - begin, first};
      begin = end;
    }
    for (int64_t i = 0; i < queries; ++i) {
      const std::int32_t query = prepared.place(query_ids[static_cast<std::size_t>(i)]);
      for (int64_t r = 0; r < count; ++r) body(i, query, runs[r]);
    }
  }
}

// Returns the column of a pair with a class token; -1 if a position is not on the grid.
template <typename A>
HWY_INLINE int64_t ClassColumn(const PreparedGrid<A>& prepared, std::int32_t query,
                               std::int32_t key) {
  constexpr auto token = PreparedGrid<A>::class_token, outside = PreparedGrid<A>::outside;
  if (query == outside || key == outside) return -1;
  return prepared.columns - (query == token ? (key == token ? 1 : 3) : 2);
}

template <typename A>
HWY_INLINE void FillGrid(const GridBias&, const PreparedGrid<A>& prepared, int64_t head,
                         Ids query_ids, Ids key_ids, A* to, std::int64_t stride) {
  const Vectors<A> d;
  const A* const values = prepared.values.data() + head * prepared.columns;
  const auto keys = static_cast<int64_t>(key_ids.size());
  ForGridRuns(prepared, query_ids, key_ids,
              [&](int64_t i, std::int32_t query, const GridRun& run) HWY_ATTR {
                A* const row = to + i * stride + run.begin;
                if (query >= 0 && run.place >= 0) {
                  const A* const from = values + prepared.centre + run.place - query;
                  Write(run.count, keys - run.begin, row,
                        [&](int64_t j) HWY_ATTR { return hn::LoadU(d, from + j); });
                } else {
                  const int64_t column = ClassColumn(prepared, query, run.place);
                  std::fill_n(row, run.count, column < 0 ? A(0) : values[column]);
                }
              });
}

template <typename A>
HWY_INLINE void AddGridGradient(const GridBias&, const PreparedGrid<A>& prepared, int64_t,
                                Ids query_ids, Ids key_ids, const A* grad, std::int64_t stride,
                                double* sums) {
  const Vectors<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto keys = static_cast<int64_t>(key_ids.size());
  ForGridRuns(
      prepared, query_ids, key_ids,
      [&](int64_t i, std::int32_t query, const GridRun& run) HWY_ATTR {
        const A* const row = grad + i * stride + run.begin;
        if (query >= 0 && run.place >= 0) {
          // Column n of the prepared values is offset 2 centre - n of the form, so sums are
          // visited in descending order as keys ascend. Excess lanes of a vector add zeros to
          // lower sums.
          int64_t at = prepared.centre - run.place + query;
          for (int64_t j = 0; j < run.count; j += lanes, at -= lanes) {
            const int64_t low = at - lanes + 1;
            if (low >= 0) {
              const auto v = ReadDoubles(d, run.count - j, keys - run.begin - j, row + j);
              hn::StoreU(hn::Add(hn::LoadU(d, sums + low), hn::Reverse(d, v)), d, sums + low);
            } else {
              for (int64_t k = j; k < std::min(run.count, j + lanes); ++k)
                sums[at - (k - j)] += static_cast<double>(row[k]);
            }
          }
        } else if (const int64_t column = ClassColumn(prepared, query, run.place);
                   column >= 0) {
          double sum = 0;
          for (int64_t j = 0; j < run.count; ++j) sum += static_cast<double>(row[j]);
          sums[column] += sum;
        }
      });
}

#define GNOMON_OF_TYPE(A, suffix)                                                        \
  void FillGrid##suffix(const GridBias& form, const internal::PreparedGrid<A>& prepared, \
                        int64_t head, Ids query_ids, Ids key_ids, A* to,                 \
                        std::int64_t stride) {                                           \
    FillGrid(form, prepared, head, query_ids, key_ids, to, stride);                      \
  }                                                                                      \
  void AddGridGradient##suffix(                                                          \
      const GridBias& form, const internal::PreparedGrid<A>& prepared, int64_t head,     \
      Ids query_ids, Ids key_ids, const A* grad, std::int64_t stride, double* sums) {    \
    AddGridGradient(form, prepared, head, query_ids, key_ids, grad, stride, sums);       \
  }
GNOMON_OF_TYPE(float, F32)
GNOMON_OF_TYPE(double, F64)
#undef GNOMON_OF_TYPE

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(FillGridF32);
HWY_EXPORT(FillGridF64);
HWY_EXPORT(AddGridGradientF32);
HWY_EXPORT(AddGridGradientF64);

namespace internal {

#define GNOMON_OF_TYPE(A, suffix)                                                             \
  template <>                                                                                 \
  void fill(const GridBias& form, const PreparedGrid<A>& prepared, std::int64_t head,         \
            Ids query_ids, Ids key_ids, A* to, std::int64_t stride) {                         \
    GNOMON_DISPATCH(FillGrid##suffix)(form, prepared, head, query_ids, key_ids, to, stride);  \
  }                                                                                           \
  template <>                                                                                 \
  void add_gradient(const GridBias& form, const PreparedGrid<A>& prepared, std::int64_t head, \
                    Ids query_ids, Ids key_ids, const A* grad, std::int64_t stride,           \
                    double* sums) {                                                           \
    GNOMON_DISPATCH(AddGridGradient##suffix)(form, prepared, head, query_ids, key_ids, grad,  \
                                             stride, sums);                                   \
  }
GNOMON_OF_TYPE(float, F32)
GNOMON_OF_TYPE(double, F64)
#undef GNOMON_OF_TYPE

}  // namespace internal
}  // namespace gnomon
#endif  // HWY_ONCE
