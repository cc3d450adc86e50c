#include "gnomon/analysis/properties.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "gnomon/error.h"
#include "src/core/exported.h"

namespace gnomon::analysis {
namespace {

using std::int64_t;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Squared distance of two rows. The sum stops once it exceeds `limit`.
template <typename T>
double squared_distance(View<const T, 2> table, int64_t i, int64_t j, double limit) {
  double sum = 0;
  for (int64_t c = 0; c < table.extent(1) && sum <= limit; ++c) {
    const double difference =
        static_cast<double>(table(i, c)) - static_cast<double>(table(j, c));
    sum += difference * difference;
  }
  return sum;
}

// Comparisons with NaN are always false and would silently ignore such entries, so they are
// refused.
template <typename T>
void check_finite(const char* operation, View<const T, 2> table) {
  for (int64_t t = 0; t < table.extent(0); ++t)
    for (int64_t c = 0; c < table.extent(1); ++c)
      if (const auto value = static_cast<double>(table(t, c)); !std::isfinite(value))
        refuse(operation, "entries must be finite",
               (std::isnan(value) ? "NaN in row " : "infinity in row ") + std::to_string(t));
}

// part / whole, with 0 / 0 = 0.
double relative(double part, double whole) {
  if (part == 0) return 0;
  return whole > 0 ? part / whole : infinity;
}

}  // namespace

template <typename T>
Uniqueness uniqueness(View<const T, 2> table) {
  const int64_t rows = table.extent(0);
  if (rows < 2) refuse("uniqueness", "the table must have at least 2 rows", rows);
  check_finite("uniqueness", table);
  double squares = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < table.extent(1); ++c) {
      const auto value = static_cast<double>(table(i, c));
      squares += value * value;
    }
  Uniqueness result;
  double nearest = infinity;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i + 1; j < rows; ++j)
      if (const double squared = squared_distance(table, i, j, nearest); squared < nearest) {
        nearest = squared;
        result.first = i;
        result.second = j;
      }
  result.distance = std::sqrt(nearest);
  result.separation = relative(result.distance, std::sqrt(squares / static_cast<double>(rows)));
  return result;
}

template <typename T>
Relativity relativity(View<const T, 2> scores) {
  const int64_t queries = scores.extent(0), keys = scores.extent(1);
  // Index of a diagonal: key - query + queries - 1.
  const auto diagonals = static_cast<std::size_t>(std::max<int64_t>(0, queries + keys - 1));
  // Sum differences from the first score. The mean of equal scores is then exact, and rounding
  // is not reported as a deviation.
  std::vector<double> first(diagonals), sums(diagonals);
  std::vector<int64_t> counts(diagonals);
  double anchor = 0, total = 0, lowest = infinity, highest = -infinity;
  int64_t count = 0;
  const auto diagonal = [&](int64_t q, int64_t k) {
    return static_cast<std::size_t>(k - q + queries - 1);
  };
  const auto each = [&](auto&& use) {
    for (int64_t q = 0; q < queries; ++q)
      for (int64_t k = 0; k < keys; ++k)
        if (const auto score = static_cast<double>(scores(q, k)); std::isfinite(score))
          use(q, k, score);
  };
  each([&](int64_t q, int64_t k, double score) {
    const std::size_t d = diagonal(q, k);
    if (counts[d]++ == 0) first[d] = score;
    sums[d] += score - first[d];
    if (count++ == 0) anchor = score;
    total += score - anchor;
    lowest = std::min(lowest, score);
    highest = std::max(highest, score);
  });
  Relativity result;
  if (count == 0) return result;
  const double mean = anchor + total / static_cast<double>(count);
  double variance = 0, unexplained = 0, worst = 0;
  each([&](int64_t q, int64_t k, double score) {
    const std::size_t d = diagonal(q, k);
    const double off = score - (first[d] + sums[d] / static_cast<double>(counts[d]));
    variance += (score - mean) * (score - mean);
    unexplained += off * off;
    if (std::fabs(off) > worst) {
      worst = std::fabs(off);
      result.query = q;
      result.key = k;
    }
  });
  result.deviation = relative(worst, highest - lowest);
  result.explained = variance > 0 ? std::clamp(1 - unexplained / variance, 0.0, 1.0) : 1;
  return result;
}

template <typename T>
Beyond beyond(View<const double, 2> weights, View<const T, 2> table, RowsOf rows_of,
              int64_t trained) {
  const int64_t heads = weights.extent(0), tokens = weights.extent(1);
  if (rows_of != RowsOf::positions && rows_of != RowsOf::distances)
    refuse("beyond", "rows must be those of positions or distances", static_cast<int>(rows_of));
  if (heads < 1) refuse("beyond", "weights must have at least 1 head", heads);
  if (table.extent(0) != tokens)
    refuse("beyond",
           "the table must have a row for each of " + std::to_string(tokens) + " keys",
           table.extent(0));
  if (trained < 2 || trained > tokens)
    refuse("beyond", "trained must be from 2 to the number of keys, " + std::to_string(tokens),
           trained);
  check_finite("beyond", table);
  const auto row = [&](int64_t t) {
    std::vector<T> values;
    for (int64_t c = 0; c < table.extent(1); ++c) values.push_back(table(t, c));
    return values;
  };
  std::set<std::vector<T>> seen;
  for (int64_t t = 0; t < trained; ++t) seen.insert(row(t));
  std::vector<char> unseen;
  for (int64_t t = 0; t < tokens; ++t) unseen.push_back(seen.contains(row(t)) ? 0 : 1);
  Beyond result;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t j = 0; j < tokens; ++j) {
      const int64_t distance = tokens - 1 - j;
      const double weight = weights(h, j) / static_cast<double>(heads);
      if (distance >= trained) result.far += weight;
      const bool is_new = rows_of == RowsOf::distances
                              ? unseen[static_cast<std::size_t>(distance)]
                              : unseen[static_cast<std::size_t>(j)] ||
                                    unseen[static_cast<std::size_t>(tokens - 1)];
      if (is_new) result.unseen += weight;
    }
  return result;
}

template <typename T>
Extrapolation extrapolation(View<const T, 2> table, int64_t trained) {
  const int64_t rows = table.extent(0), channels = table.extent(1);
  if (trained < 2 || trained > rows)
    refuse("extrapolation",
           "trained must be from 2 to the table's rows, " + std::to_string(rows), trained);
  check_finite("extrapolation", table);
  Extrapolation result;
  result.past = rows - trained;
  if (result.past == 0) return result;
  for (int64_t c = 0; c < channels; ++c) {
    double lowest = infinity, highest = -infinity, outside = 0;
    for (int64_t t = 0; t < rows; ++t) {
      const auto value = static_cast<double>(table(t, c));
      if (t < trained) {
        lowest = std::min(lowest, value);
        highest = std::max(highest, value);
      } else {
        outside = std::max({outside, lowest - value, value - highest});
      }
    }
    result.excess = std::max(result.excess, relative(outside, highest - lowest));
  }
  double step_within = 0, step_past = 0, apart_within = 0, apart_past = 0;
  for (int64_t t = 0; t < rows; ++t) {
    if (t > 0) {
      double& step = t < trained ? step_within : step_past;
      step = std::max(step, squared_distance(table, t, t - 1, infinity));
    }
    double nearest = infinity;
    for (int64_t other = 0; other < trained; ++other)
      if (other != t) nearest = std::min(nearest, squared_distance(table, t, other, nearest));
    double& apart = t < trained ? apart_within : apart_past;
    apart = std::max(apart, nearest);
  }
  result.jump = std::sqrt(relative(step_past, step_within));
  result.novelty = std::sqrt(relative(apart_past, apart_within));
  return result;
}

#define GNOMON_INSTANTIATE(T)                                                             \
  template GNOMON_EXPORTED Uniqueness uniqueness(View<const T, 2>);                       \
  template GNOMON_EXPORTED Relativity relativity(View<const T, 2>);                       \
  template GNOMON_EXPORTED Beyond beyond(View<const double, 2>, View<const T, 2>, RowsOf, \
                                         int64_t);                                        \
  template GNOMON_EXPORTED Extrapolation extrapolation(View<const T, 2>, int64_t);
GNOMON_INSTANTIATE(float)
GNOMON_INSTANTIATE(double)
#undef GNOMON_INSTANTIATE

}  // namespace gnomon::analysis
