#include "gnomon/analysis/decay.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>

#include "gnomon/error.h"
#include "src/core/exported.h"
#include "src/core/normal.h"

namespace gnomon::analysis {
namespace {

using std::int64_t;

void check(std::span<const double> frequencies, int64_t distances) {
  if (frequencies.empty()) refuse("decay", "frequencies must be at least one", 0);
  if (distances < 1) refuse("decay", "distances must be at least 1", distances);
}

// Ranks from 0. Equal numbers have their mean rank.
std::vector<double> ranks(const std::vector<double>& numbers) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t i, std::size_t j) { return numbers[i] < numbers[j]; });
  std::vector<double> rank(numbers.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && numbers[order[end]] == numbers[order[begin]]) ++end;
    const double mean = 0.5 * static_cast<double>(begin + end - 1);
    for (std::size_t i = begin; i < end; ++i) rank[order[i]] = mean;
  }
  return rank;
}

struct Moments {
  double xx = 0, xy = 0, yy = 0;  // about the means
};
Moments moments(const std::vector<double>& x, const std::vector<double>& y) {
  const auto count = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / count;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / count;
  Moments m;
  for (std::size_t i = 0; i < x.size(); ++i) {
    m.xx += (x[i] - mean_x) * (x[i] - mean_x);
    m.xy += (x[i] - mean_x) * (y[i] - mean_y);
    m.yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  return m;
}

}  // namespace

template <typename T>
std::vector<double> mean_by_distance(View<const T, 2> scores, int64_t offset) {
  std::vector<double> sums(static_cast<std::size_t>(scores.extent(1)));
  std::vector<int64_t> counts(sums.size());
  if (offset > std::numeric_limits<int64_t>::max() - scores.extent(0) ||
      offset < std::numeric_limits<int64_t>::min() + scores.extent(1))
    refuse("decay", "offset must leave positions within 64 bits", offset);
  for (int64_t i = 0; i < scores.extent(0); ++i)
    for (int64_t j = 0; j < scores.extent(1); ++j) {
      const int64_t back = i + offset - j;
      const auto score = static_cast<double>(scores(i, j));
      if (back < 0 || back >= scores.extent(1) || !std::isfinite(score)) continue;
      sums[static_cast<std::size_t>(back)] += score;
      ++counts[static_cast<std::size_t>(back)];
    }
  for (std::size_t d = 0; d < sums.size(); ++d)
    sums[d] = counts[d] ? sums[d] / static_cast<double>(counts[d])
                        : std::numeric_limits<double>::quiet_NaN();
  return sums;
}
template GNOMON_EXPORTED std::vector<double> mean_by_distance(View<const float, 2>, int64_t);
template GNOMON_EXPORTED std::vector<double> mean_by_distance(View<const double, 2>, int64_t);

Decay decay(std::span<const double> by_distance) {
  std::vector<double> distances, scores;
  int64_t steps = 0, falls = 0;
  for (std::size_t d = 0; d < by_distance.size(); ++d) {
    if (std::isnan(by_distance[d])) continue;
    distances.push_back(static_cast<double>(d));
    scores.push_back(by_distance[d]);
    if (d == 0 || std::isnan(by_distance[d - 1])) continue;
    ++steps;
    falls += by_distance[d] < by_distance[d - 1];
  }
  if (scores.size() < 2)
    refuse("decay", "there must be scores at two or more distances",
           static_cast<int64_t>(scores.size()));
  const Moments line = moments(distances, scores);
  const Moments rank = moments(ranks(distances), ranks(scores));
  Decay result;
  result.slope = line.xy / line.xx;
  result.rank_correlation = rank.yy > 0 ? rank.xy / std::sqrt(rank.xx * rank.yy) : 0;
  result.falling = steps ? static_cast<double>(falls) / static_cast<double>(steps) : 0;
  return result;
}

std::vector<double> rotary_score_of_ones(std::span<const double> frequencies,
                                         int64_t distances) {
  check(frequencies, distances);
  std::vector<double> scores(static_cast<std::size_t>(distances));
  for (int64_t d = 0; d < distances; ++d) {
    double sum = 0;
    for (double f : frequencies) sum += std::cos(static_cast<double>(d) * f);
    scores[static_cast<std::size_t>(d)] = sum / static_cast<double>(frequencies.size());
  }
  return scores;
}

ScoreSample rotary_score_of_normal(std::span<const double> frequencies, int64_t distances,
                                   int64_t samples, std::uint64_t seed) {
  check(frequencies, distances);
  if (samples < 2) refuse("decay", "samples must be at least 2", samples);
  const auto count = static_cast<std::size_t>(distances);
  std::vector<double> sums(count), squares(count);
  internal::Normal normal(seed);
  const double scale = 1 / std::sqrt(2 * static_cast<double>(frequencies.size()));
  // The dot product of a rotated pair is Re(q conj(k) e^(i d f)): compute q conj(k) once, then
  // all distances d.
  std::vector<std::complex<double>> products(frequencies.size());
  for (int64_t sample = 0; sample < samples; ++sample) {
    for (auto& product : products) {
      const std::complex<double> q(normal(), normal()), k(normal(), normal());
      product = q * std::conj(k);
    }
    for (std::size_t d = 0; d < count; ++d) {
      double score = 0;
      for (std::size_t i = 0; i < products.size(); ++i) {
        const double angle = static_cast<double>(d) * frequencies[i];
        score += products[i].real() * std::cos(angle) - products[i].imag() * std::sin(angle);
      }
      sums[d] += score * scale;
      squares[d] += score * scale * score * scale;
    }
  }
  ScoreSample result{sums, squares};
  const auto n = static_cast<double>(samples);
  for (std::size_t d = 0; d < count; ++d) {
    result.mean[d] = sums[d] / n;
    result.deviation[d] =
        std::sqrt(std::max(0.0, (squares[d] - sums[d] * result.mean[d]) / (n - 1)));
  }
  return result;
}

std::vector<double> rotary_score_bound(std::span<const double> frequencies, int64_t distances) {
  check(frequencies, distances);
  std::vector<double> bound(static_cast<std::size_t>(distances));
  for (std::size_t d = 0; d < bound.size(); ++d) {
    std::complex<double> partial = 0;
    for (double f : frequencies) {
      const double angle = static_cast<double>(d) * f;
      partial += std::complex<double>(std::cos(angle), std::sin(angle));
      bound[d] += std::abs(partial);
    }
  }
  const double at_zero = bound[0];
  for (double& value : bound) value /= at_zero;
  return bound;
}

}  // namespace gnomon::analysis
