// How far a trained model holds: the same test bytes predicted at every context length.
#pragma once

#include <functional>

#include "apps/lab/run.h"

namespace gnomon::lab {

// Tests the model at each of settings.eval_lengths and returns
//
//   "lengths": [{"length": 256, "applicable": true,
//                "tail_bits": mean over all target bytes, each predicted from the second half
//                of
//                             a window of that length, so from length/2 to length bytes before
//                             it
//                "window_bits": mean over the same bytes from windows laid end to end
//                "windows": how many, "tail_by_segment": [...]}]
//   "by_position": {"length": the longest that applies, "positions": [...] (bytes of context,
//   the
//                   middle of each stretch), "bits": [...], "cut_bits": the same bytes with the
//                   context cut to the training length}
//
// in bits a byte. A length beyond the encoding's capacity has only "applicable": false. `stop`
// is asked between segments; an empty Json comes back once it says yes.
Json evaluate(TrainingRun& run, const Settings& settings, const Corpus& corpus,
              const std::function<bool()>& stop);

// What the encoding looks like as it was used, from the forms it lowers to: a "table", the
// "similarity" of positions, a "rotary" decay, a "bias" by distance. Empty for no position.
Json picture(TrainingRun& run, const Settings& settings);

}  // namespace gnomon::lab
