#include "src/attention/cumulative.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "gnomon/parallel.h"
#include "src/attention/tile.h"

namespace gnomon::internal {

using std::int64_t;

namespace {

constexpr double least_gate = -32768;

// A sum of doubles in two parts (Knuth, TAOCP 2, 4.2.2, theorem B).
struct Sum {
  double high = 0, low = 0;

  void add(double x) {
    const double sum = high + x, of_x = sum - high;
    low += (high - (sum - of_x)) + (x - of_x);
    high = sum;
  }
};

}  // namespace

bool CumulativeSums::reaches(int64_t b, int64_t head, int64_t begin, int64_t end,
                             int64_t tile) const {
  const int64_t row = b * heads + head;
  const double limit =
      least[static_cast<std::size_t>(row)] - most[static_cast<std::size_t>(row * tiles + tile)];
  const double* own = of(b, head);
  return std::any_of(own + begin, own + end, [&](double sum) { return sum >= limit; });
}

CumulativeSums cumulative_sums(View<const float, 3> gates, const Positions* keys) {
  const int64_t batch = gates.extent(0), heads = gates.extent(1), count = gates.extent(2);
  CumulativeSums all{
      .heads = heads, .keys = count, .tiles = (count + tile_keys - 1) / tile_keys};
  all.sums.resize(static_cast<std::size_t>(batch * heads * count));
  all.low.resize(all.sums.size());
  all.breaks.resize(static_cast<std::size_t>(batch * heads));
  all.most.resize(static_cast<std::size_t>(batch * heads * all.tiles),
                  -std::numeric_limits<double>::infinity());
  for (int64_t row = 0; row < batch * heads; ++row) {
    const int64_t b = row / heads, head = row % heads;
    const std::int32_t* sequence = sequences(keys, b);
    std::map<std::int32_t, Sum> sum_of;  // a sequence may be in several runs of rows
    Sum* sum = &sum_of[0];
    for (int64_t j = 0; j < count; ++j) {
      if (sequence && (j == 0 || sequence[j] != sequence[j - 1])) sum = &sum_of[sequence[j]];
      const double gate = double{gates(b, head, j)} * std::numbers::log2e;
      if (gate >= least_gate * std::numbers::log2e && gate < -least_gate)
        sum->add(gate);
      else if (!sequence || sequence[j] != Positions::padding)
        all.breaks[static_cast<std::size_t>(row)].push_back(
            {j, sequence ? sequence[j] : 0, gate < 0 ? -HUGE_VAL : NAN});
      all.sums[static_cast<std::size_t>(row * count + j)] = sum->high;
      all.low[static_cast<std::size_t>(row * count + j)] = sum->low;
      double& most = all.most[static_cast<std::size_t>(row * all.tiles + j / tile_keys)];
      most = std::max(most, -sum->high);
    }
  }
  return all;
}

void cumulative_backward(std::span<const double> column_sums, int64_t parts,
                         const Positions* keys, View<float, 3> gates_grad) {
  const int64_t heads = gates_grad.extent(1), count = gates_grad.extent(2);
  for (int64_t row = 0; row < gates_grad.extent(0) * heads; ++row) {
    const std::int32_t* sequence = sequences(keys, row / heads);
    std::map<std::int32_t, double> sum_of;
    for (int64_t j = count - 1; j >= 0; --j) {
      double& sum = sum_of[sequence ? sequence[j] : 0];
      for (int64_t part = 0; part < parts; ++part)
        sum -= column_sums[static_cast<std::size_t>((row * parts + part) * count + j)];
      gates_grad(row / heads, row % heads, j) = static_cast<float>(sum);
    }
  }
}

}  // namespace gnomon::internal
