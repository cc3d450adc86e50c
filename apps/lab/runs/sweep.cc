#include "apps/lab/runs/sweep.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "apps/lab/runs/run.h"
#include "apps/lab/runs/threads.h"

namespace gnomon::lab {
namespace {

constexpr std::int64_t sweep_seed = 1'000'003;  // other weights and batches than in the session
constexpr std::int64_t least_steps = 20, share = 3;

}  // namespace

std::int64_t sweep_steps(const Settings& settings) {
  return std::max(std::min(least_steps, settings.steps), settings.steps / share);
}

std::vector<SweptRate> sweep(const Settings& settings, const Corpus& corpus,
                             const std::vector<double>& rates, int jobs,
                             const std::function<bool()>& stop) {
  std::vector<SweptRate> all;
  for (const std::string& entry : settings.encodings)
    for (const double rate : rates) all.push_back({entry, rate, NAN});
  std::atomic<bool> stopped = false;
  on_threads(jobs, all.size(), [&](std::size_t i) {
    Settings one = settings;
    one.steps = sweep_steps(settings);
    one.rates.clear();
    one.learning_rate = all[i].learning_rate;
    TrainingRun run(one, corpus, all[i].encoding, sweep_seed);
    while (!run.trained()) {
      if (stop() || stopped) {
        stopped = true;
        return;
      }
      run.train_step();
    }
    all[i].validation_bits = *run.summary().curve.back().validation_bits;
  });
  return stopped ? std::vector<SweptRate>() : all;
}

std::vector<EntryRate> best_rates(const std::vector<SweptRate>& swept) {
  std::vector<EntryRate> best;
  double least = INFINITY;
  for (const SweptRate& one : swept) {
    if (!std::isfinite(one.validation_bits)) continue;
    if (best.empty() || best.back().encoding != one.encoding) {
      best.push_back({one.encoding, one.learning_rate});
      least = one.validation_bits;
    } else if (one.validation_bits < least) {
      best.back().learning_rate = one.learning_rate;
      least = one.validation_bits;
    }
  }
  return best;
}

}  // namespace gnomon::lab
