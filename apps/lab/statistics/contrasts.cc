#include "apps/lab/statistics/contrasts.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/numbers.h"

namespace gnomon::lab {
namespace {

constexpr double much_more = 3;
constexpr double infinite = std::numeric_limits<double>::infinity();

const std::vector<double>& units_of(const Observations& entry, std::int64_t seed) {
  const auto at = std::find(entry.seeds.begin(), entry.seeds.end(), seed);
  return entry.units[entry.trained ? static_cast<std::size_t>(at - entry.seeds.begin()) : 0];
}

std::vector<std::int64_t> common_seeds(const std::vector<std::int64_t>& a,
                                       const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> both;
  for (const std::int64_t seed : a)
    if (contains(b, seed)) both.push_back(seed);
  return both;
}

bool all_units(const Observations& entry, bool (*condition)(double)) {
  return std::ranges::all_of(entry.units, [&](const std::vector<double>& units) {
    return std::ranges::all_of(units, condition);
  });
}

bool is_finite(const Observations& entry) {
  return !entry.units.empty() &&
         all_units(entry, [](double one) { return std::isfinite(one); });
}

// Whether all numbers are shares, from 0 to 1.
bool are_shares(const Observations& entry) {
  return all_units(entry, [](double one) { return !(one < 0 || one > 1); });
}

double squared(double number) { return number * number; }

double variance_of_mean(const std::vector<double>& numbers) {
  return squared(deviation(numbers)) / static_cast<double>(numbers.size());
}

// The degrees of freedom of the sum of the variances of both means (Welch and Satterthwaite).
double welch_degrees(const std::vector<double>& a, const std::vector<double>& b) {
  const double u = variance_of_mean(a), v = variance_of_mean(b);
  const auto degrees = [](const std::vector<double>& numbers) {
    return std::max(1.0, static_cast<double>(numbers.size()) - 1);
  };
  return squared(u + v) / (squared(u) / degrees(a) + squared(v) / degrees(b));
}

// The variance of a share of which no example, or every example, was counted: that of the share
// that Agresti and Coull add, 2 of n + 4.
double least_variance(std::size_t examples) {
  const double n = static_cast<double>(examples) + 4, share = 2 / n;
  return share * (1 - share) / n;
}

}  // namespace

std::vector<double> means_by_unit(const std::vector<std::vector<double>>& seeds) {
  std::vector<double> means(seeds[0].size());
  for (const std::vector<double>& units : seeds)
    for (std::size_t i = 0; i < std::min(units.size(), means.size()); ++i)
      means[i] += units[i] / static_cast<double>(seeds.size());
  return means;
}

double mean_margin(const Observations& sample) {
  if (sample.units.empty()) return 0;
  const std::vector<double> by_seed = mapped(sample.units, mean),
                            by_unit = means_by_unit(sample.units);
  const double all = variance_of_mean(by_seed) + variance_of_mean(by_unit);
  return all == 0 ? 0 : student_95(welch_degrees(by_seed, by_unit)) * std::sqrt(all);
}

const char* name(Verdict verdict) {
  return name_of(verdict,
                 {"best", "equivalent", "undecided", "worse", "described", "excluded"});
}

Contrasts::Contrasts(std::vector<Observations> entries, Better better, std::size_t statements,
                     std::vector<bool> usual)
    : entries_(std::move(entries)),
      better_(better),
      probability_(1 - 0.025 / static_cast<double>(std::max<std::size_t>(1, statements))),
      usual_(std::move(usual)) {
  usual_.resize(entries_.size(), usual_.empty());
  for (std::size_t i = 0; i < entries_.size(); ++i)
    usual_[i] = usual_[i] && is_finite(entries_[i]);
  std::vector<std::size_t> pool;
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (usual_[i] && entries_[i].trained && entries_[i].pooled) pool.push_back(i);
  std::vector<double> sums = take_residuals(pool);
  // Entries that deviate much more than the others, as a loss far beyond the training length,
  // have their own variance only.
  if (sums.empty()) return;
  std::vector<double> sorted = sums;
  std::sort(sorted.begin(), sorted.end());
  const double limit = 10 * sorted[(sorted.size() - 1) / 2];
  std::vector<std::size_t> even;
  for (std::size_t i = 0; i < pool.size(); ++i)
    if (sums[i] <= limit) even.push_back(pool[i]);
  if (even.size() >= 2 && even.size() < pool.size()) take_residuals(even);
}

std::vector<double> Contrasts::take_residuals(const std::vector<std::size_t>& pool) {
  std::vector<std::int64_t> seeds;
  for (const std::size_t i : pool)
    seeds = i == pool[0] ? entries_[i].seeds : common_seeds(seeds, entries_[i].seeds);
  if (pool.size() < 2 || seeds.size() < 2) return {};
  std::vector<std::vector<double>> table(pool.size());
  std::vector<double> by_seed(seeds.size());
  for (std::size_t i = 0; i < pool.size(); ++i)
    for (std::size_t s = 0; s < seeds.size(); ++s) {
      table[i].push_back(mean(units_of(entries_[pool[i]], seeds[s])));
      by_seed[s] += table[i][s] / static_cast<double>(pool.size());
    }
  const double all = mean(by_seed);
  std::vector<double> sums;
  for (const std::vector<double>& row : table) {
    double sum = 0;
    for (std::size_t s = 0; s < seeds.size(); ++s)
      sum += squared(row[s] - mean(row) - by_seed[s] + all);
    sums.push_back(sum);
  }
  residual_degrees_ = static_cast<double>((pool.size() - 1) * (seeds.size() - 1));
  residual_ = std::accumulate(sums.begin(), sums.end(), 0.0) / residual_degrees_;
  return sums;
}

Contrasts::Variance Contrasts::variance(std::size_t a, std::size_t b) const {
  const Observations &x = entries_[a], &y = entries_[b];
  const std::vector<std::int64_t> seeds = !x.trained   ? y.seeds
                                          : !y.trained ? x.seeds
                                                       : common_seeds(x.seeds, y.seeds);
  Variance found;
  if (x.units.empty() || y.units.empty()) return found;
  if (seeds.empty()) return unpaired(x, y);
  const bool random = x.trained || y.trained;
  const auto count = static_cast<double>(seeds.size());
  const auto of_seeds = [&](const Observations& one) {
    return mapped(seeds, [&](std::int64_t seed) { return units_of(one, seed); });
  };
  const auto u = of_seeds(x), v = of_seeds(y);
  std::vector<double> differences;  // by seed
  for (std::size_t s = 0; s < seeds.size(); ++s) differences.push_back(mean(u[s]) - mean(v[s]));
  found.difference = mean(differences);
  if (random) {
    found.count = std::ssize(seeds);
    found.seeds = squared(deviation(differences)) / count;
    found.seed_degrees = std::max(1.0, count - 1);
    const double common = 2 * residual_ / count;
    // Two uses of one model deviate less than two models.
    const bool models = x.model.empty() || x.model != y.model;
    if (models && usual_[a] && usual_[b] && x.trained && y.trained &&
        residual_degrees_ > found.seed_degrees) {
      // A pair that deviates much more than the others has only its own degrees of freedom.
      if (found.seeds <= much_more * common) found.seed_degrees = residual_degrees_;
      found.seeds = std::max(found.seeds, common);
    }
  }
  add_units(found, x, y, means_by_unit(u), means_by_unit(v));
  return found;
}

Contrasts::Variance Contrasts::unpaired(const Observations& x, const Observations& y) const {
  Variance found;
  const std::vector<double> of_x = mapped(x.units, mean), of_y = mapped(y.units, mean);
  found.difference = mean(of_x) - mean(of_y);
  found.count = std::min(std::ssize(of_x), std::ssize(of_y));
  found.seeds = variance_of_mean(of_x) + variance_of_mean(of_y);
  if (found.seeds > 0) found.seed_degrees = welch_degrees(of_x, of_y);
  add_units(found, x, y, means_by_unit(x.units), means_by_unit(y.units));
  return found;
}

void Contrasts::add_units(Variance& found, const Observations& x, const Observations& y,
                          std::vector<double> a, const std::vector<double>& b) const {
  const std::size_t n = a.size(), m = b.size();
  if (n < 2 || m < 2) return;
  found.unit_degrees = static_cast<double>(std::min(n, m) - 1);
  found.units = variance_of_mean(a) + variance_of_mean(b);
  if (x.unit_set == y.unit_set && n == m) {
    for (std::size_t i = 0; i < n; ++i) a[i] -= b[i];
    found.units = variance_of_mean(a);
  }
  if (better_ == Better::higher && are_shares(x) && are_shares(y))
    found.units = std::max(found.units, least_variance(n) + least_variance(m));
}

double Contrasts::margin(const Variance& one, double remaining) const {
  const double all = one.seeds + one.units;
  if (all == 0) return 0;
  // The degrees of Welch and Satterthwaite are too many if both are few.
  const double degrees = one.units == 0   ? one.seed_degrees
                         : one.seeds == 0 ? one.unit_degrees
                                          : std::min(one.seed_degrees, one.unit_degrees);
  return student_quantile(1 - (1 - probability_) / remaining, degrees) * std::sqrt(all);
}

Contrast Contrasts::between(std::size_t a, std::size_t b, double remaining) const {
  const Variance found = variance(a, b);
  const bool random = entries_[a].trained || entries_[b].trained;
  if (random && found.count < least_seeds) return {found.difference, infinite};
  const double wide = margin(found, remaining);
  // A difference of shares is at most 1.
  return {found.difference, better_ == Better::higher ? std::min(wide, 1.0) : wide};
}

std::vector<Verdict> Contrasts::verdicts(double equal_within) const {
  const std::size_t count = entries_.size();
  std::vector<Verdict> all(count, Verdict::excluded);
  std::vector<std::size_t> used, candidates;
  for (std::size_t i = 0; i < count; ++i)
    if (usual_[i]) used.push_back(i);
  const auto is_better = [&](double a, double b) {
    return better_ == Better::lower ? a < b : a > b;
  };
  // Whether an entry is measurably worse than another one. remaining: see between().
  const auto is_worse = [&](std::size_t i, double remaining) {
    return std::ranges::any_of(used, [&](std::size_t other) {
      const Contrast one = between(i, other, remaining);
      return other != i && (better_ == Better::lower ? one.above() : one.below());
    });
  };
  std::size_t first = count;  // the best mean
  for (const std::size_t i : used) {
    if (first == count || is_better(variance(i, first).difference, 0)) first = i;
    if (!is_worse(i, 1)) candidates.push_back(i);
  }
  // Holm 1979, for entries with a mean behind that of an entry which is worse: those before it
  // keep the intervals of all differences together.
  const auto is_behind = [&](std::size_t i) {
    return std::ranges::any_of(used, [&](std::size_t other) {
      return !contains(candidates, other) && is_better(variance(other, i).difference, 0);
    });
  };
  for (std::size_t before = used.size(); candidates.size() < before;) {
    before = candidates.size();
    const double remaining = static_cast<double>(std::max<std::size_t>(before, 2) - 1) /
                             static_cast<double>(used.size() - 1);
    std::erase_if(candidates,
                  [&](std::size_t i) { return is_behind(i) && is_worse(i, remaining); });
  }
  bool known = used.size() < 2 && (used.empty() || !entries_[used[0]].trained ||
                                   std::ssize(entries_[used[0]].seeds) >= least_seeds);
  for (const std::size_t i : used)
    known = known || (i != first && std::isfinite(between(i, first).margin));
  for (const std::size_t i : used) {
    if (!known) {
      all[i] = Verdict::described;
      continue;
    }
    // A difference that is measurable but within the margin of equivalence is equivalence.
    const bool equivalent = i != first && between(i, first).within(equal_within);
    all[i] = equivalent                ? Verdict::equivalent
             : contains(candidates, i) ? Verdict::undecided
                                       : Verdict::worse;
  }
  if (!known || used.empty()) return all;
  // The verdict of the best mean follows from those of the others.
  all[first] = Verdict::worse;
  all[first] = contains(all, Verdict::undecided)    ? Verdict::undecided
               : contains(all, Verdict::equivalent) ? Verdict::equivalent
                                                    : Verdict::best;
  return all;
}

std::int64_t Contrasts::seeds_needed(std::size_t a, std::size_t b) const {
  const Variance now = variance(a, b);
  if (now.count < 2) return 0;
  for (std::int64_t seeds = least_seeds; seeds <= 100; ++seeds) {
    Variance then = now;
    const double times = static_cast<double>(seeds) / static_cast<double>(now.count);
    then.seeds /= times;
    then.seed_degrees *= static_cast<double>(seeds - 1) / static_cast<double>(now.count - 1);
    if (std::abs(now.difference) > margin(then)) return seeds;
  }
  return 0;
}

}  // namespace gnomon::lab
