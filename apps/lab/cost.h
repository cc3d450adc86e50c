// The cost of an encoding in the model of the settings: its parameters, the time of a training
// step, and the memory of one pass over a long window. Measured before the training, one
// encoding after another, each in a separate process.
#pragma once

#include <functional>

#include "apps/lab/corpus.h"
#include "apps/lab/options.h"

namespace gnomon::lab {

// Returns an object for "none" and then one for each of settings.encodings, in their order:
//
//   [{"encoding": "rotary", "step_seconds": the fastest of a few training steps,
//     "memory": [{"tokens": 1024, "bytes": peak memory of a forward and backward pass over one
//                 window of this length, without the model}]}]
//
// Lengths: 1024, 4096 and, with --preset full, 16384, if a pass takes at most a few seconds.
// "step_seconds" and "memory" are absent if they could not be measured. Empty on another device
// than the CPU, or if `stop` returns true.
Json measure_cost(const Settings& settings, const Corpus& corpus,
                  const std::function<bool()>& stop);

// For each assembled encoding: "name", "title", "position_parameters", "step_seconds",
// "relative_step" (ratio to `none`), "memory" with "extra_bytes" (difference from `none`).
Json cost_results(const Json& measured, const Json& encodings);

}  // namespace gnomon::lab
