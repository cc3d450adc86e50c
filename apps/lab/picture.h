// The trained encoding as data for charts.
#pragma once

#include "apps/lab/run_result.h"
#include "apps/lab/transformer.h"

namespace gnomon::lab {

// The charts of a trained encoding, from its plan. Empty without position.
Picture picture(Transformer& model, const Settings& settings);

}  // namespace gnomon::lab
