// Measured properties of an encoding, and the properties that its definition guarantees.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "gnomon/analysis/decay.h"
#include "gnomon/analysis/properties.h"
#include "src/core/json_value.h"
#include "src/verdicts/encoding_matrices.h"

namespace gnomon::verdicts {

// Bounds of the measurements: at most `rounding` is no change, at least `visible` is a change.
constexpr double rounding = 1e-5, visible = 1e-3, cache_bound = 0x1p-16;

// A property that the definition of an encoding guarantees, with its bound.
struct Promise {
  std::string what;
  double value, bound;
  enum class Side { at_most = 1, at_least } side;

  bool kept() const { return side == Side::at_most ? value <= bound : value >= bound; }
};

struct Findings {
  const EncodingMatrices* matrices;
  Setting setting;
  analysis::Uniqueness uniqueness;
  // Uniqueness of the rows by distance; empty if rows belong to positions or there are none.
  std::optional<analysis::Uniqueness> distances;
  analysis::Relativity relativity;
  analysis::Extrapolation extrapolation;
  std::optional<analysis::Beyond> beyond;  // set if all positions of the setting exist
  // Distances are divided by the position of the query (FIRE): nothing is unseen.
  bool normalised = false;
  analysis::Decay decay;
  double order = 0, reversal = 0, shift = 0, cache = 0;
  // As reversal, of a text of the training length instead of half of it. The two ends of a path
  // are equal (degrees, random walks), but half a path has one end only.
  double whole_reversal = 0;
  double shift_residual = NAN;  // residual of M(1); sinusoidal only
  std::vector<Promise> promises;

  bool kept() const;  // all promises
};

// Borrows the matrices.
Findings examine(const EncodingMatrices& matrices, const Setting& setting);

internal::OrderedJson as_json(const Findings& findings);

// "0.244", "1e-07"
std::string shown(double value);

}  // namespace gnomon::verdicts
