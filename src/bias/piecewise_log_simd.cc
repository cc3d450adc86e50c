// Tiles of a piecewise logarithmic bias: a row is a few runs of keys, each in one piece.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/bias/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/bias/piecewise_log_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/bias/runs-inl.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

using internal::PreparedPiecewiseLog;

// Splits `count` distances, starting at `distance`, into runs of one piece each: piece(p, index
// of the first distance, number of distances). `hint`: the first piece of the previous row.
template <typename Piece>
HWY_INLINE void ForPieces(const std::int32_t* ends, int64_t inner, int64_t distance,
                          int64_t count, int64_t& hint, const Piece& piece) {
  int64_t p = hint;
  const int64_t magnitude = std::abs(distance);
  while (p < inner && ends[p] <= magnitude) ++p;
  while (p > 0 && ends[p - 1] > magnitude) --p;
  hint = p;
  int64_t done = 0;
  while (done < count) {
    const int64_t at = distance + done;
    if (at <= 0)  // decreasing distance to the query
      while (p > 0 && ends[p - 1] > -at) --p;
    else  // increasing distance
      while (p < inner && ends[p] <= at) ++p;
    const int64_t begins = p > 0 ? ends[p - 1] : 0;
    int64_t run = count;
    if (at < 0 && begins > 0)
      run = -at - begins + 1;
    else if (p < inner)  // distances increase, or decrease to 0 and increase again
      run = ends[p] - at;
    run = std::min(run, count - done);
    piece(p, done, run);
    done += run;
  }
}

// Largest number of distances in a strip that several queries share.
constexpr int64_t most_alike = 1024;

// Visits each query with each run of consecutive keys: row(i, first key, keys). Consecutive
// queries below the threshold share one strip by distance, and each query is a window of it:
// alike(first query, queries, first key, keys).
template <typename Alike, typename Row>
HWY_INLINE void ForPiecewiseLogRuns(const PiecewiseLogBias& form, Ids query_ids, Ids key_ids,
                                    const Alike& alike, const Row& row) {
  const auto queries = static_cast<int64_t>(query_ids.size());
  const auto keys = static_cast<int64_t>(key_ids.size());
  const auto same = [&](int64_t i) {
    return static_cast<double>(query_ids[static_cast<std::size_t>(i)]) < form.threshold;
  };
  for (int64_t begin = 0, end; begin < keys; begin = end) {
    const int64_t key = key_ids[static_cast<std::size_t>(begin)];
    end = RunEnd(begin, keys, [&](int64_t j) {
      return key_ids[static_cast<std::size_t>(j)] == key + (j - begin);
    });
    const int64_t count = end - begin;
    for (int64_t i = 0, next; i < queries; i = next) {
      const int64_t query = query_ids[static_cast<std::size_t>(i)];
      next = !same(i) ? i + 1 : RunEnd(i, queries, [&](int64_t n) {
        return same(n) && query_ids[static_cast<std::size_t>(n)] == query + (n - i) &&
               n - i + count <= most_alike;
      });
      if (next - i > 1)
        alike(i, next - i, begin, count);
      else
        row(i, begin, count);
    }
  }
}

// The values of a single pair, for calls without a prepared table.
struct PairTerms {
  int64_t piece;
  double distance, own;  // |i - j|, max(L, i)
  double psi, scale;
};
HWY_INLINE PairTerms PairOf(const PiecewiseLogBias& form, int64_t query, int64_t key) {
  PairTerms pair;
  // Unsigned arithmetic, because a signed difference can overflow.
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
HWY_INLINE void ForPairs(const PiecewiseLogBias& form, Ids query_ids, Ids key_ids,
                         const Body& body) {
  for (std::size_t i = 0; i < query_ids.size(); ++i)
    for (std::size_t j = 0; j < key_ids.size(); ++j)
      body(static_cast<int64_t>(i), static_cast<int64_t>(j),
           PairOf(form, query_ids[i], key_ids[j]));
}

template <typename A>
HWY_INLINE void FillPiecewiseLog(const PiecewiseLogBias& form,
                                 const PreparedPiecewiseLog<A>& prepared, int64_t head,
                                 Ids query_ids, Ids key_ids, A* to, std::int64_t stride) {
  const double* const offsets = form.offsets.data() + head * form.pieces();
  const double* const slopes = form.slopes.data() + head * form.pieces();
  if (prepared.warped.empty())
    return ForPairs(form, query_ids, key_ids, [&](int64_t i, int64_t j, const PairTerms& pair) {
      to[i * stride + j] = static_cast<A>(
          prepared.unit * (offsets[pair.piece] + slopes[pair.piece] * pair.scale * pair.psi));
    });
  const Vectors<A> d;
  const auto keys = static_cast<int64_t>(key_ids.size());
  const int64_t inner = form.pieces() - 1;
  int64_t hint = 0;
  // line[n] = the bias of the query at key - query = distance + n.
  const auto make = [&](int64_t query, int64_t distance, int64_t count, int64_t available,
                        A* line) HWY_ATTR {
    const int64_t row = query - prepared.least;
    const double scale = prepared.unit * prepared.scale[static_cast<std::size_t>(row)];
    ForPieces(prepared.ends.data() + row * inner, inner, distance, count, hint,
              [&](int64_t p, int64_t at, int64_t run) HWY_ATTR {
                const A* const psi =
                    prepared.warped.data() + distance - prepared.min_distance + at;
                const auto offset = hn::Set(d, static_cast<A>(prepared.unit * offsets[p]));
                const auto slope = hn::Set(d, static_cast<A>(slopes[p] * scale));
                Write(run, available - at, line + at, [&](int64_t j) HWY_ATTR {
                  return hn::MulAdd(slope, hn::LoadU(d, psi + j), offset);
                });
              });
  };
  ForPiecewiseLogRuns(
      form, query_ids, key_ids,
      [&](int64_t i, int64_t queries, int64_t begin, int64_t count) HWY_ATTR {
        HWY_ALIGN A line[most_alike + hn::MaxLanes(Vectors<A>())];
        const int64_t last = query_ids[static_cast<std::size_t>(i + queries - 1)];
        const int64_t whole = count + queries - 1;
        make(last, key_ids[static_cast<std::size_t>(begin)] - last, whole, whole, line);
        for (int64_t n = 0; n < queries; ++n)
          Write(count, keys - begin, to + (i + n) * stride + begin,
                [&](int64_t j) HWY_ATTR { return hn::LoadU(d, line + queries - 1 - n + j); });
      },
      [&](int64_t i, int64_t begin, int64_t count) HWY_ATTR {
        const int64_t query = query_ids[static_cast<std::size_t>(i)];
        make(query, key_ids[static_cast<std::size_t>(begin)] - query, count, keys - begin,
             to + i * stride + begin);
      });
}

template <typename A>
HWY_INLINE void AddPiecewiseLogGradient(const PiecewiseLogBias& form,
                                        const PreparedPiecewiseLog<A>& prepared, int64_t head,
                                        Ids query_ids, Ids key_ids, const A* grad,
                                        std::int64_t stride, double* sums) {
  const int64_t pieces = form.pieces();
  const double* const slopes = form.slopes.data() + head * pieces;
  // g, x, c: the sums of grad, grad psi and grad dpsi/dc over a run.
  const auto add = [&](int64_t p, int64_t query, double scale, double pull, double g, double x,
                       double c) {
    sums[p] += g;
    sums[pieces + p] += scale * x;
    sums[2 * pieces] += slopes[p] * scale * (c - pull * x);
    if (static_cast<double>(query) < form.threshold)
      sums[2 * pieces + 1] -= slopes[p] * scale * scale * prepared.by_threshold * x;
  };
  if (prepared.warped.empty())
    return ForPairs(form, query_ids, key_ids, [&](int64_t i, int64_t j, const PairTerms& pair) {
      const auto g = static_cast<double>(grad[i * stride + j]);
      add(pair.piece, query_ids[static_cast<std::size_t>(i)], pair.scale,
          pair.own / (form.c * pair.own + 1) * pair.scale, g, g * pair.psi,
          g * pair.distance / (form.c * pair.distance + 1));
    });
  const auto keys = static_cast<int64_t>(key_ids.size());
  const int64_t inner = pieces - 1;
  int64_t hint = 0;
  // Sums a line of gradients by distance. Its type is float or double; `available` elements are
  // readable.
  const auto sum = [&](auto d, int64_t query, int64_t distance, int64_t count,
                       int64_t available, const auto* line) HWY_ATTR {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t row = query - prepared.least;
    ForPieces(
        prepared.ends.data() + row * inner, inner, distance, count, hint,
        [&](int64_t p, int64_t at, int64_t run) HWY_ATTR {
          const A* const psi = prepared.warped.data() + distance - prepared.min_distance + at;
          const A* const by_c = prepared.by_c.data() + distance - prepared.min_distance + at;
          auto g_sum = hn::Zero(d), x_sum = hn::Zero(d), c_sum = hn::Zero(d);
          for (int64_t j = 0; j < run; j += lanes) {
            const auto g = Read(d, run - j, available - at - j, line + at + j);
            g_sum = hn::Add(g_sum, g);
            x_sum = hn::MulAdd(g, ReadWhole(d, psi + j), x_sum);
            c_sum = hn::MulAdd(g, ReadWhole(d, by_c + j), c_sum);
          }
          add(p, query, prepared.scale[static_cast<std::size_t>(row)],
              prepared.pull[static_cast<std::size_t>(row)], Sum(d, g_sum), Sum(d, x_sum),
              Sum(d, c_sum));
        });
  };
  ForPiecewiseLogRuns(
      form, query_ids, key_ids,
      [&](int64_t i, int64_t queries, int64_t begin, int64_t count) HWY_ATTR {
        const Vectors<double> d;
        const auto lanes = static_cast<int64_t>(hn::Lanes(d));
        HWY_ALIGN double line[most_alike + hn::MaxLanes(Vectors<double>())];
        const int64_t last = query_ids[static_cast<std::size_t>(i + queries - 1)];
        const int64_t whole = count + queries - 1;
        std::fill_n(line, whole + lanes, 0.0);
        for (int64_t n = 0; n < queries; ++n) {
          const A* const from = grad + (i + n) * stride + begin;
          double* const window = line + queries - 1 - n;
          for (int64_t j = 0; j < count; j += lanes) {
            const auto g = ReadDoubles(d, count - j, keys - begin - j, from + j);
            hn::StoreU(hn::Add(hn::LoadU(d, window + j), g), d, window + j);
          }
        }
        sum(d, last, key_ids[static_cast<std::size_t>(begin)] - last, whole, whole, line);
      },
      [&](int64_t i, int64_t begin, int64_t count) HWY_ATTR {
        const int64_t query = query_ids[static_cast<std::size_t>(i)];
        sum(Vectors<A>(), query, key_ids[static_cast<std::size_t>(begin)] - query, count,
            keys - begin, grad + i * stride + begin);
      });
}

#define GNOMON_OF_TYPE(A, suffix)                                                          \
  void FillPiecewiseLog##suffix(                                                           \
      const PiecewiseLogBias& form, const internal::PreparedPiecewiseLog<A>& prepared,     \
      int64_t head, Ids query_ids, Ids key_ids, A* to, std::int64_t stride) {              \
    FillPiecewiseLog(form, prepared, head, query_ids, key_ids, to, stride);                \
  }                                                                                        \
  void AddPiecewiseLogGradient##suffix(const PiecewiseLogBias& form,                       \
                                       const internal::PreparedPiecewiseLog<A>& prepared,  \
                                       int64_t head, Ids query_ids, Ids key_ids,           \
                                       const A* grad, std::int64_t stride, double* sums) { \
    AddPiecewiseLogGradient(form, prepared, head, query_ids, key_ids, grad, stride, sums); \
  }
GNOMON_OF_TYPE(float, F32)
GNOMON_OF_TYPE(double, F64)
#undef GNOMON_OF_TYPE

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(FillPiecewiseLogF32);
HWY_EXPORT(FillPiecewiseLogF64);
HWY_EXPORT(AddPiecewiseLogGradientF32);
HWY_EXPORT(AddPiecewiseLogGradientF64);

namespace internal {

#define GNOMON_OF_TYPE(A, suffix)                                                              \
  template <>                                                                                  \
  void fill(const PiecewiseLogBias& form, const PreparedPiecewiseLog<A>& prepared,             \
            std::int64_t head, Ids query_ids, Ids key_ids, A* to, std::int64_t stride) {       \
    GNOMON_DISPATCH(FillPiecewiseLog##suffix)(form, prepared, head, query_ids, key_ids, to,    \
                                              stride);                                         \
  }                                                                                            \
  template <>                                                                                  \
  void add_gradient(const PiecewiseLogBias& form, const PreparedPiecewiseLog<A>& prepared,     \
                    std::int64_t head, Ids query_ids, Ids key_ids, const A* grad,              \
                    std::int64_t stride, double* sums) {                                       \
    GNOMON_DISPATCH(AddPiecewiseLogGradient##suffix)(form, prepared, head, query_ids, key_ids, \
                                                     grad, stride, sums);                      \
  }
GNOMON_OF_TYPE(float, F32)
GNOMON_OF_TYPE(double, F64)
#undef GNOMON_OF_TYPE

}  // namespace internal
}  // namespace gnomon
#endif  // HWY_ONCE
