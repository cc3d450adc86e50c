// The vectors of a relative table that a tile uses.
#if defined(GNOMON_ATTENTION_USED_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_USED_VECTORS_INL_H_
#undef GNOMON_ATTENTION_USED_VECTORS_INL_H_
#else
#define GNOMON_ATTENTION_USED_VECTORS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "src/attention/relative-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

// The vectors [begin, begin + count) of a table that a tile uses. The vector of (i, j) has the
// index begin + of_query(i)[j].
struct UsedVectors {
  enum class Step { one = 1, run, any };  // indices of a row: all equal, consecutive, or any
  std::int64_t begin = 0, count = 0;
  Step way = Step::any;
  const std::int32_t* columns = nullptr;
  std::int64_t step = 0;

  const std::int32_t* of_query(std::int64_t i) const { return columns + i * step; }
};

template <typename A>
UsedVectors FindVectors(const TypedProblem<A>& problem, const RelativeTable<A>& table,
                        const Tile& tile, const RelativeScratch<A>& scratch) {
  auto* columns = reinterpret_cast<std::int32_t*>(scratch.columns);
  UsedVectors met;
  met.columns = columns;
  const auto of_query = [&](std::int64_t i) {
    return table.place(query_id(problem, tile.batch, tile.query + i));
  };
  const auto of_key = [&](std::int64_t j) {
    return table.place(key_id(problem, tile.batch, tile.key + j));
  };
  const auto cover = [&](std::int32_t least, std::int32_t most) {
    met.begin = least / 16 * 16;
    met.count = most + 1 - met.begin;
  };
  if (!table.by_coordinates() && IsRegular(problem, tile)) {
    const std::int64_t count = tile.queries - 1 + tile.keys;
    const std::int64_t first = of_key(0) - of_query(0) - (tile.queries - 1);
    const std::int32_t least = table.row(first), most = table.row(first + count - 1);
    cover(least, most);
    bool run = true;
    for (std::int64_t n = 0; n < count; ++n) {
      columns[n] = table.row(first + n) - static_cast<std::int32_t>(met.begin);
      run = run && columns[n] == columns[0] + n;
    }
    std::fill(columns + count, columns + tile.queries + padded(tile.keys), columns[count - 1]);
    met.way = least == most ? UsedVectors::Step::one
              : run         ? UsedVectors::Step::run
                            : UsedVectors::Step::any;
    met.columns = columns + tile.queries - 1;
    met.step = -1;
    return met;
  }
  std::int64_t nearest = of_key(0), furthest = nearest, early = of_query(0), late = early;
  for (std::int64_t j = 1; j < tile.keys; ++j) {
    nearest = std::min(nearest, of_key(j));
    furthest = std::max(furthest, of_key(j));
  }
  for (std::int64_t i = 1; i < tile.queries; ++i) {
    early = std::min(early, of_query(i));
    late = std::max(late, of_query(i));
  }
  cover(table.row(nearest - late), table.row(furthest - early));
  met.step = tile_keys;
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const std::int64_t own = of_query(i);
    std::int32_t* row = columns + i * tile_keys;
    for (std::int64_t j = 0; j < tile.keys; ++j)
      row[j] = table.row(of_key(j) - own) - static_cast<std::int32_t>(met.begin);
    std::fill(row + tile.keys, row + padded(tile.keys), 0);
  }
  return met;
}

// The used vectors that are not in the margins, counted from met.begin. `begin` is a multiple
// of 16.
template <typename A>
Columns OutsideMargins(const RelativeTable<A>& table, const UsedVectors& met) {
  const std::int64_t begin = std::max(met.begin, table.begin());
  return {begin - met.begin,
          std::max(std::min(met.begin + met.count, table.end()), begin) - met.begin};
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif
