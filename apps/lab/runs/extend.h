// Extension of a trained rotary model to a longer context: its frequencies are scaled, or its
// positions are dropped. The loss is measured before and after a short fine-tune.
#pragma once

#include <functional>
#include <optional>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_result.h"

namespace gnomon::lab {

class Transformer;

// Applies the methods of settings.extend to a trained model. The fine-tune has at most a
// twentieth of the training steps. Its windows are 4 times as long as in training and a quarter
// as many, so the number of bytes in a step is the same. drope is fine-tuned at the training
// length. The last method is "control", a fine-tune without scaling. Bits are the tail_bits of
// evaluate. Empty if `stop` returns true.
std::optional<Extension> extend(Transformer& trained, const Settings& settings,
                                const Corpus& corpus, std::int64_t seed, const Stop& stop);

}  // namespace gnomon::lab
