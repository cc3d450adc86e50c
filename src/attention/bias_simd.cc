// The bias of a tile, and its gradient.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/bias_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/bias-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

template <class D, typename A>
HWY_INLINE void StoreSum(D d, hn::Vec<D> v, A* to) {  // D: a tag of double
  if constexpr (std::is_same_v<A, double>) {
    hn::StoreU(v, d, to);
  } else {
#if HWY_TARGET == HWY_SCALAR
    *to = static_cast<float>(hn::GetLane(v));  // DemoteTo of HWY_SCALAR makes infinities finite
#else
    const hn::Rebind<float, D> narrow;
    hn::StoreU(hn::DemoteTo(narrow, v), narrow, to);
#endif
  }
}

// to[i] = the bias at distance first + i, in units of ln 2, rounded once. Distances outside a
// strip give 0, because no score at such a distance is visible.
template <typename A>
void FillStrip(const SlopeBias& form, std::int64_t head, std::int64_t first, std::int64_t count,
               A* HWY_RESTRICT to) {
  const double factor = -form.slopes[static_cast<std::size_t>(head)] * log2_of_e;
  ForVectors<double>(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto distance = hn::Iota(d, static_cast<double>(first + i));
    StoreSum(d, hn::Mul(hn::Set(d, factor), hn::Abs(distance)), to + i);
  });
}
template <typename A>
void FillStrip(const StripBias& form, std::int64_t head, std::int64_t first, std::int64_t count,
               A* HWY_RESTRICT to) {
  const std::int64_t numbers = form.distances(), column = first - form.min_distance;
  const std::int64_t begin = std::clamp<std::int64_t>(-column, 0, count);
  const std::int64_t end = std::clamp<std::int64_t>(numbers - column, begin, count);
  const double* HWY_RESTRICT of_head = form.values.data() + head * numbers;
  std::fill(to, to + begin, A(0));
  ForVectors<double>(end - begin, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, of_head + (column + begin + i));
    StoreSum(d, hn::Mul(hn::Set(d, log2_of_e), value), to + begin + i);
  });
  std::fill(to + end, to + count, A(0));
}

// Whether an element is -infinity.
template <typename A>
HWY_INLINE bool Hides(const A* HWY_RESTRICT from, std::int64_t count) {
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  const hn::ScalableTag<A> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto found = hn::Eq(hn::Zero(d), hn::Set(d, nothing));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    found = hn::Or(found, hn::Eq(hn::LoadU(d, from + i), hn::Set(d, nothing)));
  return !hn::AllFalse(d, found) || std::find(from + i, from + count, nothing) != from + count;
}

// The following functions return whether a bias of the tile is -infinity.
template <typename Form, typename A>
bool FillByDistance(const AttentionProblem& problem, const Form& form, const Tile& tile,
                    A* HWY_RESTRICT scratch, const A** rows) {
  bool hides = false;
  if (IsRegular(problem, tile)) {
    const std::int64_t count = tile.queries - 1 + padded(tile.keys);
    const std::int64_t first = key_id(problem, tile.batch, tile.key) -
                               query_id(problem, tile.batch, tile.query) - (tile.queries - 1);
    for (std::int64_t h = 0; h < tile.heads; ++h, scratch += count) {
      FillStrip(form, tile.head + h, first, count, scratch);
      hides = Hides(scratch, count) || hides;
      for (std::int64_t i = 0; i < tile.queries; ++i)
        rows[i * tile.heads + h] = scratch + tile.queries - 1 - i;
    }
    return hides;
  }
  const auto of_key = [&](std::int64_t j) { return key_id(problem, tile.batch, j); };
  for (std::int64_t j = 0; j < tile.keys;) {
    const std::int64_t run = RunOf(of_key, tile.key + j, tile.keys - j);
    for (std::int64_t r = 0; r < tile.rows(); ++r)
      FillStrip(
          form, tile.head + r % tile.heads,
          of_key(tile.key + j) - query_id(problem, tile.batch, tile.query + r / tile.heads),
          run, scratch + r * tile_keys + j);
    j += run;
  }
  for (std::int64_t r = 0; r < tile.rows(); ++r) {
    rows[r] = scratch + r * tile_keys;
    std::fill(scratch + r * tile_keys + tile.keys, scratch + r * tile_keys + padded(tile.keys),
              A(0));
    hides = Hides(rows[r], padded(tile.keys)) || hides;
  }
  return hides;
}

template <typename A>
bool FillGiven(const DenseBias& form, const Tile& tile, A* HWY_RESTRICT scratch,
               const A** rows) {
  constexpr A factor = static_cast<A>(log2_of_e), nothing = -std::numeric_limits<A>::infinity();
  const hn::ScalableTag<A> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto step = form.values.stride(3);
  const auto row_of = [&](std::int64_t r) {
    return &form.values(tile.batch, tile.head + r % tile.heads, tile.query + r / tile.heads,
                        tile.key);
  };
  auto found = hn::Eq(hn::Zero(d), hn::Set(d, nothing));
  bool hides = false;
  for (std::int64_t r = 0; r < tile.rows(); ++r, scratch += tile_keys) {
    const float* from = row_of(r);
    const float* ahead = row_of(std::min(r + 2, tile.rows() - 1));
    for (std::int64_t j = 0; step == 1 && j < tile.keys; j += 16) hwy::Prefetch(ahead + j);
    std::int64_t j = 0;
    for (; step == 1 && j + lanes <= tile.keys; j += lanes) {
      const auto value = hn::Mul(hn::Set(d, factor), LoadElements(d, from + j));
      found = hn::Or(found, hn::Eq(value, hn::Set(d, nothing)));
      hn::StoreU(value, d, scratch + j);
    }
    for (; j < tile.keys; ++j) {
      scratch[j] = factor * static_cast<A>(from[j * step]);
      hides = hides || scratch[j] == nothing;
    }
    std::fill(scratch + tile.keys, scratch + padded(tile.keys), A(0));
    rows[r] = scratch;
  }
  return hides || !hn::AllFalse(d, found);
}

// Returns the positions [count] of the tile's queries or keys.
inline internal::Ids IdsOf(const Positions* positions, const std::vector<std::int64_t>& own,
                           std::int64_t batch, std::int64_t first, std::int64_t count) {
  const std::int64_t row = positions && positions->batch > 1 ? batch * positions->tokens : 0;
  const std::vector<std::int64_t>& ids = positions ? positions->ids : own;
  return {ids.data() + row + first, static_cast<std::size_t>(count)};
}

// Forms of bias that fill tiles themselves.
template <typename Form, typename Prepared, typename A>
bool FillTile(const internal::TypedProblem<A>& problem, const Form& form,
              const Prepared& prepared, const Tile& tile, A* HWY_RESTRICT scratch,
              const A** rows) {
  std::int64_t own[tile_rows];  // of a ragged batch
  internal::Ids queries(own, static_cast<std::size_t>(tile.queries));
  if (problem.ragged)
    for (std::int64_t i = 0; i < tile.queries; ++i)
      own[i] = query_id(problem, tile.batch, tile.query + i);
  else
    queries = IdsOf(problem.position.queries, problem.query_ids, tile.batch, tile.query,
                    tile.queries);
  const internal::Ids keys =
      IdsOf(problem.position.keys, problem.key_ids, tile.batch, tile.key, tile.keys);
  for (std::int64_t h = 0; h < tile.heads; ++h)
    internal::fill(form, prepared, tile.head + h, queries, keys, scratch + h * tile_keys,
                   tile.heads * tile_keys);
  bool hides = false;
  for (std::int64_t r = 0; r < tile.rows(); ++r, scratch += tile_keys) {
    std::fill(scratch + tile.keys, scratch + padded(tile.keys), A(0));
    ScaleRow(static_cast<A>(log2_of_e), padded(tile.keys), scratch);
    hides = Hides(scratch, padded(tile.keys)) || hides;
    rows[r] = scratch;
  }
  return hides;
}

// Adds -infinity or NaN in front of each break of the gates in the sequence of a row.
template <typename A>
bool HideByBreaks(const AttentionProblem& problem, std::span<const internal::GateBreak> breaks,
                  std::int64_t own, const Tile& tile, A* row) {
  const std::int32_t* sequence = internal::sequences(problem.position.keys, tile.batch);
  bool hides = false;
  for (const internal::GateBreak& one : breaks) {
    if (one.key > own) break;
    if (sequence && sequence[own] != one.sequence) continue;
    const std::int64_t end = std::min(one.key - tile.key, tile.keys);
    for (std::int64_t j = 0; j < end; ++j) row[j] += static_cast<A>(one.gate);
    hides = hides || end > 0;
  }
  return hides;
}

// Adds the differences of cumulative sums to the bias of the form, if there is one. Sums are
// split into a high and a low part of type A, so that differences of close sums are exact.
template <typename A>
bool FillCumulative(const AttentionProblem& problem, const Tile& tile, bool add,
                    A* HWY_RESTRICT scratch, const A** rows) {
  const hn::ScalableTag<A> tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  HWY_ALIGN A high[tile_keys], low[tile_keys];
  const std::int64_t columns = padded(tile.keys);
  bool hides = false;
  for (std::int64_t h = 0; h < tile.heads; ++h) {
    const double* sums = problem.cumulative.of(tile.batch, tile.head + h);
    const double* rest = problem.cumulative.low_of(tile.batch, tile.head + h);
    const auto breaks = problem.cumulative.breaks_of(tile.batch, tile.head + h);
    const auto low_of = [&](std::int64_t j) {
      return static_cast<A>(sums[j] - double{static_cast<A>(sums[j])} + rest[j]);
    };
    std::fill(high + tile.keys, high + columns, A(0));
    std::fill(low + tile.keys, low + columns, A(0));
    for (std::int64_t j = 0; j < tile.keys; ++j)
      high[j] = static_cast<A>(sums[tile.key + j]), low[j] = low_of(tile.key + j);
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      const std::int64_t row = i * tile.heads + h, own = tile.query + i + problem.mask.offset;
      const auto q_high = hn::Set(tag, static_cast<A>(sums[own]));
      const auto q_low = hn::Set(tag, low_of(own));
      A* to = scratch + row * tile_keys;
      for (std::int64_t j = 0; j < columns; j += lanes) {
        auto bias = hn::Add(hn::Sub(q_high, hn::Load(tag, high + j)),
                            hn::Sub(q_low, hn::Load(tag, low + j)));
        if (add) bias = hn::Add(bias, hn::LoadU(tag, rows[row] + j));
        hn::Store(bias, tag, to + j);
      }
      hides = HideByBreaks(problem, breaks, own, tile, to) || hides;
      rows[row] = to;
    }
  }
  return hides;
}

// Subtracts the distances times the slopes of the keys from the bias so far, if there is one.
template <typename A>
bool FillKeySlopes(const AttentionProblem& problem, const Tile& tile, bool add,
                   A* HWY_RESTRICT scratch, const A** rows) {
  const hn::ScalableTag<A> tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  HWY_ALIGN A slopes[tile_keys], places[tile_keys];
  const std::int64_t columns = padded(tile.keys), first = key_id(problem, tile.batch, tile.key);
  std::fill(slopes + tile.keys, slopes + columns, A(0));
  std::fill(places + tile.keys, places + columns, A(0));
  for (std::int64_t j = 0; j < tile.keys; ++j)
    places[j] = static_cast<A>(key_id(problem, tile.batch, tile.key + j) - first);
  bool hides = false;
  for (std::int64_t h = 0; h < tile.heads; ++h) {
    for (std::int64_t j = 0; j < tile.keys; ++j)
      slopes[j] = static_cast<A>(-log2_of_e) * static_cast<A>(problem.position.key_slopes(
                                                   tile.batch, tile.head + h, tile.key + j));
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      const std::int64_t row = i * tile.heads + h;
      const auto own =
          hn::Set(tag, static_cast<A>(query_id(problem, tile.batch, tile.query + i) - first));
      A* to = scratch + row * tile_keys;
      for (std::int64_t j = 0; j < columns; j += lanes) {
        const auto slope = hn::Load(tag, slopes + j);
        const auto distance = hn::Abs(hn::Sub(own, hn::Load(tag, places + j)));
        hn::Store(add ? hn::MulAdd(slope, distance, hn::LoadU(tag, rows[row] + j))
                      : hn::Mul(slope, distance),
                  tag, to + j);
      }
      hides = Hides(to, columns) || hides;
      rows[row] = to;
    }
  }
  return hides;
}

template <typename A>
TileBias FillBias(const internal::TypedProblem<A>& problem, const Tile& tile, A* scratch,
                  const A** rows) {
  const bool none = std::holds_alternative<NoBias>(*problem.position.bias);
  const bool sloped = problem.position.key_slopes.data();
  if (none && !problem.position.cumulative && !sloped) return TileBias::none;
  bool hides = std::visit(
      internal::Overloaded{
          [](const NoBias&) { return false; },
          [&](const SlopeBias& form) {
            return FillByDistance(problem, form, tile, scratch, rows);
          },
          [&](const StripBias& form) {
            return FillByDistance(problem, form, tile, scratch, rows);
          },
          [&](const DenseBias& form) { return FillGiven(form, tile, scratch, rows); },
          [&](const GridBias& form) {
            return FillTile(problem, form, problem.grid, tile, scratch, rows);
          },
          [&](const PiecewiseLogBias& form) {
            return FillTile(problem, form, problem.piecewise_log, tile, scratch, rows);
          },
          [&](const AxesBias& form) {
            return FillTile(problem, form, problem.axes, tile, scratch, rows);
          }},
      *problem.position.bias);
  if (problem.position.cumulative)
    hides = FillCumulative(problem, tile, !none, scratch + form_scratch_size, rows) || hides;
  if (sloped)
    hides = FillKeySlopes(problem, tile, !none || problem.position.cumulative,
                          scratch + form_scratch_size, rows) ||
            hides;
  return hides ? TileBias::hiding : TileBias::visible;
}

// Adds the gradients of the tile's scores by distance: add(distance, value) adds a value to the
// sums. scratch: as in FillBias.
template <typename A, typename Add>
void AddByDistance(const BackwardProblem<A>& problem, const Tile& tile, const SeenColumns& seen,
                   const A* HWY_RESTRICT grad, A* HWY_RESTRICT scratch, const Add& add) {
  if (IsRegular(problem, tile)) {
    // First along diagonals: the sums of at most tile_rows gradients each.
    const std::int64_t count = tile.queries - 1 + padded(tile.keys);
    std::fill_n(scratch, count, A(0));
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      const auto columns = seen[i / block_rows];
      A* HWY_RESTRICT to = scratch + tile.queries - 1 - i + columns.begin;
      const A* HWY_RESTRICT from = grad + i * tile_keys + columns.begin;
      ForVectors<A>(columns.end - columns.begin, [&](auto d, std::int64_t j) HWY_ATTR {
        hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::LoadU(d, from + j)), d, to + j);
      });
    }
    const std::int64_t first = key_id(problem, tile.batch, tile.key) -
                               query_id(problem, tile.batch, tile.query) - (tile.queries - 1);
    for (std::int64_t n = 0; n < tile.queries - 1 + tile.keys; ++n)
      add(first + n, static_cast<double>(scratch[n]));
    return;
  }
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const auto columns = seen[i / block_rows];
    const std::int64_t query = query_id(problem, tile.batch, tile.query + i);
    for (std::int64_t j = columns.begin; j < std::min(columns.end, tile.keys); ++j)
      add(key_id(problem, tile.batch, tile.key + j) - query,
          static_cast<double>(grad[i * tile_keys + j]));
  }
}

template <typename Form, typename Prepared, typename A>
void AddByTile(const BackwardProblem<A>& problem, const Form& form, const Prepared& prepared,
               const Tile& tile, const Columns& all, const A* grad, double* sums) {
  internal::add_gradient(
      form, prepared, tile.head,
      IdsOf(problem.position.queries, problem.query_ids, tile.batch, tile.query, tile.queries),
      IdsOf(problem.position.keys, problem.key_ids, tile.batch, tile.key + all.begin,
            std::min(all.end, tile.keys) - all.begin),
      grad + all.begin, tile_keys, sums);
}

template <typename A>
void AddBiasGradient(const BackwardProblem<A>& problem, const Tile& tile, const Columns& all,
                     const SeenColumns& seen, const A* grad, A* scratch) {
  if (problem.dense_grad.data()) {
    const auto& to = problem.dense_grad;
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      const Columns columns = seen[i / block_rows];
      for (std::int64_t j = columns.begin; j < std::min(columns.end, tile.keys); ++j)
        to(tile.batch, tile.head, tile.query + i, tile.key + j) =
            static_cast<float>(grad[i * tile_keys + j]);
    }
  }
  if (!problem.bias_sums) return;
  double* sums = problem.bias_sums + problem.sums_at(tile) * problem.bias_numbers;
  std::visit(internal::Overloaded{
                 [](const NoBias&) {}, [](const DenseBias&) {},
                 [&](const SlopeBias&) {
                   AddByDistance(problem, tile, seen, grad, scratch,
                                 [&](std::int64_t distance, double value) {
                                   *sums -= std::abs(static_cast<double>(distance)) * value;
                                 });
                 },
                 [&](const StripBias& form) {
                   AddByDistance(problem, tile, seen, grad, scratch,
                                 [&](std::int64_t distance, double value) {
                                   const std::int64_t column = distance - form.min_distance;
                                   if (column >= 0 && column < problem.bias_numbers)
                                     sums[column] += value;
                                 });
                 },
                 [&](const GridBias& form) {
                   AddByTile(problem, form, problem.grid, tile, all, grad, sums);
                 },
                 [&](const PiecewiseLogBias& form) {
                   AddByTile(problem, form, problem.piecewise_log, tile, all, grad, sums);
                 },
                 [&](const AxesBias& form) {
                   AddByTile(problem, form, problem.axes, tile, all, grad, sums);
                 }},
             *problem.position.bias);
}

template <typename A>
void AddColumnSums(const BackwardProblem<A>& problem, const Tile& tile, const SeenColumns& seen,
                   const A* grad) {
  HWY_ALIGN A sums[tile_keys] = {};
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const Columns columns = seen[i / block_rows];
    const A* HWY_RESTRICT from = grad + i * tile_keys;
    ForVectors<A>(columns.end - columns.begin, [&](auto d, std::int64_t j) HWY_ATTR {
      A* to = sums + columns.begin + j;
      hn::StoreU(hn::Add(hn::LoadU(d, to), hn::LoadU(d, from + columns.begin + j)), d, to);
    });
  }
  double* to = problem.column_sums + problem.sums_at(tile) * problem.keys + tile.key;
  for (std::int64_t j = 0; j < tile.keys; ++j) to[j] += static_cast<double>(sums[j]);
}

template <typename A>
void AddKeySlopeSums(const BackwardProblem<A>& problem, const Tile& tile,
                     const SeenColumns& seen, const A* grad) {
  HWY_ALIGN A sums[tile_keys] = {}, places[tile_keys] = {};
  const std::int64_t first = key_id(problem, tile.batch, tile.key);
  for (std::int64_t j = 0; j < tile.keys; ++j)
    places[j] = static_cast<A>(key_id(problem, tile.batch, tile.key + j) - first);
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const Columns columns = seen[i / block_rows];
    const A own = static_cast<A>(query_id(problem, tile.batch, tile.query + i) - first);
    const A* HWY_RESTRICT from = grad + i * tile_keys + columns.begin;
    ForVectors<A>(columns.end - columns.begin, [&](auto d, std::int64_t j) HWY_ATTR {
      A* to = sums + columns.begin + j;
      const auto place = hn::LoadU(d, places + columns.begin + j);
      const auto distance = hn::Abs(hn::Sub(hn::Set(d, own), place));
      hn::StoreU(hn::MulAdd(distance, hn::LoadU(d, from + j), hn::LoadU(d, to)), d, to);
    });
  }
  double* to = problem.key_slope_sums + problem.sums_at(tile) * problem.keys + tile.key;
  for (std::int64_t j = 0; j < tile.keys; ++j) to[j] -= static_cast<double>(sums[j]);
}

#define GNOMON_BIAS(A)                                                                      \
  template TileBias FillBias(const internal::TypedProblem<A>&, const Tile&, A*, const A**); \
  template void AddBiasGradient(const BackwardProblem<A>&, const Tile&, const Columns&,     \
                                const SeenColumns&, const A*, A*);                          \
  template void AddColumnSums(const BackwardProblem<A>&, const Tile&, const SeenColumns&,   \
                              const A*);                                                    \
  template void AddKeySlopeSums(const BackwardProblem<A>&, const Tile&, const SeenColumns&, \
                                const A*);
GNOMON_BIAS(float)
GNOMON_BIAS(double)
#undef GNOMON_BIAS

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();
