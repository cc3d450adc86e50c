// RoPE++: rotary in which every second query head is turned by another -pi/2.
//
//   Liu et al. "Beyond Real: Imaginary Extension of Rotary Position Embeddings for Long-Context
//   LLMs", 2025. https://arxiv.org/abs/2512.07525; order of the heads:
//   github.com/OpenMOSS/rope_pp.
//
//   query pair i of head h at position p is rotated by p f_i - phi_h
//   phi_h = 0 for even h (real), pi / 2 for odd h (imaginary)
//   key pair i at position p is rotated by p f_i        f_i = base^(-2i/R)
//
// In rotary a score is the real part of a complex product of queries and keys; the score of an
// imaginary head is its imaginary part. In the released models heads 2h and 2h + 1 have the
// same query projection and one key head; here the caller decides.
//
// Letters: H query heads, R rotary dimension.
#pragma once

#include <cstdint>

#include "gnomon/rotary/head_angles.h"
#include "gnomon/rotary/rotary.h"

namespace gnomon {

// A plain value; bounds as those of Rotary.
struct RotaryPlusPlus {
  std::int64_t heads = 0;       // H, query heads: real, imaginary, real, ...; at least 1
  std::int64_t rotary_dim = 0;  // R; even, at least 2
  Pairing pairing = {};
  double base = 10'000.0;        // `rope_theta` in Hugging Face configs; greater than 1
  std::int64_t head_offset = 0;  // first rotated element of the head; not negative
  // Number of the first head in the whole model, for a part of the heads; not negative.
  std::int64_t first_head = 0;

  bool operator==(const RotaryPlusPlus&) const = default;
};

// Returns the frequencies of queries: those of rotary, and a phase of 0 or -pi/2 for each head.
// Throws std::invalid_argument if a field violates its bound.
HeadFrequencies lower_query(const RotaryPlusPlus& rotary);
// Returns the frequencies of keys: those of rotary.
RotaryFrequencies lower_key(const RotaryPlusPlus& rotary);

}  // namespace gnomon
