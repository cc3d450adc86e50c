// Tiles of an AxesBias, a sum of strips.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "src/bias/tile.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr int64_t block = 256;  // keys per block of look-ups
constexpr int64_t nowhere = std::numeric_limits<int64_t>::min();

int64_t place(const AxisStrip& axis, int64_t id) {
  if (axis.coordinates.empty()) return id;
  return id >= 0 && id < static_cast<int64_t>(axis.coordinates.size())
             ? axis.coordinates[static_cast<std::size_t>(id)]
             : nowhere;
}

// Visits each query with each block of keys: calls begin, then body for each axis, then end.
// The column of key j is places[j] - origin in unsigned arithmetic. A column outside the strip
// is at least N.
template <typename Begin, typename Body, typename End>
void for_axes(const AxesBias& form, Ids query_ids, Ids key_ids, const Begin& begin,
              const Body& body, const End& end) {
  const auto queries = static_cast<int64_t>(query_ids.size());
  const auto keys = static_cast<int64_t>(key_ids.size());
  int64_t places[most_axes][block];
  for (int64_t from = 0; from < keys; from += block) {
    const int64_t count = std::min(block, keys - from);
    for (std::size_t a = 0; a < form.axes.size(); ++a)
      for (int64_t j = 0; j < count; ++j)
        places[a][j] = place(form.axes[a], key_ids[static_cast<std::size_t>(from + j)]);
    for (int64_t i = 0; i < queries; ++i) {
      begin(i, from, count);
      for (std::size_t a = 0; a < form.axes.size(); ++a) {
        const int64_t own = place(form.axes[a], query_ids[static_cast<std::size_t>(i)]);
        if (own == nowhere) continue;
        const auto origin = static_cast<std::uint64_t>(own) +
                            static_cast<std::uint64_t>(form.axes[a].min_distance);
        body(i, from, count, a, places[a], origin);
      }
      end(i, from, count);
    }
  }
}

}  // namespace

template <typename A>
void fill(const AxesBias& form, const PreparedAxes<A>& prepared, int64_t head, Ids query_ids,
          Ids key_ids, A* to, std::int64_t stride) {
  double sums[block];
  for_axes(
      form, query_ids, key_ids,
      [&](int64_t, int64_t, int64_t count) { std::fill_n(sums, count, 0.0); },
      [&](int64_t, int64_t, int64_t count, std::size_t a, const int64_t* places,
          std::uint64_t origin) {
        const auto numbers = static_cast<std::uint64_t>(form.distances(a));
        const double* const values = form.axes[a].values.data() + head * form.distances(a);
        for (int64_t j = 0; j < count; ++j) {
          const std::uint64_t column = static_cast<std::uint64_t>(places[j]) - origin;
          if (column < numbers) sums[j] += values[column];
        }
      },
      [&](int64_t i, int64_t from, int64_t count) {
        A* const row = to + i * stride + from;
        for (int64_t j = 0; j < count; ++j) row[j] = static_cast<A>(prepared.unit * sums[j]);
      });
}

template <typename A>
void add_gradient(const AxesBias& form, const PreparedAxes<A>&, int64_t, Ids query_ids,
                  Ids key_ids, const A* grad, std::int64_t stride, double* sums) {
  int64_t before[most_axes] = {};  // columns of the preceding axes
  for (std::size_t a = 1; a < form.axes.size(); ++a)
    before[a] = before[a - 1] + form.distances(a - 1);
  const auto nothing = [](int64_t, int64_t, int64_t) {};
  for_axes(
      form, query_ids, key_ids, nothing,
      [&](int64_t i, int64_t from, int64_t count, std::size_t a, const int64_t* places,
          std::uint64_t origin) {
        const auto numbers = static_cast<std::uint64_t>(form.distances(a));
        const A* const row = grad + i * stride + from;
        double* const of_axis = sums + before[a];
        for (int64_t j = 0; j < count; ++j) {
          const std::uint64_t column = static_cast<std::uint64_t>(places[j]) - origin;
          if (column < numbers) of_axis[column] += static_cast<double>(row[j]);
        }
      },
      nothing);
}

#define GNOMON_INSTANTIATE(A)                                                               \
  template void fill<A>(const AxesBias&, const PreparedAxes<A>&, int64_t, Ids, Ids, A*,     \
                        std::int64_t);                                                      \
  template void add_gradient<A>(const AxesBias&, const PreparedAxes<A>&, int64_t, Ids, Ids, \
                                const A*, std::int64_t, double*);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon::internal
