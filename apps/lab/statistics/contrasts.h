// Comparison of several entries that were trained with the same seeds and tested on the same
// units (segments of a text, or examples).
//
// A difference of two entries deviates from its expectation with the seeds and with the units.
// The variance of its mean has two parts:
//
//   seeds   that of the differences of runs with the same seed, divided by their number. At
//           least that of the residuals of all entries (entry + seed + residual), which has
//           more degrees of freedom: with 3 seeds, the variance of one pair has only 2
//   units   that of the differences on the same unit, divided by their number
//
// Margins are quantiles of Student's t, with the fewer degrees of freedom of both parts. They
// hold for all statements together (Bonferroni). An entry may be the best unless another one is
// measurably better (the subset of Hsu 1984, Annals of Statistics 12, 1136): the entry with the
// best mean was selected because of it, and is not the best in expectation in general. Entries
// far behind are tested step-down (Holm 1979, Scandinavian Journal of Statistics 6, 65).
// docs/lab/statistics.md has a simulation.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gnomon::lab {

// Fewer seeds have no margins.
constexpr std::int64_t least_seeds = 3;

// The measurements of one entry.
struct Observations {
  std::vector<std::int64_t> seeds = {};         // their numbers
  std::vector<std::vector<double>> units = {};  // [seed][unit]
  bool trained = true;                          // false: the same results for every seed
  std::string model = {};  // entries of the same model are uses of the same weights
  // Whether the residuals count in the common variance: of each encoding once, because the
  // residuals of two uses of one model are correlated.
  bool pooled = true;
  int unit_set = 0;  // units of the same set and number are the same segments or examples
};

// The means over the seeds for each unit, of [seed][unit].
std::vector<double> means_by_unit(const std::vector<std::vector<double>>& seeds);

// Half of the width of the 95 % confidence interval of the mean of a sample, over seeds and
// units; with one seed over the units. 0 if there is one number only.
double mean_margin(const Observations& sample);

enum class Better { lower = 1, higher };

// The difference of two entries, and half of the width of its confidence interval: infinite if
// fewer than least_seeds seeds are common.
struct Contrast {
  double difference = 0, margin = 0;

  bool above() const { return difference > margin; }
  bool below() const { return -difference > margin; }
  // Whether the whole interval is within the limits.
  bool within(double limit) const { return std::abs(difference) + margin <= limit; }
};

enum class Verdict {
  best = 1,    // better than every other entry
  equivalent,  // the difference from the best mean is within the margin of equivalence
  undecided,   // may be the best
  worse,       // another entry is measurably better
  described,   // too few seeds for a statement
  excluded,    // diverged, at chance or not trained enough
};
const char* name(Verdict verdict);
// Whether an entry may be the best.
inline bool may_be_best(Verdict one) {
  return one == Verdict::best || one == Verdict::equivalent || one == Verdict::undecided;
}

class Contrasts {
 public:
  // `statements`: the number of differences of which 95 % of all sessions state none falsely.
  // Only the `usual` entries (default: all) have a common variance of residuals.
  Contrasts(std::vector<Observations> entries, Better better, std::size_t statements,
            std::vector<bool> usual = {});

  // The expectation of a minus that of b, over their common seeds. Without common seeds, each
  // mean has its own variance (Welch). remaining: the share of all statements for which the
  // interval holds together.
  Contrast between(std::size_t a, std::size_t b, double remaining = 1) const;

  // Verdicts of the usual entries; Verdict::excluded for the others. `equal_within`: the margin
  // of equivalence.
  std::vector<Verdict> verdicts(double equal_within) const;

  // The number of seeds after which the difference of two entries is measurable, if its mean
  // and the variances stay as they are. 0: more than 100.
  std::int64_t seeds_needed(std::size_t a, std::size_t b) const;

 private:
  struct Variance {
    double seeds = 0, seed_degrees = 1, units = 0, unit_degrees = 1;
    double difference = 0;
    std::int64_t count = 0;  // common seeds; 0: neither entry was trained
  };
  // Sets the variance of the residuals of some entries. Returns the sum of squares of each;
  // empty if there are too few.
  std::vector<double> take_residuals(const std::vector<std::size_t>& pool);
  Variance variance(std::size_t a, std::size_t b) const;
  Variance unpaired(const Observations& x, const Observations& y) const;
  // a, b: the means over the seeds for each unit of x and y.
  void add_units(Variance& found, const Observations& x, const Observations& y,
                 std::vector<double> a, const std::vector<double>& b) const;
  double margin(const Variance& one, double remaining = 1) const;

  std::vector<Observations> entries_;
  Better better_;
  double probability_;  // of the quantiles
  std::vector<bool> usual_;
  double residual_ = 0, residual_degrees_ = 0;
};

}  // namespace gnomon::lab
