// The kernels of biases that are written out.
#pragma once

#include <cstdint>

namespace gnomon::internal {

// to[i] = values[i], or to[i] += values[i], in double and rounded once.
using BiasRow = void (*)(const double* values, std::int64_t count, float* to);
BiasRow round_row();
BiasRow add_row();
using GivenRow = void (*)(const float* values, std::int64_t count, float* to);
GivenRow add_floats();  // to[i] += values[i]

}  // namespace gnomon::internal
