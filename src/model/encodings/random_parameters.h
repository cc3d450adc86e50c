// Values of the parameters of an encoding that was not trained, for measurements and charts.
#pragma once

#include <vector>

#include "gnomon/model/encoding.h"

namespace gnomon::model::internal {

// Returns the values [rows, columns] of a parameter: normal random numbers, the same on every
// machine for the same seed. A table has deviation 1, so that it is visible next to contents
// with deviation 1. Matrices of a network, and parameters that do not start at random, have
// their initial values.
std::vector<float> random_values(const Parameter& parameter, unsigned seed);

}  // namespace gnomon::model::internal
