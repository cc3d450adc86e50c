// Settings of a model that trains in milliseconds.
#pragma once

#include "apps/lab/runs/options.h"

namespace gnomon::testing {

inline lab::Settings tiny() {
  lab::Settings settings;
  settings.train_length = 16;
  settings.eval_lengths = {16, 32};
  settings.layers = 2;
  settings.width = 16;
  settings.heads = 2;
  settings.steps = 8;
  settings.batch = 4;
  settings.eval_segments = 3;
  return settings;
}

}  // namespace gnomon::testing
