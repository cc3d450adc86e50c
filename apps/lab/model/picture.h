// The trained encoding as data for charts.
#pragma once

#include <optional>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_result.h"
#include "apps/lab/model/transformer.h"

namespace gnomon::lab {

// The charts of a trained encoding, from its plan in the first layer. Empty without position.
Picture picture(Transformer& model, const Settings& settings);

// Sets initial_table and initial_bias of the picture of a trained model, from the same model
// before training.
void add_initial(Picture& picture, Transformer& untrained, const Settings& settings);

// Attention of a trained model on windows of the test texts; empty for a task with examples.
std::optional<TrainedAttention> trained_attention(Transformer& model, const Settings& settings,
                                                  const Corpus& corpus);

}  // namespace gnomon::lab
