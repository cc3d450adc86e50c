#include "src/bias/tile.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/overloaded.h"
#include "src/core/size.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr int64_t pad = 64;             // elements past either end that a vector may read
constexpr int64_t furthest = 1 << 21;   // largest distance that has a table entry
constexpr int64_t most_ends = 1 << 23;  // most elements of `ends`: 32 MB
constexpr int64_t tile_grain = 4096;    // some 50 us

void check_count(const char* what, std::size_t has, int64_t wanted) {
  if (static_cast<int64_t>(has) != wanted)
    refuse("bias", std::string(what) + " must be " + std::to_string(wanted),
           static_cast<int64_t>(has));
}

void check_grid(const GridBias& grid) {
  constexpr int64_t most = 1 << 15;  // so that places fit in 32 bits
  if (grid.height < 1 || grid.height >= most)
    refuse("bias", "height of a grid must be 1 to 32767", grid.height);
  if (grid.width < 1 || grid.width >= most)
    refuse("bias", "width of a grid must be 1 to 32767", grid.width);
  if (grid.cells() > 1 << 28)
    refuse("bias", "a grid must have at most 2^28 cells", grid.cells());
  if (grid.leading < 0 || grid.leading > 1)
    refuse("bias", "class tokens of a grid must be 0 or 1", grid.leading);
  check_count("a grid's numbers, heads x offsets,", grid.values.size(),
              checked_product("bias", "heads x offsets", {grid.heads, grid.offsets()}));
}

// Kernels subtract the least distance from the distances of a tile.
void check_min_distance(int64_t min_distance) {
  if (!subtractable(min_distance))
    refuse("bias", "the least distance of a strip must be at most 2^61 in magnitude",
           min_distance);
}

void check_strip(const StripBias& strip) {
  if (strip.heads < 1 || strip.values.size() % to_size(strip.heads))
    refuse("bias", "a strip must have 1 head or more, and heads x distances numbers",
           std::to_string(strip.heads) + " and " + std::to_string(strip.values.size()));
  check_min_distance(strip.min_distance);
}

void check_axes(const AxesBias& bias) {
  constexpr int64_t most = int64_t{1} << 31;  // so that no difference overflows
  if (bias.axes.empty() || bias.axes.size() > most_axes)
    refuse("bias", "axes must be 1 to " + std::to_string(most_axes),
           static_cast<int64_t>(bias.axes.size()));
  std::size_t positions = 0;
  for (std::size_t a = 0; a < bias.axes.size(); ++a) {
    const AxisStrip& axis = bias.axes[a];
    check_count("an axis's numbers, heads x distances,", axis.values.size(),
                bias.heads * bias.distances(a));
    check_min_distance(axis.min_distance);
    if (axis.coordinates.empty()) continue;
    if (positions)
      check_count("coordinates of an axis", axis.coordinates.size(),
                  static_cast<int64_t>(positions));
    positions = axis.coordinates.size();
    const auto [least, greatest] =
        std::minmax_element(axis.coordinates.begin(), axis.coordinates.end());
    for (const int64_t coordinate : {*least, *greatest})
      if (coordinate < -most || coordinate > most)
        refuse("bias", "coordinates must be at most 2^31 in magnitude", coordinate);
    const int64_t widest = *greatest - *least;
    if (!contains(axis.min_distance, bias.distances(a), -widest, widest))
      refuse("bias",
             "the strip of an axis must cover distances " + std::to_string(-widest) + " to " +
                 std::to_string(widest),
             range_text(axis.min_distance, bias.distances(a)));
  }
}

void check_piecewise_log(const PiecewiseLogBias& bias) {
  if (!(bias.c > 0) || !std::isfinite(bias.c))
    refuse("bias", "c must be positive and finite", bias.c);
  if (!(bias.threshold > 0) || !std::isfinite(bias.threshold))
    refuse("bias", "threshold must be positive and finite", bias.threshold);
  if (!(bias.epsilon >= 0)) refuse("bias", "epsilon must not be negative", bias.epsilon);
  if (bias.knots.empty() || bias.knots[0] != 0)
    refuse("bias", "the first knot must be 0", bias.knots.empty() ? NAN : bias.knots[0]);
  for (std::size_t p = 1; p < bias.knots.size(); ++p)
    if (!(bias.knots[p] > bias.knots[p - 1]))
      refuse("bias", "knots must be strictly increasing", bias.knots[p]);
  const int64_t count = checked_product("bias", "heads x pieces", {bias.heads, bias.pieces()});
  check_count("offsets, heads x pieces,", bias.offsets.size(), count);
  check_count("slopes, heads x pieces,", bias.slopes.size(), count);
}

}  // namespace

void check_form(const BiasForm& form) {
  std::visit(Overloaded{[](const NoBias&) {}, [](const SlopeBias&) {}, [](const DenseBias&) {},
                        [](const StripBias& one) { check_strip(one); },
                        [](const GridBias& one) { check_grid(one); },
                        [](const AxesBias& one) { check_axes(one); },
                        [](const PiecewiseLogBias& one) { check_piecewise_log(one); }},
             form);
}

void check_ids(const BiasForm& form, IdRange ids) {
  if (ids.least > ids.most) return;
  const auto check_range = [&](const char* what, int64_t positions) {
    if (ids.least < 0 || ids.most >= positions)
      refuse("bias", std::string(what) + " must be 0 to " + std::to_string(positions - 1),
             ids.least < 0 ? ids.least : ids.most);
  };
  std::visit(Overloaded{[](const NoBias&) {}, [](const SlopeBias&) {}, [](const StripBias&) {},
                        [](const DenseBias&) {}, [](const PiecewiseLogBias&) {},
                        [&](const GridBias& grid) {
                          check_range("positions on the grid", grid.positions());
                        },
                        [&](const AxesBias& axes) {
                          for (const AxisStrip& axis : axes.axes)
                            if (!axis.coordinates.empty())
                              check_range("positions with coordinates",
                                          static_cast<int64_t>(axis.coordinates.size()));
                        }},
             form);
}

template <typename A>
PreparedGrid<A> prepare(const GridBias& form, IdRange, IdRange, double unit) {
  PreparedGrid<A> prepared;
  const int64_t pitch = 2 * form.width - 1, offsets = form.offsets();
  const int64_t between = offsets - 3 * form.leading;  // offsets between cells
  prepared.columns = offsets;
  prepared.centre = (form.height - 1) * pitch + form.width - 1;
  prepared.values.resize(static_cast<std::size_t>(form.heads * offsets + pad));
  for (int64_t h = 0; h < form.heads; ++h)
    for (int64_t n = 0; n < offsets; ++n)
      prepared
          .values[static_cast<std::size_t>(h * offsets + (n < between ? between - 1 - n : n))] =
          static_cast<A>(unit * form.values[static_cast<std::size_t>(h * offsets + n)]);
  prepared.places.assign(static_cast<std::size_t>(form.leading), PreparedGrid<A>::class_token);
  for (int64_t y = 0; y < form.height; ++y)
    for (int64_t x = 0; x < form.width; ++x)
      prepared.places.push_back(static_cast<std::int32_t>(y * pitch + x));
  return prepared;
}

template <typename A>
PreparedPiecewiseLog<A> prepare(const PiecewiseLogBias& form, IdRange queries, IdRange keys,
                                double unit) {
  PreparedPiecewiseLog<A> prepared;
  prepared.unit = unit;
  prepared.by_threshold = form.c / (form.c * form.threshold + 1);
  if (queries.least > queries.most || keys.least > keys.most) return prepared;
  const int64_t inner = form.pieces() - 1;
  // Computed in double: the difference of distant ids can overflow int64_t.
  const double count =
      static_cast<double>(queries.most) - static_cast<double>(queries.least) + 1;
  if (count * static_cast<double>(inner + 1) > most_ends) return prepared;
  for (const double distance :
       {static_cast<double>(keys.most) - static_cast<double>(queries.least),
        static_cast<double>(queries.most) - static_cast<double>(keys.least)})
    if (distance > furthest) return prepared;

  const int64_t min_distance = keys.least - queries.most, last = keys.most - queries.least;
  const int64_t reach = std::max(std::abs(min_distance), std::abs(last));
  std::vector<A> psi(static_cast<std::size_t>(reach + 1)), psi_by_c(psi.size());
  parallel_for(reach + 1, tile_grain, [&](int64_t begin, int64_t end) {
    for (int64_t d = begin; d < end; ++d) {
      const auto distance = static_cast<double>(d);
      psi[static_cast<std::size_t>(d)] = static_cast<A>(std::log1p(form.c * distance));
      psi_by_c[static_cast<std::size_t>(d)] =
          static_cast<A>(distance / (form.c * distance + 1));
    }
  });
  prepared.min_distance = min_distance - pad;
  prepared.warped.resize(static_cast<std::size_t>(last - min_distance + 1 + 2 * pad));
  prepared.by_c.resize(prepared.warped.size());
  for (int64_t d = min_distance; d <= last; ++d) {
    const auto from = static_cast<std::size_t>(std::abs(d));
    prepared.warped[static_cast<std::size_t>(d - prepared.min_distance)] = psi[from];
    prepared.by_c[static_cast<std::size_t>(d - prepared.min_distance)] = psi_by_c[from];
  }

  prepared.least = queries.least;
  prepared.scale.resize(static_cast<std::size_t>(count));
  prepared.pull.resize(prepared.scale.size());
  prepared.ends.resize(prepared.scale.size() * static_cast<std::size_t>(inner));
  parallel_for(queries.most - queries.least + 1, tile_grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const double own = std::max(form.threshold, static_cast<double>(queries.least + row));
      const double whole = std::log1p(form.c * own) + form.epsilon;
      prepared.scale[static_cast<std::size_t>(row)] = 1 / whole;
      prepared.pull[static_cast<std::size_t>(row)] = own / (form.c * own + 1) / whole;
      std::int32_t* ends = prepared.ends.data() + row * inner;
      for (int64_t p = 0; p < inner; ++p) {
        const double limit = form.knots[static_cast<std::size_t>(p + 1)] * whole;
        // First guess: the end of the previous row, from which this one differs by a step or
        // not at all. The result does not depend on the guess.
        int64_t d =
            row > begin
                ? ends[p - inner]
                : static_cast<int64_t>(std::min(std::expm1(std::min(limit, 700.0)) / form.c,
                                                static_cast<double>(reach)));
        while (d <= reach && static_cast<double>(psi[static_cast<std::size_t>(d)]) < limit) ++d;
        while (d > 0 && static_cast<double>(psi[static_cast<std::size_t>(d - 1)]) >= limit) --d;
        ends[p] = static_cast<std::int32_t>(d);
      }
    }
  });
  return prepared;
}

template <typename A>
PreparedAxes<A> prepare(const AxesBias&, IdRange, IdRange, double unit) {
  return {unit};
}

#define GNOMON_INSTANTIATE(A)                                                            \
  template PreparedAxes<A> prepare<A>(const AxesBias&, IdRange, IdRange, double);        \
  template PreparedGrid<A> prepare<A>(const GridBias&, IdRange, IdRange, double);        \
  template PreparedPiecewiseLog<A> prepare<A>(const PiecewiseLogBias&, IdRange, IdRange, \
                                              double);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon::internal
