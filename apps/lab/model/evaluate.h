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
                                   const Corpus& corpus, const Stop& stop,
                                   Reading reading = Reading::whole);

// LengthLoss::tail_by_segment at one length, for a task with text. Empty if `stop` returns
// true.
std::optional<std::vector<double>> tail_by_segment(Transformer& model, const Settings& settings,
                                                   const Corpus& corpus, std::int64_t length,
                                                   const Stop& stop);

// The loss of a causal model if the order of its context is destroyed (Haviv et al. 2022,
// arXiv:2203.16634, section 5): the mean loss of `targets` tokens, each predicted from the L
// tokens before it, at one length L, in bits per token, as they are in the text and with all
// but the last `kept` of them in random order. The permutations are the same for all models.
// margin: half of the width of the 95 % confidence interval of the difference, over the targets
// (Student's t).
struct ShuffledLoss {
  std::int64_t length = 0, kept = 0, targets = 0;
  double bits = 0, shuffled_bits = 0, margin = 0;
};

// Losses at each of settings.eval_lengths for which the model has positions, with 2 longest / L
// targets in each test segment. Lengths of at most `kept` tokens are left out.
std::vector<ShuffledLoss> shuffled_losses(Transformer& model, const Settings& settings,
                                          const Corpus& corpus, std::int64_t kept);

}  // namespace gnomon::lab
