// Angles for those who hold no table: one token, or a few. Allocates nothing, checks nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gnomon::internal {

// A position p is split into p & ~(anchor_step - 1), below it, and the rest.
inline constexpr std::int64_t anchor_step = 64;

// cosines[i], sines[i] = scale cos, scale sin(positions[i position_step] frequencies[i]) for
// i < count, to the bit those of fill_cos_sin (Angles::exact); position_step 0: one position
// for all pairs. Nothing need be aligned, any count. Positions and frequencies within the
// bounds of fill_cos_sin.
using PairAngles = void (*)(const std::int64_t* positions, std::ptrdiff_t position_step,
                            const double* frequencies, std::int64_t count, double scale,
                            float* cosines, float* sines);
PairAngles pair_angles();  // the kernel of the current instruction set

}  // namespace gnomon::internal
