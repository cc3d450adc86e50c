// Kernels of `dense` and `add_bias`.
#pragma once

#include <cstdint>

namespace gnomon::internal {

// round_row: to[i] = values[i]. add_row: to[i] += values[i]. Computed in double, rounded once.
using BiasRow = void (*)(const double* values, std::int64_t count, float* to);
BiasRow round_row();
BiasRow add_row();
using GivenRow = void (*)(const float* values, std::int64_t count, float* to);
GivenRow add_floats();  // to[i] += values[i]

}  // namespace gnomon::internal
