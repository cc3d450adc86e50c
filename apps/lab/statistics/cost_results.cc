#include "apps/lab/statistics/cost_results.h"

#include <algorithm>
#include <cmath>

#include "apps/lab/runs/cost.h"

namespace gnomon::lab {
namespace {

// The heap grows by more than it needs: a difference of less is none.
constexpr double least_extra = 2 << 20, least_share = 0.02;  // bytes; share of none

}  // namespace

std::vector<EncodingCost> cost_results(const std::vector<MeasuredCost>& measured,
                                       const std::vector<EncodingResult>& encodings) {
  const auto of = [&](const std::string& name) {
    return std::find_if(measured.begin(), measured.end(),
                        [&](const MeasuredCost& one) { return one.encoding == name; });
  };
  std::vector<EncodingCost> all;
  for (const EncodingResult& one : encodings) {
    const auto found = of(one.name), plain = of(reference_of(one.name));
    if (found == measured.end() || plain == measured.end()) continue;
    EncodingCost row{one.name,
                     one.title,
                     one.position_parameters,
                     found->step_seconds,
                     found->relative_step,
                     found->memory};
    if (plain->relative_step) row.step_noise = plain->relative_step->from_one();
    if (one.fall && row.relative_step && !one.lengths.empty()) {
      const bool slower = row.relative_step->shows_cost(row.step_noise.value_or(0));
      const double doublings = slower ? std::log2(row.relative_step->median) : 0;
      row.equal_time_bits = one.lengths.front().tail_bits + doublings * *one.fall;
    }
    for (std::size_t i = 0; i < std::min(row.memory.size(), plain->memory.size()); ++i) {
      MemoryUse& use = row.memory[i];
      const double extra = use.bytes - plain->memory[i].bytes;
      const double noise = std::max(least_extra, least_share * plain->memory[i].bytes);
      // An encoding adds to the memory of none. A difference below 0 is noise, of the heap.
      if (extra > noise + use.spread + plain->memory[i].spread) use.extra_bytes = extra;
    }
    all.push_back(row);
  }
  return all;
}

}  // namespace gnomon::lab
