// Tiles of grids and progressive biases: both are runs of numbers that lie one after another.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/bias/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/bias/tile_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/core/dispatch.h"

// Whether a part of a vector is read and written without touching the rest.
#undef GNOMON_HAS_MASKS
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define GNOMON_HAS_MASKS 1
#else
#define GNOMON_HAS_MASKS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using internal::Ids;
using internal::PreparedGrid;
using internal::PreparedProgressive;
using std::int64_t;

template <typename A>
using Vectors = hn::ScalableTag<A>;

// to[i] = make(i) for i from 0 to count - 1, and beyond up to a vector where `room` (at least
// count) allows: what is written there is written again, by the run that follows.
template <typename A, typename Make>
HWY_INLINE void Write(int64_t count, int64_t room, A* HWY_RESTRICT to, const Make& make) {
  const Vectors<A> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    if (i + lanes <= room) {
      hn::StoreU(make(i), d, to + i);
    } else {
#if GNOMON_HAS_MASKS
      hn::BlendedStore(make(i), hn::FirstN(d, static_cast<std::size_t>(count - i)), d, to + i);
#else
      HWY_ALIGN A last[hn::MaxLanes(Vectors<A>())];
      hn::Store(make(i), d, last);
      std::copy_n(last, count - i, to + i);
#endif
    }
  }
}

// The first `count` numbers (at most a vector) at `from`, where `room` may be read; then zeros.
template <class D, typename A = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> Read(D d, int64_t count, int64_t room, const A* HWY_RESTRICT from) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count >= lanes) return hn::LoadU(d, from);
#if GNOMON_HAS_MASKS
  (void)room;
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, from);
#else
  if (room >= lanes)
    return hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(count)),
                              hn::LoadU(d, from));
  HWY_ALIGN A last[hn::MaxLanes(D())] = {};
  std::copy_n(from, count, last);
  return hn::Load(d, last);
#endif
}

template <class D>
HWY_INLINE double Sum(D d, hn::Vec<D> v) {
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, v)));
}

// The end of the run that begins at `begin`: next(j) says whether j continues j - 1.
template <typename Next>
HWY_INLINE int64_t RunEnd(int64_t begin, int64_t keys, const Next& next) {
  int64_t end = begin + 1;
  while (end < keys && next(end)) ++end;
  return end;
}

// --- Grids -----------------------------------------------------------------------------------

// Keys whose places rise by one.
struct GridRun {
  int64_t begin, count;
  std::int32_t place;
};

// Each query with each run of keys: body(query's row, its place, run). Queries outside, so that
// a sum is not touched again before it is stored.
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

// The column of a pair that holds a class token; -1 where one is not on the grid.
template <typename A>
HWY_INLINE int64_t ClassColumn(const PreparedGrid<A>& prepared, std::int32_t query,
                               std::int32_t key) {
  constexpr auto token = PreparedGrid<A>::class_token, outside = PreparedGrid<A>::outside;
  if (query == outside || key == outside) return -1;
  return prepared.columns - (query == token ? (key == token ? 1 : 3) : 2);
}

template <typename A>
HWY_INLINE void FillGrid(const GridBias&, const PreparedGrid<A>& prepared, int64_t head,
                         Ids query_ids, Ids key_ids, A* to, std::ptrdiff_t stride) {
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

// The first numbers at `from` as doubles, then zeros.
template <class D>
HWY_INLINE hn::Vec<D> ReadDoubles(D d, int64_t count, int64_t room, const float* from) {
  return hn::PromoteTo(d, Read(hn::Rebind<float, D>(), count, room, from));
}
template <class D>
HWY_INLINE hn::Vec<D> ReadDoubles(D d, int64_t count, int64_t room, const double* from) {
  return Read(d, count, room, from);
}

template <typename A>
HWY_INLINE void AddGridGradient(const GridBias&, const PreparedGrid<A>& prepared, int64_t,
                                Ids query_ids, Ids key_ids, const A* grad,
                                std::ptrdiff_t stride, double* sums) {
  const Vectors<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto keys = static_cast<int64_t>(key_ids.size());
  ForGridRuns(
      prepared, query_ids, key_ids,
      [&](int64_t i, std::int32_t query, const GridRun& run) HWY_ATTR {
        const A* const row = grad + i * stride + run.begin;
        if (query >= 0 && run.place >= 0) {
          // Column n of the prepared values is offset 2 centre - n of the form: sums
          // fall where keys rise. What a vector has too much adds zeros below.
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

// --- Progressive biases ----------------------------------------------------------------------

// The pieces that a row of the tile meets, each as a run of keys. piece(p, first key, keys,
// where its first distance stands in the tables); `hint`: the piece of the row before.
template <typename Piece>
HWY_INLINE void ForPieces(const std::int32_t* ends, int64_t inner, int64_t distance,
                          int64_t first, int64_t begin, int64_t count, int64_t& hint,
                          const Piece& piece) {
  int64_t p = hint;
  const int64_t magnitude = std::abs(distance);
  while (p < inner && ends[p] <= magnitude) ++p;
  while (p > 0 && ends[p - 1] > magnitude) --p;
  hint = p;
  int64_t done = 0;
  while (done < count) {
    const int64_t at = distance + done;
    if (at <= 0)  // towards the query
      while (p > 0 && ends[p - 1] > -at) --p;
    else  // and away
      while (p < inner && ends[p] <= at) ++p;
    const int64_t begins = p > 0 ? ends[p - 1] : 0;
    int64_t run = count;
    if (at < 0 && begins > 0)
      run = -at - begins + 1;
    else if (p < inner)  // distances rise, or fall to 0 and rise again
      run = ends[p] - at;
    run = std::min(run, count - done);
    piece(p, begin + done, run, at - first);
    done += run;
  }
}

template <typename A, typename Piece>
HWY_INLINE void ForProgressiveRuns(const ProgressiveBias& form,
                                   const PreparedProgressive<A>& prepared, Ids query_ids,
                                   Ids key_ids, const Piece& piece) {
  const auto queries = static_cast<int64_t>(query_ids.size());
  const auto keys = static_cast<int64_t>(key_ids.size());
  const int64_t inner = form.pieces() - 1;
  for (int64_t begin = 0, end; begin < keys; begin = end) {
    const int64_t key = key_ids[static_cast<std::size_t>(begin)];
    end = RunEnd(begin, keys, [&](int64_t j) {
      return key_ids[static_cast<std::size_t>(j)] == key + (j - begin);
    });
    int64_t hint = 0;
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t query = query_ids[static_cast<std::size_t>(i)];
      const int64_t row = query - prepared.least;
      ForPieces(prepared.ends.data() + row * inner, inner, key - query, prepared.first, begin,
                end - begin, hint,
                [&](int64_t p, int64_t at, int64_t count, int64_t from)
                    HWY_ATTR { piece(i, row, p, at, count, from); });
    }
  }
}

// One pair at a time, where there is no table.
struct Pair {
  int64_t piece;
  double distance, own;  // |i - j|, max(L, i)
  double psi, scale;
};
HWY_INLINE Pair PairOf(const ProgressiveBias& form, int64_t query, int64_t key) {
  Pair pair;
  // Unsigned numbers do not overflow.
  const auto apart = query > key
                         ? static_cast<std::uint64_t>(query) - static_cast<std::uint64_t>(key)
                         : static_cast<std::uint64_t>(key) - static_cast<std::uint64_t>(query);
  pair.distance = static_cast<double>(apart);
  pair.own = std::max(form.threshold, static_cast<double>(query));
  pair.psi = std::log1p(form.c * pair.distance);
  pair.scale = 1 / (std::log1p(form.c * pair.own) + form.epsilon);
  const auto above =
      std::upper_bound(form.knots.begin() + 1, form.knots.end(), pair.psi * pair.scale);
  pair.piece = above - form.knots.begin() - 1;
  return pair;
}

template <typename Body>
HWY_INLINE void ForPairs(const ProgressiveBias& form, Ids query_ids, Ids key_ids,
                         const Body& body) {
  for (std::size_t i = 0; i < query_ids.size(); ++i)
    for (std::size_t j = 0; j < key_ids.size(); ++j)
      body(static_cast<int64_t>(i), static_cast<int64_t>(j),
           PairOf(form, query_ids[i], key_ids[j]));
}

template <typename A>
HWY_INLINE void FillProgressive(const ProgressiveBias& form,
                                const PreparedProgressive<A>& prepared, int64_t head,
                                Ids query_ids, Ids key_ids, A* to, std::ptrdiff_t stride) {
  const double* const offsets = form.offsets.data() + head * form.pieces();
  const double* const slopes = form.slopes.data() + head * form.pieces();
  if (prepared.warped.empty())
    return ForPairs(form, query_ids, key_ids, [&](int64_t i, int64_t j, const Pair& pair) {
      to[i * stride + j] =
          static_cast<A>(offsets[pair.piece] + slopes[pair.piece] * pair.scale * pair.psi);
    });
  const Vectors<A> d;
  const auto keys = static_cast<int64_t>(key_ids.size());
  ForProgressiveRuns(
      form, prepared, query_ids, key_ids,
      [&](int64_t i, int64_t row, int64_t p, int64_t at, int64_t count, int64_t from) HWY_ATTR {
        const A* const psi = prepared.warped.data() + from;
        const auto offset = hn::Set(d, static_cast<A>(offsets[p]));
        const auto slope = hn::Set(
            d, static_cast<A>(slopes[p] * prepared.scale[static_cast<std::size_t>(row)]));
        Write(count, keys - at, to + i * stride + at, [&](int64_t j) HWY_ATTR {
          return hn::MulAdd(slope, hn::LoadU(d, psi + j), offset);
        });
      });
}

template <typename A>
HWY_INLINE void AddProgressiveGradient(const ProgressiveBias& form,
                                       const PreparedProgressive<A>& prepared, int64_t head,
                                       Ids query_ids, Ids key_ids, const A* grad,
                                       std::ptrdiff_t stride, double* sums) {
  const int64_t pieces = form.pieces();
  const double* const slopes = form.slopes.data() + head * pieces;
  // With G, X, C the sums of g, g psi and g psi_c along a run.
  const auto add = [&](int64_t p, int64_t query, double scale, double pull, double g, double x,
                       double c) {
    sums[p] += g;
    sums[pieces + p] += scale * x;
    sums[2 * pieces] += slopes[p] * scale * (c - pull * x);
    if (static_cast<double>(query) < form.threshold)
      sums[2 * pieces + 1] -= slopes[p] * scale * scale * prepared.by_threshold * x;
  };
  if (prepared.warped.empty())
    return ForPairs(form, query_ids, key_ids, [&](int64_t i, int64_t j, const Pair& pair) {
      const auto g = static_cast<double>(grad[i * stride + j]);
      add(pair.piece, query_ids[static_cast<std::size_t>(i)], pair.scale,
          pair.own / (form.c * pair.own + 1) * pair.scale, g, g * pair.psi,
          g * pair.distance / (form.c * pair.distance + 1));
    });
  const Vectors<A> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto keys = static_cast<int64_t>(key_ids.size());
  ForProgressiveRuns(
      form, prepared, query_ids, key_ids,
      [&](int64_t i, int64_t row, int64_t p, int64_t at, int64_t count, int64_t from) HWY_ATTR {
        const A* const psi = prepared.warped.data() + from;
        const A* const by_c = prepared.by_c.data() + from;
        const A* const values = grad + i * stride + at;
        auto g_sum = hn::Zero(d), x_sum = hn::Zero(d), c_sum = hn::Zero(d);
        for (int64_t j = 0; j < count; j += lanes) {
          const auto g = Read(d, count - j, keys - at - j, values + j);
          g_sum = hn::Add(g_sum, g);
          x_sum = hn::MulAdd(g, hn::LoadU(d, psi + j), x_sum);
          c_sum = hn::MulAdd(g, hn::LoadU(d, by_c + j), c_sum);
        }
        add(p, query_ids[static_cast<std::size_t>(i)],
            prepared.scale[static_cast<std::size_t>(row)],
            prepared.pull[static_cast<std::size_t>(row)], Sum(d, g_sum), Sum(d, x_sum),
            Sum(d, c_sum));
      });
}

#define GNOMON_OF_TYPE(Form, A, suffix)                                                        \
  void Fill##Form##suffix(const Form##Bias& form, const internal::Prepared##Form<A>& prepared, \
                          int64_t head, Ids query_ids, Ids key_ids, A* to,                     \
                          std::ptrdiff_t stride) {                                             \
    Fill##Form(form, prepared, head, query_ids, key_ids, to, stride);                          \
  }                                                                                            \
  void Add##Form##Gradient##suffix(                                                            \
      const Form##Bias& form, const internal::Prepared##Form<A>& prepared, int64_t head,       \
      Ids query_ids, Ids key_ids, const A* grad, std::ptrdiff_t stride, double* sums) {        \
    Add##Form##Gradient(form, prepared, head, query_ids, key_ids, grad, stride, sums);         \
  }
GNOMON_OF_TYPE(Grid, float, F32)
GNOMON_OF_TYPE(Grid, double, F64)
GNOMON_OF_TYPE(Progressive, float, F32)
GNOMON_OF_TYPE(Progressive, double, F64)
#undef GNOMON_OF_TYPE

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(FillGridF32);
HWY_EXPORT(FillGridF64);
HWY_EXPORT(FillProgressiveF32);
HWY_EXPORT(FillProgressiveF64);
HWY_EXPORT(AddGridGradientF32);
HWY_EXPORT(AddGridGradientF64);
HWY_EXPORT(AddProgressiveGradientF32);
HWY_EXPORT(AddProgressiveGradientF64);

namespace internal {

#define GNOMON_OF_TYPE(Form, A, suffix)                                                        \
  template <>                                                                                  \
  void fill(const Form##Bias& form, const Prepared##Form<A>& prepared, std::int64_t head,      \
            Ids query_ids, Ids key_ids, A* to, std::ptrdiff_t stride) {                        \
    GNOMON_DISPATCH(Fill##Form##suffix)(form, prepared, head, query_ids, key_ids, to, stride); \
  }                                                                                            \
  template <>                                                                                  \
  void add_gradient(const Form##Bias& form, const Prepared##Form<A>& prepared,                 \
                    std::int64_t head, Ids query_ids, Ids key_ids, const A* grad,              \
                    std::ptrdiff_t stride, double* sums) {                                     \
    GNOMON_DISPATCH(Add##Form##Gradient##suffix)                                               \
    (form, prepared, head, query_ids, key_ids, grad, stride, sums);                            \
  }
GNOMON_OF_TYPE(Grid, float, F32)
GNOMON_OF_TYPE(Grid, double, F64)
GNOMON_OF_TYPE(Progressive, float, F32)
GNOMON_OF_TYPE(Progressive, double, F64)
#undef GNOMON_OF_TYPE

}  // namespace internal
}  // namespace gnomon
#endif  // HWY_ONCE
