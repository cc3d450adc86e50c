// Tests of a trained model: the loss on the same test bytes at every context length, or the
// answers to examples of every length.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "apps/lab/data/corpus.h"
#include "apps/lab/data/run_result.h"
#include "apps/lab/model/segment_reader.h"
#include "apps/lab/model/transformer.h"

namespace gnomon::lab {

// Tests at each length of settings.eval_lengths, or for a task with examples at every length up
// to the longest. A whole answer is right exactly if greedy decoding gives it. `stop` is called
// between segments. Empty if it returns true. `reading`: of windows of text.
std::optional<Evaluation> evaluate(Transformer& model, const Settings& settings,
                                   const Corpus& corpus, const std::function<bool()>& stop,
                                   Reading reading = Reading::whole);

// LengthLoss::tail_by_segment at one length, for a task with text. Empty if `stop` returns
// true.
std::optional<std::vector<double>> tail_by_segment(Transformer& model, const Settings& settings,
                                                   const Corpus& corpus, std::int64_t length,
                                                   const std::function<bool()>& stop);

}  // namespace gnomon::lab
