// Cumulative sums of log gates, whose differences are a bias of attention.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnomon/position/positions.h"
#include "gnomon/view.h"

namespace gnomon::internal {

// A gate of a key that hides all earlier keys (-infinity), or spoils them (NaN).
struct GateBreak {
  std::int64_t key = 0;
  std::int32_t sequence = 0;
  double gate = 0;
};

struct CumulativeSums {
  std::int64_t heads = 0, keys = 0, tiles = 0;
  // [B, Hq, S], in units of ln 2: inclusive sums of the finite gates of a sequence, rounded,
  // and the remainders.
  std::vector<double> sums = {}, low = {};
  std::vector<double> most = {};  // [B, Hq, tiles]: the greatest -sum of the keys of a tile
  // [B, Hq]: keys of a tile are skipped if all differences are below. Empty: none is skipped.
  std::vector<double> least = {};
  std::vector<std::vector<GateBreak>> breaks = {};  // [B, Hq], by key

  bool empty() const { return sums.empty(); }
  const double* of(std::int64_t b, std::int64_t head) const {
    return sums.data() + (b * heads + head) * keys;
  }
  const double* low_of(std::int64_t b, std::int64_t head) const {
    return low.data() + (b * heads + head) * keys;
  }
  std::span<const GateBreak> breaks_of(std::int64_t b, std::int64_t head) const {
    return breaks[static_cast<std::size_t>(b * heads + head)];
  }
  // Whether a weight of these queries, as key rows [begin, end), and the tile's keys may exceed
  // the limit, for a head.
  bool reaches(std::int64_t b, std::int64_t head, std::int64_t begin, std::int64_t end,
               std::int64_t tile) const;
};

// Computes the sums of gates [B, Hq, S]. keys: sequences, or null.
CumulativeSums cumulative_sums(View<const float, 3> gates, const Positions* keys);

// The gradient of the gates, from that of the sums: sums of the later rows of a sequence.
// column_sums: [B, Hq, parts, S].
void cumulative_backward(std::span<const double> column_sums, std::int64_t parts,
                         const Positions* keys, View<float, 3> gates_grad);

}  // namespace gnomon::internal
