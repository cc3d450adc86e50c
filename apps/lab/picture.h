// The trained encoding as data for charts.
#pragma once

#include "apps/lab/transformer.h"

namespace gnomon::lab {

// From the plan of the encoding: a "table", the "similarity" of positions, a "rotary" decay, a
// "bias" by distance. Empty without position.
Json picture(Transformer& model, const Settings& settings);

}  // namespace gnomon::lab
