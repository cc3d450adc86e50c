// xPos: rotary whose pairs also grow with the position on queries and shrink on keys, so that a
// score falls with the distance, the fast pairs' first.
//
//   Sun, Dong, Patra, Ma, Huang, Benhaim, Chaudhary, Song, Wei. "A Length-Extrapolatable
//   Transformer", 2022. https://arxiv.org/abs/2212.10554, section 3.
//
//   query pair i at m: turned by m f_i, times zeta_i^((m - centre) / scale_base)
//   key pair i at n:   turned by n f_i, times zeta_i^((centre - n) / scale_base)
//   zeta_i = (2i/R + gamma) / (1 + gamma)
//
// so their product has zeta_i^((m - n) / scale_base), below 1 for a key before its query. For
// causal attention: a key after its query grows without bound.
//
// The centre falls out of every score; it only keeps the factors near 1. It is a number of the
// spec, since a key that was cached around one centre and a query around another do not agree.
//
// Also here: what RetNet takes from it.
#pragma once

#include <cstdint>
#include <vector>

#include "gnomon/rotary/rotary.h"

namespace gnomon {

struct XPos {
  std::int64_t dim = 0;  // R, as in Rotary
  Pairing pairing = {};
  double base = 10'000.0;
  double scale_base = 512;  // positions in which pair i changes by zeta_i; greater than 0
  double gamma = 0.4;       // greater than 0
  std::int64_t centre = 0;  // half of the longest text keeps the factors nearest to 1
  std::int64_t first = 0;   // as in Rotary

  bool operator==(const XPos&) const = default;
};

// One for queries and one for keys: two tables. Throws std::invalid_argument when the spec
// breaks the bounds beside its fields.
//
// A factor leaves float some 87 scale_base / ln(1 + 1 / gamma) positions from the centre
// (35,000 with the defaults): a table of positions further away holds infinities or zeros.
RotarySchedule query_schedule(const XPos& xpos);
RotarySchedule key_schedule(const XPos& xpos);

// RetNet's rotation of queries and keys (one schedule for both, adjacent): frequencies fall
// from 1 to 1/base itself, f_i = base^(-i / (dim/2 - 1)), where rotary stops one step before
// it. What falls with the distance in RetNet is the score of a head, by retnet_decays. dim:
// even, at least 2.
//
//   Sun, Dong, Huang, Ma, Xia, Xue, Wang, Wei. "Retentive Network: A Successor to Transformer
//   for Large Language Models", 2023. https://arxiv.org/abs/2307.08621, section 2.
RotarySchedule retnet_schedule(std::int64_t dim, double base = 10'000.0);

// gamma_h = 1 - 2^(-5 - h) of `heads` heads from `first_head` on: a score at distance m - n is
// multiplied by gamma_h^(m - n). They do not depend on how many heads there are, so a shard
// gives its first head. Exact up to head 47. Throws when an argument is negative.
std::vector<double> retnet_decays(std::int64_t heads, std::int64_t first_head = 0);

}  // namespace gnomon
