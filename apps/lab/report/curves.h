// The curves of the report as Vega-Lite specs, from the results only.
#pragma once

#include <string>
#include <vector>

#include "apps/lab/statistics/results.h"

namespace gnomon::lab {

// All bands are 95 % confidence intervals. Loss by context length with its band, and the loss
// with the cut context.
std::string length_curves(const Results& results);
// Share of the attention weights by distance.
std::string attention_curves(const Results& results);
// Loss by the number of tokens before the predicted one (masked text: by window position).
std::string position_curves(const Results& results);
// Tasks with examples: the share of right answers by length with its band, and chance.
enum class Answers { whole = 1, bytes };
std::string example_curves(const Results& results, Answers answers);
// An extension: loss by length of each method, without and after its fine-tune.
std::string extension_curves(const Results& results, const ExtensionResult& extension);
// Losses or scores by number of parameters, for a session with models of several sizes. The
// length or the range is an index of Results::rankings.
std::string size_curves(const Results& all, const std::vector<Results>& sizes,
                        std::size_t length);
// Validation loss by training step.
std::string training_curves(const Results& results);

}  // namespace gnomon::lab
