// Results of invented runs on text.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/lab/statistics/rankings.h"
#include "apps/lab/statistics/results.h"
#include "apps/lab/statistics/training.h"

namespace gnomon::testing {

// Losses at 128, 256 and 1024 bytes. NaN: not applicable. The losses of seed s are higher by
// over_seeds[s]; empty: five seeds with a standard deviation of 3.5e-3, in another order for
// each entry.
struct Found {
  const char* name;
  const char* title;
  double at_128, at_256, at_1024;
  std::vector<double> over_seeds = {};
};

inline lab::RunResult run_of(const Found& one, std::size_t seed) {
  lab::RunResult run;
  run.encoding = one.name;
  run.seed = static_cast<std::int64_t>(seed) + 1;
  run.steps = 600;
  run.train_seconds = 120;
  run.curve = {{240, 0, one.at_128 + 0.06}, {480, 0, one.at_128 + 0.02}, {600, 0, one.at_128}};
  run.tests.by_position = lab::PositionLoss{};
  for (const auto& [length, bits] :
       {std::pair{128, one.at_128}, {256, one.at_256}, {1024, one.at_1024}}) {
    const double here = bits + one.over_seeds[seed];
    run.tests.lengths.push_back({.length = length,
                                 .applicable = bits == bits,
                                 .tail_bits = here,
                                 .tail_by_segment = {here - 0.1, here + 0.1}});
  }
  return run;
}

inline lab::Results results_of(std::vector<Found> all) {
  for (std::size_t k = 0; k < all.size(); ++k)
    if (all[k].over_seeds.empty())
      for (std::size_t s = 0; s < 5; ++s)
        all[k].over_seeds.push_back(2e-3 * static_cast<double>((s * (k % 4 + 1) + k) % 5) -
                                    4e-3);
  lab::Results results;
  results.settings.eval_lengths = {128, 256, 1024};
  results.settings.steps = 600;
  results.settings.seeds = lab::seeds_up_to(std::ssize(all[0].over_seeds));
  results.texts.byte_frequency_bits = 4.46;
  results.texts.byte_pair_bits = 3.45;
  results.runs_asked = std::ssize(all) * std::ssize(results.settings.seeds);
  results.machine.cores = 2;
  for (const Found& one : all) {
    results.settings.encodings.emplace_back(one.name);
    lab::EncodingResult& encoding = results.encodings.emplace_back();
    encoding.name = one.name;
    encoding.title = one.title;
    encoding.seeds = std::ssize(one.over_seeds);
    for (std::size_t seed = 0; seed < one.over_seeds.size(); ++seed)
      results.runs.push_back(run_of(one, seed));
    const double shift = lab::mean(one.over_seeds);
    for (const auto& [length, bits] :
         {std::pair{128, one.at_128}, {256, one.at_256}, {1024, one.at_1024}}) {
      lab::LengthMean& mean = encoding.lengths.emplace_back();
      mean.length = length;
      mean.applicable = bits == bits;
      mean.tail_bits = bits + shift;
      mean.cut_bits = one.at_128 + shift;
      mean.change = mean.tail_bits / mean.cut_bits - 1;
      if (mean.change <= 0.03) encoding.holds_to = length;
    }
  }
  lab::judge_training(results);
  lab::rank(results);
  results.recommendations = lab::recommendations(results);
  return results;
}

}  // namespace gnomon::testing
