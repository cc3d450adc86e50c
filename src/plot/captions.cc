#include "gnomon/plot/captions.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "gnomon/error.h"
#include "src/core/text.h"
#include "src/plot/spec.h"

namespace gnomon::plot {
namespace {

constexpr double constant = 1e-3;      // share of the range that a picture does not show
constexpr double sum_rounding = 1e-5;  // tolerance of the sum of a row of weights
constexpr double rounding = 1e-12;     // share of the largest magnitude: equal values

std::string digits(double value) {
  return gnomon::internal::printed("%.3g", value == 0 ? 0.0 : value);
}

std::size_t index_of(const Matrix& matrix, std::int64_t row, std::int64_t column) {
  return static_cast<std::size_t>(row * matrix.columns + column);
}

double magnitude(std::span<const double> values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Pairs of unequal distance: all, and those in which the nearer or the farther value is higher.
struct Order {
  std::int64_t pairs = 0, nearer = 0, farther = 0;
};

// Adds the pairs of finite values. Values that differ by rounding are equal. O(n log n).
void add_pairs(Order& order, std::span<const double> distances,
               std::span<const double> values) {
  const double unit = rounding * magnitude(values);
  std::vector<double> rounded(values.begin(), values.end());
  if (unit > 0)
    for (double& value : rounded) value = std::round(value / unit);
  std::vector<double> levels = rounded;
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  std::vector<std::int64_t> counts(levels.size() + 1);  // a Fenwick tree over the levels
  const auto below = [&](std::size_t level) {
    std::int64_t sum = 0;
    for (; level > 0; level &= level - 1) sum += counts[level];
    return sum;
  };
  const auto level_of = [&](std::size_t i) {
    return static_cast<std::size_t>(std::lower_bound(levels.begin(), levels.end(), rounded[i]) -
                                    levels.begin());
  };
  std::vector<std::size_t> by_distance(values.size());
  std::iota(by_distance.begin(), by_distance.end(), std::size_t{0});
  std::sort(by_distance.begin(), by_distance.end(),
            [&](std::size_t a, std::size_t b) { return distances[a] < distances[b]; });
  for (std::size_t begin = 0, end = 0; begin < by_distance.size(); begin = end) {
    const auto before = static_cast<std::int64_t>(begin);
    for (; end < by_distance.size() &&
           distances[by_distance[end]] == distances[by_distance[begin]];
         ++end) {
      const std::size_t level = level_of(by_distance[end]);
      order.pairs += before;
      order.farther += below(level);
      order.nearer += before - below(level + 1);
    }
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t at = level_of(by_distance[i]) + 1; at < counts.size(); at += at & -at)
        ++counts[at];
  }
}

// "81.4 %"; never 0 or 100 unless it is exact.
std::string percent(std::int64_t part, std::int64_t whole) {
  const double share = 100 * static_cast<double>(part) / static_cast<double>(whole);
  return (part < whole && share >= 99.95 ? "more than 99.9" : digits(share)) + " %";
}

// `things`: "Of two distances, the shorter", "longer", "has the higher mean similarity".
std::string order_text(const Order& order, const std::string& nearer, const char* farther,
                       const char* has) {
  const std::string other = nearer.substr(0, nearer.rfind(' ') + 1) + farther;
  if (order.nearer == order.pairs) return nearer + " one " + has + " in all pairs.";
  if (order.farther == order.pairs) return other + " one " + has + " in all pairs.";
  return nearer + " one " + has + " in " + percent(order.nearer, order.pairs) +
         " of the pairs, the " + farther + " one in " + percent(order.farther, order.pairs) +
         ".";
}

// " per channel", " for each of the channels 0, 2, 4, ..."
std::string per(const std::string& what, std::int64_t step) {
  if (step == 1) return " per " + what;
  return " for each of the " + what + "s 0, " + std::to_string(step) + ", " +
         std::to_string(2 * step) + ", ...";
}

}  // namespace

std::string table_caption(const Matrix& table, std::int64_t row_step,
                          std::int64_t column_step) {
  internal::check(table);
  for (const std::int64_t step : {row_step, column_step})
    if (step < 1) refuse("captions", "step must be positive", step);
  const auto range = internal::extent(table.values);
  if (!range) return "No value is finite.";
  const std::int64_t part = std::max<std::int64_t>(1, table.columns / 4);
  const auto changes = [&](std::int64_t begin) {  // mean over channels
    std::int64_t count = 0;
    for (std::int64_t c = begin; c < begin + part; ++c)
      for (std::int64_t r = 1; r < table.rows; ++r)
        count +=
            table.values[index_of(table, r, c)] * table.values[index_of(table, r - 1, c)] < 0;
    return static_cast<double>(count) / static_cast<double>(part);
  };
  std::string text = "One row" + per("position", row_step) + ", one column" +
                     per("channel", column_step) + "; values from " + digits(range->first) +
                     " to " + digits(range->second) + ".";
  // Changes between positions that are left out are not counted.
  if (row_step == 1 && table.rows > 1 && table.columns >= 4)
    text += " From the first row to the last, a channel changes its sign " +
            digits(changes(0)) + " times in the first quarter of the channels and " +
            digits(changes(table.columns - part)) + " times in the last quarter (means).";
  return text;
}

std::string similarity_caption(const Matrix& similarity, std::int64_t step) {
  internal::check(similarity);
  if (step < 1) refuse("captions", "step must be positive", step);
  const std::int64_t n = similarity.rows;
  const auto range = internal::extent(similarity.values);
  if (similarity.columns != n || !range) return "No value is finite.";
  std::vector<double> distances, means;  // pairs with at least one finite value
  double spread = 0;
  for (std::int64_t d = 0; d < n; ++d) {
    std::vector<double> here;
    for (std::int64_t i = 0; i + d < n; ++i)
      for (const double value : {similarity.values[index_of(similarity, i, i + d)],
                                 similarity.values[index_of(similarity, i + d, i)]})
        if (std::isfinite(value)) here.push_back(value);
    if (here.empty()) continue;
    const auto [low, high] = std::minmax_element(here.begin(), here.end());
    spread = std::max(spread, *high - *low);
    if (d == 0) continue;  // a row with itself
    distances.push_back(static_cast<double>(d * step));
    means.push_back(std::accumulate(here.begin(), here.end(), 0.0) /
                    static_cast<double>(here.size()));
  }
  const double whole = range->second - range->first;
  if (whole <= rounding * std::max(std::abs(range->first), std::abs(range->second)))
    return "All values are " + digits(range->first) + ".";
  std::string text = "Values from " + digits(range->first) + " (dark) to " +
                     digits(range->second) + " (yellow). ";
  text += spread <= constant * whole
              ? "Pairs at equal distance have equal similarity."
              : "Pairs at equal distance differ by up to " + digits(spread) + ".";
  if (distances.size() < 3) return text;
  Order order;
  add_pairs(order, distances, means);
  return text + " " +
         order_text(order, "Of two distances, the shorter", "longer",
                    "has the higher mean similarity") +
         " Mean similarity: " + digits(means.front()) + " at distance " +
         digits(distances.front()) + ", " + digits(means.back()) + " at distance " +
         digits(distances.back()) + ".";
}

std::string grid_caption(const GridPicture& picture) {
  Order order;
  for (const GridPicture::Chosen& chosen : picture.chosen) {
    std::vector<double> distances, values;  // squared distances, which are exact
    for (std::size_t i = 0; i < chosen.similarity.size(); ++i) {
      const auto cell = static_cast<std::int64_t>(i);
      const std::int64_t y = cell / picture.width - chosen.y,
                         x = cell % picture.width - chosen.x;
      if ((y == 0 && x == 0) || !std::isfinite(chosen.similarity[i])) continue;
      distances.push_back(static_cast<double>(y * y + x * x));
      values.push_back(chosen.similarity[i]);
    }
    add_pairs(order, distances, values);
  }
  const std::string text =
      "Similarity of the row of the marked cell and the row of each cell, from dark (smallest) "
      "to yellow (largest).";
  if (order.pairs == 0) return text;
  return text + " " +
         order_text(order, "Of two cells at unequal distances from the marked cell, the nearer",
                    "farther", "is more similar");
}

std::string curve_caption(const std::string& name, const std::vector<double>& distances,
                          const std::vector<double>& values) {
  std::string text = name + ":";
  const std::size_t count = std::min(distances.size(), values.size());
  if (count == 0) return text + " no values.";
  double middle = 1;  // a power of ten in between
  while (10 * middle <= 0.5 * distances[count - 1]) middle *= 10;
  std::size_t places[] = {0, 0, count - 1};
  while (places[1] + 1 < count && distances[places[1]] < middle) ++places[1];
  for (std::size_t i = 0; i < 3; ++i)
    if (i == 0 || places[i] > places[i - 1])
      text += (i == 0 ? " " : ", ") + digits(values[places[i]]) + " at distance " +
              internal::grouped(distances[places[i]]);
  if (count < 3) return text + ".";
  bool falls = true;
  for (std::size_t i = 1; i < count; ++i) falls = falls && values[i] < values[i - 1];
  return text + (falls ? "; it falls at each step." : "; it does not fall at each step.");
}

std::string bias_caption(const BiasPicture& picture) {
  internal::check(picture.values);
  const Matrix& bias = picture.values;
  const auto range = internal::extent(bias.values);
  if (!range) return "No value is finite.";
  std::int64_t falling = 0, rising = 0, flat = 0, not_finite = 0;
  for (std::int64_t h = 0; h < bias.rows; ++h) {
    bool up = false, down = false, unknown = false;
    for (std::int64_t d = 1; d < bias.columns; ++d) {
      const double step =
          bias.values[index_of(bias, h, d)] - bias.values[index_of(bias, h, d - 1)];
      up = up || step > 0;
      down = down || step < 0;
      unknown = unknown || std::isnan(step);
    }
    not_finite += unknown;
    falling += !unknown && down && !up;
    rising += !unknown && up && !down;
    flat += !unknown && !up && !down;
  }
  const std::pair<std::int64_t, const char*> counts[] = {
      {falling, "never rises"},
      {rising, "never falls"},
      {flat, "is constant"},
      {bias.rows - falling - rising - flat - not_finite, "rises and falls"},
      {not_finite, "has values that are not finite"}};
  std::string heads;
  for (const auto& [count, what] : counts) {
    if (count == 0) continue;
    const std::string all = heads.empty() ? " of " + std::to_string(bias.rows) + " heads" : "";
    heads += (heads.empty() ? " it " : ", ") + std::string(what) + " in " +
             std::to_string(count) + all;
  }
  return "The value that each head adds to the score of a key, from " + digits(range->first) +
         " to " + digits(range->second) + ". With the distance," + heads + ".";
}

std::string change_caption(const Matrix& before, const Matrix& after) {
  internal::check(before);
  internal::check(after);
  if (before.rows != after.rows || before.columns != after.columns)
    refuse("captions", "before and after must have the same shape",
           std::to_string(before.rows) + " x " + std::to_string(before.columns) + " and " +
               std::to_string(after.rows) + " x " + std::to_string(after.columns));
  double sum = 0, largest = 0, count = 0;
  for (std::size_t i = 0; i < after.values.size(); ++i) {
    const double change = std::abs(after.values[i] - before.values[i]);
    if (!std::isfinite(change)) continue;
    sum += change;
    largest = std::max(largest, change);
    ++count;
  }
  const auto from = internal::extent(before.values), to = internal::extent(after.values);
  if (count == 0 || !from || !to) return "No value is finite before and after.";
  if (largest == 0) return "No value changes.";
  return "Values are " + digits(from->first) + " to " + digits(from->second) + " before and " +
         digits(to->first) + " to " + digits(to->second) + " after; they change by " +
         digits(sum / count) + " on average and by " + digits(largest) + " at most.";
}

std::string attention_caption(const AttentionPicture& picture) {
  const Matrix &a = picture.without, &b = picture.with;
  double largest = 0, error = 0;
  for (std::int64_t q = 0; q < a.rows; ++q) {
    double sums[2] = {0, 0};
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const double x = a.values[index_of(a, q, k)], y = b.values[index_of(b, q, k)];
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      largest = std::max(largest, std::abs(y - x));
      sums[0] += x, sums[1] += y;
    }
    for (const double sum : sums) error = std::max(error, std::abs(sum - 1));
  }
  std::string text = "The largest difference of a weight is " + digits(largest) + ".";
  if (error <= sum_rounding) text += " Each row sums to 1.";
  return text;
}

}  // namespace gnomon::plot
